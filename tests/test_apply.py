"""From fixes to files: what goes together, what holds, and how it is written."""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import h2dlint.fixers
import pytest
from h2dlint.fixers import Fixer
from h2dlint.rules import all_rules

from h2dlint.apply import NotWrittenError, apply_edits, merge, unified_diff, write_file
from h2dlint.facts.analyse import copies_of
from h2dlint.facts.copies import Copy
from h2dlint.facts.project import Project
from h2dlint.finding import Applicability, Edit, Finding, Fix
from h2dlint.fixing import FixOptions, Refusal, Site
from h2dlint.regions import visit
from h2dlint.repair import MOST_ROUNDS, NO_LONGER_PARSES, NOT_CURED, Repairer

SAFE, UNSAFE = Applicability.SAFE, Applicability.UNSAFE


def fix_of(*edits: tuple[int, int, str]) -> Fix:
    """A fix of these edits."""
    return Fix("a fix", SAFE, tuple(Edit(*edit) for edit in edits), "")


# --- merging ------------------------------------------------------------------------------------------------------

IMPORT = (0, 0, "import a\n")

MERGES: dict[str, tuple[list[Fix], tuple[int, ...], str]] = {
    "nothing": ([], (), "0123456789"),
    "one": ([fix_of((2, 4, "x"))], (0,), "01x456789"),
    "two apart": ([fix_of((2, 4, "x")), fix_of((6, 7, "y"))], (0, 1), "01x45y789"),
    "two that touch": ([fix_of((2, 4, "x")), fix_of((4, 6, "y"))], (0, 1), "01xy6789"),
    "two that overlap: the first in the text": ([fix_of((3, 5, "x")), fix_of((2, 4, "y"))], (1,), "01y456789"),
    "the same edit twice": ([fix_of((2, 4, "x")), fix_of((2, 4, "x"))], (0, 1), "01x456789"),
    "a shared import": (
        [fix_of(IMPORT, (2, 3, "x")), fix_of(IMPORT, (6, 7, "y"))],
        (0, 1),
        "import a\n01x345y789",
    ),
    "two imports at one place": (
        [fix_of(IMPORT, (2, 3, "x")), fix_of((0, 0, "import b\n"), (6, 7, "y"))],
        (0,),
        "import a\n01x3456789",
    ),
    "one part that overlaps keeps the whole fix out": (
        [fix_of((1, 5, "x")), fix_of((0, 1, "y"), (4, 6, "z"))],
        (1,),
        "y123z6789",
    ),
    "an insertion in front of a replacement": ([fix_of((2, 4, "x")), fix_of((2, 2, "y"))], (0, 1), "01yx456789"),
    "an insertion inside a replacement": ([fix_of((2, 4, "x")), fix_of((3, 3, "y"))], (0,), "01x456789"),
}


@pytest.mark.parametrize(("fixes", "taken", "text"), MERGES.values(), ids=MERGES.keys())
def test_merging(fixes: list[Fix], taken: tuple[int, ...], text: str) -> None:
    merged = merge(fixes)
    assert sorted(merged.taken) == sorted(taken)
    assert sorted((*merged.taken, *merged.waiting)) == list(range(len(fixes)))
    assert apply_edits("0123456789", merged.edits) == text


@pytest.mark.parametrize("edits", [[(2, 5, ""), (4, 6, "")], [(8, 11, "")], [(3, 2, "")]])
def test_edits_that_cannot_be_made_are_an_error(edits: list[tuple[int, int, str]]) -> None:
    with pytest.raises(ValueError, match="overlap"):
        apply_edits("0123456789", [Edit(*edit) for edit in edits])


DIFFS: dict[str, tuple[str, str, str]] = {
    "nothing changed": ("a\n", "a\n", ""),
    "a line": ("a\nb\n", "a\nc\n", "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
    "Windows line ends stay": ("a\r\nb\r\n", "a\r\n", "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1 @@\n a\r\n-b\r\n"),
    "no newline at the end": (
        "a",
        "b",
        "--- a/f.py\n+++ b/f.py\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n",
    ),
}


@pytest.mark.parametrize(("before", "after", "diff"), DIFFS.values(), ids=DIFFS.keys())
def test_diff(before: str, after: str, diff: str) -> None:
    assert unified_diff("f.py", before, after) == diff


# --- writing ------------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    file.chmod(0o751)
    write_file(str(file), b"old", b"new")
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert os.listdir(tmp_path) == ["a.py"]


def test_what_a_link_points_at_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file = tmp_path / "real" / "a.py"
    file.write_bytes(b"old")
    link = tmp_path / "link.py"
    link.symlink_to(file)
    write_file(str(link), b"old", b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"


def test_a_file_that_has_changed_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"newer")
    with pytest.raises(NotWrittenError, match="changed"):
        write_file(str(file), b"old", b"new")
    assert file.read_bytes() == b"newer"
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_file_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(NotWrittenError, match="cannot be written"):
        write_file(str(tmp_path / "a.py"), b"old", b"new")
    assert os.listdir(tmp_path) == []


def test_a_read_only_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(NotWrittenError, match="read-only"):
        write_file(str(file), b"old", b"new")
    assert file.read_bytes() == b"old"


@pytest.mark.parametrize("where", ["fsync", "replace", "chmod"])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    monkeypatch.setattr(os, where, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_file(str(file), b"old", b"new")
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.py"]


# --- rounds -------------------------------------------------------------------------------------------------------

ONE = """import torch


def f(x):
    host = torch.rand(99999)
    return host.to("cuda", non_blocking=True)
"""
TWO = """import torch


def f(x):
    host = torch.rand(99999)
    a = host.to("cuda", non_blocking=True)
    b = host.to("cuda", non_blocking=True)
    return a, b
"""

Function = Callable[[Site], "Fix | Refusal | None"]


def repairer(most: Applicability = SAFE) -> Repairer:
    """A repairer that looks at a text with the real analysis and all rules."""

    def copies(text: str, tree: ast.Module) -> list[Copy]:
        return copies_of(Project(), "a.py", text, tree)

    def findings(text: str, tree: ast.Module, found: Sequence[Copy]) -> list[Finding]:
        return [one for one in visit(text, tree, found, all_rules()) if one.code != "HTD190"]

    return Repairer("a.py", "a.py", FixOptions(), most, copies, findings)


@pytest.fixture
def fixers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts fixers in the place of the real ones: each a title and a function, in order."""

    def use(**functions: Function) -> None:
        made = tuple(Fixer(name, name, order, fix) for order, (name, fix) in enumerate(functions.items()))
        monkeypatch.setattr(h2dlint.fixers, "all_fixers", lambda: made)

    return use


def pinned(site: Site) -> Fix:
    """A fix that holds: it pins what is sent."""
    assert isinstance(site.call.func, ast.Attribute)
    source = site.call.func.value
    return site.fix("pin", SAFE, [site.replace(source, f"{site.source(source)}.pin_memory()")])


def unsafely_pinned(site: Site) -> Fix:
    """The same, unsafe."""
    return site.fix("pin unsafely", UNSAFE, pinned(site).edits)


def whole_statement(site: Site) -> Fix:
    """A fix that holds, and touches everything around it."""
    function = site.function
    assert function is not None
    edits = pinned(site).edits
    start, end = site.document.lines.offsets(function)
    inside = [Edit(edit.start - start, edit.end - start, edit.replacement) for edit in edits]
    return site.fix("pin by the function", SAFE, [Edit(start, end, apply_edits(site.text[start:end], inside))])


def nothing_gained(site: Site) -> Fix:
    """A fix that changes the text and cures nothing."""
    assert isinstance(site.call.func, ast.Attribute)
    source = site.call.func.value
    return site.fix("clone", SAFE, [site.replace(source, f"{site.source(source)}.clone()")])


def broken(site: Site) -> Fix:
    """A fix after which the file does not parse."""
    return site.fix("break", SAFE, [site.replace(site.call, "(")])


def refused(site: Site) -> Refusal:
    """A fixer that knows better."""
    return Refusal("not here")


def test_all_fixes_of_a_file_are_made_in_one_pass(fixers: Callable[..., None]) -> None:
    fixers(pin=pinned)
    repaired = repairer().repair(TWO, ast.parse(TWO))
    assert repaired.text == TWO.replace("host.to", "host.pin_memory().to")
    assert [fixed.title for fixed in repaired.fixed] == ["pin", "pin"]
    assert repaired.refusals == {}


def test_fixes_that_overlap_come_one_after_the_other(fixers: Callable[..., None]) -> None:
    fixers(whole=whole_statement)
    repaired = repairer().repair(TWO, ast.parse(TWO))
    assert repaired.text == TWO.replace("host.to", "host.pin_memory().to")
    assert len(repaired.fixed) == 2


def test_a_second_run_changes_nothing(fixers: Callable[..., None]) -> None:
    fixers(pin=pinned)
    once = repairer().repair(TWO, ast.parse(TWO)).text
    again = repairer().repair(once, ast.parse(once))
    assert (again.text, again.fixed) == (once, ())


DROPPED: dict[str, tuple[Function, str]] = {
    "what cures nothing": (nothing_gained, NOT_CURED),
    "what no longer parses": (broken, NO_LONGER_PARSES),
}


@pytest.mark.parametrize(("fix", "reason"), DROPPED.values(), ids=DROPPED.keys())
def test_a_fix_that_does_not_hold_is_dropped_and_the_reason_told(
    fixers: Callable[..., None], fix: Function, reason: str
) -> None:
    fixers(bad=fix)
    repaired = repairer().repair(ONE, ast.parse(ONE))
    assert (repaired.text, repaired.fixed) == (ONE, ())
    assert list(repaired.refusals.values()) == [reason]


@pytest.mark.parametrize("fix", [fix for fix, _ in DROPPED.values()], ids=DROPPED.keys())
def test_the_next_best_takes_the_place_of_a_fix_that_does_not_hold(fixers: Callable[..., None], fix: Function) -> None:
    fixers(bad=fix, good=pinned)
    repaired = repairer().repair(TWO, ast.parse(TWO))
    assert repaired.text == TWO.replace("host.to", "host.pin_memory().to")


def test_a_bad_fix_does_not_keep_good_ones_from_being_made(fixers: Callable[..., None]) -> None:
    def bad_for_b(site: Site) -> Fix:
        return broken(site) if site.copy.span.line == 7 else pinned(site)

    fixers(mixed=bad_for_b)
    repaired = repairer().repair(TWO, ast.parse(TWO))
    assert repaired.text == TWO.replace("a = host.to", "a = host.pin_memory().to")
    assert list(repaired.refusals.values()) == [NO_LONGER_PARSES]


def test_unsafe_fixes_are_made_on_request_only(fixers: Callable[..., None]) -> None:
    fixers(unsafe=unsafely_pinned)
    assert repairer(SAFE).repair(ONE, ast.parse(ONE)).fixed == ()
    assert [fixed.applicability for fixed in repairer(UNSAFE).repair(ONE, ast.parse(ONE)).fixed] == [UNSAFE]


def test_a_safe_fix_is_preferred_to_a_better_unsafe_one_unless_all_are_wanted(fixers: Callable[..., None]) -> None:
    fixers(unsafe=unsafely_pinned, safe=pinned)
    assert [fixed.title for fixed in repairer(SAFE).repair(ONE, ast.parse(ONE)).fixed] == ["pin"]
    assert [fixed.title for fixed in repairer(UNSAFE).repair(ONE, ast.parse(ONE)).fixed] == ["pin unsafely"]


def test_proposals_are_attached_without_being_made(fixers: Callable[..., None]) -> None:
    fixers(pin=pinned)
    proposals = repairer().proposals(TWO, ast.parse(TWO))
    assert [fix.title for fix in proposals.fixes.values()] == ["pin", "pin"]
    assert all(len(fix.content_hash) == 32 for fix in proposals.fixes.values())


def test_proposals_that_overlap_are_each_proven(fixers: Callable[..., None]) -> None:
    fixers(whole=whole_statement)
    assert len(repairer().proposals(TWO, ast.parse(TWO)).fixes) == 2


def test_a_refusal_is_told_where_no_other_fixer_helps(fixers: Callable[..., None]) -> None:
    fixers(no=refused)
    assert list(repairer().proposals(ONE, ast.parse(ONE)).refusals.values()) == ["not here"]
    fixers(no=refused, yes=pinned)
    assert repairer().proposals(ONE, ast.parse(ONE)).refusals == {}


def test_what_goes_round_in_a_circle_ends(fixers: Callable[..., None]) -> None:
    lines = "".join(f'    b{number} = host.to("cuda", non_blocking=True)\n' for number in range(MOST_ROUNDS + 3))
    text = f"import torch\n\n\ndef f(x):\n    host = torch.rand(99999)\n{lines}"
    fixers(whole=whole_statement)
    assert len(repairer().repair(text, ast.parse(text)).fixed) == MOST_ROUNDS


def test_one_fix_at_the_factory_cures_every_copy_that_comes_from_it(fixers: Callable[..., None]) -> None:
    def at_the_factory_for_a(site: Site) -> Fix:
        if site.copy.span.line != 6:
            return pinned(site)
        made = site.node_at(site.copy.trace[0].span)
        assert isinstance(made, ast.Call)
        return site.fix("allocate it pinned", SAFE, [site.add_keyword(made, "pin_memory", "True")])

    fixers(mixed=at_the_factory_for_a)
    repaired = repairer().repair(TWO, ast.parse(TWO))
    assert repaired.text == TWO.replace("rand(99999)", "rand(99999, pin_memory=True)")
    assert [fixed.title for fixed in repaired.fixed] == ["allocate it pinned"]
