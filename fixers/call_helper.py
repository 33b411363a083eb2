"""Call the project's own function that pins and sends.

Before:

    mask = mask.contiguous().to(device, non_blocking=True)

After:

    mask = async_tensor_h2d(mask.contiguous(), device)

The helper is the one that `transfer-helper` names, or a function of the project that pins its argument where an
accelerator is present, sends it to its device with `non_blocking=`, and does nothing else: no cast, no test of its own,
no arithmetic, no decorator. Safe: the same values arrive in the same dtype, and the helper brings the project's own
guard along. Refused where the call that goes holds a comment, and where the helper must be given more than there is.

Does not pay for a large tensor per step: each copy in flight needs its own page-locked block.
"""

from __future__ import annotations

import ast
import io
import tokenize

from h2dlint.fixers._pin import obstacle, pin_applicability
from h2dlint.fixers._snapshot import needs_dense
from h2dlint.fixers._text import joined, receiver_end, rewritten
from h2dlint.fixers._transfer import Transfer, device_text, is_device, transfer_of

from h2dlint.facts.copies import Direction
from h2dlint.finding import Edit, Fix
from h2dlint.fixing import Helper, Refusal, RefusedError, Site
from h2dlint.fixing.helpers import asks_its_device, default_of, required
from h2dlint.fixing.site import holds_long_string

TITLE = "Call the project's transfer helper"
ORDER = 40


def fix(site: Site) -> Fix | Refusal | None:
    """Replace the transfer with a call of the helper."""
    transfer = transfer_of(site)
    if site.copy.direction is not Direction.H2D or transfer is None or transfer.into is not None or not transfer.plain:
        return None
    if transfer.device is None or not is_device(site, transfer.device):
        return None
    helper = site.helper()
    if helper is None:
        return None
    more = _arguments(site, transfer, helper)
    if more is None or isinstance(more, Refusal):
        return more
    if _holds_comment(site.text[receiver_end(site, site.call) : site.document.lines.offsets(site.call)[1]]):
        return Refusal("a comment in the call would be lost with it")
    return obstacle(site) or _called(site, transfer, helper, more)


def _called(site: Site, transfer: Transfer, helper: Helper, more: str) -> Fix:
    start, stop = site.document.lines.offsets(site.call)
    dense = ".contiguous()" if needs_dense(site, transfer) else ""
    behind = receiver_end(site, site.call)
    edits = [Edit(start, start, f"{helper.name}("), Edit(behind, stop, f"{dense}, {more})")]
    source = site.text[start:behind]
    if "\n" in source and joined(site.source(site.statement)) is None:
        if holds_long_string(f"({source})"):
            raise RefusedError("a string over several lines would change with its indentation")
        edits = [Edit(start, stop, _exploded(site, helper.name, source + dense, more))]
    return site.fix(TITLE, pin_applicability(site), [rewritten(site, edits), *helper.edits])


def _holds_comment(behind: str) -> bool:
    """Whether what follows a receiver, `.to(device)  # why`, holds a comment; True too where that cannot be told."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(f"(_{behind}\n)").readline))
    except (tokenize.TokenError, SyntaxError):
        return True
    return any(token.type == tokenize.COMMENT for token in tokens)


def _exploded(site: Site, name: str, source: str, more: str) -> str:
    """The call with each argument on lines of its own, for a source that spans several lines as it is."""
    line = site.document.lines.line(site.call.lineno)
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    unit, newline = site.document.indent_unit, site.document.newline
    shifted = source.replace("\n", f"\n{unit}")
    return f"{name}({newline}{outer}{unit}{shifted},{newline}{outer}{unit}{more},{newline}{outer})"


def _arguments(site: Site, transfer: Transfer, helper: Helper) -> str | Refusal | None:
    """What follows the tensor in the call; None or the reason where the helper cannot take it."""
    assert transfer.device is not None
    device = device_text(site, transfer.device)
    definition = helper.definition
    if definition is None:
        return device if transfer.dtype is None else None
    spec = definition.args
    plain = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    named = [argument.arg for argument in (*spec.args, *spec.kwonlyargs) if argument.arg not in plain[:1]]
    places = [name for name in (*plain[1:], *named) if "dev" in name.lower()]
    if not plain or not places:
        return Refusal(f"{_named(site, helper)} takes no {'device' if plain else 'tensor by position'}")
    given = {plain[0], places[0], *(["dtype"] if transfer.dtype is not None else [])}
    if lacking := [name for name in required(definition) if name not in {*given, "non_blocking"}]:
        return Refusal(f"{_named(site, helper)} requires `{lacking[0]}`, which this copy does not say")
    shown = device.endswith(".device") or device.startswith("torch.device(")
    if asks_its_device(definition, places[0]) and not shown:
        return None  # a name may hold a string
    words = {} if plain[1:2] == places[:1] else {places[0]: device}
    if transfer.dtype is not None:
        words["dtype"] = site.source(transfer.dtype)
    if _waits_unless_told(definition):
        words["non_blocking"] = "True"
    if not set(words) <= set(named):
        return None
    return ", ".join([*([] if places[0] in words else [device]), *(f"{word}={text}" for word, text in words.items())])


def _named(site: Site, helper: Helper) -> str:
    configured = site.options.helper
    return f"`transfer-helper` names `{configured}`, which" if configured else f"`{helper.name}`"


def _waits_unless_told(definition: ast.FunctionDef) -> bool:
    """Whether a helper has to be told not to wait."""
    default = default_of(definition, "non_blocking")
    spec = definition.args
    if all(argument.arg != "non_blocking" for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)):
        return False
    return not (isinstance(default, ast.Constant) and default.value is True)
