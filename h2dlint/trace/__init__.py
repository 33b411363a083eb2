"""See it happen: what a running program copies between host and device, and which of these copies wait.

    with h2dlint.trace.record() as trace:
        step(batch)
    print(trace.fake_async)

Importing this imports neither torch nor the rest of h2dlint.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from h2dlint.trace.session import Recording

__all__ = ["allow_sync", "record"]


def record() -> AbstractContextManager[Recording]:
    """Records the copies of a block, in every thread.

    Gives a `Recording`, whose `trace` can be asked inside the block and after it. Raises ImportError without torch.
    """
    from h2dlint.trace.session import recording

    return recording()


def allow_sync() -> AbstractContextManager[None]:
    """Exempts what happens in the block from `no_fake_async`; a trace marks it as allowed."""
    from h2dlint.trace.recorder import allow_sync

    return allow_sync()
