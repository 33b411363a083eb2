"""What the figures are of: GPU, driver, versions, and how host and device are connected."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from collections.abc import Sequence

import torch

from h2dlint.probe.results import Machine

_PAGEABLE_MEMORY_ACCESS = 88
"""CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS of the CUDA driver API."""
_PATIENCE = 20


def this_machine() -> Machine:
    """The current CUDA device and what is around it."""
    device = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(device)
    known = _ask_smi(str(getattr(properties, "uuid", device)))
    return Machine(
        gpu=str(properties.name),
        driver=known.get("driver_version"),
        cuda=torch.version.cuda,
        torch=str(torch.__version__),
        link=link_text(known, _smi(["c2c", "-s"]) or ""),
        reads_pageable=_attribute(_PAGEABLE_MEMORY_ACCESS, device),
        host=f"{platform.machine()} {platform.system()}",
        python=platform.python_version(),
    )


_ASKED = ("driver_version", "pcie.link.gen.max", "pcie.link.width.max")


def _ask_smi(device: str) -> dict[str, str]:
    """What `nvidia-smi` knows of a device, given by its UUID or index; nothing where it is not there."""
    identity = device if device.isdigit() or device.startswith(("GPU-", "MIG-")) else f"GPU-{device}"
    line = _smi([f"--query-gpu={','.join(_ASKED)}", "--format=csv,noheader", f"--id={identity}"])
    return smi_values(_ASKED, line or "")


def smi_values(asked: Sequence[str], line: str) -> dict[str, str]:
    """The values of one line of `nvidia-smi --query-gpu`, without those that it does not know."""
    values = [value.strip() for value in line.split(",")]
    if len(values) != len(asked):
        return {}
    return {name: value for name, value in zip(asked, values, strict=True) if value and not value.startswith("[")}


def link_text(known: dict[str, str], c2c: str) -> str | None:
    """How host and device are connected, as far as `nvidia-smi` tells."""
    if "GB/s" in c2c:
        return "NVLink-C2C"
    generation, width = known.get("pcie.link.gen.max"), known.get("pcie.link.width.max")
    return f"PCIe gen {generation} x{width}" if generation and width else None


def _smi(arguments: Sequence[str]) -> str | None:
    try:
        ran = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None


def _attribute(number: int, device: int) -> bool | None:
    """A yes-or-no attribute of the CUDA driver; None where the driver's library cannot be asked."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        value, handle = ctypes.c_int(), ctypes.c_int()
        if driver.cuDeviceGet(ctypes.byref(handle), device) or driver.cuDeviceGetAttribute(
            ctypes.byref(value), number, handle
        ):
            return None
    except (OSError, AttributeError):
        return None
    return bool(value.value)
