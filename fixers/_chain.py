"""Follow an index back to the factories that it is made of, and see that all of it can as well happen on a device."""

from __future__ import annotations

import ast

from h2dlint.fixers._scope import Scope, binds, is_shared, names_in, own_nodes, parameters, position, statements, words
from h2dlint.fixers._torch_names import imported_function, torch_if_imported
from h2dlint.fixers._whole import Numbers

from h2dlint.facts.torch_api import DTYPES
from h2dlint.fixing import Site
from h2dlint.fixing.names import last_name

FACTORIES = words("arange zeros ones full eye tril_indices triu_indices")
"""Factories whose elements come out the same on every device."""
_EXACT = words(
    "view reshape flatten ravel unflatten unsqueeze squeeze expand broadcast_to permute transpose t T mT swapaxes "
    "movedim contiguous clone stack cat concat concatenate hstack vstack dstack column_stack repeat tile flip "
    "fliplr flipud roll rot90 tril triu narrow select chunk split unbind masked_fill where meshgrid "
    "cartesian_prod bitwise_not logical_not logical_and logical_or logical_xor eq ne lt le gt ge detach expand_as "
    "view_as reshape_as zeros_like ones_like new_zeros new_ones new_full"
)
"""Calls that move, compare or choose elements: exact for every dtype."""
_TAKES_TENSORS = words(
    "masked_fill masked_fill_ fill_ where eq ne lt le gt ge logical_and logical_or logical_xor add sub mul add_ "
    "sub_ mul_ floor_divide remainder bitwise_and bitwise_or bitwise_xor clamp clamp_ minimum maximum"
)
"""Calls in which what looks like a number may be a tensor of the host."""
_EXACT_FOR_INTEGERS = words(
    "add sub mul neg floor_divide remainder bitwise_and bitwise_or bitwise_xor clamp minimum maximum cumsum abs "
    "square sum diff"
)
_COMPARES = words("eq ne lt le gt ge logical_and logical_or logical_xor")
_CASTS = words("long int short bool char byte")
_IN_PLACE = words("masked_fill_ fill_ zero_ unsqueeze_ squeeze_ tril_ triu_")
_IN_PLACE_FOR_INTEGERS = words("add_ sub_ mul_ clamp_ neg_")
_LIST_METHODS = words("append extend")
_QUERIES = words("shape dtype ndim size numel dim device")
_FACTORY_KEYWORDS = words("dtype device start end step size fill_value n m row col offset requires_grad")
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor)


class NotExactError(Exception):
    """The index cannot be built elsewhere with the same elements; the text says why."""


class Chain:
    """The factories, names and statements that a transferred value comes from.

    `trusted`: the analysis has shown that nothing but index construction goes in, so that a name of unknown origin
    is a number. Raises NotExactError on construction where some of it has to stay on the host.
    """

    def __init__(self, site: Site, scope: Scope, source: ast.expr, trusted: bool) -> None:
        self.site = site
        self.scope = scope
        self.trusted = trusted
        self.factories: list[ast.Call] = []
        self.names: dict[str, None] = {}
        self.statements: dict[ast.stmt, None] = {}
        """Those that bind or fill the names."""
        self.consumed: set[ast.Name] = set()
        """Reads of the names inside the chain itself."""
        self.floating = False
        self.arithmetic = False
        self.unknown = False
        """A number that goes in is not shown to be whole: computing with it may give other values."""
        self.fractions = False
        """Among them, or in their place, are numbers that are shown not to be whole."""
        self.stepping = False
        """A range has a start or a step that is not shown to be whole."""
        self.truncated = False
        """Elements are cast to integers."""
        self._numbers = Numbers(scope, site.tree)
        self._torch = torch_if_imported(site)
        self.follow(source)
        if self.floating and self.arithmetic:
            raise NotExactError("floating-point arithmetic can give other values on the device")
        if not self.factories:
            raise NotExactError("no factory of this chain stands in this function")

    def is_exact(self, cast: ast.expr | None) -> bool:
        """Whether all elements are shown to come out the same on every device, cast to a dtype last if there is one.

        An integer for a floating-point number that does not fit into it is one on the host and another on a device.
        """
        if self.stepping or (self.unknown and self.arithmetic):
            return False
        cuts = self.truncated or (cast is not None and self._dtype(cast) is not False)
        return not (self.floating and cuts and (self.unknown or self.fractions))

    # --- expressions ----------------------------------------------------------------------------------------------

    def follow(self, node: ast.expr) -> None:
        """Take an expression that gives a tensor, or a sequence of them, into the chain."""
        if isinstance(node, ast.Name):
            self._name(node)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, (ast.List, ast.Tuple)):
            for item in node.elts:
                self.follow(item.value if isinstance(item, ast.Starred) else item)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            self.follow(node.elt)
        elif isinstance(node, ast.IfExp):
            self.follow(node.body)
            self.follow(node.orelse)
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            self.follow(node.value)
        elif isinstance(node, ast.Subscript):
            self.follow(node.value)
            self._index(node.slice)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
            self.arithmetic = True
            self._operands([node.left, node.right])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Invert, ast.USub)):
            self.follow(node.operand)
        elif isinstance(node, ast.Compare):
            self._operands([node.left, *node.comparators], weighs=False)
        else:
            raise NotExactError(f"`{_short(node)}` holds values of the host")

    def _operands(self, nodes: list[ast.expr], weighs: bool = True) -> None:
        """Operands of a computation or a choice. `weighs`: the numbers among them get into the elements."""
        for node in nodes:
            if not (self._is_number(node) and (self.trusted or _is_plain_number(node))):
                self.follow(node)
            elif weighs:
                self._weigh(node)

    def _weigh(self, *nodes: ast.expr) -> None:
        answers = [self._numbers.is_whole(node) for node in nodes]
        self.unknown |= None in answers
        self.fractions |= False in answers
        self.floating |= False in answers

    def _call(self, node: ast.Call) -> None:
        name = last_name(node.func)
        if isinstance(node.func, ast.Name) and node.func.id in ("list", "tuple") and len(node.args) == 1:
            self.follow(node.args[0])
        elif imported := imported_function(self.site, node.func):
            self._function(node, imported)
        elif not isinstance(node.func, ast.Attribute):
            raise NotExactError(f"`{name or _short(node)}` is not known to be index construction")
        elif self._is_torch(node.func.value):
            self._function(node, name)
        else:
            self._method(node, node.func, name)

    def _is_torch(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self._torch

    def _function(self, node: ast.Call, name: str) -> None:
        if name in FACTORIES:
            self._factory(node, name)
            return
        if node.args:
            self.follow(node.args[0])
        self._operation(node, name, node.args[1:])

    def _method(self, node: ast.Call, func: ast.Attribute, name: str) -> None:
        self.follow(func.value)
        if name in _CASTS and not node.args and not node.keywords:
            self.truncated |= name != "bool"
            return
        if name == "to" and (dtype := _only_dtype(node)) is not None and self._dtype(dtype) is not None:
            self.floating |= not self._dtype(dtype)
            self.truncated |= bool(self._dtype(dtype))
            return
        self._operation(node, name, node.args)

    def _operation(self, node: ast.Call, name: str, arguments: list[ast.expr]) -> None:
        if name in _EXACT_FOR_INTEGERS or name in _IN_PLACE_FOR_INTEGERS:
            self.arithmetic = True
        elif name not in _EXACT and name not in _IN_PLACE:
            raise NotExactError(f"`{name}` is not known to give the same values on the device, or has to wait for them")
        for keyword in node.keywords:
            if keyword.arg not in (
                "dim",
                "dtype",
                "indexing",
                "other",
                "tensors",
                "repeats",
                "dims",
                "start_dim",
                "end_dim",
            ):
                raise NotExactError(f"`{keyword.arg}=` of `{name}` is not followed")
            if keyword.arg == "dtype":
                self.floating |= self._dtype(keyword.value) is not True
                self.truncated |= self._dtype(keyword.value) is not False
        tensors = [*arguments, *(word.value for word in node.keywords if word.arg in ("other", "tensors"))]
        if name in _TAKES_TENSORS:
            self._operands(tensors, weighs=name not in _COMPARES)
            return
        if name == "new_full":
            self._weigh(*arguments[1:2])
        for argument in tensors:
            if not self._is_number(argument):
                self.follow(argument)

    def _factory(self, node: ast.Call, name: str) -> None:
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        extra = next((word for word in keywords if word not in _FACTORY_KEYWORDS), None)
        if extra or None in keywords:
            raise NotExactError(f"`{extra}=` of `{name}` is not followed")
        device = keywords.get("device")
        if device is not None and not (isinstance(device, ast.Constant) and device.value == "cpu"):
            raise NotExactError(f"`{name}` names a device of its own")
        for argument in (*node.args, *keywords.values()):
            if any(isinstance(read, ast.Name) and self._is_tensor_name(read) for read in names_in([argument])):
                raise NotExactError(f"`{name}` takes its sizes from a tensor of the chain")
        self.floating |= self._is_floating(node, name, keywords)
        if name == "arange" and self.floating:
            raise NotExactError("a floating-point range can give other values on the device")
        if name == "arange" and "dtype" not in keywords:
            self.stepping |= any(self._numbers.is_whole(number) is None for number in _steps(node, keywords))
        if name == "full" and self.floating:
            self._weigh(*node.args[1:2], *(keywords[word] for word in ("fill_value",) if word in keywords))
        self.factories.append(node)

    def _is_floating(self, node: ast.Call, name: str, keywords: dict[str | None, ast.expr]) -> bool:
        if "dtype" in keywords:
            return self._dtype(keywords["dtype"]) is not True
        if name in ("tril_indices", "triu_indices"):
            return False
        if name == "arange":  # from a whole number in whole steps the elements are whole, wherever the range ends
            shown = any(self._numbers.is_whole(number) is False for number in _steps(node, keywords))
            return shown or any(_is_float(argument) for argument in (*node.args, *keywords.values()))
        if name == "full":
            value = keywords.get("fill_value") or (node.args[1] if len(node.args) > 1 else None)
            return not (isinstance(value, ast.Constant) and isinstance(value.value, (bool, int)))
        return True

    def _dtype(self, node: ast.expr) -> bool | None:
        """True for an integer or boolean dtype, False for a floating one, None for what is not shown to be a dtype."""
        if not (isinstance(node, ast.Attribute) and self._is_torch(node.value) and node.attr in DTYPES):
            return None
        return not any(word in node.attr for word in ("float", "half", "double", "complex"))

    def _index(self, node: ast.expr) -> None:
        for item in node.elts if isinstance(node, ast.Tuple) else [node]:
            if isinstance(item, ast.Slice) or self._is_number(item):
                continue
            self.follow(item)
            if isinstance(item, ast.Compare) or (isinstance(item, ast.UnaryOp) and isinstance(item.op, ast.Invert)):
                raise NotExactError("a mask used as an index makes the host wait for the device")

    def _is_number(self, node: ast.expr) -> bool:
        """Whether an argument is a size, a step or the like, and no tensor."""
        if isinstance(node, (ast.Constant, ast.Starred)):
            return True
        if isinstance(node, (ast.Tuple, ast.List)):
            return bool(node.elts) and all(self._is_number(item) for item in node.elts)
        if any(isinstance(inner, ast.Call) and self._makes_tensor(inner) for inner in ast.walk(node)):
            return False
        return not any(self._is_tensor_name(name) for name in names_in([node])) or _is_query(node)

    def _makes_tensor(self, call: ast.Call) -> bool:
        return self._starts_at_torch(call) and last_name(call.func) not in ("finfo", "iinfo")

    def _starts_at_torch(self, node: ast.expr) -> bool:
        while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
            node = node.func if isinstance(node, ast.Call) else node.value
        return self._is_torch(node) or bool(imported_function(self.site, node))

    def _is_list_name(self, name: str) -> bool:
        """Whether a name of the chain always holds a Python list: its truth is its length."""
        values = [value for statement in statements(self.scope) for value in _values_bound_to(statement, name)]
        return bool(values) and all(isinstance(value, (ast.List, ast.ListComp)) for value in values)

    # --- names ----------------------------------------------------------------------------------------------------

    def _is_tensor_name(self, node: ast.Name) -> bool:
        """Whether a name is bound to something made with torch in this function."""
        if node.id in self.names:
            return True
        return any(
            self._starts_at_torch(value) or any(name.id in self.names for name in names_in([value]))
            for statement in statements(self.scope)
            for value in _values_bound_to(statement, node.id)
        )

    def _name(self, node: ast.Name) -> None:
        self.consumed.add(node)
        if node.id in self.names:
            return
        if node.id in parameters(self.scope) or is_shared(self.scope, node.id):
            raise NotExactError(f"`{node.id}` comes from outside this function")
        self.names[node.id] = None
        bound = False
        for statement in statements(self.scope):
            if statement is not self.site.statement:
                bound |= self._statement(statement, node.id)
        if not bound:
            raise NotExactError(f"`{node.id}` is not made in this function")

    def _statement(self, statement: ast.stmt, name: str) -> bool:
        """Take in what a statement does to a name of the chain; True if it binds it."""
        values = _values_bound_to(statement, name)
        if values:
            self.statements[statement] = None
            for value in values:
                self.follow(value)
            for other in binds(statement) - set(self.names):  # `a, b = torch.meshgrid(...)`
                self.names[other] = None
            return True
        if isinstance(statement, ast.Expr):
            self._effect(statement, name)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
            self._item(statement, statement.targets[0], name)
        elif isinstance(statement, ast.AugAssign) and _roots_at(statement.target, name):
            if not isinstance(statement.target, ast.Name):
                raise NotExactError(f"`{_short(statement.target)}` is changed in place")
            self.statements[statement] = None
            self.arithmetic |= not isinstance(statement.value, (ast.List, ast.ListComp))
            self._operands([statement.value])
        elif name in set().union(*(binds(part) for part in _header(statement))):
            raise NotExactError(f"`{name}` is bound on line {statement.lineno} in a way that is not followed")
        return False

    def _effect(self, statement: ast.Expr, name: str) -> None:
        call = statement.value
        if not (
            isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and _roots_at(call.func.value, name)
        ):
            return
        self.statements[statement] = None
        if call.func.attr in _LIST_METHODS and isinstance(call.func.value, ast.Name) and len(call.args) == 1:
            self.consumed.add(call.func.value)
            self.follow(call.args[0])
        else:
            self._method(call, call.func, call.func.attr)

    def _item(self, statement: ast.Assign, target: ast.Subscript, name: str) -> None:
        """A slice that is filled: with a number, or with more of the chain. One place at a time would wait."""
        if not _roots_at(target, name):
            return
        index = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        if not isinstance(target.value, ast.Name) or not any(isinstance(item, ast.Slice) for item in index):
            raise NotExactError(f"`{_short(target)}` is filled on the host")
        self.statements[statement] = None
        self.consumed.add(target.value)
        self._index(target.slice)
        if isinstance(statement.value, ast.Constant):
            self._weigh(statement.value)
        else:
            self.follow(statement.value)

    def host_reads(self, done: ast.stmt, rebinds: str | None) -> list[ast.Name]:
        """Reads of the chain's names outside the chain, by position: the host needs the values there.

        `done`: the statement that transfers; `rebinds`: the name that holds the transferred value from there on.
        """
        found = []
        for name in names_in([self.scope]):
            if name.id not in self.names or not isinstance(name.ctx, ast.Load) or name in self.consumed:
                continue
            if name.id == rebinds and position(name) > position(done):
                continue
            if not self._is_query_use(name):
                found.append(name)
        return sorted(found, key=position)

    def _is_query_use(self, name: ast.Name) -> bool:
        parent = self.site.document.parents.get(name)
        if isinstance(parent, (ast.IfExp, ast.If)) and parent.test is name:
            return self._is_list_name(name.id)
        if isinstance(parent, ast.Attribute):
            return parent.attr in _QUERIES
        return isinstance(parent, ast.Call) and last_name(parent.func) == "len"


def _only_dtype(call: ast.Call) -> ast.expr | None:
    """The argument of `.to(torch.int32)` or `.to(dtype=torch.int32)`."""
    if len(call.args) == 1 and not call.keywords:
        return call.args[0]
    only = call.keywords[0] if len(call.keywords) == 1 and not call.args else None
    return only.value if only is not None and only.arg == "dtype" else None


def _steps(node: ast.Call, keywords: dict[str | None, ast.expr]) -> list[ast.expr]:
    """Where a range starts, and its step."""
    first = node.args[:1] if len(node.args) > 1 or "end" in keywords else []
    return [*first, *node.args[2:3], *(keywords[word] for word in ("start", "step") if word in keywords)]


def _values_bound_to(statement: ast.stmt, name: str) -> list[ast.expr]:
    """What a statement assigns to a name."""
    if isinstance(statement, ast.Assign):
        return [statement.value] if any(_is_target(target, name) for target in statement.targets) else []
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return [statement.value] if _is_target(statement.target, name) else []
    return []


def _is_target(target: ast.expr, name: str) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_is_target(item, name) for item in target.elts)
    return isinstance(target, ast.Name) and target.id == name


def _header(statement: ast.stmt) -> list[ast.AST]:
    """The parts of a statement that are not statements of their own."""
    return [node for node in own_nodes(statement) if isinstance(node, (ast.Name, ast.alias))]


def _roots_at(node: ast.expr, name: str) -> bool:
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id == name


def _is_query(node: ast.expr) -> bool:
    """`x.shape[0]`, `x.numel()`, `len(x)`: a number that costs nothing."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        return last_name(node.func) in ("len", *_QUERIES)
    return isinstance(node, ast.Attribute) and node.attr in _QUERIES


def _is_plain_number(node: ast.expr) -> bool:
    """Whether an operand is a number by its own look: a literal, `float("-inf")`, `len(x)`, `x.shape[0]`."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("float", "int", "bool", "len")
    return isinstance(node, ast.Constant) or _is_query(node) or ast.unparse(node).endswith(("math.inf", "torch.inf"))


def _is_float(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Constant) and isinstance(inner.value, float) for inner in ast.walk(node)) or any(
        isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div) for inner in ast.walk(node)
    )


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."
