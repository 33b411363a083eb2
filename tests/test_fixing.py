"""What fixers work with: names and imports, guards, places for lines, wrapping, code that must not pin."""

from __future__ import annotations

import ast
import fnmatch
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import WriteFiles
from fixer_checks import answer_of

from h2dlint.apply import apply_edits
from h2dlint.facts.copies import Copy, Direction, Span, Verdict
from h2dlint.finding import Edit, Fix
from h2dlint.fixing import Document, FixOptions, Refusal, RefusedError, Site, sites_of
from h2dlint.fixing.helpers import asks_its_device
from h2dlint.fixing.imports import need_import
from h2dlint.fixing.layout import add_keyword, delete, insert_after, insert_before, line_length
from h2dlint.fixing.module_flags import local_flag
from h2dlint.fixing.names import bound_in
from h2dlint.fixing.wrapping import rewrapped, wrapped

HERE = "here()"
"""Stands for the place that is asked about."""


def document_of(text: str, file: str = "a.py") -> Document:
    """A parsed text."""
    return Document(file, text, ast.parse(text), file)


def statement_at(document: Document, piece: str = HERE) -> ast.stmt:
    """The statement that starts with `piece`."""
    return next(
        node
        for node in ast.walk(document.tree)
        if isinstance(node, ast.stmt) and document.source(node).startswith(piece)
    )


def call_in(document: Document, name: str) -> ast.Call:
    """The call of `name`."""
    return next(
        node for node in ast.walk(document.tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == name
    )


def edited(document: Document, *edits: Edit) -> str:
    """The text with the edits made."""
    return apply_edits(document.text, edits)


# --- lines --------------------------------------------------------------------------------------------------------

BEFORE: dict[str, tuple[str, str]] = {
    "at the top level": ("here()\n", "new()\nhere()\n"),
    "inside a block": ("if a:\n    here()\n", "if a:\n    new()\n    here()\n"),
    "inside a block of tabs": ("if a:\n\there()\n", "if a:\n\tnew()\n\there()\n"),
    "with Windows line ends": ("if a:\r\n  here()\r\n", "if a:\r\n  new()\r\n  here()\r\n"),
    "below a comment": ("# why\nhere()\n", "# why\nnew()\nhere()\n"),
}


@pytest.mark.parametrize(("text", "expected"), BEFORE.values(), ids=BEFORE.keys())
def test_a_line_in_front(text: str, expected: str) -> None:
    document = document_of(text)
    assert edited(document, insert_before(document, statement_at(document), ["new()"])) == expected


AFTER: dict[str, tuple[str, str]] = {
    "at the top level": ("here()\n", "here()\nnew()\n"),
    "behind a comment": ("if a:\n    here()  # why\n", "if a:\n    here()  # why\n    new()\n"),
    "behind several lines": ("here()(\n    1\n)\nb\n", "here()(\n    1\n)\nnew()\nb\n"),
    "at the end of a file without a newline": ("here()", "here()\nnew()\n"),
}


@pytest.mark.parametrize(("text", "expected"), AFTER.values(), ids=AFTER.keys())
def test_a_line_behind(text: str, expected: str) -> None:
    document = document_of(text)
    assert edited(document, insert_after(document, statement_at(document), ["new()"])) == expected


def test_lines_of_the_file_itself_keep_their_line_ends() -> None:
    text = SEND.replace("host.to(", "torch.cat(\n        [host]  # all\n    ).to(").replace("\n", "\r\n")
    site = sites_of("a.py", text)[0]
    answer = answer_of("pin_snapshot", site)
    assert isinstance(answer, Fix)
    after = edited(site.document, *answer.edits)
    assert "    src = torch.cat(\r\n        [host]  # all\r\n    )\r\n" in after
    assert "\r\r" not in after


def test_a_string_over_several_lines_does_not_move() -> None:
    text = SEND.replace("host.to(", 'torch.cat([host], len("""\na""") - 2).to(')
    answer = answer_of("pin_snapshot", sites_of("a.py", text)[0])
    assert answer == Refusal("a string over several lines would change with its indentation")


def test_a_form_feed_is_not_repeated() -> None:
    document = document_of("x = 1\n\fy = 2\n")
    assert edited(document, insert_before(document, document.tree.body[1], ["new"])) == "x = 1\nnew\n\fy = 2\n"


def test_several_lines_keep_their_own_indent() -> None:
    document = document_of("if a:\n    here()\n")
    edit = insert_before(document, statement_at(document), ["for row in rows:\n    send(row)", "done()"])
    assert edited(document, edit) == "if a:\n    for row in rows:\n        send(row)\n    done()\n    here()\n"


def test_a_decorator_belongs_to_its_function() -> None:
    document = document_of("@a\ndef f(): pass\n")
    assert edited(document, insert_before(document, document.tree.body[0], ["new()"])).startswith("new()\n@a\n")


NO_PLACE = {
    "the second statement of a line": "a(); here()\n",
    "the first of two on a line": "here(); a()\n",
    "behind a colon": "if a: here()\n",
}


@pytest.mark.parametrize("text", NO_PLACE.values(), ids=NO_PLACE.keys())
def test_no_line_is_put_between_statements_of_one_line(text: str) -> None:
    document = document_of(text)
    for insert in (insert_before, insert_after):
        with pytest.raises(RefusedError, match="shares its line"):
            insert(document, statement_at(document), ["new()"])


@pytest.mark.parametrize(
    ("text", "piece"), [("if a:\n    b\nelif here():\n    c\n", "elif"), ("while here():\n    c\n", "while")]
)
def test_no_line_is_put_in_front_of_a_test_that_is_not_reached_once(text: str, piece: str) -> None:
    document = document_of(text)
    with pytest.raises(RefusedError):
        insert_before(document, statement_at(document, piece), ["new()"])


DELETED: dict[str, tuple[str, str]] = {
    "a line": ("a\nhere()\nb\n", "a\nb\n"),
    "a line with its comment": ("a\nhere()  # why\nb\n", "a\nb\n"),
    "several lines": ("a\nhere()(\n    1,\n)\nb\n", "a\nb\n"),
    "the only statement of a block": ("if a:\n    here()\nb\n", "if a:\n    pass\nb\n"),
    "the only statement of an else": ("if a:\n    b\nelse:\n    here()\n", "if a:\n    b\nelse:\n    pass\n"),
}


@pytest.mark.parametrize(("text", "expected"), DELETED.values(), ids=DELETED.keys())
def test_a_statement_goes(text: str, expected: str) -> None:
    document = document_of(text)
    assert edited(document, delete(document, statement_at(document))) == expected


# --- arguments ----------------------------------------------------------------------------------------------------

KEYWORDS: dict[str, tuple[str, str]] = {
    "no argument": ("f()", "f(k=v)"),
    "one argument": ("f(a)", "f(a, k=v)"),
    "a keyword": ("f(a, b=c)", "f(a, b=c, k=v)"),
    "an argument in parentheses": ("f((a))", "f((a), k=v)"),
    "a trailing comma": ("f(a,)", "f(a, k=v,)"),
    "options come last": ("f(a, **o)", "f(a, k=v, **o)"),
    "an argument a line": ("f(\n    a,\n    b=c,\n)", "f(\n    a,\n    b=c,\n    k=v,\n)"),
    "an argument a line, with comments": (
        "f(\n    a,  # one\n    b=c,  # two\n)",
        "f(\n    a,  # one\n    b=c,  # two\n    k=v,\n)",
    ),
    "an argument a line, without the last comma": ("f(\n    a,\n    b=c\n)", "f(\n    a,\n    b=c,\n    k=v\n)"),
    "all arguments on a line of their own": ("f(\n    a, b=c\n)", "f(\n    a, b=c, k=v\n)"),
    "a bracket in front of the end": ("f([\n    1,\n])", "f([\n    1,\n], k=v)"),
}


@pytest.mark.parametrize(("text", "expected"), KEYWORDS.values(), ids=KEYWORDS.keys())
def test_one_more_keyword(text: str, expected: str) -> None:
    document = document_of(f"{text}\n")
    assert edited(document, add_keyword(document, call_in(document, "f"), "k", "v")) == f"{expected}\n"


# --- wrapping -----------------------------------------------------------------------------------------------------

LONG = [
    "position_ids = torch.arange(seq_len, dtype=torch.long).pin_memory().to(hidden_states.device, non_blocking=True)",
    "grid = torch.tensor(grid_thw, dtype=torch.int32, pin_memory=PIN_MEMORY).to(self.device, non_blocking=True)",
    "self.positions_gpu[:total_tokens].copy_(self.positions_cpu[:total_tokens].pin_memory(), non_blocking=True)",
    "return torch.from_numpy(np.concatenate(all_chunks)).pin_memory().to(self.device_of_the_model, non_blocking=True)",
    "x = source_of_the_step.contiguous().pin_memory().to(device=self.device, dtype=self.dtype, non_blocking=True)",
    "inverse_permutation = source.pin_memory().to(device=self.device_of_it, dtype=self.dtype, non_blocking=True)",
    "lengths = async_tensor_h2d(cumulative_lengths_of_all, device=self.device, dtype=torch.int32, names=None)",
    "rotary_embedding_of_all_positions = async_tensor_h2d(cumulative_lengths, self.device_name).flatten()",
    "a = [tensor.pin_memory().to(self.device, non_blocking=True) for tensor in self.list_of_all_host_tensors_here]",
    "call(first_argument, torch.tensor(values, pin_memory=PIN_MEMORY).to(device, non_blocking=True), third=1)",
    "result[key] = self.function_name(argument_one, argument_two)[index_value].to(self.device, non_blocking=True)",
    "m = {'one': torch.tensor(values, pin_memory=PIN_MEMORY).to(device, non_blocking=True), 'two': second_value}",
    "x = (torch.tensor(values, pin_memory=PIN_MEMORY).to(device, non_blocking=True), something_else, third_value)",
    "ids = torch.stack([torch.arange(height, device=device), torch.arange(width, device=device)], dim=0).expand(2)",
    "table = (host.pin_memory() if PIN_MEMORY else host).to(self.device_of_the_block_table, non_blocking=True)",
    "src = self.query_start_loc_cpu[: requests + 1].pin_memory() if PIN_MEMORY else self.query[: requests + 1]",
    "x += torch.tensor(values_of_the_step, dtype=torch.int64, pin_memory=PIN_MEMORY).to(device) * factor_of_it",
    "self.gpu[name] = torch.as_tensor(self.cpu[name][:tokens]).pin_memory().to(self.device, non_blocking=True)",
    "drift = self.tokens[req_indices_gpu].to(torch.int64) - async_tensor_h2d(self.tokens_cpu[req_indices], self.d, 1)",
    "drift = tokens_of_this_very_step_on_the_gpu - async_tensor_h2d(self.tokens_cpu[req_indices], self.device, 1)",
    "drift = tokens_of_this_very_step_on_the_gpu_and_nowhere_else_in_the_world_ever - async_tensor_h2d(a, b_b_b)",
    "original = send(self.get_input_positions(input_tokens=token_ids, mm_features=[feature])[0], device).permute(1, 0)",
    "x = first_operand_of_this_statement + second_operand_of_this_statement + third_operand(of_this_statement, 1)",
    "x = a_condition_with_a_long_name_in_this_place or another_condition_with_a_long_name(self.device_of_this_model)",
    "short = f(a)",
]


@pytest.mark.parametrize("statement", LONG)
@pytest.mark.parametrize("depth", [0, 2])
def test_a_statement_is_wrapped_as_a_formatter_would(statement: str, depth: int) -> None:
    depth += statement.startswith("return")
    indent = "    " * depth
    headers = "".join(f"{'    ' * level}{'def f():' if level == 0 else 'if a:'}\n" for level in range(depth))
    statement = statement.replace("'", '"')
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "88", "-"],
        input=f"{headers}{indent}{statement}\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"{headers}{indent}{wrapped(statement, indent, '    ', 88, chr(10))}\n" == formatted


REWRAPPED: dict[str, tuple[str, str, str]] = {
    "parentheses that are no longer needed go": (
        f"x = (\n    f({'a' * 40})\n    .g({'b' * 20})\n    .to(device, non_blocking=True)\n)",
        f"x = (\n    send({'a' * 20})\n    .g(1)\n)",
        f"x = send({'a' * 20}).g(1)",
    ),
    "lines that somebody chose stay": (
        "x = f(\n    a,\n    b,\n)",
        "x = send(\n    a,\n    b,\n)",
        "x = send(\n    a,\n    b,\n)",
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), REWRAPPED.values(), ids=REWRAPPED.keys())
def test_a_statement_that_was_wrapped_is_wrapped_anew(old: str, new: str, expected: str) -> None:
    assert rewrapped(old, new, "", "    ", 88, "\n") == expected


LEFT_ALONE = {
    "what fits": "x = f(a,\n      b)",
    "a comment inside": f"x = f(  # why\n    {'a' * 90}, b)",
    "a string over several lines": f'x = f("""\n{"a" * 90}\n""", b)',
    "nothing to open": f"x = {'a' * 90}",
}


@pytest.mark.parametrize("statement", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_a_statement_that_needs_or_bears_no_wrapping_stays(statement: str) -> None:
    assert wrapped(statement, "", "    ", 88, "\n") == statement


def test_a_statement_of_several_lines_is_joined_before_it_is_wrapped() -> None:
    statement = f"x = f(\n    a, b, (c,), {'d' * 60}, pin_memory=PIN_MEMORY,\n)"
    expected = f"x = f(\n    a,\n    b,\n    (c,),\n    {'d' * 60},\n    pin_memory=PIN_MEMORY,\n)"
    assert wrapped(statement, "", "    ", 88, "\n") == expected


LENGTHS: dict[str, tuple[dict[str, str], str, int]] = {
    "what the settings say": ({"pyproject.toml": "[tool.ruff]\nline-length = 104\n"}, "a = 1\n", 104),
    "black's settings": ({"pyproject.toml": "[tool.black]\nline_length = 79\n"}, "a = 1\n", 79),
    "settings that say nothing": ({"pyproject.toml": "[project]\n"}, f"a = '{'b' * 100}'\n", 88),
    "nearest settings first": ({"pyproject.toml": "line-length = 99", "p/ruff.toml": "line-length = 77"}, "a\n", 77),
}


@pytest.mark.parametrize(("files", "text", "expected"), LENGTHS.values(), ids=LENGTHS.keys())
def test_how_long_lines_may_be(write: WriteFiles, files: Mapping[str, str], text: str, expected: int) -> None:
    folder = write({**files, "p/a.py": text})
    assert line_length(document_of(text, str(folder / "p" / "a.py"))) == expected


# --- imports ------------------------------------------------------------------------------------------------------

USE = "\n\ndef f():\n    here()\n"
FLAG = "pkg.flags.PIN_MEMORY"

IMPORTS: dict[str, tuple[str, str, str, str]] = {
    "known already": ("from pkg.flags import PIN_MEMORY\n", FLAG, "PIN_MEMORY", ""),
    "under another name": ("from pkg.flags import PIN_MEMORY as PIN\n", FLAG, "PIN", ""),
    "its module, whole": ("import pkg.flags\n", FLAG, "pkg.flags.PIN_MEMORY", ""),
    "its module, under another name": ("import pkg.flags as flags\n", FLAG, "flags.PIN_MEMORY", ""),
    "its module, from the package": ("from pkg import flags\n", FLAG, "flags.PIN_MEMORY", ""),
    "torch under another name": ("import torch as th\n", "torch.cuda.is_available", "th.cuda.is_available", ""),
    "torch by one of its modules": ("import torch.nn\n", "torch.cuda.is_available", "torch.cuda.is_available", ""),
    "relative": ("from .flags import PIN_MEMORY\n", FLAG, "PIN_MEMORY", ""),
    "beside its siblings": (
        "from pkg.flags import ALL, zeta\n",
        FLAG,
        "PIN_MEMORY",
        "from pkg.flags import ALL, PIN_MEMORY, zeta\n",
    ),
    "beside siblings in another order": (
        "from pkg.flags import apple, Zoo\n",
        FLAG,
        "PIN_MEMORY",
        "from pkg.flags import apple, PIN_MEMORY, Zoo\n",
    ),
    "beside a sibling with another name": (
        "from pkg.flags import a as b\n",
        FLAG,
        "PIN_MEMORY",
        "from pkg.flags import PIN_MEMORY, a as b\n",
    ),
    "a name a line": (
        "from pkg.flags import (\n    ALL,\n    zeta,\n)\n",
        FLAG,
        "PIN_MEMORY",
        "from pkg.flags import (\n    ALL,\n    PIN_MEMORY,\n    zeta,\n)\n",
    ),
    "a name a line, with comments": (
        "from pkg.flags import (\n    ALL,  # one\n    zeta,  # two\n)\n",
        FLAG,
        "PIN_MEMORY",
        "from pkg.flags import (\n    ALL,  # one\n    PIN_MEMORY,\n    zeta,  # two\n)\n",
    ),
    "too long for one line": (
        "from pkg.flags import aaaaaaaaaaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n",
        FLAG,
        "PIN_MEMORY",
        "from pkg.flags import (\n    PIN_MEMORY,\n    aaaaaaaaaaaaaaaaaaaaaaaaaaaa,\n"
        "    bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb,\n)\n",
    ),
    "in its place among its kind": (
        "import os\n\nimport torch\n\nfrom pkg.apples import a\nfrom pkg.pears import p\n",
        FLAG,
        "PIN_MEMORY",
        "import os\n\nimport torch\n\nfrom pkg.apples import a\nfrom pkg.flags import PIN_MEMORY\n"
        "from pkg.pears import p\n",
    ),
    "in front of the first of its kind": (
        "import os\n\nfrom pkg.pears import p\n",
        FLAG,
        "PIN_MEMORY",
        "import os\n\nfrom pkg.flags import PIN_MEMORY\nfrom pkg.pears import p\n",
    ),
    "the first of its kind": (
        "import os\n\nimport torch\n",
        FLAG,
        "PIN_MEMORY",
        "import os\n\nimport torch\n\nfrom pkg.flags import PIN_MEMORY\n",
    ),
    "relative, as its neighbours": (
        "import torch\n\nfrom .apples import a\n",
        FLAG,
        "PIN_MEMORY",
        "import torch\n\nfrom .apples import a\nfrom .flags import PIN_MEMORY\n",
    ),
    "not where types alone are imported": (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from pkg.flags import PIN_MEMORY as P\n",
        FLAG,
        "PIN_MEMORY",
        "from typing import TYPE_CHECKING\n\nfrom pkg.flags import PIN_MEMORY\n\n"
        "if TYPE_CHECKING:\n    from pkg.flags import PIN_MEMORY as P\n",
    ),
    "behind the docstring": (
        '"""What it is."""\n',
        FLAG,
        "PIN_MEMORY",
        '"""What it is."""\n\nfrom pkg.flags import PIN_MEMORY\n',
    ),
    "behind the future": (
        "from __future__ import annotations\n",
        FLAG,
        "PIN_MEMORY",
        "from __future__ import annotations\n\nfrom pkg.flags import PIN_MEMORY\n",
    ),
    "torch, where nothing imports it": (
        "import os\n",
        "torch.cuda.is_available",
        "torch.cuda.is_available",
        "import os\n\nimport torch\n",
    ),
}


@pytest.mark.parametrize(("head", "dotted", "name", "expected"), IMPORTS.values(), ids=IMPORTS.keys())
def test_a_name_from_elsewhere(write: WriteFiles, head: str, dotted: str, name: str, expected: str) -> None:
    folder = write({"pkg/__init__.py": "", "pkg/flags.py": "PIN_MEMORY = True\n", "pkg/a.py": head + USE})
    document = document_of(head + USE, str(folder / "pkg" / "a.py"))
    written, edits = need_import(document, dotted, statement_at(document))
    assert written == name
    assert edited(document, *edits) == (expected or head) + USE


TAKEN = {
    "by the module": "PIN_MEMORY = 3\n\n\ndef f():\n    here()\n",
    "by a function": "def f():\n    PIN_MEMORY = 3\n    here()\n",
    "by a parameter": "def f(PIN_MEMORY):\n    here()\n",
    "by a function around it": "def f(PIN_MEMORY):\n    def g():\n        here()\n",
}


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN.keys())
def test_a_name_that_is_taken(write: WriteFiles, text: str) -> None:
    folder = write({"pkg/__init__.py": "", "pkg/flags.py": "PIN_MEMORY = True\n", "pkg/a.py": text})
    document = document_of(text, str(folder / "pkg" / "a.py"))
    with pytest.raises(RefusedError, match="means something else"):
        need_import(document, FLAG, statement_at(document))


CIRCLES: dict[str, dict[str, str]] = {
    "at once": {"pkg/flags.py": "from pkg.a import f\nPIN_MEMORY = True\n"},
    "by another module": {
        "pkg/flags.py": "import os\nfrom pkg import (\n    b,\n)\nPIN_MEMORY = True\n",
        "pkg/b.py": "from .a import f\n",
    },
    "by its package": {"pkg/flags/__init__.py": "from .. import a\nPIN_MEMORY = True\n"},
}


@pytest.mark.parametrize("files", CIRCLES.values(), ids=CIRCLES.keys())
def test_an_import_must_not_go_in_a_circle(write: WriteFiles, files: Mapping[str, str]) -> None:
    folder = write({"pkg/__init__.py": "", **files, "pkg/a.py": USE})
    document = document_of(USE, str(folder / "pkg" / "a.py"))
    with pytest.raises(RefusedError, match="circle"):
        need_import(document, FLAG, statement_at(document))


def test_a_module_that_imports_torch_lazily_stays_lazy() -> None:
    text = "def f(d):\n    from torch import rand\n\n    here()\n"
    document = document_of(text, "a.py")
    with pytest.raises(RefusedError, match="inside functions alone"):
        need_import(document, "torch.cuda.is_available", statement_at(document))


def test_an_import_inside_a_function_closes_no_circle(write: WriteFiles) -> None:
    flags = "PIN_MEMORY = True\n\ndef g():\n    from pkg.a import f\n"
    folder = write({"pkg/__init__.py": "from pkg.a import f\n", "pkg/flags.py": flags, "pkg/a.py": USE})
    document = document_of(USE, str(folder / "pkg" / "a.py"))
    assert need_import(document, FLAG, statement_at(document))[0] == "PIN_MEMORY"


def test_what_a_scope_binds() -> None:
    tree = ast.parse(
        "def f(a, *b, c=1, **d):\n"
        "    global g\n    e = g = 1\n    import h.i, j as k\n    for l, (m, n) in o: pass\n"
        "    with p as q: pass\n    def r(s): t = 1\n    class u: v = 1\n    [w for w in x]\n    (y := 1)\n"
    )
    assert bound_in(tree.body[0]) - {"w"} == set("abcdehklmnqruy")


# --- guards and helpers -------------------------------------------------------------------------------------------

COPY_LINE = "    return host.to(device, non_blocking=True)  # copy\n"
SEND = f"import torch\n\n\ndef send(device):\n    host = torch.rand(99999)\n{COPY_LINE}"
UTILS = "import torch\n\n\ndef is_pin_memory_available() -> bool:\n    return torch.cuda.is_available()\n\n\n"


def site_in(folder: Path, name: str = "pkg/a.py", options: FixOptions = FixOptions()) -> Site:  # noqa: B008  (frozen)
    """The only reported copy of a file."""
    file = str(folder / name)
    text = (folder / name).read_text()
    return sites_of(file, text, options)[0]


OPT_OUT = (
    "import torch\n\n\nclass A:\n    def __init__(self, pin=True):\n"
    "        self.pin = pin and torch.cuda.is_available()\n\n"
    "    def send(self, device):\n        host = torch.rand(99999)\n"
    "        return host.to(device, non_blocking=True)\n"
)
GUARDS: dict[str, tuple[dict[str, str], FixOptions, str, str]] = {
    "none in the project: torch's own test": ({"pkg/a.py": SEND}, FixOptions(), "torch.cuda.is_available()", ""),
    "torch under another name": (
        {"pkg/a.py": SEND.replace("import torch", "import torch as th").replace("torch.rand", "th.rand")},
        FixOptions(),
        "th.cuda.is_available()",
        "",
    ),
    "a flag of this module": (
        {"pkg/a.py": SEND.replace("\n\n\n", "\n\nPIN = torch.cuda.is_available()\n\n\n", 1)},
        FixOptions(),
        "PIN",
        "",
    ),
    "a flag that is not what it seems": (
        {"pkg/a.py": SEND.replace("\n\n\n", "\n\nPIN = input() == 'yes'\n\n\n", 1)},
        FixOptions(),
        "torch.cuda.is_available()",
        "",
    ),
    "a flag that is set twice": (
        {"pkg/a.py": SEND.replace("\n\n\n", "\n\nPIN = torch.cuda.is_available()\nPIN = False\n\n\n", 1)},
        FixOptions(),
        "torch.cuda.is_available()",
        "",
    ),
    "a flag that this module imports": (
        {
            "pkg/u.py": UTILS + "PIN_MEMORY = is_pin_memory_available()\n",
            "pkg/a.py": "from pkg.u import PIN_MEMORY\n" + SEND,
        },
        FixOptions(),
        "PIN_MEMORY",
        "",
    ),
    "a function that this module imports": (
        {"pkg/u.py": UTILS, "pkg/a.py": "from pkg.u import is_pin_memory_available\n" + SEND},
        FixOptions(),
        "is_pin_memory_available()",
        "",
    ),
    "a flag from elsewhere in the project": (
        {"pkg/u.py": UTILS + "PIN_MEMORY = is_pin_memory_available()\n", "pkg/a.py": SEND},
        FixOptions(),
        "PIN_MEMORY",
        "from pkg.u import PIN_MEMORY\n",
    ),
    "of several flags the one that is used most": (
        {
            "pkg/a_first.py": "PIN_MEMORY_OLD = is_available()\n",
            "pkg/u.py": UTILS + "PIN_MEMORY = is_pin_memory_available()\n",
            "pkg/user.py": "from pkg.u import PIN_MEMORY\n",
            "pkg/a.py": SEND,
        },
        FixOptions(),
        "PIN_MEMORY",
        "from pkg.u import PIN_MEMORY\n",
    ),
    "a flag of a test is the tests' own": (
        {"pkg/tests/u.py": UTILS + "PIN_MEMORY = is_pin_memory_available()\n", "pkg/a.py": SEND},
        FixOptions(),
        "torch.cuda.is_available()",
        "",
    ),
    "a function from elsewhere in the project": (
        {"pkg/u.py": UTILS, "pkg/a.py": SEND},
        FixOptions(),
        "is_pin_memory_available()",
        "from pkg.u import is_pin_memory_available\n",
    ),
    "not one whose import would go in a circle": (
        {"pkg/u.py": "from pkg.a import send\n" + UTILS, "pkg/a.py": SEND},
        FixOptions(),
        "torch.cuda.is_available()",
        "",
    ),
    "not a name that its module keeps to itself": (
        {"pkg/u.py": "_PIN_MEMORY = True\n" + UTILS.replace("is_pin", "_is_pin"), "pkg/a.py": SEND},
        FixOptions(),
        "torch.cuda.is_available()",
        "",
    ),
    "a folder between two packages": (
        {"pkg/u.py": UTILS, "pkg/gap/deep/a.py": "from pkg import b\n" + SEND},
        FixOptions(),
        "is_pin_memory_available()",
        "from pkg.u import is_pin_memory_available\n",
    ),
    "a package around, from which nothing is imported": (
        {"pkg/u.py": UTILS, "pkg/gap/deep/a.py": SEND},
        FixOptions(),
        "torch.cuda.is_available()",
        "",
    ),
    "a folder of scripts that import each other": (
        {"scripts/u.py": UTILS, "scripts/b.py": "import u\n", "scripts/a.py": SEND},
        FixOptions(),
        "is_pin_memory_available()",
        "from u import is_pin_memory_available\n",
    ),
    "a folder of scripts that do not": (
        {"scripts/u.py": UTILS, "scripts/a.py": SEND},
        FixOptions(),
        "torch.cuda.is_available()",
        "",
    ),
    "a function that a package of the project hands on": (
        {
            "pkg/utils/__init__.py": "from pkg.utils.common import *\n",
            "pkg/utils/common.py": UTILS,
            "pkg/a.py": "from pkg.utils import is_pin_memory_available\n" + SEND,
        },
        FixOptions(),
        "is_pin_memory_available()",
        "",
    ),
    "a flag of the object that its maker may turn off": (
        {"pkg/a.py": OPT_OUT},
        FixOptions(),
        "self.pin",
        "",
    ),
    "a flag of the object that its maker must turn on": (
        {"pkg/a.py": OPT_OUT.replace("pin=True", "pin=False")},
        FixOptions(),
        "torch.cuda.is_available()",
        "",
    ),
    "a flag of the object": (
        {
            "pkg/a.py": "import torch\n\n\nclass A:\n    def __init__(self):\n"
            "        self.pin = torch.cuda.is_available()\n\n"
            "    def send(self, device):\n        host = torch.rand(99999)\n"
            "        return host.to(device, non_blocking=True)\n"
        },
        FixOptions(),
        "self.pin",
        "",
    ),
    "a flag that stands below the function": (
        {"pkg/a.py": SEND + "\n\nEARLY = send('cpu')\nPIN = torch.cuda.is_available()\n"},
        FixOptions(),
        "torch.cuda.is_available()",
        "",
    ),
    "a flag that is imported below the function": (
        {"pkg/u.py": UTILS, "pkg/a.py": SEND + "\n\nfrom pkg.u import is_pin_memory_available\n"},
        FixOptions(),
        "torch.cuda.is_available()",
        "",
    ),
    "the configured one": (
        {"pkg/u.py": "CAN = 1\n", "pkg/a.py": SEND},
        FixOptions(guard="pkg.u.CAN"),
        "CAN",
        "from pkg.u import CAN\n",
    ),
    "a configured expression": (
        {"pkg/u.py": "CAN = 1\nMUST = 2\n", "pkg/a.py": SEND},
        FixOptions(guard="pkg.u.CAN() and torch.cuda.is_available()"),
        "CAN() and torch.cuda.is_available()",
        "from pkg.u import CAN\n",
    ),
}


@pytest.mark.parametrize(("files", "options", "expression", "line"), GUARDS.values(), ids=GUARDS.keys())
def test_the_guard(
    write: WriteFiles, files: Mapping[str, str], options: FixOptions, expression: str, line: str
) -> None:
    name = next(name for name in files if name.endswith("/a.py"))
    site = site_in(write({"pkg/__init__.py": "", **files}), name, options)
    guard = site.guard()
    assert (guard.expression, guard.needed) == (expression, True)
    assert line in edited(site.document, *guard.edits)
    assert bool(guard.edits) is bool(line)


FLAGS: dict[str, tuple[str, str]] = {
    "a test": ("PIN_MEMORY = torch.cuda.is_available()", "PIN_MEMORY"),
    "a test beside a switch": (
        "PIN_MEMORY = os.environ.get('PIN', '1') == '1' and torch.cuda.is_available()",
        "PIN_MEMORY",
    ),
    "a test beside a constant": ("WANTED = True\nPIN_MEMORY = WANTED and torch.cuda.is_available()", "PIN_MEMORY"),
    "one of two tests": ("PIN_MEMORY = torch.cuda.is_available() or torch.xpu.is_available()", "PIN_MEMORY"),
    "what a function of the module finds": (
        "def _pinnable():\n    return torch.cuda.is_available()\n\n\nPIN_MEMORY = _pinnable()",
        "PIN_MEMORY",
    ),
    "what a library says": ("from lib import pinning_supported\n\nPIN_MEMORY = pinning_supported()", "PIN_MEMORY"),
    "a setting": ("PIN_MEMORY = True", ""),
    "a setting from the environment": ("PIN_MEMORY = os.environ.get('PIN', '1') == '1'", ""),
    "a switch instead of a test": ("PIN_MEMORY = torch.cuda.is_available() or bool(os.environ.get('PIN'))", ""),
    "a string beside a test": ("PIN_MEMORY = os.environ.get('PIN') and torch.cuda.is_available()", ""),
    "a list of devices": ("PIN_MEMORY_DEVICES = ('cuda', 'xpu')", ""),
    "a function that is not called": ("from lib import can_pin as able\n\nPIN_MEMORY = lambda: able()", ""),
    "what may be there on any machine": ("PIN_MEMORY = torch.distributed.is_available()", ""),
    "what is not Windows alone": ("PIN_MEMORY = not in_wsl()", ""),
    "a flag that a function sets": (
        "PIN_MEMORY = torch.cuda.is_available()\n\n\ndef force():\n    global PIN_MEMORY\n    PIN_MEMORY = True",
        "",
    ),
    "a flag that is there only in a script": (
        "if __name__ == '__main__':\n    PIN_MEMORY = torch.cuda.is_available()",
        "",
    ),
    "a function": ("def can_pin():\n    return torch.cuda.is_available()", "can_pin()"),
    "a function that asks its way": (
        "@lru_cache\ndef can_pin(device=None) -> bool:\n    'Whether.'\n    if not torch.cuda.is_available():\n"
        "        return False\n    if device is not None and str(device) == 'cpu':\n        print('no')\n"
        "        return False\n    return True",
        "can_pin()",
    ),
    "a function that tries": (
        "def can_pin():\n    try:\n        return torch.cuda.is_available()\n    except RuntimeError:\n"
        "        return False",
        "can_pin()",
    ),
    "a function that asks an object": (
        "def can_pin():\n    from pkg.platforms import current\n\n    return current.is_pin_memory_available()",
        "can_pin()",
    ),
    "a function that asks a class": (
        "class Platform:\n    def can_pin():\n        return True\n\n\ndef can_pin():\n    return Platform.can_pin()",
        "",
    ),
    "a function that says yes": ("def can_pin(device=None):\n    return True", ""),
    "a function that says yes on some way": (
        "def can_pin(device=None):\n    if device is None:\n        return torch.cuda.is_available()\n    return True",
        "",
    ),
    "a function that says nothing on some way": (
        "def can_pin():\n    if torch.cuda.is_available():\n        return True",
        "",
    ),
    "a function that reads the environment": ("def should_pin_memory():\n    return os.environ['PIN'] == '1'", ""),
    "a function that is decorated": ("@wrap\ndef can_pin():\n    return torch.cuda.is_available()", ""),
    "a function with another after it": (
        "def can_pin():\n    return torch.cuda.is_available()\n\n\ndef can_pin():\n    return True",
        "",
    ),
}
FLAG_NAMES = ("PIN_MEMORY_DEVICES", "PIN_MEMORY", "should_pin_memory", "can_pin")


@pytest.mark.parametrize("imported", [True, False], ids=["imported", "found"])
@pytest.mark.parametrize(("definition", "expression"), FLAGS.values(), ids=FLAGS.keys())
def test_a_flag_whose_definition_is_in_sight_counts_by_what_it_is(
    write: WriteFiles, definition: str, expression: str, imported: bool
) -> None:
    head = "import os\nfrom functools import lru_cache\n\nimport torch\n\n"
    name = next(name for name in FLAG_NAMES if name in definition)
    line = f"from pkg.u import {name}\n" if imported else "from pkg.u import os\n"
    files = {"pkg/__init__.py": "", "pkg/platforms.py": "current = find()\n", "pkg/a.py": line + SEND}
    site = site_in(write({**files, "pkg/u.py": f"{head}{definition}\n"}))
    assert site.guard().expression == (expression or "torch.cuda.is_available()")


LOCAL: dict[str, tuple[str, bool]] = {
    "a test": ("    pin = torch.cuda.is_available()\n", True),
    "what a library says": ("    pin = pinning_supported(device)\n", True),
    "what the project says truly": ("    pin = can_pin(device)\n", True),
    "what the project says": ("    pin = always_pin_enabled(device)\n", False),
    "what is set again": ("    pin = torch.cuda.is_available()\n    if device:\n        pin = True\n", False),
    "what is set under a condition": ("    if device:\n        pin = torch.cuda.is_available()\n", False),
    "what a function inside may set": (
        "    pin = torch.cuda.is_available()\n    def force():\n        nonlocal pin\n        pin = True\n",
        False,
    ),
}


@pytest.mark.parametrize(("lines", "known"), LOCAL.values(), ids=LOCAL.keys())
def test_a_flag_of_the_function(write: WriteFiles, lines: str, known: bool) -> None:
    flags = (
        "import torch\n\n\ndef can_pin(device):\n    return torch.cuda.is_available() and device != 'cpu'\n\n\n"
        "def always_pin_enabled(device):\n    return 'yes' if device != 'cpu' else ''\n"
    )
    head = "from lib import pinning_supported\nfrom pkg.u import always_pin_enabled, can_pin\n"
    code = head + SEND.replace("    host =", f"{lines}    host =")
    site = site_in(write({"pkg/__init__.py": "", "pkg/u.py": flags, "pkg/a.py": code}))
    assert local_flag(site.document, site.statement) == ("pin" if known else None)


OBJECTS: dict[str, tuple[str, str, bool]] = {
    "a base of a library": ("class A(torch.nn.Module)", "super().__init__()", True),
    "layers that are made before": ("class A", "self.layer = torch.nn.Linear(self.width, 4)", True),
    "a method that is called before": ("class A", "self.setup()", False),
    "an object that is handed on before": ("class A", "register(self)", False),
    "a base of the project, made before": ("class A(Base)", "super().__init__()", False),
    "set on one way": ("class A", "if setup:", False),
}


@pytest.mark.parametrize(("head", "line", "known"), OBJECTS.values(), ids=OBJECTS.keys())
def test_a_flag_of_an_object_is_set_before_anything_can_ask_for_it(
    write: WriteFiles, head: str, line: str, known: bool
) -> None:
    pin = "        self.pin = pin and"
    inner = f"    {pin}" if line.endswith(":") else pin
    code = OPT_OUT.replace("class A", f"class Base:\n    pass\n\n\n{head}").replace(pin, f"        {line}\n{inner}")
    site = site_in(write({"pkg/__init__.py": "", "pkg/a.py": code}))
    assert (site.guard().expression == "self.pin") is known


HEIRS: dict[str, tuple[str, bool]] = {
    "one with no constructor": ("class B(A):\n    pass\n", True),
    "one that begins with its parent's": ("class B(A):\n    def __init__(self):\n        super().__init__()\n", True),
    "one that leaves it out": ("class B(A):\n    def __init__(self):\n        self.x = 1\n", False),
    "one that does something before": (
        "class B(A):\n    def __init__(self):\n        self.send('cpu')\n        super().__init__()\n",
        False,
    ),
    "one of one that leaves it out": (
        "class B(A):\n    pass\n\n\nclass C(B):\n    def __init__(self):\n        self.x = 1\n",
        False,
    ),
    "one that sets it": ("class B(A):\n    def turn_on(self):\n        self.pin = True\n", False),
}


@pytest.mark.parametrize("apart", [True, False], ids=["elsewhere", "here"])
@pytest.mark.parametrize(("heir", "known"), HEIRS.values(), ids=HEIRS.keys())
def test_a_flag_of_an_object_is_the_same_for_its_heirs(write: WriteFiles, heir: str, known: bool, apart: bool) -> None:
    files = {"pkg/a.py": OPT_OUT, "pkg/b.py": f"from pkg.a import A\n\n\n{heir}"}
    if not apart:
        files = {"pkg/a.py": f"{OPT_OUT}\n\n{heir}"}
    site = site_in(write({"pkg/__init__.py": "", **files}))
    assert (site.guard().expression == "self.pin") is known


RUNS: dict[str, tuple[dict[str, str], bool]] = {
    "one that only defines": ({"u.py": UTILS}, True),
    "one that asks for what may not be there": (
        {"u.py": "try:\n    import fast\nexcept ImportError:\n    fast = None\n" + UTILS},
        True,
    ),
    "one that asks for the module where types are checked": (
        {"u.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import send\n" + UTILS},
        True,
    ),
    "one that asks for the module in a function": ({"u.py": UTILS + "def g(\n    x,\n):\n    import a\n"}, True),
    "one that does something as a script": ({"u.py": UTILS + "if __name__ == '__main__':\n    main()\n"}, True),
    "one that raises": ({"u.py": UTILS + "raise SystemExit\n"}, False),
    "one that calls": ({"u.py": UTILS + "main()\n"}, False),
    "one that reads the command line": ({"u.py": UTILS + "args = parser.parse_args()\n"}, False),
    "one that loops": ({"u.py": UTILS + "for _ in range(3):\n    pass\n"}, False),
    "one that needs another library": ({"u.py": "import fast\n" + UTILS}, False),
    "one that needs one that calls": ({"u.py": "import v\n" + UTILS, "v.py": "main()\n"}, False),
    "one that imports this module": ({"u.py": "import a\n" + UTILS}, False),
    "one that tries to import this module": (
        {"u.py": "try:\n    import a\nexcept ImportError:\n    a = None\n" + UTILS},
        False,
    ),
    "one that imports this module by another": ({"u.py": "import v\n" + UTILS, "v.py": "import a\n"}, False),
    "one that has run already": ({"u.py": UTILS + "main()\n", "b.py": "import u\n"}, True),
    "one that may have run already": (
        {"u.py": UTILS + "main()\n", "b.py": "try:\n    import u\nexcept ImportError:\n    u = None\n"},
        False,
    ),
}


@pytest.mark.parametrize("folder", ["pkg", "scripts"])
@pytest.mark.parametrize(("files", "taken"), RUNS.values(), ids=RUNS.keys())
def test_an_import_for_a_flag_runs_nothing_new(
    write: WriteFiles, files: Mapping[str, str], taken: bool, folder: str
) -> None:
    prefix = "pkg." if folder == "pkg" else ""
    whole = {"b.py": "", "c.py": "import b\n", **files, "a.py": "import b\n" + SEND}
    named = {
        f"{folder}/{name}": re.sub(r"\b(import|from) ([abuv])\b", rf"\1 {prefix}\2", text)
        for name, text in whole.items()
    }
    if prefix:
        named["pkg/__init__.py"] = ""
    site = site_in(write(named), f"{folder}/a.py")
    assert (site.guard().expression == "is_pin_memory_available()") is taken


def test_no_guard_is_needed_on_the_way_to_an_accelerator(write: WriteFiles) -> None:
    site = site_in(write({"pkg/__init__.py": "", "pkg/a.py": SEND.replace("(device, n", "('cuda', n")}))
    assert (site.guard().needed, site.guard().edits) == (False, ())


def test_a_configured_guard_that_is_not_known_is_a_refusal(write: WriteFiles) -> None:
    site = site_in(write({"pkg/__init__.py": "", "pkg/a.py": SEND}), options=FixOptions(guard="CAN"))
    with pytest.raises(RefusedError, match="`CAN`"):
        site.guard()


@pytest.mark.parametrize("guard", ["pkg.nosuch.CAN", "pkg.u.NOSUCH", "pkg.u.nosuch.CAN"])
def test_a_configured_guard_that_the_project_does_not_have_is_a_refusal(guard: str, write: WriteFiles) -> None:
    files = {"pkg/__init__.py": "", "pkg/u.py": "CAN = 1\n", "pkg/a.py": SEND}
    site = site_in(write(files), options=FixOptions(guard=guard))
    with pytest.raises(RefusedError, match="there is no"):
        site.guard()


HELPER = """import torch

PIN_MEMORY = torch.cuda.is_available()


def send_async(data, device, dtype=None):
    host = torch.as_tensor(data, dtype=dtype)
    pinned = host.pin_memory() if PIN_MEMORY else host
    return pinned.to(device, non_blocking=True)


def load(path, device):
    return torch.load(path).to(device, non_blocking=True)
"""


def test_the_helper_is_found_by_what_it_does(write: WriteFiles) -> None:
    site = site_in(write({"pkg/__init__.py": "", "pkg/u.py": HELPER, "pkg/a.py": SEND}))
    helper = site.helper()
    assert helper is not None
    assert helper.name == "send_async"
    assert helper.definition is not None
    assert [argument.arg for argument in helper.definition.args.args] == ["data", "device", "dtype"]
    assert "from pkg.u import send_async\n" in edited(site.document, *helper.edits)


def test_no_helper_where_none_pins_and_sends(write: WriteFiles) -> None:
    site = site_in(write({"pkg/__init__.py": "", "pkg/u.py": HELPER.split("def send_async")[0], "pkg/a.py": SEND}))
    assert site.helper() is None


GUARDED = "    if torch.cuda.is_available():\n        data = data.pin_memory()\n"
SENT = "    return data.to(device, non_blocking=True)\n"
BODIES: dict[str, tuple[str, bool]] = {
    "pins under a guard and sends": (GUARDED + SENT, True),
    "says so first": ('    """Sends it."""\n' + GUARDED + SENT, True),
    "fills a tensor that lies there": (
        GUARDED + "    there = torch.empty_like(data, device=device)\n    there.copy_(data, non_blocking=True)\n"
        "    return there\n",
        True,
    ),
    "makes it dense": (GUARDED + SENT.replace("data.to", "data.contiguous().to"), True),
    "casts on the way": (GUARDED + SENT.replace("device,", "device, dtype=torch.float16,"), False),
    "casts by position": (GUARDED + SENT.replace("device,", "device, torch.float16,"), False),
    "casts before": ("    data = data.int()\n" + GUARDED + SENT, False),
    "computes": ("    data = data / 255\n" + GUARDED + SENT, False),
    "checks": ("    assert data.dim() == 2\n" + GUARDED + SENT, False),
    "tells somebody": ("    print(data)\n" + GUARDED + SENT, False),
    "goes on with the result": (GUARDED + SENT.replace("True)", "True).unsqueeze(0)"), False),
    "sends it where it likes": (GUARDED + SENT.replace("device,", "'cuda',"), False),
    "sends it to the current device": (GUARDED + SENT.replace("to(device,", "cuda("), False),
    "pins in any case": (SENT.replace("data.to", "data.pin_memory().to"), False),
    "pins all that is on the host": (GUARDED.replace("torch.cuda.is_available()", "not data.is_cuda") + SENT, False),
    "pins by a flag of its own": (GUARDED.replace("torch.cuda.is_available()", "flag") + SENT, False),
}


@pytest.mark.parametrize(("body", "taken"), BODIES.values(), ids=BODIES.keys())
def test_a_helper_that_was_found_does_nothing_but_pin_and_send(body: str, taken: bool, write: WriteFiles) -> None:
    helper = f"import torch\n\n\ndef send_async(data, device, flag=True):\n{body}"
    site = site_in(write({"pkg/__init__.py": "", "pkg/u.py": helper, "pkg/a.py": SEND}))
    assert (site.helper() is not None) is taken


CACHED = "from functools import lru_cache\n" + HELPER.replace("def send_async", "@lru_cache\ndef send_async")
NO_HELPERS = {
    "a cache around it": CACHED,
    "a decorator": HELPER.replace("def send_async", "@torch.no_grad()\ndef send_async"),
    "another meaning further down": HELPER + "\n\nsend_async = load\n",
    "another meaning on some way": HELPER + "\n\nif PIN_MEMORY:\n    from fast import send_async\n",
    "a function that sets it": HELPER + "\n\ndef replace():\n    global send_async\n    send_async = load\n",
    "a setting instead of a test": HELPER.replace("torch.cuda.is_available()", "True"),
    "a copy that waits": HELPER.replace("non_blocking=True", "non_blocking=False"),
    "a module that runs something": HELPER + "\n\nmain()\n",
    "a module that imports the copy's": "from pkg.a import send\n" + HELPER,
}


@pytest.mark.parametrize("text", NO_HELPERS.values(), ids=NO_HELPERS.keys())
def test_a_helper_that_may_do_something_else(text: str, write: WriteFiles) -> None:
    site = site_in(write({"pkg/__init__.py": "", "pkg/u.py": text, "pkg/a.py": SEND}))
    assert site.helper() is None


def test_a_helper_of_this_module_stands_above_the_copy(write: WriteFiles) -> None:
    head, _, use = SEND.partition("\n\n\n")
    helper = HELPER.partition("\n\n")[2].partition("\n\n\ndef load")[0]
    above, below = f"{head}\n\n{helper}\n\n\n{use}", f"{SEND}\n\n{helper}\n"
    for number, (text, name) in enumerate(((above, "send_async"), (below, None))):
        found = site_in(
            write({f"pkg{number}/__init__.py": "", f"pkg{number}/a.py": text}), f"pkg{number}/a.py"
        ).helper()
        assert (found.name if found else None) == name


SIGNATURES: dict[str, tuple[str, str]] = {
    "a device": ("data, device", "send(host, device)"),
    "a device by name": ("data, *, target_device=None", "send(host, target_device=device)"),
    "a switch that is off": ("data, device, non_blocking=False", "send(host, device, non_blocking=True)"),
    "a switch that must be given": ("data, device, *, non_blocking", "send(host, device, non_blocking=True)"),
    "a switch that is on": ("data, device, non_blocking=True", "send(host, device)"),
    "a dtype that must be given": (
        "data, dtype, device",
        "`transfer-helper` names `pkg.u.send`, which requires `dtype`, which this copy does not say",
    ),
    "no device": ("data", "`transfer-helper` names `pkg.u.send`, which takes no device"),
    "names alone": ("*, data, device", "`transfer-helper` names `pkg.u.send`, which takes no tensor by position"),
}


@pytest.mark.parametrize(("signature", "expected"), SIGNATURES.values(), ids=SIGNATURES.keys())
def test_the_configured_helper_is_called_as_it_is_declared(write: WriteFiles, signature: str, expected: str) -> None:
    files = {"pkg/__init__.py": "", "pkg/u.py": f"def send({signature}):\n    return data\n"}
    code = SEND.replace("def send", "def upload")
    site = site_in(write({**files, "pkg/a.py": code}), options=FixOptions(helper="pkg.u.send"))
    answer = answer_of("call_helper", site)
    if expected.startswith("send("):
        assert isinstance(answer, Fix)
        assert f"    return {expected}  # copy\n" in edited(site.document, *answer.edits)
    else:
        assert answer == Refusal(expected)


LOST: dict[str, tuple[str, str]] = {
    "a comment in the call": ("host.to(\n        device,  # where\n        non_blocking=True,\n    )", "*comment*"),
    "a comment in front of it": (
        "(\n        host\n        # sent\n        .to(device, non_blocking=True)\n    )",
        "*comment*",
    ),
    "a string over several lines": (
        'torch.add(host, len("""a\nb"""))  .to(device, non_blocking=True)',
        "*a string over several lines*",
    ),
}


@pytest.mark.parametrize(("copy", "reason"), LOST.values(), ids=LOST.keys())
def test_a_call_of_the_helper_loses_nothing(write: WriteFiles, copy: str, reason: str) -> None:
    code = SEND.replace("host.to(device, non_blocking=True)", copy).replace("def send", "def upload")
    files = {"pkg/__init__.py": "", "pkg/u.py": "def send(data, device): ...\n", "pkg/a.py": code}
    site = site_in(write(files), options=FixOptions(helper="pkg.u.send"))
    answer = answer_of("call_helper", site)
    assert isinstance(answer, Refusal)
    assert fnmatch.fnmatchcase(answer.reason, reason)


def test_a_helper_that_asks_what_its_device_is_cannot_be_given_a_string() -> None:
    text = "def send(data, device):\n    if device.type == 'cuda':\n        data = data.pin_memory()\n"
    definition = ast.parse(text).body[0]
    assert isinstance(definition, ast.FunctionDef)
    assert asks_its_device(definition, "device")
    assert not asks_its_device(definition, "other")


def test_the_configured_helper_need_not_be_found(write: WriteFiles) -> None:
    site = site_in(
        write({"pkg/__init__.py": "", "pkg/a.py": SEND}), options=FixOptions(helper="elsewhere.tools.to_device")
    )
    helper = site.helper()
    assert helper is not None
    assert (helper.name, helper.definition) == ("to_device", None)


# --- code that must not pin ---------------------------------------------------------------------------------------

WORKERS: dict[str, tuple[str, bool]] = {
    "an ordinary function": ("def f():\n    here()\n", False),
    "an ordinary class": ("class A(Base):\n    def f(self):\n        here()\n", False),
    "a data set": ("class A(Dataset):\n    def __getitem__(self, i):\n        here()\n", True),
    "a data set by its module": ("class A(data.IterableDataset):\n    def __iter__(self):\n        here()\n", True),
    "a collate function by its name": ("def my_collate(batch):\n    here()\n", True),
    "a collate function by its use": ("def f(batch):\n    here()\n\nDataLoader(d, collate_fn=f)\n", True),
    "a collate method": ("class A:\n    def f(self, b):\n        here()\n    x = L(collate_fn=self.f)\n", True),
    "a collator": ("class DataCollator:\n    def __call__(self, b):\n        here()\n", True),
    "a worker's first act": ("def f(i):\n    here()\n\nDataLoader(d, worker_init_fn=f)\n", True),
    "a compiled function": ("@torch.compile\ndef f():\n    here()\n", True),
    "a compiled function with options": ("@torch.compile(dynamic=True)\ndef f():\n    here()\n", True),
    "a function that is compiled later": ("def f():\n    here()\n\ng = torch.compile(f)\n", True),
    "a scripted function": ("@torch.jit.script\ndef f():\n    here()\n", True),
    "a compiled class": ("@support_torch_compile\nclass A:\n    def f(self):\n        here()\n", True),
    "under graph capture": ("with torch.cuda.graph(g):\n    here()\n", True),
    "under another context": ("with torch.no_grad():\n    here()\n", False),
}


@pytest.mark.parametrize(("text", "expected"), WORKERS.values(), ids=WORKERS.keys())
def test_where_nothing_may_be_pinned(text: str, expected: bool) -> None:
    document = document_of(text)
    statement = statement_at(document)
    call = call_in(document, "here")
    span = Span(1, 1, 1, 1)
    copy = Copy("a.py", span, "f", "to", True, Direction.H2D, Verdict.FAKE_ASYNC, (), "", ())
    assert Site(document, copy, call, statement, document.function_of(call)).in_worker_code() is expected


# --- sites --------------------------------------------------------------------------------------------------------


def test_a_site_knows_its_nodes() -> None:
    site = sites_of("a.py", SEND)[0]
    assert site.source(site.call) == "host.to(device, non_blocking=True)"
    assert site.source(site.statement) == "return host.to(device, non_blocking=True)"
    assert site.function is not None
    assert site.function.name == "send"
    made = site.node_at(site.copy.trace[0].span)
    assert made is not None
    assert site.source(made) == "torch.rand(99999)"
    assert site.source(site.statement_of(made)) == "host = torch.rand(99999)"


def test_positions_count_characters_and_any_line_end() -> None:
    text = SEND.replace("\n", "\r\n").replace("    host =", "    a = '日本語'; host =")
    site = sites_of("a.py", text)[0]
    made = site.node_at(site.copy.trace[0].span)
    assert made is not None
    assert site.source(made) == "torch.rand(99999)"


def test_a_statement_is_edited_as_a_whole_and_wrapped(write: WriteFiles) -> None:
    site = site_in(write({"ruff.toml": "line-length = 88", "pkg/a.py": SEND}))
    assert isinstance(site.call.func, ast.Attribute)
    name = "a_rather_long_name_for_a_tensor_that_lies_in_page_locked_memory"
    edit = site.refitted([site.replace(site.call.func.value, name), site.replace(site.call.args[0], "the_device")])
    assert edited(site.document, edit).endswith(
        f"    return {name}.to(\n        the_device, non_blocking=True\n    )  # copy\n"
    )


def test_a_module_without_torch_has_no_name_for_it() -> None:
    text = "from torch import rand\n\n\ndef f(d):\n    return rand(99999).to(d, non_blocking=True)\n"
    with pytest.raises(RefusedError, match="does not import torch"):
        sites_of("a.py", text)[0].torch_name()
    assert sites_of("a.py", SEND)[0].torch_name() == "torch"
