"""Call the project's own function that pins and sends.

Before:

    mask = mask.contiguous().to(device, non_blocking=True)

After:

    mask = async_tensor_h2d(mask.contiguous(), device)

The helper is the one that `transfer-helper` names, or a function of the project that pins its argument where an
accelerator is present, sends it to its device with `non_blocking=`, and does nothing else: no cast, no test of its own,
no arithmetic. Safe: the same values arrive in the same dtype, and the helper brings the project's own guard along.

Does not pay for a large tensor per step: each copy in flight needs its own page-locked block.
"""

from __future__ import annotations

from h2dlint.fixers._pin import obstacle, pin_applicability
from h2dlint.fixers._snapshot import needs_dense
from h2dlint.fixers._text import joined, receiver_end, rewritten
from h2dlint.fixers._transfer import Transfer, device_text, is_device, transfer_of

from h2dlint.facts.copies import Direction
from h2dlint.finding import Edit, Fix
from h2dlint.fixing import Helper, Refusal, Site
from h2dlint.fixing.helpers import asks_its_device

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
    if more is None:
        return None
    return obstacle(site) or _called(site, transfer, helper, more)


def _called(site: Site, transfer: Transfer, helper: Helper, more: str) -> Fix:
    start, stop = site.document.lines.offsets(site.call)
    dense = ".contiguous()" if needs_dense(site, transfer) else ""
    behind = receiver_end(site, site.call)
    edits = [Edit(start, start, f"{helper.name}("), Edit(behind, stop, f"{dense}, {more})")]
    if "\n" in site.text[start:behind] and joined(site.source(site.statement)) is None:
        edits = [Edit(start, stop, _exploded(site, helper.name, site.text[start:behind] + dense, more))]
    return site.fix(TITLE, pin_applicability(site), [rewritten(site, edits), *helper.edits])


def _exploded(site: Site, name: str, source: str, more: str) -> str:
    """The call with each argument on lines of its own, for a source that spans several lines as it is."""
    line = site.document.lines.line(site.call.lineno)
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    unit, newline = site.document.indent_unit, site.document.newline
    shifted = source.replace("\n", f"\n{unit}")
    return f"{name}({newline}{outer}{unit}{shifted},{newline}{outer}{unit}{more},{newline}{outer})"


def _arguments(site: Site, transfer: Transfer, helper: Helper) -> str | None:
    """What follows the tensor in the call; None where the helper cannot take it."""
    assert transfer.device is not None
    device = device_text(site, transfer.device)
    if helper.definition is None:
        return device if transfer.dtype is None else None
    spec = helper.definition.args
    plain = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    named = [argument.arg for argument in spec.kwonlyargs]
    places = [name for name in (*plain[1:], *named) if "dev" in name.lower()]
    if not places:
        return None
    shown = device.endswith(".device") or device.startswith("torch.device(")
    if asks_its_device(helper.definition, places[0]) and not shown:
        return None  # a name may hold a string
    text = device if plain[1:2] == places[:1] else f"{places[0]}={device}"
    if transfer.dtype is None:
        return text
    return f"{text}, dtype={site.source(transfer.dtype)}" if "dtype" in (*plain, *named) else None
