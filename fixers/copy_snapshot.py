"""Copy from a pinned copy of the buffer, made for this one copy, where the buffer is written again while it is read.

Before:

    self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)

After:

    src = self.cpu[:n]
    src = torch.empty_like(src, pin_memory=PIN_MEMORY).copy_(src)
    self.gpu[:n].copy_(src, non_blocking=True)

The buffer is pinned, so `.pin_memory()` would be the buffer itself and no snapshot: the copy is a real one. It may be
dropped at once, since torch keeps pinned memory until the copy from it is done.

Safe: what arrives is what the buffer held when the copy was issued. Unsafe where the next write comes with a call that
is not seen: there the caller may wait, and the snapshot would be one more host copy for nothing.

An event that is recorded after the copy and waited for before the next write is as right, and better for large
buffers; where to wait is not ours to choose.
"""

from __future__ import annotations

from h2dlint.fixers._pin import obstacle
from h2dlint.fixers._transfer import transfer_of
from h2dlint.fixers.pin_snapshot import Snapshot

from h2dlint.facts.copies import HazardKind
from h2dlint.finding import Applicability, Fix
from h2dlint.fixing import Refusal, Site

TITLE = "Copy from a pinned copy of the buffer"
ORDER = 45
HAZARDS = True


def fix(site: Site) -> Fix | Refusal | None:
    """Send a copy of what the next step writes."""
    hazard = next((one for one in site.copy.hazards if one.kind is HazardKind.REWRITTEN), None)
    transfer = transfer_of(site)
    if hazard is None or transfer is None:
        return None
    applicability = Applicability.UNSAFE if hazard.across_calls else Applicability.SAFE
    return obstacle(site) or Snapshot(site, transfer, TITLE, applicability, real=True).fix()
