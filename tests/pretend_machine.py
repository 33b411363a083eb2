"""An accelerator for tests on machines without one: the meta device takes copies, and memory is pinned on request.

Nothing can be fetched from it, so downloads are tested by their facts (test_trace_moves.py) and on a GPU
(trace_proof.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from h2dlint.trace import tensors
from h2dlint.trace.tensors import DEVICE, HOST, Machine

if TYPE_CHECKING:  # a program that is traced imports torch when it has made its choice of machine
    import torch

PROGRAM = "import pretend_machine; pretend_machine.pretend()\n"
"""The first line of a program that is to see the pretended accelerator."""


class Pretend(Machine):
    """The meta device is an accelerator like CUDA's."""

    def side_of(self, kind: str) -> int:
        """The meta device counts."""
        return DEVICE if kind == "meta" else HOST

    def knows(self, kind: str) -> bool:
        """It works as CUDA does."""
        return True

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Memory that begins with a 7 is pinned."""
        import torch

        whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.detach().untyped_storage())
        return bool(whole.numel() and whole[0] == 7)


def pinned(*sizes: int) -> torch.Tensor:
    """A host tensor in pretended pinned memory."""
    import torch

    return torch.full(sizes, 7.0)


def pretend() -> None:
    """Has every recording from now on see the pretended accelerator."""
    tensors.this_machine = Pretend
