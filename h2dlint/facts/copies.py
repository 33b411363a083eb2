"""The record of one copy between host and device: what `h2dlint copies` lists and what every rule looks at.

Pure data. `verdict.py` fills it in; nothing here knows torch.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Verdict(str, Enum):
    """What a copy does (docs/design.md, "The answers")."""

    FAKE_ASYNC = "fake-async"
    ASYNC = "async"
    CONDITIONAL = "conditional"
    BLOCKING = "blocking"
    NO_TRANSFER = "no-transfer"
    UNPROVEN = "unproven"


class Direction(str, Enum):
    """Which way the bytes go."""

    H2D = "h2d"
    D2H = "d2h"
    D2D = "d2d"
    H2H = "h2h"
    UNKNOWN = "unknown"


class Cause(str, Enum):
    """Why a copy that asked to be asynchronous is not (FACTS, "Which copies are really asynchronous")."""

    PAGEABLE = "pageable"
    GAPPED = "gapped"
    BROADCAST = "broadcast"
    CONFIG = "config"


class Pitfall(str, Enum):
    """A mistake around a copy that is none of its verdict: `check` looks for those that a selected rule names."""

    PIN_SEEN = "pin-seen"
    """Nothing is wrong with a pin on this way: what is wrong on another is not so whichever way the program comes."""
    PIN_KEEPS_GAPS = "pin-keeps-gaps"
    PIN_DISCARDED = "pin-discarded"
    MOVE_DISCARDED = "move-discarded"
    PIN_NO_SNAPSHOT = "pin-no-snapshot"
    PIN_ON_DEVICE = "pin-on-device"
    PIN_FOR_DEVICE = "pin-for-device"
    PIN_UNDER_DEVICE = "pin-under-device"
    PIN_OF_DEVICE_BATCH = "pin-of-device-batch"
    PIN_IN_WORKER = "pin-in-worker"
    PIN_IN_CAPTURE = "pin-in-capture"
    PIN_COMPILED = "pin-compiled"
    HOST_INDEX = "host-index"
    HOST_DATA = "host-data"
    HOST_VALUE = "host-value"
    MIRROR_UNUSED = "mirror-unused"


class Pinning(str, Enum):
    """What one link of a chain does to pinned memory, where that matters later."""

    LOST = "lost"
    KEPT_GAPS = "kept-gaps"
    LEFT_OUT = "left-out"
    """A loader pins its batches, but not this part of them."""


class HazardKind(str, Enum):
    """What goes wrong because a copy really is asynchronous (FACTS, "Pinning mistakes")."""

    REWRITTEN = "its source is written while it may still be read"
    READ_EARLY = "its result is read before it has arrived"
    INTO_TEMPORARY = "it fills a temporary"
    ALIAS_DROPPED = "nothing keeps its memory"


class Span(Struct, frozen=True):
    """A range of source text: lines and columns are 1-based, columns count characters, the end column is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


class Place(Struct, frozen=True):
    """One link of the chain that made a value what it is."""

    path: str
    span: Span
    label: str
    """One word for the reveal: `zeros`, `numpy`, `cat`, `slice`."""
    message: str
    """A clause for the reader: `allocated without pin_memory`, `column slice leaves gaps`."""
    pinning: Pinning | None = None
    """The pin is lost here, or does not help here."""


class Branch(Struct, frozen=True):
    """One of the ways a conditional copy can go: a path, a caller or a configuration."""

    fake: bool | None
    """True: fake-async on this way; False: not; None: cannot be shown."""
    text: str
    """`when `tail` is true (line 10)`, `called from line 20`, `by default`."""
    by_default: bool
    """Whether this is what happens when nobody changes a switch."""
    place: Place | None


class Next(str, Enum):
    """What is done with the pageable result of a download."""

    PINNED = "pinned"
    """It is copied once more, into pinned memory."""
    SENT = "sent"
    """It is kept, and sent to the device again."""
    SENT_ASKING = "sent-asking"
    """The same, with `non_blocking=True`."""


class Follows(Struct, frozen=True):
    """What follows a download, and where."""

    what: Next
    place: Place


class Hazard(Struct, frozen=True):
    """Something that goes wrong with a copy although, or because, it is asynchronous."""

    kind: HazardKind
    place: Place
    """Where the other half happens: the write, the read, the end of the memory."""
    certain: bool
    """Whether the code shows it, whatever is passed and configured."""
    across_calls: bool = False
    """The other half comes with a later call, and who makes that is not seen."""
    missed: Place | None = None
    """A wait in between that is for another stream."""


class Copy(Struct, frozen=True):
    """One call that moves, or may move, data between host and device."""

    path: str
    span: Span
    """The call expression (for item access: the subscript)."""
    function: str
    """Dotted name of the enclosing function inside its module, `<module>` at the top level."""
    call: str
    """The last name of the callee: `to`, `cuda`, `copy_`, `item`, `__getitem__`, `tensor`."""
    asked: bool
    """Whether the call names non_blocking in any form that is not provably False."""
    direction: Direction
    verdict: Verdict
    causes: tuple[Cause, ...]
    reveal: str
    """`cpu | pageable | gapped | numpy@4 -> cat@9 -> here`."""
    trace: tuple[Place, ...]
    """The chain, oldest link first, without the copy itself."""
    branches: tuple[Branch, ...] = ()
    """For a conditional copy: one entry per way, fake ones first."""
    from_numpy: bool = False
    """The pageable memory belongs to an ndarray."""
    index_built: bool = False
    """The source is made of arange, zeros and their kin alone: the device can make it itself."""
    max_bytes: int | None = None
    """An upper bound of the bytes moved, where the code shows one."""
    source_text: str = ""
    """The source operand as written, for messages; empty when it is not one expression."""
    unproven: str = ""
    """For an unproven copy: what could not be followed."""
    to_accelerator: bool = False
    """The destination is shown to be an accelerator: without one the program cannot get here."""
    layout: str = ""
    """How the deciding side lies in its memory: a layout form, such as `dense` or `gapped`."""
    rows: int | None = None
    """The size of the deciding side's first axis, where it is a constant of the program."""
    dtype: str = ""
    """The element type of the deciding side, by its last name, where it is known."""
    follows: Follows | None = None
    """For a download that nobody asked to be asynchronous: what is done with its pageable result."""
    lost_pin: Place | None = None
    """Where a pinned tensor was turned into the pageable one that is copied."""
    kept_gaps: Place | None = None
    """The `.pin_memory()` that kept the gaps, or the order, for which the copy is not asynchronous."""
    captured: Place | None = None
    """The capture of a graph that the copy, which goes through pageable memory, stands in: torch refuses it there."""
    pitfall: Pitfall | None = None
    """What is wrong here beside the verdict. Such a record is no entry of the inventory."""
    certain: bool = True
    """For a pitfall: whether the code proves it; else it hangs on what the message names."""
    related: tuple[Place, ...] = ()
    """For a pitfall: other places that belong to it, such as the write that a snapshot was meant for."""
    hazards: tuple[Hazard, ...] = ()
    """What goes wrong with it beside its verdict, the certain ones first."""
