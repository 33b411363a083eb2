"""Comparing two runs of the same forms: the one that is stored, and the one that was just made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from h2dlint.probe.results import VERSION, Machine
from h2dlint.probe.stored_forms import SeenCopy, StoredForm


class Event(Struct, frozen=True):
    """One line of a profile, times in microseconds."""

    name: str
    start: float
    end: float
    on_device: bool = False
    """Whether it happened on the GPU. A mark is there twice: the second spans what the GPU did in it."""


class Seen(Struct, frozen=True, omit_defaults=True):
    """What one form did: the part of `StoredForm` that was measured."""

    copies: tuple[SeenCopy, ...] = ()
    stream_syncs: int = 0
    raises: str | None = None

    @property
    def words(self) -> str:
        """In a few words: `h2d from pageable, waits`."""
        if self.raises is not None:
            return f"raises {self.raises}"
        parts = [_copy_words(copy) for copy in self.copies]
        if self.stream_syncs:
            parts.append("waits" if self.stream_syncs == 1 else f"waits {self.stream_syncs} times")
        return ", ".join(parts) or "no copy, no wait"


class Difference(Struct, frozen=True):
    """A form that did something else than the stored table says."""

    id: str
    code: str
    """Setup and code."""
    stored: Seen
    here: Seen
    kind: str
    """`memory` (the profiler's tag), `waits`, `copies` (in which directions) or `raises`."""


class Comparison(Struct, frozen=True):
    """All forms of the stored tables, run here."""

    machine: Machine
    stored_on: str
    """The machine of the stored tables, in words."""
    seconds: float
    forms: int
    alike: int
    differences: tuple[Difference, ...]
    version: int = VERSION


def stored(form: StoredForm) -> Seen:
    """What a stored form did when it was measured."""
    return Seen(form.copies, form.stream_syncs, form.raises)


def compare(forms: Sequence[StoredForm], here: Mapping[str, Seen]) -> list[Difference]:
    """What differs, in the order of the forms. Forms that did not run here are no difference."""
    found = []
    for form in forms:
        seen = here.get(form.id)
        if seen is None:
            continue
        kind = kind_of_difference(stored(form), seen)
        if kind:
            found.append(Difference(form.id, (form.setup + form.code).strip("\n"), stored(form), seen, kind))
    return found


def kind_of_difference(before: Seen, after: Seen) -> str:
    """The gravest difference between two runs of one form; empty if they did the same.

    How *many* copies of one kind there were, and how often it waited, is none: printing a tensor fetches as many
    elements as its random values need, and nothing hangs on it.
    """
    if before.raises != after.raises:
        return "raises"
    if _memory(before) != _memory(after):
        return "memory" if _directions(before) == _directions(after) else "copies"
    return "waits" if bool(before.stream_syncs) != bool(after.stream_syncs) else ""


def marks_of(events: Sequence[Event], prefix: str) -> dict[str, Event]:
    """The marks on the host, by what follows the prefix of their names."""
    return {
        event.name.removeprefix(prefix): event
        for event in events
        if event.name.startswith(prefix) and not event.on_device
    }


def seen_between(events: Sequence[Event], start: float, end: float) -> Seen:
    """What a profile shows between two moments: copies with the profiler's tag of the host's memory, and waits."""
    inside = [event for event in events if start <= event.start <= end]
    counted: dict[tuple[str, str | None], int] = {}
    for event in inside:
        kind = copy_kind(event.name)
        if kind is not None:
            counted[kind] = counted.get(kind, 0) + 1
    copies = tuple(SeenCopy(direction, memory, count) for (direction, memory), count in counted.items())
    return Seen(copies, sum(event.name == "cudaStreamSynchronize" for event in inside))


_DIRECTIONS = {"HtoD": "h2d", "DtoH": "d2h", "DtoD": "d2d"}


def copy_kind(name: str) -> tuple[str, str | None] | None:
    """Direction and host memory of a copy by its name in a profile, such as `Memcpy HtoD (Pageable -> Device)`."""
    if not name.startswith("Memcpy "):
        return None
    direction = next((ours for theirs, ours in _DIRECTIONS.items() if theirs in name), None)
    if direction is None:
        return None
    memory = next((word for word in ("pageable", "pinned") if word in name.lower()), None)
    return direction, memory


def _memory(seen: Seen) -> set[tuple[str, str | None]]:
    return {(copy.direction, copy.host_memory) for copy in seen.copies}


def _directions(seen: Seen) -> set[str]:
    return {copy.direction for copy in seen.copies}


def _copy_words(copy: SeenCopy) -> str:
    times = "" if copy.count == 1 else f"{copy.count} x "
    if copy.host_memory is None:
        return f"{times}{copy.direction}"
    return f"{times}{copy.direction} {'into' if copy.direction == 'd2h' else 'from'} {copy.host_memory}"
