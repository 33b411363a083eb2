"""The rules: what their pages hold, which of them speaks for which copy, and how."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from h2dlint.rules import Rule, all_rules, codes_for
from msgspec import convert
from msgspec.structs import astuple, replace

from h2dlint.facts.analyse import copies_of
from h2dlint.facts.copies import Branch, Cause, Copy, Direction, Follows, Next, Place, Span, Verdict
from h2dlint.facts.project import Project
from h2dlint.finding import Finding, Severity
from h2dlint.observing import held_against
from h2dlint.regions import visit
from h2dlint.suppress import sort_out
from h2dlint.trace.trace_file import Seen
from h2dlint.unused import unused

RULES = all_rules()
DOCS = Path(__file__).parent.parent / "docs"
HEADINGS = [
    "What it does",
    "Why is this bad",
    "Example",
    "Use instead",
    "Known limits",
    "Fix safety",
    "References",
]

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.meta.code)


def findings_in(code: str, beside: Rule | None = None) -> list[Finding]:
    """What the rules of the default set say about a module, and one more."""
    tree = ast.parse(code)
    rules = [rule for rule in RULES if rule.meta.default or rule is beside]
    pitfalls = {pitfall for rule in rules for pitfall in rule.meta.pitfalls}
    return visit(code, tree, copies_of(Project(), "snippet.py", code, tree, pitfalls=pitfalls), rules)


def comments_in(code: str) -> list[Finding]:
    """What HTD901 says about the comments of a module without any finding."""
    meta = next(rule.meta for rule in RULES if rule.meta.code == "HTD901")
    codes = [rule.meta.code for rule in RULES]
    return list(unused(meta, "snippet.py", code, sort_out((), code.encode(), code), codes, codes))


def observed_in(code: str) -> list[Finding]:
    """What is said of a module whose one copy a trace saw go through pageable memory."""
    tree = ast.parse(code)
    (copy,) = copies_of(Project(), "snippet.py", code, tree)
    line, column, end_line, end_column = astuple(copy.span)
    facts = {"path": "snippet.py", "line": line, "column": column, "end_line": end_line, "end_column": end_column}
    facts |= {"function": "f", "call": "to", "direction": "h2d", "verdict": "fake-async", "asked": True}
    facts |= {"pinned": False, "dense": True, "calls": 1, "copies": 1, "pageable": 1, "bytes": 1 << 20}
    facts |= {"largest": 1 << 20, "total_ms": 5.0, "worst_ms": 5.0, "causes": ["pageable"]}
    meta = next(rule.meta for rule in RULES if rule.meta.code == "HTD191")
    return held_against(findings_in(code), "snippet.py", [copy], [convert(facts, Seen)], meta)


# Pages


def test_codes_and_names_are_unique_and_sorted() -> None:
    codes = [rule.meta.code for rule in RULES]
    assert codes == sorted(set(codes))
    assert len({rule.meta.name for rule in RULES}) == len(RULES)


@each_rule
def test_a_rule_is_named_after_its_file(rule: Rule) -> None:
    assert rule.check.__module__ == f"h2dlint.rules.{rule.meta.name.replace('-', '_')}"


@each_rule
def test_a_page_has_every_heading_once_and_in_order(rule: Rule) -> None:
    assert [line[3:] for line in rule.page.splitlines() if line.startswith("## ")] == HEADINGS


@each_rule
def test_a_page_shows_both_examples(rule: Rule) -> None:
    for example in (rule.bad, rule.good):
        assert f"```python\n{example.strip()}\n```" in rule.page


@each_rule
def test_the_bad_example_gives_exactly_its_code(rule: Rule) -> None:
    if rule.meta.code == "HTD902":
        with pytest.raises(SyntaxError):
            ast.parse(rule.bad)
    else:
        others = {"HTD901": comments_in, "HTD191": observed_in}
        found = others[rule.meta.code](rule.bad) if rule.meta.code in others else findings_in(rule.bad, rule)
        assert [(finding.code, finding.severity) for finding in found] == [(rule.meta.code, rule.meta.severity)]


@each_rule
def test_the_good_example_gives_nothing(rule: Rule) -> None:
    assert [(finding.code, finding.message) for finding in findings_in(rule.good, rule)] == []


def test_the_documentation_is_what_the_rules_say() -> None:
    expected: dict[str, str] = runpy.run_path(str(DOCS / "generate_rules.py"))["rendered"]()
    actual = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "rules").glob("*.md")}
    assert actual == expected, "run: python docs/generate_rules.py"


# Which rule speaks


HERE = Span(9, 5, 9, 40)
ALLOCATED = Place("a.py", Span(4, 5, 4, 20), "zeros", "`zeros` allocates pageable memory")
SLICED = Place("a.py", Span(9, 5, 9, 16), "slice", "this view leaves gaps between its elements")
FAKE = Copy(
    path="a.py",
    span=HERE,
    function="f",
    call="to",
    asked=True,
    direction=Direction.H2D,
    verdict=Verdict.FAKE_ASYNC,
    causes=(Cause.PAGEABLE,),
    reveal="cpu | pageable | dense | zeros@4 -> here",
    trace=(ALLOCATED,),
    source_text="ids",
)
TAIL = Branch(True, "when `tail` is true (line 6)", True, ALLOCATED)
NO_TAIL = Branch(False, "when `tail` is false (line 6)", True, None)
OPTED_OUT = Branch(True, "when `NO_PIN` is true (line 2)", False, None)
PINNED_BY_DEFAULT = Branch(False, "by default", True, None)


def fake(**changes: Any) -> Copy:
    """An ordinary fake upload, with changes."""
    return replace(FAKE, **changes)


def conditional(*branches: Branch, **changes: Any) -> Copy:
    """A copy that depends on the way."""
    return fake(verdict=Verdict.CONDITIONAL, branches=branches, **changes)


def fetched(what: Next, **changes: Any) -> Copy:
    """A download that nobody asked to be asynchronous, and what follows."""
    plain = replace(FAKE, verdict=Verdict.BLOCKING, direction=Direction.D2H, asked=False, causes=(), call="cpu")
    return replace(plain, follows=Follows(what, SLICED), **changes)


SPEAKS: dict[str, tuple[Copy, str | None, str]] = {
    "a pageable source": (fake(), "HTD101", "error"),
    "a numpy source": (fake(from_numpy=True), "HTD102", "error"),
    "gaps": (fake(causes=(Cause.GAPPED,)), "HTD103", "error"),
    "gaps in a numpy source": (fake(causes=(Cause.PAGEABLE, Cause.GAPPED), from_numpy=True), "HTD103", "error"),
    "a broadcast": (fake(causes=(Cause.BROADCAST,)), "HTD104", "error"),
    "an index counted out on the host": (fake(index_built=True), "HTD201", "error"),
    "an index with gaps": (fake(index_built=True, causes=(Cause.PAGEABLE, Cause.GAPPED)), "HTD201", "error"),
    "a pinned buffer of zeros with gaps": (fake(index_built=True, causes=(Cause.GAPPED,)), "HTD103", "error"),
    "a download": (fake(direction=Direction.D2H), "HTD107", "error"),
    "a small download": (fake(direction=Direction.D2H, max_bytes=4), "HTD107", "error"),
    "a broadcast of few bytes into many": (fake(causes=(Cause.BROADCAST,), max_bytes=256), "HTD104", "error"),
    "a small upload": (fake(max_bytes=8192), "HTD101", "note"),
    "an upload just above small": (fake(max_bytes=8193), "HTD101", "error"),
    "a small index": (fake(index_built=True, max_bytes=8), "HTD201", "note"),
    "gaps unless the slice spans the row": (conditional(causes=(Cause.GAPPED,)), "HTD103", "warning"),
    "the same in a destination": (conditional(causes=(Cause.GAPPED,), direction=Direction.D2H), "HTD107", "warning"),
    "one path": (conditional(TAIL, NO_TAIL), "HTD106", "warning"),
    "the default configuration": (
        conditional(replace(OPTED_OUT, by_default=True), causes=(Cause.CONFIG,)),
        "HTD106",
        "warning",
    ),
    "an opt-out that nobody took": (
        conditional(OPTED_OUT, PINNED_BY_DEFAULT, causes=(Cause.PAGEABLE, Cause.CONFIG)),
        None,
        "",
    ),
    "a copy that cannot be followed": (fake(verdict=Verdict.UNPROVEN, causes=()), "HTD190", "note"),
    "a transfer that never asked": (fake(verdict=Verdict.BLOCKING, asked=False), None, ""),
    "an unproven transfer that never asked": (fake(verdict=Verdict.UNPROVEN, asked=False), None, ""),
    "a download that is pinned next": (fetched(Next.PINNED), "HTD303", "warning"),
    "the same of what may be on the host": (fetched(Next.PINNED, verdict=Verdict.UNPROVEN), "HTD303", "note"),
    "a download that is kept and sent again": (fetched(Next.SENT_ASKING), "HTD108", "warning"),
    "the same by a move that waits": (fetched(Next.SENT), "HTD108", "warning"),
    "an asynchronous copy": (fake(verdict=Verdict.ASYNC, causes=()), None, ""),
    "no transfer": (fake(verdict=Verdict.NO_TRANSFER, causes=()), None, ""),
}


@pytest.mark.parametrize(("copy", "code", "severity"), SPEAKS.values(), ids=SPEAKS.keys())
def test_the_rule_that_speaks_for(copy: Copy, code: str | None, severity: str) -> None:
    found = [finding for rule in RULES for finding in rule.check(copy, None)]
    assert [(finding.code, finding.severity.value) for finding in found] == ([(code, severity)] if code else [])
    assert codes_for(copy) == ([code] if code else [])


# What it says


def said(copy: Copy, call: str = "") -> tuple[str, str]:
    """Message and help of the only finding, with the call as libcst has it."""
    import libcst

    node = libcst.parse_expression(call) if call else None
    (finding,) = (finding for rule in RULES for finding in rule.check(copy, node))
    return finding.message, finding.help


def test_a_message_names_the_source_and_the_line_that_made_it_so() -> None:
    message, _ = said(fake())
    assert message == ("`ids` is pageable, so this copy can stall the host (line 4: `zeros` allocates pageable memory)")


def test_a_place_in_another_file_is_named_with_its_file() -> None:
    message, _ = said(fake(trace=(replace(ALLOCATED, path="pool.py"),)))
    assert message.endswith("(pool.py:4: `zeros` allocates pageable memory)")


def test_the_last_link_that_made_it_pageable_is_named() -> None:
    pinned = replace(ALLOCATED, message="`zeros` allocates it pinned")
    lost = Place("a.py", Span(7, 1, 7, 9), "cat", "`cat` makes a fresh pageable tensor: the pin is lost")
    message, _ = said(fake(trace=(pinned, lost)))
    assert message.endswith("(line 7: `cat` makes a fresh pageable tensor: the pin is lost)")


def test_help_writes_the_whole_call_out() -> None:
    _, help = said(fake(trace=()), "ids.to(device, non_blocking=True)")
    assert help == "write `ids.pin_memory().to(device, non_blocking=True)`, behind your project's pin flag"


def test_help_for_a_factory_in_sight_offers_its_own_argument() -> None:
    _, help = said(fake())
    assert help == (
        "write `ids.pin_memory()`, behind your project's pin flag; or pass that flag as `pin_memory=` on line 4, "
        "which saves a host copy"
    )


def test_help_for_copy_pins_the_argument() -> None:
    copy = fake(call="copy_", source_text="self.host[:n]")
    _, help = said(copy, "self.gpu[:n].copy_(self.host[:n], non_blocking=True)")
    assert "`self.gpu[:n].copy_(self.host[:n].pin_memory(), non_blocking=True)`" in help


def test_help_leaves_an_unusual_call_alone() -> None:
    for call in ("torch.Tensor.to(ids, device)", "move(ids, device)"):
        _, help = said(fake(trace=()), call)
        assert help == "write `ids.pin_memory()`, behind your project's pin flag"


def test_help_for_a_permuted_source_keeps_its_order_where_the_copy_does() -> None:
    permuted = fake(reveal="cpu | pageable | permuted | zeros@4 -> here", trace=())
    assert said(permuted)[1].startswith("write `ids.pin_memory()`")
    into = replace(permuted, call="copy_")
    assert said(into)[1].endswith("`.pin_memory()` alone keeps the order")


def test_help_puts_an_operation_in_parentheses() -> None:
    _, help = said(fake(source_text="a + b", trace=()))
    assert help.startswith("write `(a + b).pin_memory()`")


def test_pinning_a_view_with_gaps_is_never_proposed() -> None:
    pageable_and_gapped = fake(source_text="x[:, :n]", reveal="cpu | pageable | gapped | zeros@4 -> slice@9 -> here")
    for copy in (pageable_and_gapped, fake(source_text="x[:, :n]", causes=(Cause.GAPPED,))):
        _, help = said(copy)
        assert "`x[:, :n].contiguous().pin_memory()`" in help
        assert "x[:, :n].pin_memory()" not in help


def test_gaps_are_blamed_on_the_slice_not_on_the_allocation() -> None:
    earlier = replace(SLICED, span=Span(8, 5, 8, 16))
    message, _ = said(fake(causes=(Cause.GAPPED,), trace=(ALLOCATED, earlier)))
    assert message.endswith("(line 8: this view leaves gaps between its elements)")


def test_a_slice_inside_the_call_needs_no_line() -> None:
    message, _ = said(fake(causes=(Cause.GAPPED,), trace=(ALLOCATED, SLICED)))
    assert message.endswith("the copy can stall the host")


def test_permuted_axes_are_not_called_gaps() -> None:
    message, help = said(fake(causes=(Cause.GAPPED,), reveal="cpu | pinned | permuted | here"))
    assert "in another order" in message
    assert "row" not in help


def test_a_small_copy_is_said_to_be_small() -> None:
    message, _ = said(fake(max_bytes=2048))
    assert message.endswith("it is small, at most 2,048 bytes: copies of up to 8 KiB block when hundreds are in flight")


def test_a_large_copy_is_not_told_to_pin_anew_each_time() -> None:
    _, help = said(fake(max_bytes=12 << 20))
    assert help.startswith("up to 12 MiB a call: keep one pinned buffer")


def test_a_conditional_copy_names_one_way_of_each_kind() -> None:
    message, _ = said(conditional(TAIL, NO_TAIL))
    assert message == (
        "`ids` is pinned and dense only on some paths: the copy can stall the host when `tail` is true (line 6); "
        "not when `tail` is false (line 6)"
    )


def test_ways_that_cannot_be_told_apart_are_named_once() -> None:
    message, _ = said(conditional(TAIL, replace(TAIL, fake=False)))
    assert message == (
        "`ids` is pinned and dense only on some paths: the copy can stall the host when `tail` is true (line 6)"
    )
    message, _ = said(conditional(TAIL, replace(TAIL, fake=False), NO_TAIL))
    assert message.endswith("when `tail` is true (line 6); not when `tail` is false (line 6)")


def test_a_way_without_a_name_is_told_by_its_place() -> None:
    lost = Place("a.py", Span(7, 1, 7, 9), "cat", "`cat` makes a fresh pageable tensor: the pin is lost")
    ways = (replace(TAIL, text="here", place=None), replace(NO_TAIL, text="otherwise"))
    message, _ = said(conditional(*ways, trace=(ALLOCATED, lost)))
    assert message == (
        "`ids` is pinned and dense only on some paths: the copy can stall the host where it is not "
        "(line 7: `cat` makes a fresh pageable tensor: the pin is lost)"
    )


def test_a_caller_is_named_in_a_sentence() -> None:
    message, _ = said(conditional(replace(TAIL, text="called from line 20")))
    assert message.endswith("the copy can stall the host when called from line 20")


def test_a_download_names_its_destination() -> None:
    message, help = said(fake(direction=Direction.D2H, call="copy_"), "host.copy_(scores, non_blocking=True)")
    assert message.startswith("`host` is pageable, so this copy makes the host wait")
    assert help.startswith("allocate `host` on line 4 with `pin_memory=`")


def test_an_index_is_to_be_made_on_the_device() -> None:
    _, help = said(fake(index_built=True, trace=(replace(ALLOCATED, label="arange"),)))
    assert help == "pass `device=` to `arange` on line 4 and drop the copy"


def test_a_broadcast_sends_the_small_tensor() -> None:
    copy = fake(call="copy_", causes=(Cause.BROADCAST,), source_text="row")
    _, help = said(copy, "table.copy_(row, non_blocking=True)")
    assert "`table.copy_(row.to(table.device, non_blocking=True))`" in help


def test_an_unproven_copy_says_what_could_not_be_followed() -> None:
    message, _ = said(fake(verdict=Verdict.UNPROVEN, unproven="the callers of `f` are not seen"))
    assert message == "cannot tell whether this copy is asynchronous: the callers of `f` are not seen"


def test_every_rule_copes_without_a_node_and_without_a_chain() -> None:
    for copy, code, _ in SPEAKS.values():
        bare = replace(copy, trace=(), source_text="")
        found = [finding for rule in RULES for finding in rule.check(bare, None)]
        assert [finding.code for finding in found] == ([code] if code else [])
        assert all(finding.message and finding.help for finding in found)


def test_a_copy_without_a_node_does_not_load_libcst() -> None:
    code = (
        "import sys\n"
        "from test_rules import SPEAKS, codes_for\n"
        "print([copy for copy, code, _ in SPEAKS.values() if codes_for(copy) != ([code] if code else [])])\n"
        "print('libcst' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    assert done.stdout == "[]\nFalse\n"


def test_severities_are_those_of_the_metadata_unless_the_site_says_less() -> None:
    order = list(Severity)
    for copy, _, _ in SPEAKS.values():
        for rule in RULES:
            for finding in rule.check(copy, None):
                assert order.index(finding.severity) >= order.index(rule.meta.severity)
