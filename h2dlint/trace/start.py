"""The recording in a traced process: it begins when the program imports torch, and is written to a part file.

Nothing of the program is touched before: `__main__`, `sys.argv`, stdin and signal handlers are those of a run without a
trace. The part is written when the process ends, in whatever way Python hears of it, and every few seconds while
copies happen, since workers are often killed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from h2dlint.trace.moves import Move

BETWEEN_WRITES = 2.0
"""Seconds. A process that is killed loses what it copied in so long at most."""
PART = ".part.json"


def start(folder: str) -> None:
    """Has the recording begin once torch has been imported; parts go to `folder`."""
    sys.meta_path.insert(0, _WhenTorchIsThere(lambda: _begin(folder)))


class _WhenTorchIsThere(MetaPathFinder):
    """Calls back when the module `torch` has been executed, and goes."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders have for torch, with a loader that reports; nothing else."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            _report_back(spec.loader, self._call)
        return spec


def _report_back(loader: Loader, call: Callable[[], None]) -> None:
    execute = loader.exec_module

    def executed(module: ModuleType) -> None:
        del loader.exec_module
        execute(module)
        call()

    loader.exec_module = executed  # type: ignore[method-assign]


def _begin(folder: str) -> None:
    try:
        _Session(folder).begin()
    except Exception as error:  # the program must run on
        from h2dlint.trace.recorder import Part, this_process

        write_part(_part_name(folder), Part(this_process(trouble=f"{type(error).__name__}: {error}"), (), {}))


class _Session:
    """Records in this process and in those forked from it, each of which writes a part of its own."""

    def __init__(self, folder: str) -> None:
        from h2dlint.trace.recorder import Recorder

        self._folder = folder
        self._recorder = Recorder()
        self._due = 0.0
        self._name = _part_name(folder)

    def begin(self) -> None:
        """Starts to listen, and sees to it that the parts are written."""
        import atexit

        from h2dlint.trace.hooks import listen

        listen(self)
        atexit.register(self.write)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)
        _hide_own_frames()
        self.write()  # says that torch was here, however the process ends

    def heard(self, name: str, moves: Sequence[Move], nanoseconds: int, frame: FrameType) -> None:
        """Counts a call, and writes the counts down if that is due."""
        self._recorder.heard(name, moves, nanoseconds, frame)
        now = time.monotonic()
        if now >= self._due:
            self._due = now + BETWEEN_WRITES
            self.write()

    def missed(self, error: Exception) -> None:
        """Counts a call that could not be looked at."""
        self._recorder.missed(error)

    def write(self) -> None:
        """Writes what this process recorded so far."""
        write_part(self._name, self._recorder.part())

    def _begin_anew(self) -> None:
        from h2dlint.trace.recorder import Recorder

        # A new one: the parent counts its own, and a lock that another thread held stays locked for ever here.
        self._recorder = Recorder()
        self._name = _part_name(self._folder)
        self._due = time.monotonic() + BETWEEN_WRITES
        # A worker of multiprocessing ends without atexit, and forgets what was to be done before it is set up.
        util: Any = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, _write_at_the_end)


def _write_at_the_end(session: _Session) -> None:
    from multiprocessing.util import Finalize

    Finalize(None, session.write, exitpriority=0)


def _part_name(folder: str) -> str:
    # A process that replaces itself by another program keeps its number.
    return os.path.join(folder, f"{os.getpid()}-{time.time_ns()}{PART}")


def write_part(name: str, part: Any) -> None:
    """Writes a part, in one piece or not at all. The program is not told where that fails."""
    import msgspec

    try:
        with open(f"{name}.new", "wb") as stream:
            stream.write(msgspec.json.encode(part))
        os.replace(f"{name}.new", name)
    except OSError:
        pass


def _hide_own_frames() -> None:
    """Tracebacks that Python prints at the end of a program leave out the frames of the hooks."""
    shown = sys.excepthook
    if shown is not sys.__excepthook__:
        return

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.__excepthook__(kind, error.with_traceback(_without_own(trace)), _without_own(trace))

    sys.excepthook = show


def _without_own(trace: TracebackType | None) -> TracebackType | None:
    own = os.path.dirname(os.path.abspath(__file__))
    kept: list[TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(own):
            kept.append(trace)
        trace = trace.tb_next
    rest: TracebackType | None = None
    for one in reversed(kept):
        rest = TracebackType(rest, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return rest
