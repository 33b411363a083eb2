"""Make an expression known further up: the statements that it needs move above another one, if that changes nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from h2dlint.fixers._effects import acting_calls, changes_current_device, shares_object, used_up, writes_attribute
from h2dlint.fixers._scope import (
    Scope,
    binds,
    block_of,
    is_pure,
    is_shared,
    names_in,
    parameters,
    position,
    reads,
    statements,
    unseen_calls,
)
from h2dlint.fixers._torch_names import torch_if_imported

from h2dlint.finding import Edit
from h2dlint.fixing import Site


class CannotMoveError(Exception):
    """What an expression needs cannot be had further up; the text says why."""


class Hoist:
    """The statements that have to move above `anchor` so that `wanted` can be evaluated there.

    `anchor` stands in the same block as the copy's statement. Raises CannotMoveError on construction.
    """

    def __init__(self, site: Site, scope: Scope, wanted: ast.expr, anchor: ast.stmt, chain: set[str]) -> None:
        self.site = site
        self.scope = scope
        self.chain = chain
        self.block = block_of(site, site.statement)
        self.start = self.block.index(anchor)
        self.stop = self.block.index(site.statement)
        self.moved: list[ast.stmt] = []
        self.split: list[ast.stmt] = []
        """Statements of a loop that get a loop of their own, above."""
        self._need(wanted, "the device")
        self.moved.sort(key=position)
        self._check_order()
        self._check_device(wanted)
        self.changes_nothing = self._changes_nothing(wanted)
        """Whether all that runs earlier now is shown to give the same, and to change nothing for what stays."""

    def _need(self, node: ast.AST, user: str) -> None:
        for name in sorted(reads(node)):
            if name in self.chain:
                raise CannotMoveError(f"{user} depends on `{name}`, which is part of the index")
            self._need_name(name)

    def _need_name(self, name: str) -> None:
        between = self.block[self.start : self.stop]
        inside = [statement for statement in between if name in binds(statement)]
        if not inside:
            return
        if is_shared(self.scope, name):
            raise CannotMoveError(f"`{name}` is shared with code outside this function")
        for statement in inside:
            if isinstance(statement, ast.Assign):
                self._take(statement)
            elif isinstance(statement, ast.For):
                self._split_off(statement, name)
            else:
                raise CannotMoveError(f"`{name}` is bound by the statement on line {statement.lineno}")

    def _take(self, statement: ast.Assign) -> None:
        if statement in self.moved:
            return
        if not all(_is_plain(target) for target in statement.targets):
            raise CannotMoveError(f"line {statement.lineno} writes more than names")
        self.moved.append(statement)
        self._need(statement, f"line {statement.lineno}")

    def _split_off(self, loop: ast.For, name: str) -> None:
        """`m = max(m, h)` inside a loop can run in a loop of its own first, if it needs nothing else of the loop."""
        parts = [statement for statement in statements_below(loop) if name in binds(statement)]
        if len(parts) != 1 or parts[0] not in loop.body or not isinstance(parts[0], ast.Assign) or loop.orelse:
            raise CannotMoveError(f"`{name}` is worked out inside the loop on line {loop.lineno}")
        part = parts[0]
        made = set().union(*(binds(statement) for statement in loop.body))
        if unseen_calls(self.site, part) or reads(part) & (made - {name}) or _leaves_early(loop):
            raise CannotMoveError(f"`{name}` is worked out inside the loop on line {loop.lineno}")
        if any(name in reads(statement) for statement in loop.body if statement is not part):
            raise CannotMoveError(f"`{name}` is read inside the loop on line {loop.lineno}")
        if not _can_run_twice(self.site, self.scope, loop.iter):
            raise CannotMoveError(f"the loop on line {loop.lineno} may not run twice")
        if part not in self.split:
            self.split.append(part)
            self.moved.append(loop)

    def _staying(self) -> list[ast.stmt]:
        """The statements from the anchor to the transfer that run after the device is known now."""
        return [one for one in self.block[self.start : self.stop] if one not in self.moved or isinstance(one, ast.For)]

    def _check_device(self, wanted: ast.expr) -> None:
        """The device itself is asked for above the statements that stay, too."""
        for stays in self._staying():
            if writes_attribute(stays, wanted):
                raise CannotMoveError(f"line {stays.lineno} may change the device")

    def _changes_nothing(self, wanted: ast.expr) -> bool:
        early = [*(one for one in self.moved if not isinstance(one, ast.For)), *self.split]
        stays = [inner for one in self._staying() for inner in [one, *statements_below(one)] if inner not in self.split]
        if any(acting_calls(self.site, self.scope, one) for one in early):
            return False
        if not all(map(is_pure_assignment, early)) and any(map(self._acts, self._staying())):
            return False
        if changes_current_device(stays) or shares_object([*early, wanted], map(_without_blocks, stays)):
            return False
        return not (self._uses_up(early) & set().union(*map(reads, stays)) or self._is_changed_by_call(wanted))

    def _acts(self, stays: ast.stmt) -> bool:
        return bool(self._strange(acting_calls(self.site, self.scope, stays)))

    def _uses_up(self, early: list[ast.stmt]) -> set[str]:
        """The names that are iterated earlier now, and may be used up by that."""
        names = [name for name in names_in(early) if name.id in used_up(early)]
        return {name.id for name in names if not _can_run_twice(self.site, self.scope, name)}

    def _is_changed_by_call(self, wanted: ast.expr) -> bool:
        """Whether a method of an object, or a function that gets it, may change the device that it names.

        The device of a tensor, and what an object gives as `device` itself, stay what they are.
        """
        if isinstance(wanted, ast.Attribute) and isinstance(wanted.value, ast.Name) and wanted.attr == "device":
            return False
        named = {name.id for one in ast.walk(wanted) if isinstance(one, ast.Attribute) for name in names_in([one])}
        calls = [call for stays in self._staying() for call in self._strange(unseen_calls(self.site, stays))]
        return any(name.id in named for name in names_in(calls))

    def _check_order(self) -> None:
        """Nothing that stays may be read or written by what moves past it."""
        for moved in self.moved:
            parts = self.split if isinstance(moved, ast.For) else [moved]
            for stays in self.block[self.start : self.block.index(moved)]:
                if stays not in self.moved or isinstance(stays, ast.For):
                    self._check_pair(parts, stays)
                if _leaves(stays):
                    raise CannotMoveError(f"line {stays.lineno} may leave before line {moved.lineno} runs")

    def _check_pair(self, parts: Sequence[ast.stmt], stays: ast.stmt) -> None:
        for part in parts:
            rest = [inner for inner in [stays, *statements_below(stays)] if inner not in self.split]
            known = set().union(*(_own(inner) for inner in rest))
            if binds(part) & known:
                raise CannotMoveError(f"line {stays.lineno} uses what line {part.lineno} writes")
            if _writes_beyond_names(stays) and not is_pure_assignment(part):
                raise CannotMoveError(f"line {stays.lineno} may change what line {part.lineno} reads")
            self._check_calls(part, stays)

    def _check_calls(self, part: ast.stmt, stays: ast.stmt) -> None:
        strange = self._strange(unseen_calls(self.site, stays))
        if strange and (unseen_calls(self.site, part) or not is_pure_assignment(part)):
            called = ast.unparse(strange[0].func)
            raise CannotMoveError(f"`{called}` on line {strange[0].lineno} may change what line {part.lineno} reads")

    def _strange(self, calls: list[ast.Call]) -> list[ast.Call]:
        """The calls that are neither torch's own nor methods of the index."""
        torch = torch_if_imported(self.site)
        return [
            call for call in calls if not (isinstance(call.func, ast.Attribute) and self._is_of_chain(call.func, torch))
        ]

    def _is_of_chain(self, func: ast.Attribute, torch: str) -> bool:
        node: ast.expr = func
        while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
            node = node.func if isinstance(node, ast.Call) else node.value
        return isinstance(node, ast.Name) and (node.id == torch or node.id in self.chain)


_EXITS = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await, ast.Assert)


def statements_below(statement: ast.stmt) -> list[ast.stmt]:
    """The statements inside a compound one."""
    return [node for node in ast.walk(statement) if isinstance(node, ast.stmt) and node is not statement]


def is_pure_assignment(statement: ast.stmt) -> bool:
    """Whether a statement only computes from names and numbers."""
    return isinstance(statement, ast.Assign) and not any(
        isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)) and not _is_number_call(node)
        for node in ast.walk(statement.value)
    )


def _is_number_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("max", "min", "len", "int")
    )


def _without_blocks(statement: ast.stmt) -> ast.AST:
    """A statement as it stands; of a compound one its head alone, since its blocks are looked at by themselves."""
    heads = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
    return ast.Tuple(heads, ast.Load()) if list(statements_below(statement)) else statement


def _own(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.For, ast.If, ast.While, ast.With)):
        heads = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
        return set().union(*(reads(head) | binds(head) for head in heads))
    return reads(statement) | binds(statement)


def _is_plain(target: ast.expr) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(_is_plain(item) for item in target.elts)
    return isinstance(target, ast.Name)


def _writes_beyond_names(statement: ast.stmt) -> bool:
    return any(
        isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
        for node in ast.walk(statement)
    )


def _leaves_early(loop: ast.For) -> bool:
    return any(isinstance(node, _EXITS) for node in ast.walk(loop))


def _leaves(statement: ast.stmt) -> bool:
    """Whether a statement may end the block early: a return, a raise, a yield, or a break out of a loop around it."""
    inner = [node for node in ast.walk(statement) if isinstance(node, (ast.For, ast.While))]
    jumps = (ast.Break, ast.Continue)
    own = {node for loop in inner for node in ast.walk(loop) if isinstance(node, jumps)}
    return any(isinstance(node, _EXITS) and node not in own for node in ast.walk(statement))


def _can_run_twice(site: Site, scope: Scope, node: ast.expr) -> bool:
    """Whether iterating `node` again gives the same: a range, a literal, a parameter or local declared as a list."""
    if isinstance(node, ast.Call):
        quiet = isinstance(node.func, ast.Name) and node.func.id in ("range", "list", "tuple", "sorted")
        return quiet and all(is_pure(argument) for argument in node.args)
    if isinstance(node, (ast.List, ast.Tuple)):
        return is_pure(node)
    if not isinstance(node, ast.Name) or isinstance(scope, ast.Module):
        return False
    if node.id in parameters(scope):
        every = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        noted = next((argument.annotation for argument in every if argument.arg == node.id), None)
        return noted is not None and bool(
            re.match(r"(?:\w+\.)?(?:[Ll]ist|[Tt]uple|Sequence|Tensor|ndarray)\b", ast.unparse(noted))
        )
    values = [
        statement.value
        for statement in statements(scope)
        if isinstance(statement, ast.Assign) and node.id in binds(statement)
    ]
    return bool(values) and all(isinstance(value, (ast.List, ast.ListComp, ast.Tuple)) for value in values)


class Lines:
    """Whole lines of a file that go away, with the comments that belong to them, and the white space left behind."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.gone: set[int] = set()

    def take(self, statement: ast.stmt, comments: bool) -> tuple[int, int]:
        """Mark a statement's lines; the first and the last one. Raises CannotMoveError where others share them."""
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        lines = self.site.document.lines
        before = lines.line(first)[: statement.col_offset]
        after = self.site.text[lines.offsets(statement)[1] :].partition("\n")[0].strip()
        if before.strip() or (after and not after.startswith("#")):
            raise CannotMoveError(f"line {first} holds several statements")
        while comments and lines.line(first - 1).strip().startswith("#"):
            first -= 1
        self.gone.update(range(first, last + 1))
        return first, last

    def text(self, first: int, last: int) -> str:
        """The text of whole lines."""
        return "".join(self.site.document.lines.line(number) for number in range(first, last + 1))

    def edits(self) -> list[Edit]:
        """Take the marked lines out; where that leaves two blank runs in a row or joins paragraphs, one blank stays."""
        found = []
        for first, last in self._runs():
            stop = last
            holds_blank = any(not self._line(number).strip() for number in range(first, last + 1))
            above, below = not self._line(first - 1).strip(), not self._line(last + 1).strip()
            if above and below:
                stop = last + 1
            starts = self.site.document.lines.starts
            start, end = starts[first - 1], starts[stop] if stop < len(starts) else len(self.site.text)
            keeps = holds_blank and not above and not below
            found.append(Edit(start, end, self.site.document.newline if keeps else ""))
        return found

    def _line(self, number: int) -> str:
        return self.site.document.lines.line(number)

    def _runs(self) -> list[tuple[int, int]]:
        runs: list[tuple[int, int]] = []
        for number in sorted(self.gone):
            if runs and not any(self._line(between).strip() for between in range(runs[-1][1] + 1, number)):
                runs[-1] = runs[-1][0], number
            else:
                runs.append((number, number))
        return runs
