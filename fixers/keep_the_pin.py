"""Keep a pinned tensor that was thrown away.

Before:

    host = torch.rand(n, 4096)
    host.pin_memory()

After:

    host = torch.rand(n, 4096)
    host = host.pin_memory()

Safe for a local tensor that a factory of torch has allocated here and that nothing has read yet: nobody else holds its
old memory. Unsafe for others, views and arrays among them: an alias keeps the pageable memory, and later writes through
one of them do not show in the other.

Refused for the variable of a loop, which is bound anew in the next round, and for a parameter of a module, which takes
no plain tensor.
"""

from __future__ import annotations

import ast
import re

from h2dlint.fixers._scope import binds, is_shared, names_in, parameters, position, scope_of, statements

from h2dlint.facts.copies import Pitfall
from h2dlint.facts.torch_api import FACTORIES, Effect
from h2dlint.finding import Applicability, Edit, Fix
from h2dlint.fixing import Refusal, Site

TITLE = "Keep the pinned tensor"
ORDER = 46
PITFALLS = (Pitfall.PIN_DISCARDED,)


def fix(site: Site) -> Fix | Refusal | None:
    """Bind the result to the name that was meant to be pinned."""
    func = site.call.func
    if site.copy.pitfall not in PITFALLS or not isinstance(func, ast.Attribute):
        return None
    if not isinstance(site.statement, ast.Expr):
        return None
    kept = func.value
    if not isinstance(kept, (ast.Name, ast.Attribute)):
        return Refusal("what a container holds is best pinned where it is put in")
    if isinstance(kept, ast.Name) and _is_loop_variable(site, kept.id):
        return Refusal("the loop binds this variable anew: pin what it loops over")
    if isinstance(kept, ast.Attribute) and _is_parameter(site, kept.attr):
        return Refusal("a parameter of a module takes no plain tensor: pin its data where it is made")
    start, _ = site.document.lines.offsets(site.statement)
    edit = Edit(start, start, f"{site.source(kept)} = ")
    return site.fix(TITLE, Applicability.SAFE if _is_alone(site, kept) else Applicability.UNSAFE, [edit])


def _is_loop_variable(site: Site, name: str) -> bool:
    return any(
        isinstance(one, (ast.For, ast.AsyncFor)) and name in binds(one.target)
        for one in site.document.around(site.statement)
    )


def _is_alone(site: Site, kept: ast.expr) -> bool:
    """Whether it is a local variable, allocated by one call, that nothing has read before this statement."""
    scope = scope_of(site)
    if not isinstance(kept, ast.Name) or isinstance(scope, ast.Module):
        return False
    if kept.id in parameters(scope) or is_shared(scope, kept.id):
        return False
    made = [one for one in statements(scope) if isinstance(one, ast.Assign) and kept.id in binds(one)]
    read = [one for one in names_in([scope]) if one.id == kept.id and isinstance(one.ctx, ast.Load) and one is not kept]
    earlier = any(position(one) < position(kept) for one in read)
    return len(made) == 1 and _allocates(made[0].value) and not earlier


def _allocates(made: ast.expr) -> bool:
    """Whether an expression is a call of a factory that shares memory with nothing: `torch.rand(n)`."""
    func = made.func if isinstance(made, ast.Call) else None
    if not (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "torch"):
        return False
    row = FACTORIES.get(func.attr)
    return row is not None and row.effect in (Effect.FACTORY, Effect.LIKE)


def _is_parameter(site: Site, attribute: str) -> bool:
    """Whether the module's text makes an attribute of that name a parameter."""
    assigned = rf"\.{attribute}\s*(?::[^=\n]*)?=\s*(?:torch\.)?(?:nn\.)?Parameter\("
    registered = rf"register_parameter\(\s*[\"']{attribute}[\"']"
    return re.search(f"{assigned}|{registered}", site.document.text) is not None
