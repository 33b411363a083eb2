"""A tree whose bodies are parsed when they are asked for is the tree of `ast.parse`, and the same is known of it."""

from __future__ import annotations

import ast
import inspect
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import module_text

from h2dlint.facts import late_text
from h2dlint.facts.finder import Finder, without_the_rest
from h2dlint.facts.late_bodies import is_late, read_from
from h2dlint.facts.late_text import bodies_in, parse_late
from h2dlint.facts.modules import ModuleInfo
from h2dlint.source import parse

LIBRARY = Path(ast.__file__).parent
FILES = [*LIBRARY.glob("[d-l]*.py"), *LIBRARY.glob("json/*.py"), *LIBRARY.glob("unittest/*.py")]
"""Written by many hands."""


def functions(tree: ast.Module) -> list[ast.AST]:
    """All functions that can be reached without looking into one."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(node)
            else:
                waiting.append(node)
    return found


def late_in(tree: ast.Module) -> list[str]:
    return [node.name for node in functions(tree) if is_late(node)]  # type: ignore[attr-defined]


def assert_same_tree(text: str) -> None:
    """The tree with all that is read late is that of `ast.parse`, places included."""
    tree = parse_late(text)
    assert tree is not None
    found = ast.dump(tree, include_attributes=True)  # looks into everything
    assert found == ast.dump(parse(text), include_attributes=True)
    assert not late_in(tree)


def assert_same_is_known(text: str) -> None:
    """What a module knows of its names, functions and stores, whatever is asked first."""
    late, whole = (
        ModuleInfo("m.py", text, tree, "m", "/m.py") for tree in (parse_late(text), parse(text)) if tree is not None
    )
    for name in ("functions", "classes", "imports", "assigned", "ways", "declared_global"):
        assert list(getattr(late, name)) == list(getattr(whole, name)), name
    assert [unit.qualname for unit in late.units] == [unit.qualname for unit in whole.units]
    assert [unit.node.end_lineno for unit in late.units] == [unit.node.end_lineno for unit in whole.units]
    attributes = {node.attr for node in ast.walk(whole.tree) if isinstance(node, ast.Attribute)}
    for attribute in sorted(attributes):
        for one, other in zip(late.class_of_node.values(), whole.class_of_node.values(), strict=True):
            for methods in ("methods_storing", "methods_filling"):
                names = [[node.name for node in getattr(info, methods)(attribute)] for info in (one, other)]
                assert names[0] == names[1], (methods, attribute)
    for here, there in zip(late.units, whole.units, strict=True):
        for attribute in sorted(attributes):
            if whole.lines_storing(attribute):
                assert late.plain_stores(here.node, attribute) == whole.plain_stores(there.node, attribute)


@pytest.mark.parametrize("path", sorted(FILES), ids=lambda path: path.stem)
def test_of_the_standard_library(path: Path) -> None:
    text = Finder().text_of(str(path))
    assert_same_tree(text)
    assert_same_is_known(text)


def test_most_of_the_standard_library_is_read_late() -> None:
    texts = [Finder().text_of(str(path)) for path in FILES]
    characters = sum(len(text) for text in texts)
    cut_out = sum(body.end - body.start for text in texts for body in bodies_in(text))
    assert cut_out > characters / 3


@pytest.fixture(autouse=True)
def short_bodies_too(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Every body that can be cut out is, but in the tests of the standard library."""
    if "standard_library" not in request.node.name:
        monkeypatch.setattr(late_text, "_MIN_CHARACTERS", 0)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_of_programs_made_at_random(seed: int) -> None:
    text = module_text(random.Random(seed))
    assert_same_tree(text)
    assert_same_is_known(text)


PIECES = [
    "def f(a, b=(1, 2)):\n    return a\n",
    "async def g() -> list[int]:\n    await x\n\n    # nothing follows\n",
    "class C(\n    Base,\n):\n    field: int = 3\n\n    def m(self):\n        self.a, (self.b, c) = x\n",
    "@deco(\n    1,\n)\ndef h(x: 'str' = \"a)\"):  # a comment: (\n    return x\n",
    'x = """\ndef not_one():\n    pass\n"""\n',
    "y = '''\n    def not_one():\n        \"\"\"\n'''\n",
    'def s():\n    text = """\nat the margin\n  def not_one():\n"""\n    return text\n',
    'def s2():\n    """Ends with a string."""\n    return """\n"""\n',
    "def b():\n    x = [\n1,\n]\n    return x\n",
    "def c():\n    x = 1 + \\\n2\n    return x\n",
    "z = 'a \\\ndef not_one():\\\n    pass'\n",
    "def hash():\n    return '#'  # '''\n",
    "def nested():\n    def inner():\n        return 1\n\n    return inner\n",
    "def semi():\n    pass; return 1;\n",
    "def late_comment():\n    return 1\n# at the margin\n    # and deeper\n",
    "if x:\n    def branch():\n        return 1\nelse:\n    def branch(): return 2\n",
    "def default(x=\"'''\", y='\"\"\"'):\n    return x\n",
    "def f_string():\n    return f\"{x}'''\" f'{y}'\n",
    "def closes():\n    return (\n        1\n    )\n",
    "def umlaut():\n    return 'äöü'\n",
    "try:\n    def t():\n        return 1\nexcept E:\n    def t():\n        return 2\nfinally:\n    pass\n",
    "# def comment():\n#     '''\n",
    '"""A docstring: it\'s here."""\n',
    "r = r'\\''\n",
    "match x:\n    case 1:\n        def matched():\n            return 1\n",
    "class D:\n    def grow(self):\n        self.kept.append(1)\n        self.kept[0][1] = 2\n",
    "class E:\n    def go(self):\n        for self.i in x:\n            with y as self.z:\n                pass\n",
    "def after():\n    return 1\n\n\n",
]  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7), st.sampled_from(["", "\n", "\n\n"]))
def test_of_pieces_that_are_hard_to_tell_apart(pieces: list[str], between: str) -> None:
    text = between.join(pieces)
    assert_same_tree(text)
    assert_same_is_known(text)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_of_texts_with_something_missing_or_repeated(data: st.DataObject) -> None:
    """Most of these are broken: then nothing is known, or what is read of it comes to nothing; nothing is raised."""
    text = "".join(data.draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4)))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 12, len(text))))
    text = (
        text[:start]
        + data.draw(st.sampled_from(["", text[start:end] * 2, '"', "'''", '"""', "(", "\n", "\\\n"]))
        + text[end:]
    )
    tree = parse_late(text)
    found = None if tree is None else ast.dump(tree, include_attributes=True)
    try:
        whole = parse(text)
    except (SyntaxError, ValueError):
        return
    assert found == ast.dump(whole, include_attributes=True)


STORES = [
    "self.x = 1",
    "self.x: int = 1",
    "self.x += 1",
    "self.x **= 2",
    "self.x //= 2",
    "self.x = self.y = 1",
    "a = self.x = 1",
    "a, self.x = b",
    "self.x, a = b",
    "(a, self.x) = b",
    "(a,\n         self.x) = b",
    "(\n            self.x,\n            a,\n        ) = b",
    "[a, *self.x] = b",
    "for self.x in b:\n            pass",
    "for a, (self.x, c) in b:\n            pass",
    "with a as self.x:\n            pass",
    "with a as b, c() as self.x:\n            pass",
    "with (\n            a as b,\n            c as self.x,\n        ):\n            pass",
    "with (\n            a as b,\n            c as self.x\n        ):\n            pass",
    "self.x[0] = 1",
    "self.x[a][b] += 1",
    "self.x[\n            a\n        ] = 1",
    "a, self.x[0] = b",
    "self.x.append(1)",
    "b = self.x[a].setdefault(c, [])",
    "return self.x.setdefault(a, []).append(b)",
    "(\n            self.x\n            .update(a)\n        )",
    "if a: self.x = 1",
    "if a: self.x[0], c = b",
    "a; self.x = 1",
    "self.x \\\n            = 1",
    "b = (self.x).append(a)",
    "self.x[0]: int = 1",
    "if a: self.x: int = 1",
]
READS = [
    "return self.x",
    "a = self.x",
    "self.x(1)",
    "f(self.x, 1)",
    "self.x.y = 1",
    "self.xs = 1",
    "if self.x == 1: a()",
]


@pytest.mark.parametrize("statement", STORES)
def test_a_store_is_seen_in_the_text(statement: str) -> None:
    text = f"class C:\n    def m(self):\n        {statement}\n        if a:\n            b(c)\n"
    tree = parse_late(text)
    assert tree is not None and late_in(tree) == ["m"]
    module = ModuleInfo("m.py", text, tree)
    info = module.classes["C"]
    assert [node.name for node in (*info.methods_storing("x"), *info.methods_filling("x"))] == ["m"]


@pytest.mark.parametrize("statement", READS)
def test_who_only_reads_is_not_parsed_for_it(statement: str) -> None:
    text = f"class C:\n    def m(self):\n        {statement}\n"
    tree = parse_late(text)
    assert tree is not None
    module = ModuleInfo("m.py", text, tree)
    assert module.classes["C"].methods_storing("x") == []
    assert late_in(tree) == ["m"]


@pytest.mark.parametrize("read", [parse, parse_late])
def test_stores_in_all_parts_of_a_try_are_found(read: Callable[[str], ast.Module]) -> None:
    parts = ["try", "except E", "else", "finally"]
    blocks = [f"        {part}:\n            self.x = 1\n" for part in parts]
    text = "class C:\n    def m(self):\n" + "".join(blocks) + "\n    def n(self):\n        self.x = 2\n"
    module = ModuleInfo("m.py", text, read(text))
    assert [node.name for node in module.classes["C"].methods_storing("x")] == ["m", "n"]
    assert module.lines_storing("x") == [4, 6, 8, 10, 13]


def test_a_late_function_becomes_a_plain_one() -> None:
    text = (
        "class C:\n    def m(self, a):\n        b = a\n        return b\n\n    async def n(self):\n        return 1\n"
    )
    tree = parse_late(text)
    assert tree is not None
    first, second = functions(tree)
    assert isinstance(first, ast.FunctionDef) and isinstance(second, ast.AsyncFunctionDef)
    assert (first.name, first.lineno, first.end_lineno, first.end_col_offset) == ("m", 2, 4, 16)
    assert is_late(first) and is_late(second)
    assert [type(one) for one in first.body] == [ast.Assign, ast.Return]
    assert type(first) is ast.FunctionDef and first.body is first.body
    body = [one.body for one in functions(parse(text)) if isinstance(one, ast.AsyncFunctionDef)]
    assert len(second.body) == len(body[0]) and type(second) is ast.AsyncFunctionDef
    with pytest.raises(AttributeError):
        _ = first.nothing  # type: ignore[attr-defined]


def test_bodies_can_be_taken_from_another_tree() -> None:
    text = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"
    tree, other = parse_late(text), parse(text)
    assert tree is not None
    f, g = functions(tree)
    assert isinstance(f, ast.FunctionDef) and isinstance(g, ast.FunctionDef)
    first = f.body
    read_from([f, g], other)
    assert f.body is first
    assert g.body is functions(other)[1].body  # type: ignore[attr-defined]
    assert not late_in(tree)


def test_what_says_nothing_of_tensors_is_left_blank_with_its_decorators() -> None:
    text = (
        "import torch\n\n\n@overload\ndef name(x: int) -> str: ...\n\n\n"
        "@overload\ndef name(\n    x: str,\n) -> str: ...\n\n\n"
        "@once\nclass Plain:\n    word = 1\n\n\n@keep(\n    1,\n)\ndef word():\n    pass\n\n\n"
        "def made():\n    return torch.zeros(1)\n\n\ndef declared():\n    pass\n"
    )
    kept = [(number, line) for number, line in enumerate(without_the_rest(text, ["declared"]).split("\n"), 1) if line]
    assert [line for _, line in kept] == [
        *("import torch", "@keep(", "    1,", ")", "def word():", "    pass"),
        *("def made():", "    return torch.zeros(1)", "def declared():", "    pass"),
    ]
    assert all(text.split("\n")[number - 1] == line for number, line in kept)


def test_a_body_is_the_same_however_deep_its_reader_is() -> None:
    nested = "".join(f"{' ' * depth}if a:\n" for depth in range(4, 64)) + " " * 64 + "return 1\n"
    text = f"class C:\n  def m(self):\n{nested}"
    whole, trees = ast.dump(parse(text)), [parse_late(text) for _ in range(60)]

    def read(tree: ast.Module, depth: int) -> None:
        if depth:
            read(tree, depth - 1)
        else:
            _ = functions(tree)[0].body  # type: ignore[attr-defined]

    room = sys.getrecursionlimit() - len(inspect.stack())
    for missing, tree in enumerate(trees):
        assert tree is not None and late_in(tree) == ["m"]
        try:
            read(tree, room - missing)
        except RecursionError:
            assert late_in(tree) == ["m"]
        assert ast.dump(tree) == whole


def test_a_body_that_cannot_be_read_returns_something_unknown() -> None:
    text = "import a\n\n\ndef f():\n    return 1 +\n\n\ndef g():\n    return 2\n"
    tree = parse_late(text)
    assert tree is not None and late_in(tree) == ["f", "g"]
    f, g = functions(tree)
    assert [ast.unparse(one) for one in f.body] == ["return unreadable"]  # type: ignore[attr-defined]
    assert [ast.unparse(one) for one in g.body] == ["return 2"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", sorted(FILES), ids=lambda path: path.stem)
def test_all_functions_and_classes_of_the_standard_library_are_known(path: Path) -> None:
    text = Finder().text_of(str(path))
    tree = parse(text)
    module = ModuleInfo("m.py", text, tree)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node for node in ast.walk(tree) if isinstance(node, kinds) and "TYPE_CHECKING" not in text]
    assert {unit.node for unit in module.units} >= set(bodies)
    assert set(module.class_of_node) >= {node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
