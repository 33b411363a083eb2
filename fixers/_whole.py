"""Whether a number is whole: arithmetic with it is exact on every device; with another one it need not be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from h2dlint.fixers._scope import Scope, parameters

from h2dlint.fixing.names import last_name

_QUERIES = frozenset(["size", "numel", "nelement", "dim", "ndimension", "element_size", "stride"])
_ALWAYS_WHOLE = frozenset(["len", "int", "ord", "bool"])
_WHOLE_MATH = frozenset(["math.ceil", "math.floor", "math.isqrt", "math.gcd"])
_INT = re.compile(r"int|bool|(?:\w+\.)?Optional\[int\]|int \| None|None \| int")
"""With None for a number arithmetic raises on the host already."""
_INTS = re.compile(r"(?:\w+\.)?(?:[Ll]ist|Sequence|[Tt]uple)\[int(?:, \.\.\.)?\]")
_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor,
)  # fmt: skip


class Numbers:
    """What the code shows about the numbers of one function."""

    def __init__(self, scope: Scope, tree: ast.Module) -> None:
        self.scope = scope
        self.tree = tree
        self._asked: set[str] = set()

    def is_whole(self, node: ast.expr) -> bool | None:
        """True for a number that is shown to be an int or a bool, False for a shown float, None where neither is."""
        if isinstance(node, ast.Constant):
            return _of_type(node.value)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.BinOp):
            return self._operation(node)
        if isinstance(node, ast.UnaryOp):
            return True if isinstance(node.op, ast.Not) else self.is_whole(node.operand)
        if isinstance(node, ast.IfExp):
            return _all([self.is_whole(node.body), self.is_whole(node.orelse)])
        if isinstance(node, ast.BoolOp):
            return _all([self.is_whole(value) for value in node.values])
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):  # `x.shape[0]`, `x.size()[0]`
            return True if _is_shape(node.value) or self._is_list_of_whole(node.value) else None
        return True if isinstance(node, ast.Attribute) and node.attr == "ndim" else None

    def _operation(self, node: ast.BinOp) -> bool | None:
        if isinstance(node.op, ast.Div):
            return False
        both = _all([self.is_whole(node.left), self.is_whole(node.right)])
        if isinstance(node.op, ast.Pow):  # `2 ** -1` is a float
            positive = isinstance(node.right, ast.Constant)
            return both if positive or both is not True else None
        return both if isinstance(node.op, _OPERATORS) else None

    def _call(self, node: ast.Call) -> bool | None:
        if isinstance(node.func, ast.Attribute):
            asks = node.func.attr in _QUERIES and (node.args or node.func.attr not in ("size", "stride"))
            return True if asks or ast.unparse(node.func) in _WHOLE_MATH else None
        name = last_name(node.func)
        if not isinstance(node.func, ast.Name) or self._is_bound(name):
            return None
        if name == "float":
            return False
        if name in _ALWAYS_WHOLE or (name == "round" and len(node.args) == 1 and not node.keywords):
            return True
        if name in ("max", "min", "sum") and len(node.args) == 1:
            return True if self._is_list_of_whole(node.args[0]) else None
        if name in ("max", "min", "abs") and not node.keywords and (len(node.args) > 1 or name == "abs"):
            return _all([self.is_whole(argument) for argument in node.args])
        return None

    def _is_list_of_whole(self, node: ast.expr) -> bool:
        """A parameter that is declared as `list[int]` or the like."""
        if not isinstance(node, ast.Name) or _bindings(self.scope, node.id):
            return False
        return bool(_INTS.fullmatch(self._annotation(node.id)))

    def _is_bound(self, name: str) -> bool:
        stored = any(isinstance(one, ast.Name) and one.id == name and _stores(one) for one in ast.walk(self.tree))
        return stored or name in parameters(self.scope)

    def _name(self, name: str) -> bool | None:
        if name in self._asked:  # `k = k + 1`: as whole as the others make it
            return True
        self._asked.add(name)
        try:
            return self._bound(name)
        finally:
            self._asked.discard(name)

    def _bound(self, name: str) -> bool | None:
        inside = _bindings(self.scope, name)
        if name in parameters(self.scope):
            return _all([self._parameter(name), *map(self._binding, inside)])
        if not inside and not isinstance(self.scope, ast.Module):  # of the module, or of a function around
            inside = _bindings(self.tree, name) if not _is_bound_besides(self.tree, name) else []
        return _all([self._binding(one) for one in inside])

    def _annotation(self, name: str) -> str:
        if isinstance(self.scope, ast.Module):
            return ""
        every = [*self.scope.args.posonlyargs, *self.scope.args.args, *self.scope.args.kwonlyargs]
        noted = next((argument.annotation for argument in every if argument.arg == name), None)
        return ast.unparse(noted).strip("'\"") if noted is not None else ""

    def _parameter(self, name: str) -> bool | None:
        text = self._annotation(name)
        if "float" in text:
            return False
        return True if _INT.fullmatch(text) else None

    def _binding(self, value: ast.expr | None) -> bool | None:
        return None if value is None else self.is_whole(value)


def _of_type(value: object) -> bool | None:
    if isinstance(value, (bool, int)):
        return True
    return False if isinstance(value, (float, complex)) else None


def _all(answers: list[bool | None]) -> bool | None:
    """False where one is a float, True where all are whole."""
    if False in answers:
        return False
    return True if answers and None not in answers else None


def _stores(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def _is_shape(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in ("size", "stride")
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def _is_bound_besides(tree: ast.Module, name: str) -> bool:
    """Whether anything but an assignment binds the name: a parameter, an import, a definition."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.arg == name:
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name) == name:
            return True
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
            return True
    return False


def _bindings(scope: Scope, name: str) -> list[ast.expr | None]:
    """What a name is bound to at each place in a scope; None for one that is not followed."""
    stores = {one for one in ast.walk(scope) if isinstance(one, ast.Name) and one.id == name and _stores(one)}
    found: list[ast.expr | None] = []
    for node in ast.walk(scope):
        for target, value in _pairs(node):
            if target in stores:
                stores.discard(target)
                found.append(value)
    return [*found, *(None for _ in stores)]


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Targets and what is bound to them, where it is one expression that says so."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _unpacked(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target, ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield from _counted(node.target, node.iter)


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
    elif isinstance(value, (ast.Tuple, ast.List)) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _unpacked(one, other)
    elif _is_shape(value) or (isinstance(value, ast.Subscript) and _is_shape(value.value)):  # `x.shape[-2:]`
        yield from ((one, ast.Constant(0)) for one in target.elts)


def _counted(target: ast.expr, source: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The counter of `for k in range(n)` and of `for k, x in enumerate(xs)`."""
    if not isinstance(source, ast.Call) or not isinstance(source.func, ast.Name):
        return
    if source.func.id == "range":
        yield target, ast.Constant(0)
    elif source.func.id == "enumerate" and isinstance(target, ast.Tuple):
        yield target.elts[0], ast.Constant(0)
