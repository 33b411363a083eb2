"""What torch says of the tensors of one call: on which side they are, how they lie, whether their memory is pinned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from h2dlint.facts.copies import Direction
from h2dlint.trace.moves import Lie, Move, goes_as_it_lies, is_broadcast

if TYPE_CHECKING:
    import torch

HOST = "cpu"
NOWHERE = ("meta", "lazy", "vulkan", "fpga", "maia")
"""Devices that nothing is copied to, or of which nothing is known."""
KNOWN = ("cuda",)
"""Devices whose copies were measured, or work like them: torch calls ROCm's devices `cuda` too."""
_TRACERS = "torch._subclasses"
"""Where torch keeps the tensors that only stand for some: no byte of them moves."""


class Machine:
    """How to tell the sides of a copy apart on this machine. A test may put another in its place."""

    def is_device(self, kind: str) -> bool:
        """Whether a device of this kind is an accelerator."""
        return kind != HOST and kind not in NOWHERE

    def knows(self, kind: str) -> bool:
        """Whether it is known what a copy to or from it does."""
        return kind in KNOWN

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Whether a host tensor lies in page-locked memory. Only asked where a copy has shown an accelerator."""
        return bool(tensor.is_pinned())


def this_machine() -> Machine:
    """The machine that the program runs on."""
    return Machine()


def is_real(value: Any) -> TypeGuard[torch.Tensor]:
    """Whether a value is a tensor with memory of its own, and no stand-in of a tracer."""
    import torch

    return isinstance(value, torch.Tensor) and not type(value).__module__.startswith(_TRACERS)


class Looker:
    """Turns the tensors of a call into moves."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def on_device(self, value: Any) -> bool:
        """Whether a value is a tensor on an accelerator."""
        return is_real(value) and self.machine.is_device(value.device.type)

    def on_host(self, value: Any) -> bool:
        """Whether a value is a tensor in the host's memory."""
        return is_real(value) and value.device.type == HOST

    def direction(self, source: torch.Tensor, destination: torch.Tensor) -> Direction:
        """Which way bytes go from one tensor to the other."""
        sides = self.on_device(source), self.on_device(destination)
        if not all(is_real(one) and one.device.type not in NOWHERE for one in (source, destination)):
            return Direction.UNKNOWN
        return {
            (False, True): Direction.H2D,
            (True, False): Direction.D2H,
            (True, True): Direction.D2D,
            (False, False): Direction.H2H,
        }[sides]

    def copy(self, source: torch.Tensor, destination: torch.Tensor, asked: bool) -> Move:
        """What `destination.copy_(source)` moved, or what `.to` did when `destination` is its result."""
        direction = self.direction(source, destination)
        if direction not in (Direction.H2D, Direction.D2H):
            return Move(direction, asked=asked)
        up = direction is Direction.H2D
        host, device = (source, destination) if up else (destination, source)
        size = destination.numel() * (source if up else destination).element_size()
        known = self.machine.knows(device.device.type)
        if not size:
            return Move(direction, asked=asked, known=known)
        one, other = lie_of(source), lie_of(destination)
        dense = one is None or other is None or goes_as_it_lies(one, other, direction, asked)
        broadcast = not dense and one is not None and other is not None and is_broadcast(one, other)
        return Move(direction, size, asked, self.machine.is_pinned(host), dense, broadcast, known)

    def sent(self, host: torch.Tensor) -> Move:
        """A host tensor that torch sends by itself, with a wait, such as an index."""
        return Move(
            Direction.H2D,
            host.numel() * host.element_size(),
            pinned=self.machine.is_pinned(host),
            dense=bool(host.is_contiguous()),
        )


def lie_of(tensor: torch.Tensor) -> Lie | None:
    """How a tensor lies in its memory; None for layouts that have no strides."""
    import torch

    if tensor.layout is not torch.strided:
        return None
    return Lie(tuple(tensor.shape), tuple(tensor.stride()), str(tensor.dtype))
