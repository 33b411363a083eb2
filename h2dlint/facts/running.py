"""Running modules and functions: each once, on its own, within a budget, and again where it was run too early."""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Callable, Collection
from typing import Any, cast

from h2dlint.facts import events
from h2dlint.facts.copies import Verdict
from h2dlint.facts.domain import (
    NOTHING,
    SOMEWHERE,
    Array,
    Function,
    Instance,
    Memory,
    Trail,
    Value,
)
from h2dlint.facts.finder import Finder
from h2dlint.facts.flow import run_body
from h2dlint.facts.frame import BudgetExceededError, Environment, Frame, Interpreter, Steps
from h2dlint.facts.mentions import Mentions
from h2dlint.facts.modules import ClassInfo, ModuleInfo, Unit
from h2dlint.facts.options import FactOptions
from h2dlint.facts.outcomes import CallSite, Outcome, Sighting, Uninformed
from h2dlint.facts.parameters import bind_parameters

MAX_DEPTH = 5
"""Calls followed into calls."""
SIDE_DEPTH = 2
"""The same for functions that are only looked at for what they store or pass on."""
MAX_STEPS = 60_000
"""Expressions evaluated for one function looked at on its own, with all that it calls."""
MAX_CALL_STEPS = 2_000
"""The same for one call that a function makes that is looked at: where it takes more, what it returns is unknown."""
MAX_SIDE_STEPS = 4_000
"""The same for functions that are only looked at for what they store or pass on."""
CALLER_DEPTH = 3
"""The same for functions of other modules that are looked at because they call one of this."""
MAX_CALLER_STEPS = 2_000
"""The same for such a function."""
MAX_FILE_STEPS = 3_000_000
"""Expressions evaluated for one file, with all that it asks of others: a hundred times what a large file takes. What is
not looked at then is unproven.
"""
MAX_FILE_SECONDS = 300.0
"""CPU time for one file: the last resort, for what steps do not count. Never reached by a file within its steps."""
_STEPS_BY_THE_CLOCK = 2_000
_TIMES_BY_THE_CLOCK = 16
"""So many steps, or functions that are looked at, pass between two looks at the clock, each of which takes a while."""
MAX_CALLERS = 4
"""Functions of the module that are looked at because they call another."""
_DEFAULTS = FactOptions()
_HARMLESS = (Verdict.ASYNC, Verdict.NO_TRANSFER, Verdict.BLOCKING)
"""Verdicts of which a fuller look would not make a finding."""


class Running:
    """The part of a project that runs modules and functions, each once, within a budget."""

    def __init__(self, options: FactOptions = _DEFAULTS) -> None:
        self.options = options
        self.needs_room = False
        """Whether Python has to go deeper than it does by default: it had to for some file."""
        self.outcomes: dict[str, list[Outcome]] = {}
        """What was seen of copies, by the file that they stand in."""
        self.sightings: dict[str, list[Sighting]] = {}
        """Hazards of copies, by the file that they stand in."""
        self.handed_on: set[ast.AST] = set()
        """Copies that are under way when their function ends, from or into memory that is known outside."""
        self.excused: set[ast.AST] = set()
        """Copies, and places where an ndarray is handed on, that some caller waits for."""
        self._finder = Finder(options.root, options.pinned_factories)
        self._uses: dict[str, set[str]] = {}
        """File -> the files that it was asked what they define for."""
        self.uninformed: dict[ast.AST, list[Uninformed]] = {}
        """By function, the calls that tell it nothing: what it does on its own, it does there."""
        self._mentions = Mentions(self._finder)
        self.asked_roots: dict[str, set[ast.AST]] = {}
        """Functions of other modules that were looked at for what they pass to functions of a file."""
        self.sought: set[ast.AST] = set()
        """Functions that hold a copy which is asked for."""
        self._modules: dict[str, ModuleInfo | None] = {}
        self._under_check = ""
        """The file whose copies are asked for."""
        self._read_whole: set[str] = set()
        """The files that were read for it with all their functions."""
        self._globals: dict[int, Frame] = {}
        self._open: dict[tuple[int, str], list[Value]] = {}
        """Attributes that are being looked up, with what was found so far: what a store reads of its own attribute."""
        self._units: dict[ast.AST, Frame | None] = {}
        self._told_apart: list[object] = []
        """The values that the keys of summaries tell apart by identity: no new one may take the place of one."""
        self._summaries: dict[object, tuple[Value, Environment, events.Effect | None]] = {}
        self._attributes: dict[tuple[int, str], Value] = {}
        self._constructions: dict[ClassInfo, list[tuple[Instance, ast.AST, ast.AST | None]]] = {}
        """The objects that a class's own module makes: where, and for which function that is looked at."""
        self._assignments_elsewhere: dict[tuple[ClassInfo, str], list[tuple[Value, CallSite]]] = {}
        self._constructions_elsewhere: dict[ClassInfo, list[tuple[Instance, CallSite]]] = {}
        self._filled_later: dict[tuple[ClassInfo, str], bool] = {}
        self._overrides: dict[tuple[ClassInfo, str], tuple[list[Function], bool]] = {}
        self._derived: dict[ClassInfo, list[tuple[str, str, str]] | None] = {}
        self._overriding: dict[ast.AST, ClassInfo] = {}
        """The classes of methods that a way has been tagged with."""
        self._incomplete = False
        """Whether the question under way met one that is still open, so that its answer must not be remembered."""
        self._bases: dict[ClassInfo, list[Value]] = {}
        self._registered: dict[int, tuple[Memory, Trail]] = {}
        self._undecorated: set[ast.AST] = set()
        """Functions whose decorators are being applied: inside them they are called bare."""
        self._partial_reads = 0
        self._hasty: set[ast.AST] = set()
        """Functions that read an attribute or a global while that was still being looked up."""
        self._early: set[ast.AST] = set()
        """Those of them that were called by one which stores what they read, before it was done."""
        self._own_stores: set[ast.AST] = set()
        """Functions that read an attribute which they store themselves, while nobody knew what they store."""
        self._run_twice: set[ast.AST] = set()
        """Functions that were run again because they were hasty: once is enough."""
        self._blocked_by: dict[ast.AST, set[ast.AST]] = {}
        """The functions that were under way when another one called them in vain."""
        self._finished: set[int] = set()
        self._stack: list[ast.AST] = []
        self.steps = Steps(MAX_STEPS)
        self.spent = Spent()
        """What the file under check has taken so far."""
        self._storage = 0
        self._asked_callers: set[object] = set()
        self._asked_globals: set[tuple[int, str]] = set()
        self._asked_members: set[tuple[str, str]] = set()
        """Names of modules that are being looked up: a circle of re-exports ends there."""

    def note_use(self, file: str, other: str) -> None:
        """Remember that what `file` shows depends on what `other` says."""
        self._uses.setdefault(file, set()).add(other)

    def files_used_by(self, file: str) -> frozenset[str]:
        """The other files that the facts of a file came from, directly or through others, by absolute path."""
        start = os.path.abspath(file)
        found: set[str] = set()
        waiting = [start]
        while waiting:
            new = self._uses.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return frozenset(found - {start})

    def _frame(self, module: ModuleInfo, function: ast.AST | None, qualname: str) -> Frame:
        return Frame(cast(Interpreter, self), module, function, qualname)

    def run_module(self, module: ModuleInfo) -> Frame:
        """The module's own body, once."""
        found = self._globals.get(id(module))
        if found is None:
            found = self._frame(module, None, "<module>")
            self._globals[id(module)] = found
            with _Budget(self):
                found.exhausted = not self._guarded(lambda: run_body(module.tree.body, found))
            if found.exhausted:
                found.env = dict.fromkeys(found.env, NOTHING)
                self._give_up(module, None, "the module's own body")
            self._finished.add(id(module))
        return found

    def run_unit(self, module: ModuleInfo, unit: Unit, depth: int = 0) -> Frame | None:
        """A function on its own, once: its parameters are what annotations and defaults say. None when it is under
        way. `depth`: how deep calls are followed, if not as deep as it deserves.
        """
        if unit.node in self._units and not self._can_see_more(unit):
            return self._units[unit.node]
        if unit.parent is not None:
            self.run_unit(module, unit.parent)
            if unit.node in self._units and not self._can_see_more(unit):
                return self._units[unit.node]
        if module.checked:
            self.run_module(module)
        self._units[unit.node] = None
        frame = self._run_unit(module, unit, depth)
        if unit.node in self._own_stores:  # it asked for what it stores itself
            self._hasty.discard(unit.node)
            self._forget_outcomes(unit.node)
            frame = self._run_unit(module, unit, depth)
            self._own_stores.discard(unit.node)
        return frame

    def _forget_outcomes(self, root: ast.AST) -> None:
        for file, outcomes in self.outcomes.items():
            self.outcomes[file] = [one for one in outcomes if one.root is not root]

    def _can_see_more(self, unit: Unit) -> bool:
        """Whether a function met others under way when it was run, and would not now: what it stores hung on them."""
        blocked_by = self._blocked_by.get(unit.node)
        if blocked_by is None or self._units[unit.node] is None or not blocked_by.isdisjoint(self._stack):
            return False
        del self._blocked_by[unit.node]
        self._hasty.discard(unit.node)
        self._forget_outcomes(unit.node)
        return True

    def look_again(self, module: ModuleInfo, unit: Unit) -> Frame | None:
        """Run a function again, once, that has read what was still being looked up: what it stores itself is known now,
        for who asks meanwhile as well.
        """
        if unit.node in self._run_twice or unit.node in self._stack or self._open:
            return self._units.get(unit.node)
        self._run_twice.add(unit.node)
        self._hasty.discard(unit.node)
        self._forget_outcomes(unit.node)
        return self._run_unit(module, unit)

    def _run_unit(self, module: ModuleInfo, unit: Unit, depth: int = 0, steps: int = 0) -> Frame:
        """The function, with calls followed so deep and so many steps taken; both as it deserves, if they are 0."""
        amid_questions, partial_reads = bool(self._open), self._partial_reads
        frame = self._frame(module, unit.node, unit.qualname)
        outer = self._units.get(unit.parent.node) if unit.parent is not None else None
        frame.scope = None if outer is None else {**(outer.scope or {}), **outer.env}
        frame.owner = unit.owner
        if unit.owner is None and outer is not None:
            frame.owner = outer.owner
            frame.self_name = outer.self_name
        receiver = Instance(unit.owner) if unit.owner is not None else None
        bind_parameters(frame, unit.node, receiver, [], {}, own=True)
        body = self._globals.get(id(module))
        frame.default_device = body.default_device if body is not None else None
        if frame.default_device is None and module.sets_default_device:
            frame.default_device = SOMEWHERE
        sought = unit.node in self.sought
        frame.depth = MAX_DEPTH - (depth or (MAX_DEPTH if sought else SIDE_DEPTH))
        with _Budget(self, steps or (MAX_STEPS if sought else MAX_SIDE_STEPS)):
            self._stack.append(unit.node)
            frame.exhausted = not self._guarded(lambda: self._finish(frame, unit.node.body))
            self._stack.pop()
        if frame.exhausted and sought and not steps:
            self._give_up(module, unit.node, unit.qualname)
        if unit.node in self.sought:
            events.across_calls(frame)
        self._units[unit.node] = frame
        if self._partial_reads != partial_reads:
            self._hasty.add(unit.node)
            if not amid_questions:
                self._early.add(unit.node)
        return frame

    def _give_up(self, module: ModuleInfo, root: ast.AST | None, name: str) -> None:
        """What a function has shown when its steps are used up may not be all: its copies are left unproven."""

        def of_root(one: Outcome | Sighting) -> bool:
            return one.root is root and (root is not None or one.root_file == module.file)

        for file, seen in self.outcomes.items():
            self.outcomes[file] = [one for one in seen if not of_root(one)]
        for file, hazards in self.sightings.items():
            self.sightings[file] = [one for one in hazards if not of_root(one)]
        self.spent.cut_short.append(name)

    def start_over(self) -> None:
        """Forget everything: an analysis that broke off has left things half done."""
        needs_room = self.needs_room
        self.__dict__ = type(self)(self.options).__dict__
        self.needs_room = needs_room

    def settle(self, module: ModuleInfo) -> None:
        """Run again what was run too early: what it reads can be looked up in full now, its own stores included."""
        for unit in module.units:
            if unit.node not in self._hasty or unit.node not in self.sought:
                continue
            self._hasty.discard(unit.node)
            seen = self.outcomes.get(module.file, [])
            mine = [one for one in seen if one.root is unit.node]
            harmless = all(one.verdict in _HARMLESS and one.pitfall is None for one in mine)
            if mine and harmless and unit.node not in self._early:
                continue
            self.outcomes[module.file] = [one for one in seen if one.root is not unit.node]
            self._run_unit(module, unit)

    def _finish(self, frame: Frame, body: list[ast.stmt]) -> None:
        frame.falls_through = run_body(body, frame)
        if frame.falls_through:
            events.leave(frame, None)

    def _guarded(self, run: Callable[[], object]) -> bool:
        """Run within the budget; False when that ended first. Then questions that were under way are open no more."""
        depth, incomplete = len(self._stack), self._incomplete
        asked = [(questions, set(questions)) for questions in self._under_way()]
        try:
            run()
        except BudgetExceededError:
            del self._stack[depth:]
            self._incomplete = incomplete
            for questions, before in asked:
                for new in set(questions) - before:
                    _forget(questions, new)
            return False
        return True

    def _under_way(self) -> tuple[dict[Any, Any] | set[Any], ...]:
        """What is being looked up or applied: each is entered when that begins, and taken out when it ends."""
        return self._open, self._undecorated, self._asked_globals, self._asked_members

    def run_callers(self, module: ModuleInfo, name: str, without: Collection[ast.AST], anew: bool = False) -> None:
        """Look at the functions of the module that name `name`, so that its calls are seen with their arguments.

        `anew`: even at those that were looked at before, which may have been while the callee was under way.
        """
        if module.checked:
            self.run_module(module)
        for unit in module.units_naming(name)[:MAX_CALLERS]:
            if unit.node not in without:
                if anew and unit.parent is None and unit.node not in self.sought and unit.node in self._units:
                    self._run_unit(module, unit)
                self.run_unit(module, unit)

    def run_for(self, asker: ModuleInfo, module: ModuleInfo, unit: Unit) -> None:
        """Look at a function of another module, so that its calls into `asker` are seen with their arguments.

        It is run whether or not it was before: then it may have called an earlier reading of `asker`.
        """
        if unit.node in self._units and self._units[unit.node] is None:
            return  # under way
        known = self._units.get(unit.node)
        before, self.outcomes = self.outcomes, {}
        wrong, self.sightings = self.sightings, {}
        self._units[unit.node] = None
        self._run_unit(module, unit, CALLER_DEPTH, MAX_CALLER_STEPS)
        if known is not None:
            self._units[unit.node] = known
        else:
            del self._units[unit.node]
        seen, self.outcomes = self.outcomes, before
        self.asked_roots.setdefault(asker.file, set()).add(unit.node)
        before[asker.file] = [one for one in before.get(asker.file, ()) if one.root is not unit.node]
        for file, outcomes in seen.items():
            wanted = [one for one in outcomes if one.root is not unit.node or file == asker.file]
            before.setdefault(file, []).extend(wanted)
        again, self.sightings = self.sightings, wrong
        for file, sightings in again.items():  # its own are told where its module is under check
            wrong.setdefault(file, []).extend(one for one in sightings if one.root is not unit.node)

    # What the rules of expressions and statements report

    def record(self, outcome: Outcome) -> None:
        """Remember what a copy does on one way."""
        self.outcomes.setdefault(outcome.module, []).append(outcome)

    def report(self, sighting: Sighting) -> None:
        """Remember a hazard of a copy."""
        self.sightings.setdefault(sighting.file, []).append(sighting)

    def hand_on(self, node: ast.expr) -> None:
        """This copy is under way when its function ends, and what it reads or brings is known outside."""
        self.handed_on.add(node)

    def excuse(self, node: ast.AST) -> None:
        """What goes on at this place when its function ends is waited for by a caller."""
        self.excused.add(node)

    def register(self, storage: int, memory: Memory, trail: Trail) -> None:
        """Memory that was page-locked after it was allocated."""
        self._registered[storage] = (memory, trail)

    def registered(self, array: Array) -> Array:
        """The array, pinned if its memory was page-locked since."""
        found = self._registered.get(array.storage) if array.storage else None
        return array if found is None or array.memory is Memory.PINNED else array.but(memory=found[0], trail=found[1])

    def fresh_storage(self) -> int:
        """A number for newly allocated memory."""
        self._storage += 1
        return self._storage


def _forget(questions: dict[Any, Any] | set[Any], question: object) -> None:
    if isinstance(questions, dict):
        del questions[question]
    else:
        questions.discard(question)


class Spent:
    """What one file has taken: steps, time, and what was cut short for it."""

    def __init__(self) -> None:
        self.steps = 0
        self.cut_short: list[str] = []
        """Functions whose copies were left unproven, because their steps or those of the file were used up."""
        self.time_is_up = False
        """Whether it took too long, when somebody looked at the clock last: another run may go further."""
        self._start = time.process_time()
        self._asked = 0
        self._looked_at = 0
        """How many steps had been taken when somebody looked at the clock last."""

    @property
    def all(self) -> bool:
        """Whether nothing is left for the file. The clock is looked at now and then: to ask it takes long."""
        self._asked += 1
        if self.steps - self._looked_at < _STEPS_BY_THE_CLOCK and self._asked % _TIMES_BY_THE_CLOCK:
            return self.steps > MAX_FILE_STEPS or self.time_is_up
        self._looked_at = self.steps
        self.time_is_up = time.process_time() - self._start > MAX_FILE_SECONDS
        return self.steps > MAX_FILE_STEPS or self.time_is_up


class _Budget:
    """A step count of its own for the function that starts to be looked at; the outer one's goes on afterwards."""

    def __init__(self, project: Running, limit: int = MAX_STEPS) -> None:
        self._project = project
        self._steps = Steps(0 if project.spent.all else limit)

    def __enter__(self) -> None:
        self._project.steps, self._steps = self._steps, self._project.steps

    def __exit__(self, *exc: object) -> None:
        self._project.spent.steps += self._project.steps.taken
        self._project.steps, self._steps = self._steps, self._project.steps
