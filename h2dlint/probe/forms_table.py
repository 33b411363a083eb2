"""The forms that are timed, as text: what is shown to the user is what runs.

`dst` lies on the GPU, `src` on the host. Each copy that can asks for `non_blocking=True`.
"""

from __future__ import annotations

from msgspec import Struct

COLUMNS = 1024
"""Elements of a row in the forms that are compared by their number of rows."""


class Form(Struct, frozen=True):
    """One thing to time, ready to run."""

    name: str
    label: str
    kind: str
    """What decides: `pageable`, `gapped`, `pinned` or `rows` memory, a pinned `snapshot`, the `device`, the `host`."""
    setup: str
    code: str
    size: int = 0
    """Bytes that each copy sends, 0 where the text says it."""
    rows: int = 1
    copies: int = 1
    """Copies that one issue makes."""


class Template(Struct, frozen=True):
    """A form whose sizes are open: `{size}`, `{rows}`, `{columns}` and `{copies}` stand in its text."""

    label: str
    kind: str
    setup: str
    code: str

    def of(self, name: str, size: int = 0, rows: int = 1, copies: int = 1, columns: int = COLUMNS) -> Form:
        """The form with its sizes."""
        filled = {"size": size, "rows": rows, "copies": copies, "columns": columns}
        setup, code = (text.format(**filled) for text in (self.setup, self.code))
        return Form(name, self.label, self.kind, setup, code, size, rows, copies)


_DST = 'dst = torch.empty({size}, dtype=torch.uint8, device="cuda")\n'
_SRC = "src = torch.ones({size}, dtype=torch.uint8)\n"
_PINNED_SRC = "src = torch.ones({size}, dtype=torch.uint8, pin_memory=True)\n"
_SEND = "dst.copy_(src, non_blocking=True)"

_DSTS = 'dsts = [torch.empty({size}, dtype=torch.uint8, device="cuda") for _ in range({copies})]\n'
_SRCS = "srcs = [torch.ones({size}, dtype=torch.uint8) for _ in range({copies})]\n"
_PINNED_SRCS = "srcs = [torch.ones({size}, dtype=torch.uint8, pin_memory=True) for _ in range({copies})]\n"
_SEND_ALL = "for dst, src in zip(dsts, srcs):\n    dst.copy_(src, non_blocking=True)"

_ROWS = (
    "src = torch.ones({rows}, {columns} + 1, dtype=torch.int64, pin_memory=True)\n"
    'dst = torch.empty({rows}, {columns} + 1, dtype=torch.int64, device="cuda")\n'
)
_DENSE_ROWS = _ROWS.replace("src = torch.ones({rows}, {columns} + 1,", "src = torch.ones({rows}, {columns},")

_RESULT = 'src = torch.ones({size}, dtype=torch.uint8, device="cuda")\n'

_IDS = "FRAMES, HEIGHT, WIDTH = 4, 64, 64\n"
_COUNT_IDS = (
    "rows = torch.arange(HEIGHT{device})[:, None].expand(HEIGHT, WIDTH).reshape(-1)\n"
    "columns = torch.arange(WIDTH{device})[None, :].expand(HEIGHT, WIDTH).reshape(-1)\n"
    "ids = torch.stack((rows, columns), dim=-1).repeat(FRAMES, 1)\n"
)

UPLOADS: dict[str, Template] = {
    "pageable": Template("pageable", "pageable", _SRC + _DST, _SEND),
    "pinned": Template("pinned", "pinned", _PINNED_SRC + _DST, _SEND),
}

STEPS: dict[str, Template] = {
    "pageable": Template("pageable tensors", "pageable", _SRCS + _DSTS, _SEND_ALL),
    "snapshot": Template(
        "`.pin_memory()` snapshots",
        "snapshot",
        _SRCS + _DSTS,
        "for dst, src in zip(dsts, srcs):\n    dst.copy_(src.pin_memory(), non_blocking=True)",
    ),
    "resident": Template("buffers that stay pinned", "pinned", _PINNED_SRCS + _DSTS, _SEND_ALL),
}

SLICES: dict[str, Template] = {
    "gapped": Template(
        "pinned, `[:, :n]` as it is",
        "gapped",
        _ROWS,
        "dst[:, :{columns}].copy_(src[:, :{columns}], non_blocking=True)",
    ),
    "rows": Template(
        "row by row",
        "rows",
        _ROWS,
        "for row in range({rows}):\n    dst[row, :{columns}].copy_(src[row, :{columns}], non_blocking=True)",
    ),
    "gathered": Template(
        "`.contiguous().pin_memory()`",
        "snapshot",
        _ROWS,
        "dst[:, :{columns}].copy_(src[:, :{columns}].contiguous().pin_memory(), non_blocking=True)",
    ),
    "whole": Template("the whole width, dense", "pinned", _ROWS, "dst.copy_(src, non_blocking=True)"),
    "pageable": Template(
        "pageable, dense",
        "pageable",
        _DENSE_ROWS.replace(", pin_memory=True", ""),
        "dst[:, :{columns}].copy_(src, non_blocking=True)",
    ),
}

POSITION_IDS: dict[str, Template] = {
    "host": Template(
        "counted on the host, sent",
        "pageable",
        _IDS,
        _COUNT_IDS.replace("{device}", "") + 'ids.to("cuda", non_blocking=True)',
    ),
    "pinned": Template(
        "counted on the host, pinned, sent",
        "snapshot",
        _IDS,
        _COUNT_IDS.replace("{device}", "") + 'ids.pin_memory().to("cuda", non_blocking=True)',
    ),
    "device": Template(
        "counted on the device", "device", _IDS, _COUNT_IDS.replace("{device}", ', device="cuda"').rstrip("\n")
    ),
}

DOWNLOADS: dict[str, Template] = {
    "into-pageable": Template(
        "`host.copy_(gpu, non_blocking=True)`, host pageable",
        "pageable",
        _RESULT + "dst = torch.ones({size}, dtype=torch.uint8)\n",
        _SEND,
    ),
    "into-gapped": Template(
        "the same, host pinned with gaps",
        "gapped",
        _RESULT + "dst = torch.ones({size}, 2, dtype=torch.uint8, pin_memory=True)[:, 0]\n",
        _SEND,
    ),
    "into-pinned": Template(
        "the same, host pinned",
        "pinned",
        _RESULT + "dst = torch.ones({size}, dtype=torch.uint8, pin_memory=True)\n",
        _SEND,
    ),
    "to-cpu": Template(
        '`gpu.to("cpu", non_blocking=True)`', "snapshot", _RESULT, 'host = src.to("cpu", non_blocking=True)'
    ),
    "cpu": Template("`gpu.cpu()`", "host", _RESULT, "host = src.cpu()"),
}

PINNING: dict[str, Template] = {
    "pin": Template("`.pin_memory()`", "snapshot", _SRC, "src.pin_memory()"),
    "clone": Template("`.clone()`", "host", _SRC, "src.clone()"),
}

_SETUP_OF_WAITS = (
    'gpu = torch.randn(64, device="cuda")\n'
    'gpu2d = torch.randn(8, 8, device="cuda")\n'
    'gpu_index = torch.arange(3, device="cuda")\n'
    'gpu_scalar = torch.tensor(1, device="cuda")\n'
    'gpu_value = torch.tensor(2.0, device="cuda")\n'
    "gpu_mask = gpu > 0\n"
    "cpu_index = torch.arange(3)\n"
    "cpu_mask = torch.ones(64, dtype=torch.bool)\n"
    "cpu_scalar = torch.tensor(2.0)\n"
    "array = np.arange(3)\n"
    "pinned = torch.ones(64, pin_memory=True)\n"
)

WAITING_CODE = (
    "gpu[cpu_index]",
    "gpu[[0, 1, 2]]",
    "gpu[array]",
    "gpu[gpu_scalar]",
    "gpu[0].item()",
    "gpu.tolist()",
    "gpu.cpu()",
    'gpu.to("cpu")',
    "gpu[3] = 5.0",
    "gpu2d[1, 2] = 5.0",
    "gpu[3] = cpu_scalar",
    "gpu[gpu_index] = 5.0",
    "gpu[[0, 1, 2]] = gpu_value",
    "gpu[cpu_index] = gpu_value",
    "gpu[cpu_mask] = 1.0",
    "gpu[2:5] = torch.ones(3)",
    'torch.tensor([1, 2, 3], device="cuda")',
    'torch.as_tensor([1, 2, 3], device="cuda")',
    'torch.as_tensor(array, device="cuda")',
    "gpu.new_tensor([1.0, 2.0])",
    'pinned.to("cuda")',
    "gpu.copy_(pinned)",
)
"""What is said to wait although nobody asked for a wait."""

FREE_CODE = (
    'torch.arange(8, device="cuda")',
    'torch.zeros(8, device="cuda")',
    'torch.full((8,), 2.0, device="cuda")',
    'torch.linspace(0, 1, 8, device="cuda")',
    'torch.randperm(8, device="cuda")',
    'torch.scalar_tensor(2.0, device="cuda")',
    "gpu.new_zeros(8)",
    "gpu.new_full((8,), 2.0)",
    "gpu[2:5] = 5.0",
    "gpu2d[1] = 5.0",
    "gpu2d[1] = cpu_scalar",
    "gpu[3:4] = 5.0",
    "gpu[3].fill_(5.0)",
    "gpu[3] = gpu_value",
    "gpu.index_put_((gpu_index,), gpu_value)",
    "gpu[gpu_mask] = 0.0",
    "gpu[cpu_mask]",
    "gpu[3]",
    "gpu[2:5]",
    "gpu[gpu_index]",
    "gpu * cpu_scalar",
    "torch.where(gpu > 0, 1.0, 0.0)",
)
"""Their neighbours, which are said not to wait."""


def waiting_forms() -> list[tuple[Form, bool]]:
    """Each form with whether it is said to wait."""
    said = [(code, True) for code in WAITING_CODE] + [(code, False) for code in FREE_CODE]
    return [
        (Form(code, f"`{code}`", "host" if waits else "device", _SETUP_OF_WAITS, code), waits) for code, waits in said
    ]
