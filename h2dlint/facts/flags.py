"""Truth values: which conditions hold wherever an accelerator is present, which ones a switch decides.

`pin_memory=flag` pins when the flag is an availability test; with an opt-out switch whose default leaves pinning on
it pins by default; with any other configuration it pins on some runs only (docs/design.md, "Flags").
"""

from __future__ import annotations

import ast
import re
from enum import Enum
from functools import lru_cache

from h2dlint.facts.domain import (
    Array,
    Available,
    Choice,
    Class,
    ConfigFlag,
    Const,
    DeviceValue,
    DType,
    Function,
    Instance,
    Loader,
    Mapping,
    Method,
    ModuleValue,
    PinnedTest,
    Sequence,
    Unknown,
    Value,
)
from h2dlint.facts.torch_api import AVAILABILITY


class Truth(Enum):
    """What a condition comes to, on a machine with an accelerator."""

    TRUE = "true"
    AVAILABLE = "true wherever an accelerator is present"
    SOFT_TRUE = "true by default"
    SOFT_FALSE = "false by default"
    CONFIG = "a configuration decides"
    FALSE = "false"
    UNKNOWN = "unknown"


_PIN_NAME = re.compile(r"(?i)(?:^|_)pin(?:ned|ning|nable)?(?:_|$)")
_ABILITY = re.compile(r"(?i)avail|support|enable|capab|possible|able$|^_?(?:has|can|use|should|want)_")
_ABILITY_CONSTANT = re.compile(
    r"^_?(?:IS_|HAS_|CAN_|USE_)?PIN(?:NED|NING)?"
    r"(?:$|_(?:MEM(?:ORY)?|HOST|CPU|BUFFERS?|OK|ENABLED|AVAILABLE|SUPPORTED)(?:_|$))"
)
_OFF_NAME = re.compile(r"(?i)disable|no_pin|without|skip")
_WSL = re.compile(r"(?i)(?:^|_)wsl\d?(?:_|$)")


@lru_cache(maxsize=4096)
def is_availability_name(dotted: str) -> bool:
    """Whether a name outside reach says "pinned memory can be had here": PIN_MEMORY, is_pin_memory_available,
    pinning_supported.
    """
    last = dotted.rpartition(".")[2]
    if dotted in AVAILABILITY:
        return True
    if not _PIN_NAME.search(last) or _OFF_NAME.search(last):
        return False
    return bool(_ABILITY.search(last) or _ABILITY_CONSTANT.match(last))


_DECISION = re.compile(r"(?i)^_?(?:use|should|want)_")


def is_decision_name(name: str) -> bool:
    """Whether a function of that name says not just whether memory can be pinned but whether it should be."""
    return _DECISION.match(name) is not None


@lru_cache(maxsize=4096)
def is_wsl_name(dotted: str) -> bool:
    """Whether a name tests for Windows Subsystem for Linux, where pinning is not to be had."""
    return bool(_WSL.search(dotted.rpartition(".")[2]))


_OBJECTS = frozenset({Function, Class, Instance, Method, ModuleValue, DType, DeviceValue, Loader})
"""What is true whatever it holds."""


def truth(value: Value) -> Truth:
    """The truth of a value as a condition or a flag."""
    kind = type(value)
    if kind is Unknown:
        return Truth.UNKNOWN
    if isinstance(value, Const):
        holds = bool(value.value)
        if value.soft:
            return Truth.SOFT_TRUE if holds else Truth.SOFT_FALSE
        return Truth.TRUE if holds else Truth.FALSE
    if kind is Available:
        return Truth.AVAILABLE
    if kind is ConfigFlag:
        return Truth.CONFIG
    if kind in _OBJECTS:
        return Truth.TRUE
    if isinstance(value, Array):
        return Truth.TRUE if value.kind == "module" else Truth.UNKNOWN
    if isinstance(value, Sequence) and value.items is not None:
        return Truth.TRUE if value.items else Truth.UNKNOWN
    if isinstance(value, Mapping) and value.items:
        return Truth.TRUE
    if isinstance(value, Choice):
        found = {truth(way.value) for way in value.alternatives}
        return found.pop() if len(found) == 1 else Truth.UNKNOWN
    return Truth.UNKNOWN


def is_flag(value: Value) -> bool:
    """Whether a value is a bare truth value, so that `and`, `or` and `not` of it are truth values again."""
    if isinstance(value, Const):
        return isinstance(value.value, bool)
    return isinstance(value, (Available, ConfigFlag, PinnedTest))


def of_truth(found: Truth, origin: ast.AST | None) -> Value | None:
    """The flag value of a truth; `None` when it is unknown."""
    if found is Truth.AVAILABLE:
        return Available()
    if found is Truth.CONFIG:
        return ConfigFlag(origin)
    if found is Truth.UNKNOWN:
        return None
    return Const(found in (Truth.TRUE, Truth.SOFT_TRUE), found in (Truth.SOFT_TRUE, Truth.SOFT_FALSE), origin)


_STRENGTH = [Truth.FALSE, Truth.SOFT_FALSE, Truth.CONFIG, Truth.UNKNOWN, Truth.SOFT_TRUE, Truth.AVAILABLE, Truth.TRUE]


def conjunction(parts: list[Truth]) -> Truth:
    """`a and b`: the weakest part decides; an availability test beside something unknown is a configuration."""
    weakest = min(parts, key=_STRENGTH.index)
    if weakest is Truth.UNKNOWN and Truth.AVAILABLE in parts:
        return Truth.CONFIG
    return weakest


def disjunction(parts: list[Truth]) -> Truth:
    """`a or b`: the strongest part decides."""
    strongest = max(parts, key=_STRENGTH.index)
    if strongest is Truth.SOFT_TRUE and Truth.UNKNOWN in parts:
        return Truth.SOFT_TRUE
    if Truth.UNKNOWN in parts and strongest in (Truth.CONFIG, Truth.SOFT_FALSE):
        return Truth.UNKNOWN
    return strongest


_OPPOSITE = {
    Truth.TRUE: Truth.FALSE,
    Truth.AVAILABLE: Truth.FALSE,
    Truth.SOFT_TRUE: Truth.SOFT_FALSE,
    Truth.SOFT_FALSE: Truth.SOFT_TRUE,
    Truth.CONFIG: Truth.CONFIG,
    Truth.FALSE: Truth.TRUE,
    Truth.UNKNOWN: Truth.UNKNOWN,
}


def negation(part: Truth) -> Truth:
    """`not a`."""
    return _OPPOSITE[part]


DEFINITELY_TRUE = frozenset({Truth.TRUE, Truth.AVAILABLE})
"""A branch on these is always taken where an accelerator is present."""
