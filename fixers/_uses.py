"""What a function does with a local tensor around its copy: reads it, writes it, renames it, lets it out of sight."""

from __future__ import annotations

import ast
from enum import Enum

from h2dlint.fixers._factory import Origin
from h2dlint.fixers._scope import binds, end, loops_around, names_in, position, scope_of, words
from h2dlint.fixers._torch_names import torch_if_imported
from msgspec import Struct

from h2dlint.facts.torch_api import METHODS, NUMPY_FRESH, NUMPY_VIEWS, Effect
from h2dlint.fixing import Site
from h2dlint.fixing.names import last_name

_READERS = words("len print range int float bool str repr id isinstance type max min sum hash")
_ALIASES = frozenset(
    {Effect.VIEW, Effect.DENSIFY, Effect.CAST, Effect.PIECES, Effect.NUMPY, Effect.INPLACE, Effect.TRANSFER, Effect.PIN}
)
_COMPUTES = frozenset({Effect.FRESH, Effect.FRESH_PAIR, Effect.HOST_READ})
_ADDRESSES = words("data_ptr storage untyped_storage record_stream register_hook backward")
"""Queries after which others know the memory."""
_NUMPY_WRITES = words("fill sort partition put itemset resize setfield setflags")
_OF_CONTAINERS = words("add index pop remove update")
"""Methods of sets and lists that tensors have too, or numbers of arguments that keep what they are given."""


class Role(Enum):
    """What a use of a tensor does with its memory."""

    QUERY = "asks for its shape or the like"
    READ = "reads it"
    WRITE = "writes it"
    ALIAS = "gives it another name"
    ESCAPES = "lets it out of sight"


class Use(Struct, frozen=True):
    """One use of a tensor's name, as far as it goes within its statement."""

    role: Role
    writes: bool = False
    """Whether it is written on the way: `x.view(-1).zero_()`."""
    names: tuple[str, ...] = ()
    """The names that stand for the same memory from there on."""


class Uses:
    """What a function does with a local tensor around its copy, through other names for the same memory too."""

    def __init__(self, site: Site, origin: Origin, source: ast.expr) -> None:
        self.site = site
        self.escapes: ast.Name | None = None
        """Where it gets out of the function's sight."""
        self.rewrites: ast.Name | None = None
        """Where it is written while the copy may be queued."""
        self.lent = False
        """Whether it gets out before the copy: then others may use it at any time."""
        self.late: list[ast.Name] = []
        """Uses behind the copy, by position."""
        self._aliases = [origin.name] if origin.name else []
        self._moved = set(ast.walk(source))
        self._after = end(site.statement)
        self._rebound = binds(site.statement)
        outer = set(loops_around(site, origin.statement))
        self._loops = [loop for loop in loops_around(site, site.statement) if loop not in outer]
        for alias in self._aliases:  # grows while it runs
            for name in names_in([scope_of(site)]):
                if name.id == alias and isinstance(name.ctx, ast.Load):
                    self._enter(name)
        self.late.sort(key=position)

    def _enter(self, name: ast.Name) -> None:
        parents = self.site.document.around(name)
        if name in self._moved:
            return
        behind = position(name) > self._after
        late = behind or self.site.statement in parents
        if behind and name.id in self._rebound:
            return
        use = _use_of(name, self.site)
        if late and use.role is not Role.QUERY:
            self.late.append(name)
        if use.writes and (late or any(loop in parents for loop in self._loops)):
            self.rewrites = self.rewrites or name
        if use.role is Role.ESCAPES:
            self.escapes = self.escapes or name
            self.lent = self.lent or not late
        self._aliases += [new for new in use.names if new not in self._aliases]


def _use_of(name: ast.Name, site: Site) -> Use:
    """Follow a name outwards through views of it, to what is done with them."""
    node: ast.AST = name
    writes = False
    while True:
        holder = site.document.parents[node]
        if isinstance(holder, ast.Subscript) and holder.value is node:
            if not isinstance(holder.ctx, ast.Load):
                return Use(Role.WRITE, writes=True)
            node = holder
        elif isinstance(holder, ast.Attribute):
            outer = site.document.parents[holder]
            called = isinstance(outer, ast.Call) and outer.func is holder
            if not isinstance(holder.ctx, ast.Load):
                return Use(Role.ESCAPES)
            role = _role_of(holder.attr)
            if role is Role.WRITE and called:
                writes = True
            elif role is not Role.ALIAS:
                return Use(Role.ESCAPES if role is Role.WRITE else role, writes)
            node = outer if called else holder
        else:
            return _end_of(node, holder, site, writes)


def _role_of(attribute: str) -> Role:
    """What a tensor's or an array's method or attribute does with its memory."""
    if attribute in _NUMPY_WRITES or (attribute.endswith("_") and not attribute.endswith("__")):
        return Role.WRITE
    row = METHODS.get(attribute)
    if attribute in NUMPY_VIEWS or (row is not None and row.effect in _ALIASES):
        return Role.ALIAS
    if row is not None and row.effect is Effect.QUERY:
        return Role.ESCAPES if attribute in _ADDRESSES else Role.QUERY
    computes = attribute in NUMPY_FRESH or (row is not None and row.effect in _COMPUTES)
    return Role.READ if computes else Role.ESCAPES


def _end_of(node: ast.AST, holder: ast.AST, site: Site, writes: bool) -> Use:
    """What becomes of an expression that is the tensor or a view of it."""
    if isinstance(holder, (ast.Assign, ast.AnnAssign)):
        targets = holder.targets if isinstance(holder, ast.Assign) else [holder.target]
        names = [item for target in targets for item in _items(target)]
        plain = [item.id for item in names if isinstance(item, ast.Name)]
        return Use(Role.ALIAS if len(plain) == len(names) else Role.ESCAPES, writes, tuple(plain))
    if isinstance(holder, ast.AugAssign):
        return Use(Role.WRITE, writes=True) if holder.target is node else Use(Role.READ, writes)
    if isinstance(holder, ast.keyword):
        call = site.document.parents[holder]
        if holder.arg == "out":
            return Use(Role.WRITE, writes=True)
        return Use(_given_to(call, node, site), writes)
    if isinstance(holder, ast.Call):
        if holder.args and holder.args[0] is node and last_name(holder.func) == "copyto":
            return Use(Role.WRITE, writes=True)
        return Use(_given_to(holder, node, site), writes)
    if isinstance(holder, (ast.List, ast.Tuple)):
        outer = site.document.parents[holder]
        return Use(_given_to(outer, holder, site), writes)
    reads = isinstance(
        holder,
        (ast.BinOp, ast.UnaryOp, ast.Compare, ast.FormattedValue, ast.Expr, ast.Slice, ast.Subscript, ast.Delete),
    ) or (isinstance(holder, (ast.If, ast.While, ast.IfExp, ast.Assert)) and holder.test is node)
    return Use(Role.READ if reads else Role.ESCAPES, writes)


def _items(target: ast.expr) -> list[ast.expr]:
    return list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _given_to(call: ast.AST, argument: ast.AST, site: Site) -> Role:
    """What a call does with an argument that is the tensor, or holds it."""
    if not isinstance(call, ast.Call):
        return Role.ESCAPES
    func = call.func
    if isinstance(func, ast.Name):
        return Role.READ if func.id in _READERS else Role.ESCAPES
    if not isinstance(func, ast.Attribute):
        return Role.ESCAPES
    base = func.value.id if isinstance(func.value, ast.Name) else ""
    if base in ("np", "numpy"):
        return Role.READ if func.attr in NUMPY_FRESH else Role.ESCAPES
    row = METHODS.get(func.attr)
    if base == torch_if_imported(site):
        return Role.READ if func.attr == "tensor" or (row is not None and row.effect in _COMPUTES) else Role.ESCAPES
    other = func.attr not in _OF_CONTAINERS and (
        (row is not None and row.effect in _COMPUTES) or func.attr == "copy_" or func.attr in _IN_PLACE
    )
    return Role.READ if other else Role.ESCAPES


_IN_PLACE = words("add_ sub_ mul_ div_ copy_ index_copy_ index_add_ scatter_ scatter_add_ masked_fill_ masked_scatter_")
"""Methods that read their arguments into another tensor."""
