"""Copy a pinned buffer where pinning it again was meant to.

Before:

    sent.append(host.pin_memory().to("cuda", non_blocking=True))

After:

    sent.append(torch.empty_like(host, pin_memory=True).copy_(host).to("cuda", non_blocking=True))

Pinning pinned memory returns the buffer itself; the next write then changes what a queued copy still has to read. The
copy is dense for a view with gaps, too.

Safe inside the call that sends it: what arrives is what the buffer held, as it did whenever the GPU kept up. Unsafe
where the result has a name of its own, which may be meant as an alias. Refused where the buffer is not a short
expression without calls, since it is written twice.
"""

from __future__ import annotations

import ast

from h2dlint.fixers._snapshot import is_short

from h2dlint.facts.copies import Pitfall
from h2dlint.finding import Applicability, Fix
from h2dlint.fixing import Refusal, Site

TITLE = "Copy the pinned buffer instead of pinning it again"
ORDER = 48
PITFALLS = (Pitfall.PIN_NO_SNAPSHOT,)


def fix(site: Site) -> Fix | Refusal | None:
    """A pinned copy in place of the pin that is none."""
    func = site.call.func
    if site.copy.pitfall not in PITFALLS or not isinstance(func, ast.Attribute):
        return None
    if not is_short(site, func.value):
        return Refusal("the buffer is a long expression: give it a name, and copy that")
    name = site.source(func.value)
    text = f"{site.torch_name()}.empty_like({name}, pin_memory=True).copy_({name})"
    safe = Applicability.SAFE if _is_sent_at_once(site) else Applicability.UNSAFE
    return site.fix(TITLE, safe, [site.replace(site.call, text)])


def _is_sent_at_once(site: Site) -> bool:
    return any(
        isinstance(one, ast.Call) and any(word.arg == "non_blocking" for word in one.keywords)
        for one in ast.walk(site.statement)
        if isinstance(one, ast.Call) and site.call in ast.walk(one)
    )
