"""Column slices: `buffer[:, a:b]` taken apart, and whether two buffers have one shape."""

from __future__ import annotations

import ast
import re

from h2dlint.fixers._scope import class_of, is_pure
from msgspec import Struct

from h2dlint.fixing import Site
from h2dlint.fixing.names import dotted_name


class Columns(Struct, frozen=True):
    """`base[rows, rest]`, where `rows` is a slice of the first axis and `rest` cuts the others."""

    base: ast.expr
    rows: ast.Slice
    rest: list[ast.expr]


def columns_of(node: ast.expr) -> Columns | None:
    """The parts of a column slice of a buffer; None for another expression."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple) or not is_pure(node.value):
        return None
    first, *rest = node.slice.elts
    if not isinstance(first, ast.Slice) or first.step is not None or not rest or not all(map(is_pure, rest)):
        return None
    plain = all(isinstance(item, (ast.Slice, ast.Constant, ast.Name)) for item in rest)
    return Columns(node.value, first, rest) if plain else None


def is_whole(part: ast.Slice) -> bool:
    """Whether a slice is `:`."""
    return part.lower is None and part.upper is None


def same_shape(site: Site, one: ast.expr, other: ast.expr) -> bool:
    """Whether two buffers are seen to have the same shape: a `.cpu`/`.gpu` pair of one object, or made with the same
    sizes in this class.
    """
    if _is_pair(one, other):
        return True
    sizes = [_sizes(site, node) for node in (one, other)]
    return sizes[0] is not None and sizes[0] == sizes[1]


def _is_pair(one: ast.expr, other: ast.expr) -> bool:
    if not (isinstance(one, ast.Attribute) and isinstance(other, ast.Attribute)):
        return False
    sides = {one.attr.lower(), other.attr.lower()}
    same = ast.dump(one.value) == ast.dump(other.value)
    return same and bool(sides & {"cpu", "host"}) and bool(sides & {"gpu", "cuda", "device", "dev"})


def _sizes(site: Site, node: ast.expr) -> str | None:
    """The size arguments of the only factory that an attribute of `self` gets in this class."""
    name, owner = dotted_name(node), class_of(site, site.call)
    if owner is None or not re.fullmatch(r"self\.\w+", name):
        return None
    made = [
        statement.value
        for statement in ast.walk(owner)
        if isinstance(statement, (ast.Assign, ast.AnnAssign))
        and any(dotted_name(target) == name for target in _targets(statement))
    ]
    if len(made) != 1 or not isinstance(made[0], ast.Call) or not made[0].args:
        return None
    return ", ".join(ast.unparse(argument) for argument in made[0].args)


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]
