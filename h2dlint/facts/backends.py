"""What is known of each accelerator, with the public source of every cell: data, and the look-up.

`cuda` was measured (docs/design.md, FACTS) and is backed by NVIDIA's documentation. The others were not: a cell holds
what their own documentation, or torch's, says. What has no source is unproven there, and CUDA's facts are not borrowed.
A literal device in the code chooses its own column; elsewhere the configured backend does.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from h2dlint.facts.domain import ACCELERATOR_KIND, UNKNOWN_KIND, Device

BACKENDS = ("cuda", "rocm", "xpu", "npu", "hpu", "mps")
"""The columns, which are also the values of the setting `backend`."""
DEFAULT = "cuda"


class Fact(Enum):
    """A row: a sentence that is true, false or unproven of a backend."""

    PAGEABLE_UPLOAD_WAITS = "a non_blocking copy from pageable memory is not asynchronous"
    PINNED_UPLOAD_IS_ASYNC = "a non_blocking copy from dense pinned memory is asynchronous"
    GATHERS_ON_THE_HOST = "a source with gaps, or to be broadcast, is gathered into pageable memory first"
    DOWNLOAD_IS_PINNED = "`.to('cpu', non_blocking=True)` returns pinned memory and does not wait"
    PINNED_DOWNLOAD_IS_ASYNC = "a non_blocking copy into dense pinned memory is asynchronous"
    PAGEABLE_DOWNLOAD_WAITS = "a non_blocking copy into pageable memory waits"
    DEVICE_REFUSES_PIN = "pin_memory on a tensor or factory of this device raises"
    HIDDEN_WAITS = "host indices, host data and host values for a device tensor make the host wait"


class Cell(Struct, frozen=True):
    """What is known of one fact on one backend."""

    holds: bool | None
    """None: unproven."""
    source: str = ""
    """The public page that says so; empty where nothing does."""


UNPROVEN = Cell(None)

_SYNC = "https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html"
_CUDA_NOTES = "https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution"
_PINMEM = "https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html"
_HIP_COPY = "https://docs.rs/cubecl-hip-sys/latest/cubecl_hip_sys/fn.hipMemcpyAsync.html"
_HIP_HOST = "https://rocm.docs.amd.com/projects/HIP/en/latest/how-to/hip_runtime_api/memory_management/host_memory.html"
_HIP_NOTES = "https://docs.pytorch.org/docs/stable/notes/hip.html"
_XPU_COPY = "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.xpu.html"
_ANY_DOWNLOAD = "https://github.com/pytorch/pytorch/pull/143783"
_ACL_COPY = "https://www.hiascend.com/document/detail/en/canncommercial/850/API/appdevgapi/aclcppdevg_03_0106.html"
_TWO_DOWNLOADS = "https://github.com/pytorch/pytorch/issues/143641"
_MPS_DOWNLOAD = "https://github.com/pytorch/pytorch/issues/193845"

TABLE: dict[Fact, dict[str, Cell]] = {
    Fact.PAGEABLE_UPLOAD_WAITS: {
        "cuda": Cell(True, _SYNC),
        "rocm": Cell(True, _HIP_COPY),
        "xpu": Cell(True, _XPU_COPY),
        "npu": Cell(True, _ACL_COPY),
        "hpu": UNPROVEN,
        "mps": UNPROVEN,
    },
    Fact.PINNED_UPLOAD_IS_ASYNC: {
        "cuda": Cell(True, _CUDA_NOTES),
        "rocm": Cell(True, _HIP_HOST),
        "xpu": Cell(True, _XPU_COPY),
        "npu": Cell(True, _ACL_COPY),
        "hpu": UNPROVEN,
        "mps": UNPROVEN,
    },
    Fact.GATHERS_ON_THE_HOST: {
        "cuda": Cell(True, _PINMEM),
        "rocm": Cell(True, _HIP_NOTES),
        "xpu": UNPROVEN,
        "npu": UNPROVEN,
        "hpu": UNPROVEN,
        "mps": UNPROVEN,
    },
    Fact.DOWNLOAD_IS_PINNED: {
        "cuda": Cell(True, _PINMEM),
        "rocm": Cell(True, _HIP_NOTES),
        "xpu": Cell(True, _ANY_DOWNLOAD),
        "npu": Cell(True, _TWO_DOWNLOADS),
        "hpu": UNPROVEN,
        "mps": Cell(False, _MPS_DOWNLOAD),
    },
    Fact.PINNED_DOWNLOAD_IS_ASYNC: {
        "cuda": Cell(True, _CUDA_NOTES),
        "rocm": Cell(True, _HIP_HOST),
        "xpu": UNPROVEN,
        "npu": Cell(True, _ACL_COPY),
        "hpu": UNPROVEN,
        "mps": UNPROVEN,
    },
    Fact.PAGEABLE_DOWNLOAD_WAITS: {
        "cuda": Cell(True, _SYNC),
        "rocm": Cell(True, _HIP_COPY),
        "xpu": UNPROVEN,
        "npu": Cell(True, _ACL_COPY),
        "hpu": UNPROVEN,
        "mps": UNPROVEN,
    },
    Fact.DEVICE_REFUSES_PIN: {
        "cuda": Cell(True, _PINMEM),
        "rocm": Cell(True, _HIP_NOTES),
        "xpu": UNPROVEN,
        "npu": UNPROVEN,
        "hpu": UNPROVEN,
        "mps": UNPROVEN,
    },
    Fact.HIDDEN_WAITS: {
        "cuda": Cell(True, _CUDA_NOTES),
        "rocm": Cell(True, _HIP_NOTES),
        "xpu": UNPROVEN,
        "npu": UNPROVEN,
        "hpu": UNPROVEN,
        "mps": UNPROVEN,
    },
}

_COLUMN_OF = {"hip": "rocm", **{name: name for name in BACKENDS if name not in ("cuda", "rocm")}}
"""The column that a literal device names. `cuda` is ROCm's name for its devices too, so there the setting decides."""


def column(device: Device, configured: str = DEFAULT) -> str:
    """The backend that decides for a device: its own where the code names one, else the configured one.

    The empty string for an accelerator that the table does not know, such as `musa` or `xla`.
    """
    if device.kind in (ACCELERATOR_KIND, UNKNOWN_KIND):
        return configured
    if device.kind == "cuda":
        return configured if configured == "rocm" else "cuda"
    return _COLUMN_OF.get(device.kind, "")


def name_of(device: Device, configured: str = DEFAULT) -> str:
    """What to call the accelerator in a message: as the code names it, or as the settings do."""
    return column(device, configured) or device.kind


def cell(fact: Fact, device: Device, configured: str = DEFAULT) -> Cell:
    """What is known of `fact` where a copy goes to or comes from `device`."""
    return TABLE[fact].get(column(device, configured), UNPROVEN)


def is_so(fact: Fact, device: Device, configured: str = DEFAULT) -> bool:
    """Whether `fact` is shown to hold there."""
    return cell(fact, device, configured).holds is True
