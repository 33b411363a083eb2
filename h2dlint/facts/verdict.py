"""What one copy does, given both of its sides: FACTS, "Which copies are really asynchronous", as one function a
direction.
"""

from __future__ import annotations

from msgspec import Struct

from h2dlint.facts.backends import DEFAULT, Fact, is_so, name_of
from h2dlint.facts.copies import Cause, Direction, Verdict
from h2dlint.facts.domain import ACCELERATOR, META_KIND, Array, Device, Memory
from h2dlint.facts.layout import DENSE_UNRANKED, Form, Layout, broadcast_needed


class Ruling(Struct, frozen=True):
    """A verdict with its reasons. `spans`: for a slice of unknown length, the verdict when it spans its whole axis."""

    verdict: Verdict
    direction: Direction
    causes: tuple[Cause, ...] = ()
    decisive: Array | None = None
    why: str = ""
    spans: Verdict | None = None


def unproven(direction: Direction, why: str, decisive: Array | None = None) -> Ruling:
    """A copy that cannot be judged, with the reason."""
    return Ruling(Verdict.UNPROVEN, direction, (), decisive, why)


def upload(
    source: Array,
    device: Device,
    destination: Layout | None,
    asked: bool,
    backend: str = DEFAULT,
    casts: bool = False,
) -> Ruling:
    """A copy from the host to `device`. `destination`: the layout of what is written; None: that of the source.

    `backend`: the accelerator that a device without a name stands for. `casts`: it changes the dtype as well.
    """
    if source.layout.form is Form.EMPTY:
        return Ruling(Verdict.NO_TRANSFER, Direction.H2D, (), source)
    if device.kind == META_KIND:
        return Ruling(Verdict.NO_TRANSFER, Direction.H2D, (), source)
    if not asked:
        return Ruling(Verdict.BLOCKING, Direction.H2D, (), source)
    staged = is_so(Fact.PAGEABLE_UPLOAD_WAITS, device, backend)
    if not staged or not is_so(Fact.PINNED_UPLOAD_IS_ASYNC, device, backend):
        name = name_of(device, backend)
        return unproven(Direction.H2D, f"whether `{name}` stages pageable memory is not known", source)
    if source.memory is Memory.PAGEABLE:
        return Ruling(Verdict.FAKE_ASYNC, Direction.H2D, (Cause.PAGEABLE,), source)
    ruling = _from_pinned_or_unknown(source, destination, casts)
    if ruling.verdict is Verdict.FAKE_ASYNC and not is_so(Fact.GATHERS_ON_THE_HOST, device, backend):
        name = name_of(device, backend)
        why = f"whether a source that is not dense is gathered on the host for `{name}` is not known"
        return unproven(Direction.H2D, why, source)
    return ruling


def _from_pinned_or_unknown(source: Array, destination: Layout | None, casts: bool) -> Ruling:
    form = source.layout.form
    gapped = Ruling(Verdict.FAKE_ASYNC, Direction.H2D, (Cause.GAPPED,), source)
    if form is Form.GAPPED:
        return gapped
    # A change of dtype happens on the device, but needs both sides contiguous: in another order they are not.
    if form is Form.PERMUTED and (casts or (destination is not None and not _same_order(source.layout, destination))):
        return gapped
    if destination is not None and broadcast_needed(source.layout, destination):
        return Ruling(Verdict.FAKE_ASYNC, Direction.H2D, (Cause.BROADCAST,), source)
    if source.memory is Memory.UNKNOWN:
        return unproven(Direction.H2D, "whether the source is pinned cannot be followed", source)
    if form is Form.MAYBE_GAPPED:
        return Ruling(Verdict.FAKE_ASYNC, Direction.H2D, (Cause.GAPPED,), source, spans=Verdict.ASYNC)
    if form is Form.UNKNOWN:
        return unproven(Direction.H2D, "whether the source is dense cannot be followed", source)
    return Ruling(Verdict.ASYNC, Direction.H2D, (), source)


def _same_order(source: Layout, destination: Layout) -> bool:
    """Whether both views run through their memory in the same order of axes."""
    if source.axes is None or destination.axes is None:
        return source.axes is destination.axes and source.loose is destination.loose is Form.PERMUTED
    holes = {Form.GAPPED, Form.MAYBE_GAPPED} & {source.form, destination.form}
    return not holes and len(source.axes) == len(destination.axes) and _order(source) == _order(destination)


def _order(layout: Layout) -> list[int]:
    axes = layout.axes or ()
    sized = [(position, axis.stride) for position, axis in enumerate(axes) if axis.size != 1]
    return [
        position
        for position, stride in sorted(
            sized, key=lambda pair: -1 if pair[1] is None else len(pair[1].symbols) * 2**40 + pair[1].factor
        )
    ]


def download(
    destination: Array,
    asked: bool,
    source: Layout = DENSE_UNRANKED,
    device: Device = ACCELERATOR,
    backend: str = DEFAULT,
    casts: bool = False,
) -> Ruling:
    """A `host.copy_(device_tensor)`: into pageable or gapped memory it waits, whatever its size (FACTS, 9)."""
    ruling = _download(destination, asked, source, casts)
    fact = {
        (Cause.PAGEABLE,): Fact.PAGEABLE_DOWNLOAD_WAITS,
        (Cause.GAPPED,): Fact.GATHERS_ON_THE_HOST,
        (): Fact.PINNED_DOWNLOAD_IS_ASYNC,
    }[ruling.causes]
    told = ruling.verdict in (Verdict.FAKE_ASYNC, Verdict.ASYNC)
    if told and not is_so(fact, device, backend):
        name = name_of(device, backend)
        return unproven(Direction.D2H, f"whether `{name}` waits for such a copy is not known", destination)
    return ruling


def _download(destination: Array, asked: bool, source: Layout, casts: bool) -> Ruling:
    form = destination.layout.form
    if form is Form.EMPTY:
        return Ruling(Verdict.NO_TRANSFER, Direction.D2H, (), destination)
    if not asked:
        return Ruling(Verdict.BLOCKING, Direction.D2H, (), destination)
    if destination.memory is Memory.PAGEABLE:
        return Ruling(Verdict.FAKE_ASYNC, Direction.D2H, (Cause.PAGEABLE,), destination)
    if form is Form.GAPPED or (form is Form.PERMUTED and (casts or not _same_order(source, destination.layout))):
        return Ruling(Verdict.FAKE_ASYNC, Direction.D2H, (Cause.GAPPED,), destination)
    if destination.memory is Memory.UNKNOWN:
        return unproven(Direction.D2H, "whether the destination is pinned cannot be followed", destination)
    if form is Form.MAYBE_GAPPED:
        return Ruling(Verdict.FAKE_ASYNC, Direction.D2H, (Cause.GAPPED,), destination, spans=Verdict.ASYNC)
    if form is Form.UNKNOWN:
        return unproven(Direction.D2H, "whether the destination is dense cannot be followed", destination)
    return Ruling(Verdict.ASYNC, Direction.D2H, (), destination)
