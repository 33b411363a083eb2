"""Python modules made at random: valid syntax, full of what the analyser looks at, and as a rule without any sense.

`module_text` takes all its choices from one `random.Random`. Hypothesis can play that part, and makes a failing module
small; for many modules in little time an ordinary one is faster.
"""

from __future__ import annotations

import ast
import random
import sys
import warnings
from collections.abc import Callable, Sequence

from h2dlint.facts.torch_api import FACTORIES, METHODS, NUMPY_FRESH, NUMPY_VIEWS

NAMES = ("a", "b", "x", "y", "self", "host", "ids_cpu", "gpu", "np_buf", "PIN", "cfg", "out", "flag", "i", "T_", "λ")
ATTRIBUTES = (
    "buf", "host", "gpu", "ids_cpu", "np", "data", "grad", "T", "shape", "device", "dtype", "is_cuda", "is_pinned",
    "config", "pin_memory", "items", "values", "_x", "type", "real", "flags", "a",
)  # fmt: skip
METHOD_NAMES = (
    "append", "extend", "pop", "get", "items", "values", "update", "setdefault", "sync", "wait", "record",
    "synchronize",
    "wait_stream", "record_stream", "query", "submit", "result", "helper", "step", "__init__", "__enter__",
    "cuda_stream",
    "format", "join", "split", "astype", "copy", "fill", "fill_", "zero_", "data_ptr", "add_", "mul_", "scatter_",
    "index_copy_", "copy_", "to", "cpu", "cuda", "pin_memory", "numpy", "item", "tolist", "view", "reshape", "narrow",
    "contiguous", "non_blocking",
)  # fmt: skip
FUNCTIONS = (
    "len", "range", "zip", "enumerate", "map", "filter", "sorted", "list", "tuple", "dict", "set", "min", "max", "sum",
    "int", "float", "bool", "str", "print", "isinstance", "hasattr", "getattr", "setattr", "reversed", "iter", "next",
    "partial", "deepcopy", "super", "vars", "type", "any", "all", "abs", "DataLoader", "helper", "Thing", "Base", "Row",
    "Event", "Stream", "is_pin_memory_available", "make", "outer",
)  # fmt: skip
KEYWORDS = (
    "device", "dtype", "non_blocking", "pin_memory", "out", "copy", "memory_format", "dim", "size", "stream", "key",
    "default",
    "num_workers", "start", "end", "step", "like", "fill_value", "output_size", "keepdim", "a", "b",
)  # fmt: skip
ANNOTATIONS = (
    "torch.Tensor", "Tensor | None", "list[torch.Tensor]", "'Thing'", "int", "np.ndarray", "Optional[Tensor]",
    "Thing", "bool",
    "dict[str, Tensor]", "tuple[int, ...]", "'not ( python'", "Callable[..., Tensor]", "None", "str",
)  # fmt: skip
DECORATORS = (
    "staticmethod", "classmethod", "property", "torch.no_grad()", "torch.compile", "wraps(helper)", "dataclass",
    "contextmanager", "lru_cache(maxsize=None)", "helper", "deco(1)", "overload", "abstractmethod", "buf.setter",
)  # fmt: skip
CONSTANTS = (
    "0", "1", "-1", "2", "3", "7", "True", "False", "None", "1.5", "'cuda'", "'cpu'", "'cuda:0'", "''", "b'x'", "...",
    "1e309", "10**6", "torch.int64", "torch.float32", "torch.device('cuda')", "torch.contiguous_format", "2j", "'npu'",
    "torch.cuda.is_available()", "8192", "1180591620717411303424",
)  # fmt: skip
BINARY = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@")
COMPARE = ("<", "<=", ">", ">=", "==", "!=", "is", "is not", "in", "not in")
EXTRA_TORCH = (
    "cuda.current_stream", "cuda.Stream", "cuda.Event", "cuda.synchronize", "cuda.stream", "cuda.graph",
    "utils.data.DataLoader",
    "cuda.cudart().cudaHostRegister", "nn.Module", "no_grad", "device", "Size", "nn.Parameter", "compile",
    "accelerator.synchronize",
    "_foreach_copy_", "empty_like", "from_numpy", "set_default_device", "distributed.broadcast", "jit.script",
)  # fmt: skip
TORCH = (*FACTORIES, *METHODS, *EXTRA_TORCH)
NUMPY = (*NUMPY_FRESH, *NUMPY_VIEWS)
HEADER = """import torch, os
import numpy as np
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from dataclasses import dataclass, field
from functools import partial, lru_cache, wraps
PIN = torch.cuda.is_available()
"""


class Writer:
    """Writes one module. Depth and size are bounded, so that every module comes to an end."""

    def __init__(self, random: random.Random, size: int = 60) -> None:
        """`size`: about how many statements there are at most."""
        self.random = random
        self.left = size
        self.loop = False
        self.function = ""
        """"def", "async def" or empty: what the statement stands in."""

    # Choices

    def pick(self, choices: Sequence[str]) -> str:
        """One of several."""
        return choices[self.random.randrange(len(choices))]

    def chance(self, percent: int) -> bool:
        """True so often."""
        return self.random.randrange(100) < percent

    def many(self, write: Callable[[], str], most: int, least: int = 0, separator: str = ", ") -> str:
        """Some of a kind."""
        return separator.join(write() for _ in range(self.random.randrange(least, most + 1)))

    # Expressions

    def expression(self, depth: int = 3) -> str:
        """Any expression; in brackets where that may be needed."""
        if depth <= 0 or self.chance(15):
            return self.pick(NAMES) if self.chance(60) else self.pick(CONSTANTS)
        kinds = (
            self.call, self.call, self.call, self.torch_call, self.torch_call, self.torch_call, self.method_call,
            self.method_call, self.method_call, self.transfer, self.transfer, self.attribute, self.attribute,
            self.subscript, self.subscript, self.binary, self.unary, self.comparison, self.boolean, self.conditional,
            self.display, self.comprehension, self.function_value, self.text, self.walrus, self.suspended,
        )  # fmt: skip
        return kinds[self.random.randrange(len(kinds))](depth - 1)

    def arguments(self, depth: int) -> str:
        """What stands between the brackets of a call."""
        positional = [self.argument(depth) for _ in range(self.random.randrange(4))]
        named = dict.fromkeys(self.pick(KEYWORDS) for _ in range(self.random.randrange(3)))
        keywords = [f"{name}={self.expression(depth)}" for name in named]
        rest = [f"**{self.expression(0)}"] if self.chance(8) else []
        return ", ".join([*positional, *keywords, *rest])

    def argument(self, depth: int) -> str:
        return f"*{self.expression(0)}" if self.chance(8) else self.expression(depth)

    def call(self, depth: int) -> str:
        """A call of a function of the module or of Python."""
        called = self.pick(FUNCTIONS) if self.chance(85) else f"({self.expression(depth)})"
        return f"{called}({self.arguments(depth)})"

    def torch_call(self, depth: int) -> str:
        """A call of torch or numpy."""
        called = f"torch.{self.pick(TORCH)}" if self.chance(80) else f"np.{self.pick(NUMPY)}"
        return f"{called}({self.arguments(depth)})"

    def method_call(self, depth: int) -> str:
        """A call of some method."""
        name = self.pick(METHOD_NAMES if self.chance(50) else tuple(METHODS))
        return f"{self.receiver(depth)}.{name}({self.arguments(depth)})"

    def transfer(self, depth: int) -> str:
        """A call that moves, or says that it does."""
        receiver = self.receiver(depth)
        asked = self.pick(
            ("non_blocking=True", "non_blocking=PIN", "non_blocking=x.is_pinned()", "non_blocking=False", "")
        )
        comma = ", " if asked else ""
        return self.pick(
            (
                f"{receiver}.to('cuda'{comma}{asked})",
                f"{receiver}.cuda({asked})",
                f"{receiver}.cuda(None, True)",
                f"{receiver}.cpu()",
                f"{receiver}.to('cpu'{comma}{asked})",
                f"{receiver}.copy_({self.expression(depth)}{comma}{asked})",
                f"{receiver}.to({self.expression(depth)}{comma}{asked})",
                f"{receiver}.pin_memory({'device' if self.chance(5) else ''}).to('cuda'{comma}{asked})",
                f"{receiver}.to(*a, **b)",
                f"{receiver}[{self.index(depth)}].copy_({self.expression(depth)}{comma}{asked})",
            )
        )

    def receiver(self, depth: int) -> str:
        """Something that a dot may follow."""
        return (
            self.pick(("a", "x", "host", "self.buf", "self.host", "torch.rand(9)", "gpu"))
            if self.chance(50)
            else (f"({self.expression(depth)})")
        )

    def attribute(self, depth: int) -> str:
        return f"{self.receiver(depth)}.{self.pick(ATTRIBUTES)}"

    def subscript(self, depth: int) -> str:
        return f"{self.receiver(depth)}[{self.index(depth)}]"

    def index(self, depth: int) -> str:
        """What stands between square brackets."""
        if self.chance(30):
            return self.pick(
                (":", "::2", ":, :3", "0", "None", "...", ":-1, None", "1:", "[0, 1]", "::0", "0, ..., 1:2:3")
            )
        if self.chance(50):
            return f"{self.expression(0)}:{self.expression(depth)}"
        return self.many(lambda: self.expression(depth), 3, 1)

    def binary(self, depth: int) -> str:
        operator = self.pick(BINARY)
        # What Python would compute at once, and with great patience, is no subject here.
        right = self.pick(NAMES) if operator in ("**", "<<") else self.expression(depth)
        return f"({self.expression(depth)} {operator} {right})"

    def unary(self, depth: int) -> str:
        return f"({self.pick(('-', '+', '~', 'not '))}{self.expression(depth)})"

    def comparison(self, depth: int) -> str:
        more = f" {self.pick(COMPARE)} {self.expression(depth)}" if self.chance(15) else ""
        return f"({self.expression(depth)} {self.pick(COMPARE)} {self.expression(depth)}{more})"

    def boolean(self, depth: int) -> str:
        joined = self.pick((" and ", " or "))
        return f"({self.many(lambda: self.expression(depth), 3, 2, joined)})"

    def conditional(self, depth: int) -> str:
        return f"({self.expression(depth)} if {self.condition(depth)} else {self.expression(depth)})"

    def condition(self, depth: int) -> str:
        """A test, often one that says something of a tensor."""
        if self.chance(40):
            return self.expression(depth)
        name = self.pick(NAMES)
        return self.pick(
            (
                f"{name} is None", f"{name} is not None", f"{name}.is_cuda", f"not {name}.is_pinned()", "PIN",
                f"{name}.device.type == 'cpu'", f"isinstance({name}, torch.Tensor)", "torch.cuda.is_available()",
                f"isinstance({name}, (Thing, int))", "self.flag", f"{name}.device == gpu.device", "not PIN",
                f"{name}.numel()",
            )
        )  # fmt: skip

    def display(self, depth: int) -> str:
        """A list, a tuple, a set or a dict."""
        items = [self.argument(depth) for _ in range(self.random.randrange(4))]
        kind = self.random.randrange(4)
        if kind == 0:
            return f"[{', '.join(items)}]"
        if kind == 1:
            return f"({''.join(item + ', ' for item in items)})"
        if kind == 2 and items:
            return f"{{{', '.join(items)}}}"
        pairs = [f"{self.expression(0)}: {self.expression(depth)}" for _ in items]
        return f"{{{', '.join([*pairs, '**x'] if self.chance(15) else pairs)}}}"

    def comprehension(self, depth: int) -> str:
        outer, self.function = self.function, ""
        fors = self.many(lambda: self.comprehension_for(depth), 2, 1, " ")
        element = self.without_walrus(self.expression, depth)
        self.function = outer
        return self.pick(
            (f"[{element} {fors}]", f"{{{element} {fors}}}", f"({element} {fors})", f"{{i: {element} {fors}}}")
        )

    def comprehension_for(self, depth: int) -> str:
        condition = f" if {self.without_walrus(self.condition, depth)}" if self.chance(30) else ""
        return f"for {self.target(1)} in {self.without_walrus(self.expression, depth)}{condition}"

    def without_walrus(self, write: Callable[[int], str], depth: int) -> str:
        """Where no name may be bound."""
        return write(depth).replace(":=", "==")

    def function_value(self, depth: int) -> str:
        outer, self.function = self.function, "def"
        body = self.expression(depth)
        self.function = outer
        return f"(lambda {self.pick(('', 'x', 'x, *a', 'x=a, **b', '*, y=1'))}: {body})"

    def text(self, depth: int) -> str:
        inner = self.expression(min(depth, 1)).replace("'", '"').replace("\\", "")
        if '"' in inner and sys.version_info < (3, 12):
            inner = self.pick(NAMES)
        return f"f'cuda:{{({inner})}} {{x!r:>{{a}}}}'" if "{" not in inner and "#" not in inner else "f'{x=}'"

    def walrus(self, depth: int) -> str:
        return f"({self.pick(('x', 'y', 'host'))} := {self.expression(depth)})"

    def suspended(self, depth: int) -> str:
        """An `await`, a `yield`."""
        inner = self.expression(depth)
        if self.function == "async def":
            return f"(await {inner})"
        if self.function == "def":
            return self.pick((f"(yield {inner})", f"(yield from {inner})", inner))
        return inner

    def target(self, depth: int = 2) -> str:
        """What can be assigned to."""
        if depth and self.chance(15):
            star = self.pick(("", "", "*"))
            return f"{self.target(0)}, {star}{self.pick(NAMES)}"
        if depth and self.chance(10):
            return f"({self.target(depth - 1)}, [{self.target(0)}])"
        return self.pick(NAMES) if self.chance(50) else self.place()

    def place(self) -> str:
        """A single place: an attribute, an element."""
        return self.pick(
            (
                "self.buf",
                "self.host",
                "x.data",
                "a.grad",
                "self._x",
                "x[0]",
                "x[:, :2]",
                "host[i]",
                "self.a[i]",
                "cfg.x.y",
                "gpu[a]",
            )
        )

    # Statements

    def body(self, depth: int, indent: str) -> list[str]:
        """The lines of a block."""
        lines: list[str] = []
        for _ in range(self.random.randrange(1, 5)):
            lines += self.statement(depth, indent)
        return lines

    def statement(self, depth: int, indent: str) -> list[str]:
        """The lines of one statement."""
        self.left -= 1
        if depth <= 0 or self.left <= 0 or self.chance(50):
            return [f"{indent}{self.simple()}"]
        kinds = (
            self.if_, self.if_, self.for_, self.while_, self.with_, self.with_, self.try_, self.match_,
            self.function_, self.function_,
            self.class_,
        )  # fmt: skip
        return kinds[self.random.randrange(len(kinds))](depth - 1, indent)

    def simple(self) -> str:
        """A statement of one line."""
        kind = self.random.randrange(22)
        if kind < 7:
            return f"{self.target()} = {self.expression()}"
        if kind < 10:
            return self.expression()
        if kind == 10:
            return f"{self.pick(NAMES) if self.chance(50) else self.place()} {self.pick(BINARY)}= {self.expression()}"
        if kind == 11:
            value = f" = {self.expression()}" if self.chance(70) else ""
            return f"{self.pick(('x', 'host', 'self.buf'))}: {self.pick(ANNOTATIONS)}{value}"
        if kind == 12:
            return f"assert {self.condition(2)}"
        if kind == 13:
            return f"del {self.pick(('x', 'a', 'x[0]', 'self.buf', 'x, y', 'cfg[1:2]'))}"
        if kind == 14:
            return self.pick(("raise", "raise ValueError(x)", f"raise {self.expression(1)} from None", "pass"))
        if kind == 15:
            return self.pick(("import os.path as p", "from . import helper", "import mod", "from .mod import x as y"))
        if kind == 16 and self.loop:
            return self.pick(("break", "continue"))
        if kind in (17, 18) and self.function:
            return f"return {self.expression()}" if self.chance(80) else "return"
        if kind == 19:
            return f"{self.pick(NAMES)} = {self.pick(NAMES)} = {self.expression(2)}"
        return f"{self.place()} = {self.expression()}"

    def block(self, head: str, depth: int, indent: str) -> list[str]:
        return [f"{indent}{head}:", *self.body(depth, indent + "    ")]

    def if_(self, depth: int, indent: str) -> list[str]:
        lines = self.block(f"if {self.condition(2)}", depth, indent)
        for _ in range(self.random.randrange(3)):
            lines += self.block(f"elif {self.condition(2)}", depth, indent)
        return lines + (self.block("else", depth, indent) if self.chance(50) else [])

    def looped(self, head: str, depth: int, indent: str) -> list[str]:
        outer, self.loop = self.loop, True
        lines = self.block(head, depth, indent)
        self.loop = outer
        return lines + (self.block("else", depth, indent) if self.chance(15) else [])

    def for_(self, depth: int, indent: str) -> list[str]:
        prefix = "async " if self.function == "async def" and self.chance(30) else ""
        return self.looped(f"{prefix}for {self.target()} in {self.expression(2)}", depth, indent)

    def while_(self, depth: int, indent: str) -> list[str]:
        return self.looped(f"while {self.condition(2)}", depth, indent)

    def with_(self, depth: int, indent: str) -> list[str]:
        prefix = "async " if self.function == "async def" and self.chance(30) else ""
        known = ("torch.device('cuda')", "torch.no_grad()", "torch.cuda.stream(x)", "torch.cuda.graph(a)", "open(x)")
        context = self.pick(known) if self.chance(60) else self.expression(2)
        bound = f" as {self.target(0)}" if self.chance(50) else ""
        return self.block(f"{prefix}with {context}{bound}", depth, indent)

    def try_(self, depth: int, indent: str) -> list[str]:
        lines = self.block("try", depth, indent)
        star = sys.version_info >= (3, 11) and self.chance(15)
        handlers = self.random.randrange(3)
        outer = self.loop, self.function
        if star:
            self.loop, self.function = False, ""
        for _ in range(handlers):
            bound = self.pick(("", " as x", " as e"))
            lines += self.block(
                f"except{'*' if star else ''} {self.pick(('ValueError', '(OSError, KeyError)', 'x.E'))}{bound}",
                depth,
                indent,
            )
        self.loop, self.function = outer
        if handlers and self.chance(30):
            lines += self.block("else", depth, indent)
        if not handlers or self.chance(40):
            lines += self.block("finally", depth, indent)
        return lines

    def match_(self, depth: int, indent: str) -> list[str]:
        lines = [f"{indent}match {self.expression(2)}:"]
        patterns = (
            "[x, *_]", "{'k': host, **b}", "Thing(buf=x)", "1 | 2", "'cuda'", "None", "torch.Tensor()", "(1, [x, y])",
            "[]",
            "Thing(0, host=None)", "str() as y", "-1.5", "cfg.x", "{'a': [x, *host]}",
        )  # fmt: skip
        for _ in range(self.random.randrange(1, 4)):
            guard = f" if {self.condition(1)}" if self.chance(30) else ""
            lines += self.block(f"case {self.pick(patterns)}{guard}", depth, indent + "    ")
        return lines + (self.block("case _", depth, indent + "    ") if self.chance(40) else [])

    def function_(self, depth: int, indent: str, method: bool = False) -> list[str]:
        outer = self.function, self.loop
        name = self.pick(
            ("helper", "make", "outer", "step", "run", "f", "__init__", "buf", "__iter__", "__enter__", "__call__")
        )
        decorators = [f"{indent}@{self.pick(DECORATORS)}" for _ in range(self.random.randrange(3)) if self.chance(35)]
        returns = f" -> {self.pick(ANNOTATIONS)}" if self.chance(30) else ""
        generic = "[T: int, *Ts]" if sys.version_info >= (3, 12) and self.chance(10) else ""
        parameters = self.parameters(method)
        self.function, self.loop = self.pick(("def", "def", "def", "async def")), False
        kind = self.function
        inner = indent + "    "
        lines = self.body(depth, inner)
        if self.chance(15):
            lines.insert(0, f"{inner}global {self.pick(('PIN, flag', 'out', 'gpu, np_buf'))}")
        self.function, self.loop = outer
        return [*decorators, f"{indent}{kind} {name}{generic}({parameters}){returns}:", *lines]

    def parameters(self, method: bool) -> str:
        names = ["self"] if method else []
        names += [self.parameter(name) for name in ("a", "x", "host") if self.chance(50)]
        defaulted = next((position for position, one in enumerate(names) if "=" in one), len(names))
        names = names[:defaulted] + [one if "=" in one else f"{one}=None" for one in names[defaulted:]]
        if self.chance(10) and names:
            names.insert(1, "/")
        if self.chance(25):
            names.append(self.pick(("*args", "*, y=1", "*rest: Tensor")))
        if self.chance(15):
            names.append("**kwargs")
        return ", ".join(names)

    def parameter(self, name: str) -> str:
        annotation = f": {self.pick(ANNOTATIONS)}" if self.chance(40) else ""
        default = f" = {self.pick(CONSTANTS)}" if self.chance(25) else ""
        return f"{name}{annotation}{default}"

    def class_(self, depth: int, indent: str) -> list[str]:
        outer = self.function, self.loop
        self.function, self.loop = "", False
        bases = self.pick(
            ("", "(Base)", "(nn.Module)", "(Dataset)", "(Thing, Base)", "(NamedTuple)", "(x.Y)", "(Base, metaclass=M)")
        )
        name = self.pick(("Thing", "Base", "Row", "Worker"))
        decorator = (
            [f"{indent}@{self.pick(('dataclass', 'dataclass(frozen=True)', 'deco'))}"] if self.chance(30) else []
        )
        inner = indent + "    "
        lines: list[str] = []
        for _ in range(self.random.randrange(1, 4)):
            if self.chance(30):
                value = self.pick((" = None", " = field(default_factory=list)", f" = {self.expression(2)}", ""))
                lines.append(f"{inner}{self.pick(ATTRIBUTES)}: {self.pick(ANNOTATIONS)}{value}")
            elif self.chance(15):
                lines += self.statement(depth, inner)
            else:
                lines += self.function_(depth, inner, method=True)
        self.function, self.loop = outer
        return [*decorator, f"{indent}class {name}{bases}:", *lines]

    def module(self) -> str:
        """The whole text."""
        lines: list[str] = []
        for _ in range(self.random.randrange(1, 7)):
            kinds = (self.statement, self.class_, self.function_)
            lines += kinds[self.random.randrange(3)](4, "")
        return HEADER + "\n".join(lines) + "\n"


def module_text(random: random.Random, size: int = 60) -> str:
    """A module that Python compiles. What chance has put together wrongly is left out, statement by statement."""
    text = Writer(random, size).module()
    while not compiles(text):
        tree = _parsed(text)
        if tree is None:
            return HEADER
        kept = [one for one in map(ast.unparse, tree.body) if compiles(one)]
        shorter = "\n".join(kept) + "\n"
        text = shorter if shorter != text else HEADER
    return text


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def compiles(text: str) -> bool:
    """Whether Python takes the text for a module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<random>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True
