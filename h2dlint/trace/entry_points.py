"""Data: which of torch's Python entry points may move data between host and device, and what each call moved.

An entry has the owner that the name is looked up in, and a function from arguments and result to moves. An entry
without one moves nothing by itself: it is there so that what it calls counts as one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from h2dlint.facts.copies import Direction
from h2dlint.trace.moves import Move
from h2dlint.trace.tensors import Looker, is_real

Arguments: TypeAlias = tuple[Any, ...]
Keywords: TypeAlias = dict[str, Any]
MovesOf: TypeAlias = Callable[[Looker, Arguments, Keywords, Any], Sequence[Move]]

NOTHING: tuple[Move, ...] = ()
ONE_NUMBER = 8
"""Bytes. What torch fetches to learn a count, or one element."""


class Entry(Struct, frozen=True):
    """One of torch's functions that is worth a look."""

    owner: str
    """`Tensor`, `torch`, `Module` or `Optimizer`."""
    name: str
    moves: MovesOf | None = None
    plain_keys: bool = False
    """Whether a first argument of numbers and slices means that nothing moves: item access is frequent."""


# --- transfers that a program writes down -------------------------------------------------------------------------


def asks(arguments: Arguments, keywords: Keywords) -> bool:
    """Whether a call says `non_blocking=True`, or `True` where that stands by position."""
    if "non_blocking" in keywords:
        return bool(keywords["non_blocking"])
    # In `.to`, `.cuda`, `.type` and `copy_` alike the first bool is non_blocking.
    return next((one for one in arguments[1:] if isinstance(one, bool)), False)


def _moved(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    source = arguments[0]
    asked = asks(arguments, keywords)
    if result is source:
        return (Move(look.direction(source, source), asked=True),) if asked and is_real(source) else NOTHING
    if not is_real(source) or not is_real(result):
        return NOTHING
    move = look.copy(source, result, asked)
    return (move,) if asked or move.size else NOTHING


def _copied(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    destination = arguments[0]
    source = arguments[1] if len(arguments) > 1 else keywords.get("src", keywords.get("other"))
    if not is_real(source) or not is_real(destination):
        return NOTHING
    asked = asks(arguments[1:], keywords)
    move = look.copy(source, destination, asked)
    return (move,) if asked or move.size else NOTHING


def _copied_each(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    destinations, sources = (*arguments, keywords.get("self"), keywords.get("src"))[:2]
    asked = asks(arguments[1:], keywords)
    moves = (look.copy(source, to, asked) for to, source in zip(destinations, sources, strict=True))
    return [move for move in moves if asked or move.size]


# --- one number for the host --------------------------------------------------------------------------------------


def _one_number(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    # Torch reads a single element through pinned memory of its own, and waits.
    return (Move(Direction.D2H, ONE_NUMBER, pinned=True),) if look.on_device(arguments[0]) else NOTHING


def _one_element(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    source = arguments[0]
    return (Move(Direction.D2H, source.element_size(), pinned=True),) if look.on_device(source) else NOTHING


def _all_elements(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    source = arguments[0]
    if not look.on_device(source):
        return NOTHING
    return (Move(Direction.D2H, source.numel() * source.element_size()),)


# --- tensors made on the device from what the host has ------------------------------------------------------------


def _made(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    data = arguments[0] if arguments else keywords.get("data", keywords.get("obj"))
    if is_real(data):
        if result is data or not is_real(result):
            return NOTHING
        move = look.copy(data, result, asked=False)
        return (move,) if move.size else NOTHING
    if look.on_device(result):
        size = result.numel() * result.element_size()
        return (Move(Direction.H2D, size, pinned=bool(keywords.get("pin_memory"))),) if size else NOTHING
    fetched = data if isinstance(data, (list, tuple)) else ()
    return [Move(Direction.D2H, one.element_size(), pinned=True) for one in fetched if look.on_device(one)]


def _made_like(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    return _made(look, arguments[1:], keywords, result)


# --- item access --------------------------------------------------------------------------------------------------


def _got(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    if not look.on_device(arguments[0]):
        return NOTHING
    return list(_key_moves(look, arguments[1], reading=True))


def _set(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    target, key, value = arguments
    if not look.on_device(target):
        fetches = look.on_host(target) and look.on_device(value)
        return (_into_host(look, target, key, value),) if fetches else NOTHING
    fills_mask = not is_real(value) or (look.on_host(value) and value.dim() == 0)
    moves = list(_key_moves(look, key, reading=not fills_mask))
    if not is_real(value):
        parts = _parts(key)
        by_index = any(_is_index(look, part) for part in parts)
        if by_index or picks_one_element(parts, target.dim()):
            moves.append(Move(Direction.H2D, target.element_size()))
    elif look.on_host(value) and (value.dim() or picks_one_element(_parts(key), target.dim())):
        moves.append(look.sent(value))
    return moves


def _into_host(look: Looker, target: Any, key: Any, value: Any) -> Move:
    place = target.detach()[key]
    shares = place.untyped_storage().data_ptr() == target.untyped_storage().data_ptr()
    size = place.numel() * place.element_size()
    return Move(
        Direction.D2H, size, pinned=shares and look.machine.is_pinned(target), dense=bool(place.is_contiguous())
    )


def _put(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    target, *rest = arguments
    indices = rest[0] if rest else keywords.get("indices", ())
    if not look.on_device(target):
        return NOTHING
    return [move for index in indices for move in _key_moves(look, index, reading=False)]


def _key_moves(look: Looker, key: Any, reading: bool) -> Iterator[Move]:
    for part in _parts(key):
        if isinstance(part, list) or type(part).__name__ == "ndarray":
            if len(part):
                yield Move(Direction.H2D, len(part) * ONE_NUMBER)
        elif not is_real(part):
            continue
        elif look.on_host(part):
            yield from _host_index(look, part)
        elif part.dtype.is_floating_point:
            continue
        elif _is_mask(part):
            if reading:
                yield Move(Direction.D2H, ONE_NUMBER, pinned=True)  # how many places the mask has
        elif part.dim() == 0:
            yield Move(Direction.D2H, part.element_size(), pinned=True)


def _host_index(look: Looker, part: Any) -> Iterator[Move]:
    if _is_mask(part):
        # Its places are counted on the host, then sent from pinned memory without a wait: one list of them an axis.
        for _ in range(part.dim()):
            yield Move(Direction.H2D, int(part.sum()) * ONE_NUMBER, asked=True, pinned=True)
    elif part.dim():
        yield look.sent(part)


def _parts(key: Any) -> Sequence[Any]:
    return key if isinstance(key, tuple) else (key,)


def _is_mask(part: Any) -> bool:
    import torch

    return part.dtype in (torch.bool, torch.uint8)


def _is_index(look: Looker, part: Any) -> bool:
    """Whether a part of a key picks places by a list of them, other than by a mask on the device."""
    if isinstance(part, list) or type(part).__name__ == "ndarray":
        return True
    return is_real(part) and part.dim() > 0 and not (look.on_device(part) and _is_mask(part))


def picks_one_element(parts: Sequence[Any], axes: int) -> bool:
    """Whether a key of these parts names a single element of a tensor with so many axes."""
    numbers = [part for part in parts if part is not Ellipsis]
    return len(numbers) == axes and all(_is_number(part) for part in numbers)


def _is_number(part: Any) -> bool:
    if isinstance(part, bool) or part is None or isinstance(part, (slice, list)):
        return False
    return part.dim() == 0 if is_real(part) else hasattr(part, "__index__")


# --- the table ----------------------------------------------------------------------------------------------------

ENTRIES: tuple[Entry, ...] = (
    *(Entry("Tensor", name, _moved) for name in ("to", "cuda", "cpu", "xpu", "npu", "hpu", "musa", "type", "type_as")),
    Entry("Tensor", "copy_", _copied),
    Entry("torch", "_foreach_copy_", _copied_each),
    *(
        Entry("Tensor", name, _one_element)
        for name in ("item", "__bool__", "__int__", "__float__", "__complex__", "__index__", "is_nonzero")
    ),
    Entry("Tensor", "tolist", _all_elements),
    *(Entry("Tensor", name, _one_number) for name in ("nonzero", "masked_select")),
    *(Entry("torch", name, _made) for name in ("tensor", "as_tensor", "asarray")),
    Entry("Tensor", "new_tensor", _made_like),
    Entry("Tensor", "__getitem__", _got, plain_keys=True),
    Entry("Tensor", "__setitem__", _set),
    *(Entry("Tensor", name, _put) for name in ("index_put_", "index_put")),
    *(Entry("Tensor", name) for name in ("__repr__", "__format__", "__contains__", "__deepcopy__", "__reduce_ex__")),
    *(Entry("Module", name) for name in ("to", "cuda", "cpu", "xpu", "load_state_dict")),
    Entry("Optimizer", "load_state_dict"),
)
