"""Whether this machine can be probed, and in words what is missing."""

from __future__ import annotations

import os
from importlib.util import find_spec

INSTALL = "pip install 'h2dlint[torch]'"


def missing_torch() -> str | None:
    """What to say where torch or numpy are not installed."""
    for module in ("torch", "numpy"):
        if find_spec(module) is None:
            return f"the probe needs {module}, which is not installed here: {INSTALL}"
    return None


def missing_plots() -> str | None:
    """What to say where no plots can be drawn."""
    if find_spec("matplotlib") is None:
        return f"--out draws plots with matplotlib, which is not installed here: {INSTALL}"
    return None


def missing_gpu(device: int) -> str | None:
    """What to say where torch is installed and sees no GPU that can be probed.

    Args:
        device: the index of the GPU that is wanted.
    """
    try:
        import torch
    except (ImportError, OSError) as error:
        return f"torch is installed and cannot be imported: {error}"
    if torch.version.hip is not None:
        return (
            "this torch is built for ROCm, which the probe does not support: it measures CUDA alone. "
            "What the rules take for granted on ROCm comes from its documentation (the setting `backend`)"
        )
    if not torch.cuda.is_available():
        return _no_cuda(torch.version.cuda, _other_accelerator())
    number = torch.cuda.device_count()
    if device >= number:
        known = "there is only GPU 0" if number == 1 else f"there are GPUs 0 to {number - 1}"
        return f"no GPU {device}: {known}"
    return None


def _no_cuda(built_for: str | None, other: str | None) -> str:
    if other is not None:
        return f"the accelerator here is `{other}`, which the probe does not support: it measures CUDA GPUs only"
    if built_for is None:
        return "this needs an NVIDIA GPU and a torch built for CUDA; the torch installed here is a build for the CPU"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    hint = (
        f"; CUDA_VISIBLE_DEVICES is {hidden!r}" if hidden is not None else "; `nvidia-smi` shows what the driver sees"
    )
    return f"this needs an NVIDIA GPU: torch is built for CUDA {built_for} and sees none{hint}"


def _other_accelerator() -> str | None:
    """The accelerator that torch sees where there is no CUDA, such as `xpu`, `mps` or `npu`."""
    import torch

    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        return str(accelerator.current_accelerator())
    return "mps" if torch.backends.mps.is_available() else None
