"""What torch says of the tensors of one call: on which side they are, how they lie, whether their memory is pinned.

This runs inside the traced program at every call that is watched: it is written to be quick where nothing moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from h2dlint.facts.copies import Direction
from h2dlint.trace.moves import Lie, Move, goes_as_it_lies, is_broadcast

if TYPE_CHECKING:
    import torch

NOWHERE, HOST, DEVICE = 0, 1, 2
"""Where a value is: it is no tensor with memory of its own; in the host's memory; on an accelerator."""
_DIRECTIONS = {
    (HOST, DEVICE): Direction.H2D,
    (DEVICE, HOST): Direction.D2H,
    (DEVICE, DEVICE): Direction.D2D,
    (HOST, HOST): Direction.H2H,
}
_UNREAL = ("meta", "lazy", "vulkan", "fpga", "maia")
"""Devices that nothing is copied to, or of which nothing is known."""
_KNOWN = ("cuda",)
"""Devices whose copies were measured, or work like them: torch calls ROCm's devices `cuda` too."""
_TRACERS = "torch._subclasses"
"""Where torch keeps the tensors that only stand for some: no byte of them moves."""


class Machine:
    """How to tell the sides of a copy apart on this machine. A test may put another in its place."""

    def side_of(self, kind: str) -> int:
        """The side that a kind of device is on."""
        return HOST if kind == "cpu" else NOWHERE if kind in _UNREAL else DEVICE

    def knows(self, kind: str) -> bool:
        """Whether it is known what a copy to or from it does."""
        return kind in _KNOWN

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Whether a host tensor lies in page-locked memory. Only asked where a copy has shown an accelerator."""
        return bool(tensor.is_pinned())


def this_machine() -> Machine:
    """The machine that the program runs on."""
    return Machine()


class Looker:
    """Turns the tensors of a call into moves."""

    def __init__(self, machine: Machine) -> None:
        import torch

        self.machine = machine
        self._tensor = torch.Tensor
        self._plain = (torch.Tensor, torch.nn.Parameter)
        self._strided = torch.strided
        self._sparse = torch.sparse_coo
        self._masks = (torch.bool, torch.uint8)
        self._sides: dict[str, int] = {}

    def side(self, value: Any) -> int:
        """Where a value is."""
        kind = type(value)
        if kind not in self._plain and (
            not isinstance(value, self._tensor) or kind.__module__.startswith(_TRACERS)  # those of a tracer
        ):
            return NOWHERE
        name = value.device.type
        side = self._sides.get(name)
        if side is None:
            side = self._sides[name] = self.machine.side_of(name)
        return side

    def is_mask(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor as an index says yes or no for each place."""
        return tensor.dtype in self._masks

    def moves(self, source: Any, destination: Any, asked: bool) -> Sequence[Move]:
        """What `destination.copy_(source)` moved, or what `.to` did when `destination` is its result.

        Nothing for values that are no tensors, and for copies on one side that nobody asked to be asynchronous.
        """
        sides = self.side(source), self.side(destination)
        direction = _DIRECTIONS.get(sides)
        if direction is None or (sides[0] == sides[1] and not asked):
            return ()
        if sides[0] == sides[1]:
            return (Move(direction, asked=True),)
        if source.layout is self._strided and destination.layout is self._strided:
            pieces = [(source, destination)]
        else:
            pieces = self._pieces(source, destination)
        moves = [self._move(*piece, direction, asked) for piece in pieces]
        return moves if asked else [move for move in moves if move.size]

    def _move(self, source: torch.Tensor, destination: torch.Tensor, direction: Direction, asked: bool) -> Move:
        up = direction is Direction.H2D
        host, device = (source, destination) if up else (destination, source)
        size = destination.numel() * (source if up else destination).element_size()
        known = device.device.type in _KNOWN or self.machine.knows(device.device.type)
        if not size:
            return Move(direction, asked=asked, known=known)
        pinned = self.machine.is_pinned(host)
        if source.is_contiguous() and destination.is_contiguous() and source.shape == destination.shape:
            dense = asked or source.dtype is destination.dtype
            return Move(direction, size, asked, pinned, dense, False, known)
        one = Lie(tuple(source.shape), source.stride(), source.dtype)
        other = Lie(tuple(destination.shape), destination.stride(), destination.dtype)
        dense = goes_as_it_lies(one, other, direction, asked)
        return Move(direction, size, asked, pinned, dense, not dense and is_broadcast(one, other), known)

    def _pieces(self, source: torch.Tensor, destination: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The dense tensors that a sparse one is made of; none for layouts that are not known."""
        if source.layout is self._sparse and destination.layout is self._sparse:
            return [(source._indices(), destination._indices()), (source._values(), destination._values())]
        return []

    def sent(self, host: torch.Tensor) -> Move:
        """A host tensor that torch sends by itself, with a wait, such as an index."""
        size = host.numel() * host.element_size()
        return Move(Direction.H2D, size, pinned=self.machine.is_pinned(host), dense=bool(host.is_contiguous()))
