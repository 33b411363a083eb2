"""Indexing arithmetic: is this view of a tensor dense, permuted or gapped?

A layout is the list of its axes, each with a size and a stride, as torch keeps them. Sizes are ints, symbols with an
integer offset (`cap + 1`) or unknown; strides are products of sizes. A symbolic size counts as more than one: a view is
called gapped when it leaves holes for every ordinary size (FACTS, "Which copies are really asynchronous", 2 to 4).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence as SequenceOf
from enum import Enum
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace


class Form(str, Enum):
    """How a view lies in its memory."""

    DENSE = "dense"
    PERMUTED = "permuted"
    GAPPED = "gapped"
    MAYBE_GAPPED = "maybe-gapped"
    """Gapped unless a slice happens to span its whole axis."""
    UNKNOWN = "unknown"
    EMPTY = "empty"


class Symbol(Struct, frozen=True):
    """An integer of unknown value: the expression it stands for plus a constant; `bound`: at most this, where it
    shows.
    """

    name: str
    offset: int = 0
    bound: int | None = None


class SpareInt(int):
    """An integer that came from adding a constant to a parameter: a size with a spare place at its end."""


Size: TypeAlias = int | Symbol | None


class Stride(Struct, frozen=True):
    """A product: an integer and symbolic sizes, sorted by name. `None` in place of a stride means unknown."""

    factor: int = 1
    symbols: tuple[tuple[str, int], ...] = ()

    def times(self, size: Size) -> Stride | None:
        """The stride of the next outer axis of a dense tensor."""
        if size is None:
            return None
        if isinstance(size, int):
            return Stride(self.factor * size, self.symbols)
        return Stride(self.factor, tuple(sorted((*self.symbols, (size.name, size.offset)))))


UNIT = Stride()
OVERLAPPING = Stride(0)


class Axis(Struct, frozen=True):
    """One dimension: its size, its stride, and whether a slice left part of it out (`None`: cannot be told)."""

    size: Size
    stride: Stride | None
    cut: bool | None = False


class Layout(Struct, frozen=True):
    """The axes in logical order, or, when their number is not known, the form alone."""

    axes: tuple[Axis, ...] | None
    loose: Form = Form.DENSE
    """The form of a layout whose axes are not known."""

    @property
    def form(self) -> Form:
        return self.loose if self.axes is None else form_of(self.axes)

    @property
    def rank(self) -> int | None:
        return None if self.axes is None else len(self.axes)

    def signature(self) -> object:
        """What two layouts share when a join may merge them."""
        return (self.form, self.rank)

    @property
    def sizes(self) -> tuple[Size, ...] | None:
        return None if self.axes is None else tuple(axis.size for axis in self.axes)


DENSE_UNRANKED = Layout(None)
GAPPED_UNRANKED = Layout(None, Form.GAPPED)
PERMUTED_UNRANKED = Layout(None, Form.PERMUTED)
UNKNOWN_LAYOUT = Layout(None, Form.UNKNOWN)

_numbers = itertools.count(1)


def fresh_symbol(bound: int | None = None) -> Symbol:
    """A size nothing else is known to equal."""
    return Symbol(f"?{next(_numbers)}", 0, bound)


def dense(sizes: SequenceOf[Size]) -> Layout:
    """A row-major layout of these sizes."""
    named = [fresh_symbol() if size is None else size for size in sizes]
    axes: list[Axis] = []
    stride: Stride | None = UNIT
    for size in reversed(named):
        axes.append(Axis(size, stride))
        stride = stride.times(size) if stride is not None else None
    return Layout(tuple(reversed(axes)))


def strided(sizes: SequenceOf[Size], strides: SequenceOf[Size]) -> Layout:
    """The layout of `torch.empty_strided`."""
    known = [Stride(stride) if isinstance(stride, int) else UNIT.times(stride) for stride in strides]
    return Layout(tuple(Axis(size, stride) for size, stride in zip(sizes, known, strict=False)))


def form_of(axes: tuple[Axis, ...]) -> Form:
    """Dense, permuted, gapped or empty, from sizes and strides."""
    if any(axis.size == 0 for axis in axes):
        return Form.EMPTY
    rest = [axis for axis in axes if axis.size != 1]
    if any(axis.stride == OVERLAPPING for axis in rest):
        return Form.GAPPED
    expected: Stride | None = UNIT
    order: list[int] = []
    inner: Axis | None = None
    remaining = list(enumerate(rest))
    while remaining:
        match = next((pair for pair in remaining if pair[1].stride is not None and pair[1].stride == expected), None)
        if match is None:
            return _mismatch(inner, [axis for _, axis in remaining], expected)
        remaining.remove(match)
        order.append(match[0])
        inner = match[1]
        expected = inner.stride.times(inner.size) if inner.stride is not None else None
    return Form.DENSE if order == sorted(order, reverse=True) else Form.PERMUTED


def like(layout: Layout) -> Layout:
    """The layout of `empty_like(x)`, `x.clone()`, `x.float()`: dense, with the axes in the order in which they lie."""
    if layout.axes is None:
        return layout if layout.loose is Form.PERMUTED else DENSE_UNRANKED
    if layout.form is Form.PERMUTED:
        return layout
    order = _outer_first(layout.axes)
    if order is None:
        return dense([axis.size for axis in layout.axes])
    inner = dense([layout.axes[position].size for position in order]).axes or ()
    return Layout(tuple(inner[order.index(position)] for position in range(len(order))))


def _outer_first(axes: tuple[Axis, ...]) -> list[int] | None:
    """The positions of the axes by falling stride; None where these cannot be compared, or an axis is stretched."""
    factors = [axis.stride.factor if axis.stride is not None and not axis.stride.symbols else 0 for axis in axes]
    if not all(factor or axis.size == 1 for factor, axis in zip(factors, axes, strict=True)):
        return None
    sized = iter(sorted((n for n, axis in enumerate(axes) if axis.size != 1), key=lambda n: -factors[n]))
    return [position if axis.size == 1 else next(sized) for position, axis in enumerate(axes)]


def _mismatch(inner: Axis | None, outer: list[Axis], expected: Stride | None) -> Form:
    """No axis continues where the inner ones end: a hole, unless a slice of unknown length spans its axis after all."""
    if expected is None or any(axis.stride is None for axis in outer):
        return Form.UNKNOWN
    if inner is not None and inner.cut is None:
        return Form.MAYBE_GAPPED
    return Form.GAPPED


def same_strides(left: Layout, right: Layout) -> bool:
    """Whether two layouts of the same sizes run through memory in the same order."""
    if left.axes is None or right.axes is None:
        return left.form in (Form.DENSE, Form.EMPTY) and right.form in (Form.DENSE, Form.EMPTY)
    pairs = zip(left.axes, right.axes, strict=False)
    return len(left.axes) == len(right.axes) and all(one.stride == two.stride or one.size == 1 for one, two in pairs)


def is_row_major(layout: Layout) -> bool:
    """Whether the strides are those of a freshly made tensor of the same shape."""
    return layout.form in (Form.DENSE, Form.EMPTY)


def element_bound(layout: Layout) -> int | None:
    """At most so many elements, where every size is a constant or has a bound."""
    count = 1
    if layout.axes is None:
        return None
    for axis in layout.axes:
        size = axis.size.bound if isinstance(axis.size, Symbol) else axis.size
        if size is None:
            return None
        count *= size
    return count


def element_count(layout: Layout) -> int | None:
    """The number of elements, where every size is a constant."""
    count = 1
    if layout.axes is None:
        return None
    for axis in layout.axes:
        if not isinstance(axis.size, int):
            return None
        count *= axis.size
    return count


def sum_of(sizes: SequenceOf[Size]) -> Size:
    """The sum of sizes; of unknown ones what bounds it, where all are bounded."""
    if all(isinstance(size, int) for size in sizes):
        return sum(size for size in sizes if isinstance(size, int))
    bounds = [size.bound if isinstance(size, Symbol) else size for size in sizes]
    known = [bound for bound in bounds if bound is not None]
    return fresh_symbol(sum(known) if len(known) == len(bounds) else None)


def differs(left: Size, right: Size) -> bool | None:
    """Whether two sizes are shown to differ (True), to be equal (False), or neither (None)."""
    if isinstance(left, int) and isinstance(right, int):
        return left != right
    if isinstance(left, Symbol) and isinstance(right, Symbol) and left.name == right.name:
        return left.offset != right.offset
    return None


def _normal(axis: int, rank: int) -> int | None:
    position = axis + rank if axis < 0 else axis
    return position if 0 <= position < rank else None


# Indexing


class IntIndex(Struct, frozen=True):
    """`x[3]`, `x[i]`: one position of an axis."""


class NewAxis(Struct, frozen=True):
    """`x[None]`."""


class Ellipsis_(Struct, frozen=True):
    """`x[...]`."""


class SliceIndex(Struct, frozen=True):
    """`x[start:stop:step]`; each an int, a symbol, absent, or present and unknown."""

    start: Size = None
    stop: Size = None
    step: Size = None
    has_start: bool = False
    has_stop: bool = False
    has_step: bool = False


Index: TypeAlias = IntIndex | NewAxis | Ellipsis_ | SliceIndex


def indexed(layout: Layout, items: SequenceOf[Index]) -> Layout:
    """The layout of `x[items]`, basic indexing only."""
    if layout.axes is None:
        return _indexed_unranked(layout, items)
    consumed = sum(not isinstance(item, (NewAxis, Ellipsis_)) for item in items)
    if consumed > len(layout.axes):  # the rank was read off a single size that must have been a shape
        return _indexed_unranked(Layout(None, layout.form), items)
    missing = len(layout.axes) - consumed
    if not any(isinstance(item, Ellipsis_) for item in items):
        items = [*items, Ellipsis_()]
    out: list[Axis] = []
    position = 0
    for item in items:
        if isinstance(item, NewAxis):
            out.append(Axis(1, UNIT))
        elif isinstance(item, Ellipsis_):
            out.extend(layout.axes[position : position + missing])
            position += missing
            missing = 0
        elif isinstance(item, IntIndex):
            position += 1
        else:
            out.append(sliced(layout.axes[position], item))
            position += 1
    return Layout(tuple(out))


def _indexed_unranked(layout: Layout, items: SequenceOf[Index]) -> Layout:
    """Rows of a tensor of unknown rank stay dense; whatever reaches past a slice of its first axis leaves holes."""
    if layout.loose not in (Form.DENSE, Form.EMPTY):
        return layout if all(_takes_all(item) for item in items) else UNKNOWN_LAYOUT
    if any(isinstance(item, Ellipsis_) for item in items):
        trailing = items[[isinstance(item, Ellipsis_) for item in items].index(True) + 1 :]
        leading = items[: len(items) - len(trailing) - 1]
        if all(_takes_all(item) for item in (*leading, *trailing)):
            return layout
        return UNKNOWN_LAYOUT if leading else _after_rows(trailing)
    rest = list(items)
    while rest and isinstance(rest[0], (IntIndex, NewAxis)):
        rest.pop(0)
    if not rest or not isinstance(rest[0], SliceIndex):
        return layout
    first, rest = rest[0], rest[1:]
    if first.has_step and first.step != 1:
        return GAPPED_UNRANKED
    if all(_takes_all(item) for item in rest):
        return layout
    if sliced(Axis(fresh_symbol(), UNIT), first).size == 1:
        return _indexed_unranked(layout, rest)
    return _after_rows(rest)


def _after_rows(rest: SequenceOf[Index]) -> Layout:
    if any(isinstance(item, IntIndex) for item in rest):
        return GAPPED_UNRANKED
    slices = [item for item in rest if isinstance(item, SliceIndex) and not _takes_all(item)]
    cuts = [sliced(Axis(fresh_symbol(), UNIT), item).cut for item in slices]
    return GAPPED_UNRANKED if any(cut for cut in cuts) else Layout(None, Form.MAYBE_GAPPED)


def _takes_all(item: Index) -> bool:
    if isinstance(item, NewAxis):
        return True
    return (
        isinstance(item, SliceIndex)
        and not item.has_stop
        and item.start in (None, 0)
        and item.step in (None, 1)
        and not (item.has_start and item.start is None)
    )


def sliced(axis: Axis, item: SliceIndex) -> Axis:
    """One axis after `start:stop:step`."""
    if item.has_step and item.step != 1:
        if not isinstance(item.step, int) or axis.stride is None:
            return Axis(None, None, None)
        return Axis(_stepped(axis.size, item), Stride(axis.stride.factor * item.step, axis.stride.symbols), True)
    start = item.start if item.has_start else 0
    stop = item.stop if item.has_stop else axis.size
    size = _length(axis.size, start, stop, item)
    cut = _is_cut(axis.size, start, stop, item)
    if cut is False:
        return axis
    if size is None:
        size = fresh_symbol(_bound(axis.size, start, stop))
    return replace(axis, size=size, cut=True if cut or axis.cut else None)


def length_of(numbers: range) -> int:
    """How many they are: `len` fails beyond what a machine word counts."""
    return max(0, -((numbers.start - numbers.stop) // numbers.step))


def _stepped(size: Size, item: SliceIndex) -> Size:
    bounds = (item.start, item.stop, item.step)
    given = (item.has_start, item.has_stop, item.has_step)
    known = all(not has or isinstance(bound, int) for bound, has in zip(bounds, given, strict=True))
    if isinstance(size, int) and size >= 0 and known and item.step != 0:
        return length_of(range(*slice(*bounds).indices(size)))
    return fresh_symbol(size if isinstance(size, int) else None)


def _length(size: Size, start: Size, stop: Size, item: SliceIndex) -> Size:
    if isinstance(size, int) and size >= 0 and all(isinstance(bound, int) for bound in (start, stop)):
        return length_of(range(*slice(start, stop).indices(size)))
    if isinstance(start, int) and isinstance(stop, int):
        if (start >= 0) == (stop >= 0) and stop - start <= 1:
            return max(stop - start, 0)
        return None
    if isinstance(start, int) and start >= 0 and isinstance(stop, Symbol):
        return Symbol(stop.name, stop.offset - start)
    if isinstance(start, Symbol) and isinstance(stop, Symbol) and start.name == stop.name:
        return max(stop.offset - start.offset, 0)
    if isinstance(start, int) and start < 0 and not item.has_stop:
        return -start if isinstance(size, Symbol) and start == -1 else None
    return None


def _bound(size: Size, start: Size, stop: Size) -> int | None:
    """At most so many elements after a slice."""
    if isinstance(stop, int) and stop >= 0 and (start is None or (isinstance(start, int) and start >= 0)):
        return max(stop - (start or 0), 0)
    if isinstance(size, int):
        return size
    return size.bound if isinstance(size, Symbol) else None


def _is_cut(size: Size, start: Size, stop: Size, item: SliceIndex) -> bool | None:
    """Whether the slice leaves out part of the axis for every ordinary size."""
    if isinstance(size, int) and size >= 0 and all(isinstance(bound, int) for bound in (start, stop)):
        return length_of(range(*slice(start, stop).indices(size))) < size
    if item.has_start and start != 0:
        return True if isinstance(start, int) else None
    if not item.has_stop:
        return False
    if isinstance(stop, int):
        return True
    if isinstance(size, SpareInt) or (stop is None and isinstance(size, Symbol) and size.offset > 0):
        return True
    if isinstance(stop, Symbol) and isinstance(size, Symbol):
        if stop.name == size.name:
            return stop.offset < size.offset
        # A spare place at the end (`cap + 1`) is left out by every slice to a plain count: it is what it is there for.
        return True if size.offset > 0 and stop.offset <= 0 else None
    return None


# View operations, by name; each takes the layout and the arguments as sizes and answers the view's layout


def permuted(layout: Layout, order: SequenceOf[int] | None) -> Layout:
    """`permute(order)`; `None` when the order is not known."""
    if layout.axes is None:
        return PERMUTED_UNRANKED if layout.loose is Form.DENSE else layout
    if order is None or sorted(_normal(axis, len(layout.axes)) or 0 for axis in order) != list(range(len(layout.axes))):
        return Layout(None, Form.PERMUTED if layout.form in (Form.DENSE, Form.PERMUTED) else layout.form)
    return Layout(tuple(layout.axes[axis] for axis in order))


def transposed(layout: Layout, first: int, second: int) -> Layout:
    """`transpose(first, second)`."""
    rank = layout.rank
    if first == second:
        return layout
    if rank is None:
        return permuted(layout, None)
    left, right = _normal(first, rank), _normal(second, rank)
    if left is None or right is None:
        return layout
    order = list(range(rank))
    order[left], order[right] = order[right], order[left]
    return permuted(layout, order)


def reversed_axes(layout: Layout) -> Layout:
    """`.T`, `.t()`."""
    return permuted(layout, None if layout.rank is None else list(range(layout.rank))[::-1])


def moved(layout: Layout, source: int, destination: int) -> Layout:
    """`movedim(source, destination)`."""
    rank = layout.rank
    if rank is None:
        return permuted(layout, None)
    start, end = _normal(source, rank), _normal(destination, rank)
    if start is None or end is None:
        return layout
    order = [axis for axis in range(rank) if axis != start]
    order.insert(end, start)
    return permuted(layout, order)


def last_two_swapped(layout: Layout) -> Layout:
    """`.mT`, `.adjoint()`."""
    return transposed(layout, -2, -1)


def unflattened(layout: Layout, axis: int, sizes: SequenceOf[Size] | None) -> Layout:
    """`unflatten(axis, sizes)`: one axis split into several, which continue each other."""
    position = None if layout.axes is None else _normal(axis, len(layout.axes))
    if layout.axes is None or position is None or sizes is None:
        return Layout(None, layout.form)
    old = layout.axes[position]
    named = [axis.size for axis in _filled(Layout((old,)), sizes).axes or ()]
    stride = old.stride
    split: list[Axis] = []
    for size in reversed(named):
        split.insert(0, Axis(size, stride))
        stride = None if stride is None else stride.times(size)
    return Layout((*layout.axes[:position], *split, *layout.axes[position + 1 :]))


def of_other_width(layout: Layout, old: int | None, new: int | None) -> Layout:
    """`view(dtype)`, from so many bytes an element to so many others: the last axis grows or shrinks."""
    if old is not None and old == new:
        return layout
    if old is None or new is None or not layout.axes or layout.form not in (Form.DENSE, Form.EMPTY):
        return layout if layout.axes is None else Layout(None, layout.form)
    *outer, last = layout.sizes or ()
    return dense([*outer, last * old // new if isinstance(last, int) else None])


def at_least(layout: Layout, rank: int) -> Layout:
    """`atleast_2d` and its kin: axes of one element where there are too few."""
    missing = None if layout.axes is None else rank - len(layout.axes)
    if missing is None or missing <= 0:
        return layout
    at_end = rank == 3 and missing < 3
    first = missing - at_end
    return Layout((*[Axis(1, UNIT)] * first, *(layout.axes or ()), *[Axis(1, UNIT)] * at_end))


def unsqueezed(layout: Layout, axis: int) -> Layout:
    """`unsqueeze(axis)`."""
    if layout.axes is None:
        return layout
    position = axis + len(layout.axes) + 1 if axis < 0 else axis
    return Layout((*layout.axes[:position], Axis(1, UNIT), *layout.axes[position:]))


def squeezed(layout: Layout, axis: int | None) -> Layout:
    """`squeeze(axis)`: drops axes of size one; the form stays."""
    if layout.axes is None:
        return layout
    if axis is None:
        kept = tuple(one for one in layout.axes if one.size != 1)
        symbolic = any(not isinstance(one.size, int) for one in layout.axes)
        return Layout(None, layout.form) if symbolic else Layout(kept)
    position = _normal(axis, len(layout.axes))
    if position is None or layout.axes[position].size not in (1,):
        return (
            Layout(None, layout.form) if position is None or not isinstance(layout.axes[position].size, int) else layout
        )
    return Layout((*layout.axes[:position], *layout.axes[position + 1 :]))


def expanded(layout: Layout, sizes: SequenceOf[Size] | None) -> Layout:
    """`expand(sizes)`: a stretched axis overlaps itself, which no plain copy can follow."""
    if layout.axes is None or sizes is None:
        return GAPPED_UNRANKED
    if len(sizes) < len(layout.axes):  # torch refuses
        return UNKNOWN_LAYOUT
    padded = [Axis(1, UNIT)] * (len(sizes) - len(layout.axes)) + list(layout.axes)
    out: list[Axis] = []
    for axis, size in zip(padded, sizes, strict=False):
        keeps = size == -1 or differs(axis.size, size) is False or size == 1
        stretches = axis.size == 1 and not keeps
        if stretches:
            out.append(Axis(size, OVERLAPPING))
        elif keeps:
            out.append(axis)
        else:
            out.append(axis if isinstance(axis.size, int) else Axis(axis.size, axis.stride, axis.cut))
    return Layout(tuple(out))


def selected(layout: Layout, axis: int) -> Layout:
    """`select(axis, i)`."""
    return _along(layout, axis, IntIndex())


def narrowed(layout: Layout, axis: int, start: Size, length: Size) -> Layout:
    """`narrow(axis, start, length)`: as long as a slice from the beginning, wherever it starts."""
    return _along(layout, axis, SliceIndex(0, length, None, False, True))


def divided(layout: Layout, axis: int, size: Size) -> Layout:
    """One piece of `split`, `chunk`, `tensor_split` along an axis; a piece of unknown size is less than the whole."""
    result = _along(layout, axis, SliceIndex(0, size, None, False, True))
    position = None if result.axes is None else _normal(axis, len(result.axes))
    if result.axes is None or position is None or result.axes[position].cut is not None:
        return result
    axes = list(result.axes)
    axes[position] = replace(axes[position], cut=True)
    return Layout(tuple(axes))


def _along(layout: Layout, axis: int, item: Index) -> Layout:
    rank = layout.rank
    if rank is None:
        if axis >= 0:
            return indexed(layout, [SliceIndex()] * axis + [item])
        return GAPPED_UNRANKED
    position = _normal(axis, rank)
    if position is None:
        return UNKNOWN_LAYOUT
    return indexed(layout, [SliceIndex()] * position + [item])


def reshaped(layout: Layout, sizes: SequenceOf[Size] | None) -> Layout | None:
    """`view(sizes)` or `reshape(sizes)`; `None` when the data must be copied to be reshaped."""
    if layout.form in (Form.DENSE, Form.EMPTY):
        return _filled(layout, sizes)
    if layout.form is Form.UNKNOWN or layout.axes is None or sizes is None:
        return UNKNOWN_LAYOUT
    if len(sizes) == len(layout.axes) == 1:  # a single axis stays as it is, with what lies between its elements
        return layout
    wanted = _filled(layout, sizes).sizes or ()
    if not all(isinstance(size, int) for size in (*wanted, *(layout.sizes or ()))):
        return None if len(sizes) <= 1 else UNKNOWN_LAYOUT
    return _restrided(layout.axes, [size for size in wanted if isinstance(size, int)])


def _restrided(axes: tuple[Axis, ...], wanted: list[int]) -> Layout | None:
    """The strides of a view of other sizes, as torch computes them: old axes that continue each other form a block,
    and a new axis may split a block but not cross into the next one."""
    out: list[Axis] = []
    blocks = _blocks(axes)
    position = len(wanted) - 1
    for count, stride in reversed(blocks):
        filled = 1
        inner = stride
        while position >= 0 and (filled < count or wanted[position] == 1):
            size = wanted[position]
            out.insert(0, Axis(size, inner))
            inner = inner.times(size) or inner
            filled *= size
            position -= 1
        if filled != count:
            return None
    return Layout(tuple(out)) if position < 0 else None


def _blocks(axes: tuple[Axis, ...]) -> list[tuple[int, Stride]]:
    """Runs of axes, outer first, in which each one begins where the next inner one ends: element count and stride."""
    blocks: list[tuple[int, Stride]] = []
    outermost: Stride | None = None
    for axis in reversed([axis for axis in axes if axis.size != 1]):
        size, stride = axis.size, axis.stride
        if not isinstance(size, int) or stride is None:
            return []
        if blocks and outermost is not None and stride == outermost:
            blocks[0] = (blocks[0][0] * size, blocks[0][1])
        else:
            blocks.insert(0, (size, stride))
        outermost = stride.times(size)
    return blocks or [(1, UNIT)]


def unfolded(layout: Layout, axis: int, size: Size, step: Size) -> Layout:
    """`unfold(axis, size, step)`: windows along an axis, dense only where they tile it."""
    position = None if layout.axes is None else _normal(axis, len(layout.axes))
    if layout.axes is None or position is None or not isinstance(size, int) or not isinstance(step, int):
        return GAPPED_UNRANKED if size is None or size != step else UNKNOWN_LAYOUT  # windows side by side may tile it
    old = layout.axes[position]
    if not isinstance(old.size, int) or old.stride is None:
        return GAPPED_UNRANKED
    windows = Axis((old.size - size) // step + 1, Stride(old.stride.factor * step, old.stride.symbols))
    axes = (*layout.axes[:position], windows, *layout.axes[position + 1 :], Axis(size, old.stride))
    return Layout(axes)


def diagonal(layout: Layout) -> Layout:
    """The diagonal of the first two axes: gapped, unless it is a single element or the two were a diagonal's own."""
    if layout.axes is None or len(layout.axes) < 2:
        return GAPPED_UNRANKED
    first, second, *rest = layout.axes
    if first.size == 1 or second.size == 1:
        return Layout((*rest, Axis(1, UNIT)))
    one, two = first.stride, second.stride
    if one is None or two is None or one.symbols or two.symbols:
        return GAPPED_UNRANKED
    if not isinstance(first.size, int) or not isinstance(second.size, int):
        return GAPPED_UNRANKED
    return Layout((*rest, Axis(min(first.size, second.size), Stride(one.factor + two.factor), True)))


def channels_last(layout: Layout) -> Layout:
    """The layout of the same sizes with the channels innermost (`torch.channels_last`)."""
    if layout.sizes is None or len(layout.sizes) not in (4, 5):
        return PERMUTED_UNRANKED
    sizes = layout.sizes
    inner = dense([sizes[0], *sizes[2:], sizes[1]])
    axes = inner.axes or ()
    return Layout((axes[0], axes[-1], *axes[1:-1]))


def _filled(layout: Layout, sizes: SequenceOf[Size] | None) -> Layout:
    if sizes is None:
        return DENSE_UNRANKED
    known = list(sizes)
    if -1 in known:
        total = element_count(layout)
        others = 1
        for size in known:
            if size != -1:
                others = others * size if isinstance(size, int) else 0
        position = known.index(-1)
        known[position] = total // others if total is not None and others > 0 else fresh_symbol()
        if len(known) == 1 and total is None:
            known[0] = fresh_symbol()
    return dense(known)


def flattened(layout: Layout, start: int = 0, end: int = -1) -> Layout | None:
    """`flatten(start, end)`; `None` when it copies."""
    if layout.form is Form.UNKNOWN:
        return UNKNOWN_LAYOUT
    if layout.axes is None:
        whole = dense([fresh_symbol()]) if (start, end) == (0, -1) else layout
        return whole if layout.loose in (Form.DENSE, Form.EMPTY) else UNKNOWN_LAYOUT
    rank = len(layout.axes)
    if layout.form not in (Form.DENSE, Form.EMPTY):
        return reshaped(layout, _flat_sizes(layout, start, end))
    first, last = _normal(start, rank), _normal(end, rank)
    if first is None or last is None:
        return dense([fresh_symbol()])
    sizes = [axis.size for axis in layout.axes]
    middle = sizes[first : last + 1]
    product: Size = 1
    for size in middle:
        product = product * size if isinstance(product, int) and isinstance(size, int) else fresh_symbol()
    return dense([*sizes[:first], product, *sizes[last + 1 :]])


def _flat_sizes(layout: Layout, start: int, end: int) -> list[Size]:
    sizes = list(layout.sizes or ())
    first, last = _normal(start, len(sizes)), _normal(end, len(sizes))
    return [-1] if first is None or last is None else [*sizes[:first], -1, *sizes[last + 1 :]]


def broadcast_needed(source: Layout, destination: Layout) -> bool | None:
    """Whether `destination.copy_(source)` has to repeat elements; `None` when the shapes do not show it."""
    if source.axes is None or destination.axes is None:
        return None
    have = [size for size in source.sizes or () if size != 1]
    want = [size for size in destination.sizes or () if size != 1]
    if len(have) < len(want):
        return True
    same = len(have) == len(want) and all(differs(left, right) is False for left, right in zip(have, want, strict=True))
    return False if same else None
