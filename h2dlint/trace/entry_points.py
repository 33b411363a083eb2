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
from h2dlint.trace.tensors import DEVICE, HOST, NOWHERE, Looker

Arguments: TypeAlias = tuple[Any, ...]
Keywords: TypeAlias = dict[str, Any]
MovesOf: TypeAlias = Callable[[Looker, Arguments, Keywords, Any], Sequence[Move]]

NOTHING: tuple[Move, ...] = ()
ONE_NUMBER = 8
"""Bytes. What torch fetches to learn a count, and what an index takes."""


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
    """Whether a call says `non_blocking=True`, or `True` where that stands by position.

    `arguments` are those after the source or the destination: in `.to`, `.cuda`, `.type` and `copy_` alike the first
    bool is non_blocking.
    """
    if "non_blocking" in keywords:
        return bool(keywords["non_blocking"])
    return next((one for one in arguments if isinstance(one, bool)), False)


def _moved(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    source = arguments[0]
    asked = asks(arguments[1:], keywords)
    if result is source and not asked:
        return NOTHING
    return look.moves(source, result, asked)


def _copied(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    source = arguments[1] if len(arguments) > 1 else keywords.get("src", keywords.get("other"))
    return look.moves(source, arguments[0], asks(arguments[2:], keywords))


def _copied_each(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    destinations, sources = (*arguments, keywords.get("self"), keywords.get("src"))[:2]
    asked = asks(arguments[2:], keywords)
    pairs = zip(destinations, sources, strict=True)
    return [move for to, source in pairs for move in look.moves(source, to, asked)]


# --- one number for the host --------------------------------------------------------------------------------------


def _one_number(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    # Torch reads a single element through pinned memory of its own, and waits.
    return (Move(Direction.D2H, ONE_NUMBER, pinned=True),) if look.side(arguments[0]) == DEVICE else NOTHING


def _one_element(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    source = arguments[0]
    if look.side(source) != DEVICE:
        return NOTHING
    return (Move(Direction.D2H, source.element_size(), pinned=True),)


def _compared(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    one, other = (*arguments, keywords.get("other"))[:2]
    return NOTHING if one is other else _one_number(look, arguments, keywords, result)


def _all_elements(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    source = arguments[0]
    if look.side(source) != DEVICE:
        return NOTHING
    return (Move(Direction.D2H, source.numel() * source.element_size()),)


def _chosen(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    if len(arguments) == 1 and not keywords:
        return _one_number(look, arguments, keywords, result)  # how many places
    if look.side(result) != DEVICE:
        return NOTHING
    return [look.sent(one) for one in (*arguments, *keywords.values()) if look.side(one) == HOST]


# --- tensors made on the device from what the host has ------------------------------------------------------------


def _made(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    data = arguments[0] if arguments else keywords.get("data", keywords.get("obj"))
    if look.side(data) != NOWHERE:
        return NOTHING if result is data else look.moves(data, result, asked=False)
    if look.side(result) != DEVICE or not result.numel():
        return NOTHING  # device tensors in a list are fetched by calls that are watched themselves
    size = result.numel() * result.element_size()
    return (Move(Direction.H2D, size, pinned=bool(keywords.get("pin_memory"))),)


def _made_of(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    data: Any = arguments[0] if arguments else keywords.get("data", keywords.get("obj"))
    if type(data).__name__ == "ndarray" and data.flags.writeable and look.side(result) == DEVICE:
        import torch

        return look.moves(torch.from_numpy(data), result, asked=False)  # its memory is what is sent
    return _made(look, arguments, keywords, result)


def _made_like(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    return _made(look, arguments[1:], keywords, result)


# --- item access --------------------------------------------------------------------------------------------------


def _got(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    if look.side(arguments[0]) != DEVICE:
        return NOTHING
    return list(_key_moves(look, arguments[1], counted=True))


def _set(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    target, key, value = arguments
    of_target, of_value = look.side(target), look.side(value)
    if of_target != DEVICE:
        return (_into_host(look, target, key),) if (of_target, of_value) == (HOST, DEVICE) else NOTHING
    parts = _parts(key)
    one_value = of_value == NOWHERE or (of_value == HOST and value.dim() == 0)
    # One value for all places of a mask needs no count of them.
    moves = list(_key_moves(look, key, counted=not one_value))
    if of_value == NOWHERE:
        if any(_is_index(look, part) for part in parts) or picks_one_element(parts, target.dim()):
            moves.append(Move(Direction.H2D, target.element_size()))
    elif of_value == HOST and (not one_value or picks_one_element(parts, target.dim())):
        moves.append(look.sent(value))
    return moves


def _into_host(look: Looker, target: Any, key: Any) -> Move:
    place = target.detach()[key]
    shares = place.untyped_storage().data_ptr() == target.untyped_storage().data_ptr()
    size = place.numel() * place.element_size()
    pinned = shares and look.machine.is_pinned(target)
    return Move(Direction.D2H, size, pinned=pinned, dense=bool(place.is_contiguous()))


def _put(look: Looker, arguments: Arguments, keywords: Keywords, result: Any) -> Sequence[Move]:
    target, *rest = arguments
    if look.side(target) != DEVICE:
        return NOTHING
    indices = rest[0] if rest else keywords.get("indices", ())
    return [move for index in indices for move in _key_moves(look, index, counted=False)]


def _key_moves(look: Looker, key: Any, counted: bool) -> Iterator[Move]:
    """What the parts of a key cost. `counted`: whether the host has to know how many places a mask has."""
    for part in _parts(key):
        side = look.side(part)
        if side == HOST:
            yield from _host_index(look, part)
        elif side == DEVICE and look.is_mask(part):
            if counted:
                yield Move(Direction.D2H, ONE_NUMBER, pinned=True)
        elif side == DEVICE:
            if part.dim() == 0:
                yield Move(Direction.D2H, part.element_size(), pinned=True)
        elif _is_listing(part) and len(part):
            yes_or_no = isinstance(part[0], bool)
            yield Move(Direction.H2D, len(part) * (1 if yes_or_no else ONE_NUMBER))
            if yes_or_no and counted:
                yield Move(Direction.D2H, ONE_NUMBER, pinned=True)


def _host_index(look: Looker, part: Any) -> Iterator[Move]:
    if look.is_mask(part):
        # Its places are counted on the host, then sent from pinned memory without a wait.
        yield Move(Direction.H2D, int(part.sum()) * ONE_NUMBER * part.dim(), asked=True, pinned=True)
    elif part.dim():
        yield look.sent(part)


def _parts(key: Any) -> Sequence[Any]:
    return key if isinstance(key, tuple) else (key,)


def _is_listing(part: Any) -> bool:
    return isinstance(part, list) or type(part).__name__ == "ndarray"


def _is_index(look: Looker, part: Any) -> bool:
    """Whether a part of a key picks places by a list of them, other than by a mask on the device."""
    side = look.side(part)
    if side == NOWHERE:
        return _is_listing(part)
    return part.dim() > 0 and not (side == DEVICE and look.is_mask(part))


def picks_one_element(parts: Sequence[Any], axes: int) -> bool:
    """Whether a key of these parts names a single element of a tensor with so many axes."""
    numbers = [part for part in parts if part is not Ellipsis]
    return len(numbers) == axes and all(_is_number(part) for part in numbers)


def _is_number(part: Any) -> bool:
    if part is None or isinstance(part, (bool, slice, list)):
        return False
    return getattr(part, "ndim", 0) == 0 and hasattr(part, "__index__")


# --- the table ----------------------------------------------------------------------------------------------------

_TO = ("to", "cuda", "cpu", "xpu", "npu", "hpu", "musa", "type", "type_as")
_ELEMENT = ("item", "__bool__", "__int__", "__float__", "__complex__", "__index__", "is_nonzero")
_COUNT = ("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "allclose")
_GROUPS = ("__repr__", "__format__", "__contains__", "__deepcopy__", "__reduce_ex__")

ENTRIES: tuple[Entry, ...] = (
    *(Entry("Tensor", name, _moved) for name in _TO),
    Entry("Tensor", "copy_", _copied),
    Entry("torch", "_foreach_copy_", _copied_each),
    *(Entry("Tensor", name, _one_element) for name in _ELEMENT),
    Entry("torch", "is_nonzero", _one_element),
    *(Entry("Tensor", name, _all_elements) for name in ("tolist", "numpy")),
    *(Entry(owner, name, _one_number) for owner in ("Tensor", "torch") for name in _COUNT),
    *(Entry(owner, "equal", _compared) for owner in ("Tensor", "torch")),
    *(Entry(owner, "where", _chosen) for owner in ("Tensor", "torch")),
    Entry("torch", "tensor", _made),
    *(Entry("torch", name, _made_of) for name in ("as_tensor", "asarray")),
    Entry("Tensor", "new_tensor", _made_like),
    Entry("Tensor", "__getitem__", _got, plain_keys=True),
    Entry("Tensor", "__setitem__", _set),
    *(Entry("Tensor", name, _put) for name in ("index_put_", "index_put")),
    *(Entry("Tensor", name) for name in _GROUPS),
    *(Entry("Module", name) for name in ("to", "cuda", "cpu", "xpu", "load_state_dict")),
    Entry("Optimizer", "load_state_dict"),
)
