"""Names from other modules: how this module writes them, and the import that it lacks, in its own style and place."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from h2dlint.finding import Edit
from h2dlint.fixing.document import Document
from h2dlint.fixing.layout import MUST_STAND_ALONE, line_length, stands_alone
from h2dlint.fixing.names import Scope, bound_in
from h2dlint.fixing.project_files import absolute, module_name, package_root, project_files
from h2dlint.fixing.site import RefusedError


class Binding(Struct, frozen=True):
    """What one import makes known."""

    name: str
    """As this module writes it: `np`, `torch`, `os.path`."""
    dotted: str
    """What it is: `numpy`."""
    statement: ast.Import | ast.ImportFrom
    whole_module: bool
    """`import a`, as opposed to `from a import b`, which may be a module too."""


def need_import(document: Document, dotted: str, statement: ast.stmt) -> tuple[str, tuple[Edit, ...]]:
    """How `statement` may write `dotted`, and the edits that make the name known.

    Raises RefusedError where the name is taken there, or the import would go in a circle.
    """
    known = bound_name(document, dotted, statement)
    if known is not None:
        return known, ()
    module, _, name = dotted.rpartition(".")
    if dotted.partition(".")[0] == "torch":
        _refuse_taken("torch", document, statement)
        _refuse_eager(document)
        return dotted, (_new_statement(document, "torch", None, statement),)
    if not module:
        raise RefusedError(f"`{dotted}` is not known in this module")
    _refuse_taken(name, document, statement)
    _refuse_circle(document, module, statement)
    return name, (_from_import(document, module, name, statement),)


def bound_name(document: Document, dotted: str, statement: ast.stmt) -> str | None:
    """How `statement` can write `dotted` as things are; None where nothing that it sees binds it."""
    module, _, name = dotted.rpartition(".")
    if module and module == own_name(document) and name in bound_in(document.tree):
        return None if _is_hidden(name, document, statement) else name
    for binding in _visible(document, statement):
        written = _written(binding, dotted)
        if written is not None and not _is_hidden(binding.name.partition(".")[0], document, statement, binding):
            return written
    return None


def _refuse_eager(document: Document) -> None:
    """A module that imports torch inside its functions alone can be imported without it, and shall stay so."""
    places = {bool(match[1]) for match in _TORCH_IMPORT.finditer(document.text)}
    if places == {True}:
        raise RefusedError("this module imports torch inside functions alone: import `torch` there too")


_TORCH_IMPORT = re.compile(r"^([ \t]*)(?:import|from)[ \t]+torch\b", re.M)


def own_name(document: Document) -> str:
    """The dotted name of this module."""
    return module_name(document.file)


def absolute_name(document: Document, written: str, statement: ast.stmt) -> str:
    """What a dotted name, as written in `statement`, stands for: `th.cuda` is `torch.cuda`. Unbound names stay."""
    head, dot, rest = written.partition(".")
    for binding in _visible(document, statement):
        if binding.name == head:
            return f"{binding.dotted}{dot}{rest}"
    return written


def _written(binding: Binding, dotted: str) -> str | None:
    if binding.dotted == dotted:
        return binding.name
    if not dotted.startswith(f"{binding.dotted}."):
        return None
    rest = dotted[len(binding.dotted) + 1 :]
    # `import a` does not load `a.b`; torch loads all that is asked for here.
    if "." in rest and binding.dotted.partition(".")[0] != "torch":
        return None
    return f"{binding.name}.{rest}"


def _visible(document: Document, statement: ast.stmt) -> Iterator[Binding]:
    """The imports that `statement` can rely on, the nearest first.

    A function may be called as soon as it is there: what the module imports further down is not.
    """
    line = statement.lineno
    for node in document.around(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _bindings(document, [inner for inner in node.body if inner.lineno < line])
    above = [inner for inner in document.tree.body if inner.lineno < outermost(document, statement).lineno]
    yield from _bindings(document, above)
    for node in above:
        if isinstance(node, ast.Try):
            yield from _bindings(document, node.body)


def outermost(document: Document, statement: ast.stmt) -> ast.stmt:
    """The statement of the module itself that holds `statement`."""
    around = document.around(statement)
    found = around[-1] if around else statement
    assert isinstance(found, ast.stmt)
    return found


def _bindings(document: Document, body: Sequence[ast.stmt]) -> Iterator[Binding]:
    return bindings(body, own_name(document), _is_package(document))


def bindings(body: Sequence[ast.stmt], module: str, is_package: bool) -> Iterator[Binding]:
    """What the imports among some statements of a module make known."""
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name
                yield Binding(name, alias.name, node, True)
                if not alias.asname and "." in alias.name:
                    root = alias.name.partition(".")[0]
                    yield Binding(root, root, node, True)
        elif isinstance(node, ast.ImportFrom):
            base = absolute("." * node.level + (node.module or ""), module, is_package)
            for alias in node.names:
                if alias.name != "*":
                    yield Binding(alias.asname or alias.name, f"{base}.{alias.name}", node, False)


def _base_of(document: Document, node: ast.ImportFrom) -> str:
    written = "." * node.level + (node.module or "")
    return absolute(written, own_name(document), _is_package(document))


def _is_package(document: Document) -> bool:
    return os.path.basename(document.file) == "__init__.py"


def _is_hidden(name: str, document: Document, statement: ast.stmt, binding: Binding | None = None) -> bool:
    """Whether a function around `statement` gives `name` another meaning."""
    for node in document.around(statement):
        if isinstance(node, Scope) and name in bound_in(node):
            own = binding is not None and binding.statement in getattr(node, "body", ())
            return not own
    return False


def _refuse_taken(name: str, document: Document, statement: ast.stmt) -> None:
    if name in bound_in(document.tree) or _is_hidden(name, document, statement):
        raise RefusedError(f"`{name}` means something else here")


def _refuse_circle(document: Document, module: str, statement: ast.stmt) -> None:
    own = own_name(document)
    if module == own:
        raise RefusedError(f"`{module}` does not define it")
    files = project_files(package_root(document.file))
    if not any(files.modules_behind(module)):
        return
    for node in document.tree.body:
        works = isinstance(node, ast.ImportFrom) and _base_of(document, node) == module
        if works and _is_above(document, node, statement):
            return
    if files.reaches(module, own):
        raise RefusedError(f"importing `{module}` here would go in a circle")


def _is_above(document: Document, node: ast.stmt, statement: ast.stmt) -> bool:
    """Whether a statement of the module has run when what holds `statement` begins to be there."""
    return node.lineno < outermost(document, statement).lineno


# --- the new import -----------------------------------------------------------------------------------------------


def _from_import(document: Document, module: str, name: str, statement: ast.stmt) -> Edit:
    for node in document.tree.body:
        fits = isinstance(node, ast.ImportFrom) and _base_of(document, node) == module and node.names[0].name != "*"
        if fits and _is_above(document, node, statement):
            assert isinstance(node, ast.ImportFrom)
            return _with_name(document, node, name)
    return _new_statement(document, module, name, statement)


def _member_key(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name.lower()


def _place_in(names: Sequence[str], name: str) -> int:
    """Where `name` belongs among `names`, in whichever of the usual orders they have; at the end in none."""
    for key in (_member_key, str.lower, str):
        keys = [key(one) for one in names]
        if keys == sorted(keys):
            return sum(one < key(name) for one in keys)  # type: ignore[operator]
    return len(names)


def _with_name(document: Document, node: ast.ImportFrom, name: str) -> Edit:
    """The statement with one more name, on one line if it was and fits, else a name a line."""
    start, end = document.lines.offsets(node)
    text = document.text[start:end]
    names = [alias.name for alias in node.names]
    at = _place_in(names, name)
    if "#" in text:
        return _beside_name(document, node, name, at)
    shown = [f"{alias.name} as {alias.asname}" if alias.asname else alias.name for alias in node.names]
    shown.insert(at, name)
    head = text[: text.index("import", text.index(node.module or ".") + len(node.module or ""))] + "import "
    one_line = head + ", ".join(shown)
    if "\n" not in text and "\r" not in text and len(one_line) <= line_length(document):
        return Edit(start, end, one_line)
    unit, newline = document.indent_unit, document.newline
    body = "".join(f"{unit}{one},{newline}" for one in shown)
    return Edit(start, end, f"{head}({newline}{body})")


def _beside_name(document: Document, node: ast.ImportFrom, name: str, at: int) -> Edit:
    """The name on a line of its own between those that are there, so that comments stay with theirs."""
    before = node.names[at] if at < len(node.names) else None
    if before is not None and before.lineno > node.lineno:
        offset = document.lines.offset(before.lineno, before.col_offset)
        indent = document.lines.line(before.lineno)[: before.col_offset]
        if not indent.strip():
            return Edit(offset, offset, f"{name},{document.newline}{indent}")
    last = node.names[at - 1]
    offset = document.lines.offset(last.end_lineno or last.lineno, last.end_col_offset or last.col_offset)
    return Edit(offset, offset, f", {name}")


def _new_statement(document: Document, module: str, name: str | None, statement: ast.stmt) -> Edit:
    imports = _leading_imports(document, statement)
    written = _as_written(document, module, imports)
    line = f"import {module}" if name is None else f"from {written} import {name}"
    kind = _section(document, written)
    newline = document.newline
    before = [node for node in imports if _key(document, node) <= (kind, name is not None, written.lower())]
    same = [node for node in imports if _key(document, node)[0] == kind]
    if before and not (same and _key(document, before[-1])[0] != kind):
        anchor = before[-1]
        gap = "" if _key(document, anchor)[0] == kind or not _is_sectioned(document, imports) else newline
        offset = _line_end(document, anchor)
        tail = newline if not same and gap and _follows_import(document, imports, anchor) else ""
        lead = "" if document.text[:offset].endswith(("\n", "\r")) else newline
        return Edit(offset, offset, f"{lead}{gap}{line}{newline}{tail}")
    if imports:
        offset = document.lines.starts[(same or imports)[0].lineno - 1]
        gap = "" if same else newline
        return Edit(offset, offset, f"{line}{newline}{gap}")
    return _first_import(document, line)


def _leading_imports(document: Document, statement: ast.stmt) -> list[ast.Import | ast.ImportFrom]:
    """The imports at the top of the module, in order of the text, that stand before `statement` and any definition."""
    found: list[ast.Import | ast.ImportFrom] = []
    own = outermost(document, statement)
    for node in document.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or node is own:
            break
        if isinstance(node, (ast.Import, ast.ImportFrom)) and stands_alone(document, node):
            found.append(node)
    return found


def _as_written(document: Document, module: str, imports: Sequence[ast.stmt]) -> str:
    """`module`, relative to this one where this one writes its own package so."""
    own = own_name(document)
    root = own.partition(".")[0]
    if module.partition(".")[0] != root or "." not in own:
        return module
    from_own = [node for node in imports if isinstance(node, ast.ImportFrom)]
    absolutes = [node for node in from_own if not node.level and (node.module or "").partition(".")[0] == root]
    relatives = [node for node in from_own if node.level]
    if absolutes or not relatives:
        return module
    package = own if os.path.basename(document.file) == "__init__.py" else own.rpartition(".")[0]
    for dots in range(1, max(node.level for node in relatives) + 1):
        if module == package:
            return "." * dots
        if module.startswith(f"{package}."):
            return "." * dots + module[len(package) + 1 :]
        package = package.rpartition(".")[0]
        if not package:
            break
    return module


_FUTURE, _STANDARD, _OTHERS, _OWN, _RELATIVE = range(5)


def _section(document: Document, written: str) -> int:
    root = written.partition(".")[0]
    if written.startswith("."):
        return _RELATIVE
    if root == "__future__":
        return _FUTURE
    if root in sys.stdlib_module_names:
        return _STANDARD
    own = own_name(document).partition(".")[0]
    return _OWN if root == own else _OTHERS


def _key(document: Document, node: ast.Import | ast.ImportFrom) -> tuple[int, bool, str]:
    if isinstance(node, ast.Import):
        name = node.names[0].name
        return _section(document, name), False, name.lower()
    written = "." * node.level + (node.module or "")
    return _section(document, written), True, written.lower()


def _is_sectioned(document: Document, imports: Sequence[ast.Import | ast.ImportFrom]) -> bool:
    """Whether blank lines part the kinds of imports here."""
    apart = [
        second.lineno - (first.end_lineno or first.lineno) > 1
        for first, second in pairwise(imports)
        if _key(document, first)[0] != _key(document, second)[0]
    ]
    return all(apart)


def _follows_import(document: Document, imports: Sequence[ast.stmt], anchor: ast.stmt) -> bool:
    return any(node.lineno == (anchor.end_lineno or anchor.lineno) + 1 for node in imports)


def _line_end(document: Document, node: ast.stmt) -> int:
    number = node.end_lineno or node.lineno
    return document.lines.starts[number - 1] + len(document.lines.line(number))


def _first_import(document: Document, line: str) -> Edit:
    body = document.tree.body
    newline = document.newline
    has_docstring = bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    if has_docstring:
        if not stands_alone(document, body[0]):
            raise RefusedError(MUST_STAND_ALONE)
        offset = _line_end(document, body[0])
        return Edit(offset, offset, f"{newline}{line}{newline}")
    offset = document.lines.starts[body[0].lineno - 1] if body else 0
    return Edit(offset, offset, f"{line}{newline}{newline}")
