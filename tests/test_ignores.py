"""Suppressing comments that do nothing, and comments that `--add-ignore` writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Cli, WriteFiles

from h2dlint.accepted import identities
from h2dlint.engine import Job, look_at
from h2dlint.facts.project import Project
from h2dlint.ignoring import with_ignores
from h2dlint.settings import rule_codes

COPY = "x = torch.rand(99999).to('cuda', non_blocking=True)"
FINE = "x = torch.rand(99999, pin_memory=True).to('cuda', non_blocking=True)"

UNUSED: dict[str, tuple[str, str, list[str]]] = {
    "a comment that silences nothing": (
        f"{FINE}  # h2dlint: ignore[HTD101] because\n",
        f"{FINE}\n",
        ["there is no HTD101 in this statement to silence"],
    ),
    "one of two codes": (
        f"{COPY}  # h2dlint: ignore[HTD101, HTD102] because\n",
        f"{COPY}  # h2dlint: ignore[HTD101] because\n",
        ["there is no HTD102 in this statement to silence"],
    ),
    "a code that no rule has": (
        f"{COPY}  # h2dlint: ignore[HTD101,HTD199]\n",
        f"{COPY}  # h2dlint: ignore[HTD101]\n",
        ["no rule is called HTD199"],
    ),
    "alone on its line": (
        f"y = 1\n    # h2dlint: ignore[HTD101]\n{FINE}\n",
        f"y = 1\n{FINE}\n",
        ["there is no HTD101 in this statement to silence"],
    ),
    "for the whole file": (
        f"# h2dlint: file-ignore[HTD201]\n{COPY}  # h2dlint: ignore[HTD101]\n",
        f"{COPY}  # h2dlint: ignore[HTD101]\n",
        ["there is no HTD201 in this file to silence"],
    ),
    "between other comments": (
        f"{FINE}  # type: ignore  # h2dlint: ignore[HTD101] once  # fast\n",
        f"{FINE}  # type: ignore  # fast\n",
        ["there is no HTD101 in this statement to silence"],
    ),
    "noqa, beside another linter's code": (
        f"{FINE}  # noqa: E501, HTD101\n",
        f"{FINE}  # noqa: E501\n",
        ["there is no HTD101 in this statement to silence"],
    ),
    "noqa, followed by words": (
        f"{FINE}  # noqa: HTD101 at start-up\n",
        f"{FINE}  # at start-up\n",
        ["there is no HTD101 in this statement to silence"],
    ),
    "two comments in one": (
        f"{FINE}  # h2dlint: ignore[HTD101]  # noqa: HTD102\n",
        f"{FINE}\n",
        ["there is no HTD101 in this statement to silence", "there is no HTD102 in this statement to silence"],
    ),
    "at the end of the file": (
        f"{FINE}\n# h2dlint: ignore[HTD101]",
        f"{FINE}\n",
        ["there is no HTD101 in this statement to silence"],
    ),
    "after Windows newlines": (
        f"y = 1\r\n# h2dlint: ignore[HTD101]\r\n{FINE}\r\n",
        f"y = 1\r\n{FINE}\r\n",
        ["there is no HTD101 in this statement to silence"],
    ),
    "in a file without a copy": (
        "y = 1  # h2dlint: ignore[HTD101]\n",
        "y = 1\n",
        ["there is no HTD101 in this statement to silence"],
    ),
}

KEPT: dict[str, str] = {
    "one that silences": f"{COPY}  # h2dlint: ignore[HTD101]\n",
    "noqa that silences": f"{COPY}  # noqa: HTD101\n",
    "other linters' comments": f"{FINE}  # noqa: E501\n{FINE}  # noqa\n",
    "one that silences an unproven copy": "def f(x):\n    x.cuda(non_blocking=True)  # h2dlint: ignore[HTD190]\n",
    "one that may be kept": f"{FINE}  # h2dlint: ignore[HTD101, HTD901] for older versions\n",
    "all of them": f"# h2dlint: file-ignore[HTD901]\n{FINE}  # h2dlint: ignore[HTD101]\n",
    "words in a string": "y = '# h2dlint: ignore[HTD101]'\n",
    "about files that cannot be read": f"{FINE}  # h2dlint: ignore[HTD902]\n",
}


NOT_UNDERSTOOD = {
    "no code": "# h2dlint: ignore",
    "no code in the brackets": "# h2dlint: ignore[]",
    "the word of another linter": "# h2dlint: disable=HTD101",
    "two forms in one": "# h2dlint: noqa[HTD101]",
    "no brackets": "# h2dlint: ignore HTD101",
}


@pytest.mark.parametrize("comment", NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD.keys())
def test_a_comment_that_is_not_understood_is_told_of_and_kept(cli: Cli, write: WriteFiles, comment: str) -> None:
    write({"a.py": f"{FINE}  {comment}\n"})
    ran = cli("check", "--fix", "--output-format", "json", "a.py")
    (found,) = json.loads(ran.out)["findings"]
    assert (found["code"], found["fix"]) == ("HTD901", None)
    assert "does nothing: it names no rule" in found["message"]


@pytest.mark.parametrize(("before", "after", "messages"), UNUSED.values(), ids=UNUSED.keys())
def test_a_comment_that_does_nothing_is_reported_and_removed(
    tmp_path: Path, cli: Cli, before: str, after: str, messages: list[str]
) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(f"import torch\n\n{before}".encode())
    ran = cli("check", "--output-format", "json")
    found = json.loads(ran.out)["findings"]
    assert (ran.status, [one["code"] for one in found]) == (1, ["HTD901"] * len(messages))
    assert [one["message"] for one in found] == [f"this comment does nothing: {message}" for message in messages]
    assert cli("check", "--fix").status == 0
    assert file.read_bytes() == f"import torch\n\n{after}".encode()


@pytest.mark.parametrize("code", KEPT.values(), ids=KEPT.keys())
def test_a_comment_that_stays(tmp_path: Path, code: str) -> None:
    file = tmp_path / "a.py"
    file.write_text(f"import torch\n\n{code}")
    assert look_at(Project(), Job(str(file), "a.py", codes=rule_codes())).findings == ()


def test_a_rule_that_did_not_run_may_have_had_something_to_say(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": f"import torch\n\n{FINE}  # h2dlint: ignore[HTD101]\n"})
    assert cli("check", "--select", "HTD2,HTD9").status == 0
    assert cli("check", "--select", "HTD1,HTD9").status == 1
    assert cli("check", "--ignore", "HTD901").status == 0


def test_a_fix_takes_its_comment_along(write: WriteFiles, cli: Cli) -> None:
    """The comment names two codes; the copy that one of them was for is repaired, and the other never was there."""
    folder = write({"a.py": "import torch\n\nx = torch.arange(99999).to('cuda', non_blocking=True)  # noqa: HTD102\n"})
    ran = cli("check", "--fix")
    assert (ran.status, ran.out.splitlines()[-1].split(" · ")[0]) == (0, "Fixed 2 findings in 1 file")
    assert (folder / "a.py").read_text() == "import torch\n\nx = torch.arange(99999, device='cuda')\n"


# --- --add-ignore -------------------------------------------------------------------------------------------------

LONG = "torch.rand(99999, dtype=torch.float32, requires_grad=False).flatten().contiguous()"

WRITTEN: dict[str, tuple[str, str, str]] = {
    "at the end of the line": (f"{COPY}\n", "", f"{COPY}  # h2dlint: ignore[HTD101]\n"),
    "with a reason": (f"{COPY}\n", "known", f"{COPY}  # h2dlint: ignore[HTD101] known\n"),
    "a reason that would break out": (f"{COPY}\n", "a\nb # c", f"{COPY}  # h2dlint: ignore[HTD101] a b c\n"),
    "behind another comment": (f"{COPY}  # why\n", "", f"{COPY}  # why  # h2dlint: ignore[HTD101]\n"),
    "into one that is there": (
        f"{COPY}  # h2dlint: ignore[HTD201] old\n",
        "new",
        f"{COPY}  # h2dlint: ignore[HTD201, HTD101] old\n",
    ),
    "into one on the line before": (
        f"# h2dlint: ignore[HTD201]\n{COPY}\n",
        "",
        f"# h2dlint: ignore[HTD201, HTD101]\n{COPY}\n",
    ),
    "at the end of a statement of several lines": (
        "x = torch.rand(99999).to(\n    'cuda',\n    non_blocking=True,\n)\n",
        "",
        "x = torch.rand(99999).to(\n    'cuda',\n    non_blocking=True,\n)  # h2dlint: ignore[HTD101]\n",
    ),
    "behind a string of several lines": (
        f"f('''\n''', {COPY[4:]})\n",
        "",
        f"f('''\n''', {COPY[4:]})  # h2dlint: ignore[HTD101]\n",
    ),
    "before a long line": (
        f"if a:\n    x = {LONG}.to('cuda', non_blocking=True)\n",
        "",
        f"if a:\n    # h2dlint: ignore[HTD101]\n    x = {LONG}.to('cuda', non_blocking=True)\n",
    ),
    "in the header of a loop": (
        f"for y in {COPY[4:]}:\n    pass\n",
        "",
        f"for y in {COPY[4:]}:  # h2dlint: ignore[HTD101]\n    pass\n",
    ),
    "one for two copies of a statement": (
        f"f({COPY[4:]}, {COPY[4:]})\n",
        "",
        f"# h2dlint: ignore[HTD101]\nf({COPY[4:]}, {COPY[4:]})\n",
    ),
    "on the last line, which has no end": (COPY, "", f"{COPY}  # h2dlint: ignore[HTD101]"),
    "with Windows newlines": (f"{COPY}\r\ny = 1\r\n", "", f"{COPY}  # h2dlint: ignore[HTD101]\r\ny = 1\r\n"),
}


@pytest.mark.parametrize(("before", "reason", "after"), WRITTEN.values(), ids=WRITTEN.keys())
def test_a_comment_is_written_and_works(tmp_path: Path, before: str, reason: str, after: str) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(f"import torch\n\n{before}".encode())
    job = Job(str(file), "a.py", codes=tuple(code for code in rule_codes() if code != "HTD901"))
    findings = look_at(Project(), job).findings
    text = with_ignores(file.read_bytes().decode(), findings, reason)
    assert text == f"import torch\n\n{after}"
    file.write_bytes(text.encode())
    assert look_at(Project(), job).findings == ()


def test_all_that_would_fail_the_run_is_silenced(write: WriteFiles, cli: Cli) -> None:
    small = "y = torch.rand(9).to('cuda', non_blocking=True)"
    folder = write({"a.py": f"import torch\n\n{COPY}\n{small}\n", "b.py": f"import torch\n\n{COPY}\n"})
    ran = cli("check", "--add-ignore", "a.py")
    assert (ran.status, (folder / "b.py").read_text()) == (0, f"import torch\n\n{COPY}\n")
    assert (folder / "a.py").read_text() == f"import torch\n\n{COPY}  # h2dlint: ignore[HTD101]\n{small}\n"
    ran = cli("check", "--add-ignore=runs once")
    assert (ran.status, (folder / "b.py").read_text().endswith("ignore[HTD101] runs once\n")) == (0, True)
    assert "2 suppressed" in ran.out
    assert cli("check", "--add-ignore", "--fix").status == 2


# --- what a finding is known by -----------------------------------------------------------------------------------

SAME: dict[str, tuple[str, str]] = {
    "lines move": (f"def f():\n    {COPY}\n", f"y = 1\n\n\ndef f():\n    z = 2\n    {COPY}\n"),
    "a formatter breaks the line": (
        f"def f():\n    {COPY}\n",
        "def f():\n    x = torch.rand(99999).to(\n        'cuda',  # the device\n        non_blocking=True,\n    )\n",
    ),
    "other quotes": (f"def f():\n    {COPY}\n", f"def f():\n    {COPY}\n".replace("'", '"')),
}
OTHER: dict[str, tuple[str, str]] = {
    "another function": (f"def f():\n    {COPY}\n", f"def g():\n    {COPY}\n"),
    "another copy": (f"def f():\n    {COPY}\n", f"def f():\n    {COPY}\n".replace("99999", "99998")),
}


def known_by(tmp_path: Path, code: str) -> list[tuple[str, str, str]]:
    file = tmp_path / "a.py"
    file.write_text(f"import torch\n\n{code}")
    outcome = look_at(Project(), Job(str(file), "a.py", codes=rule_codes()))
    return identities(outcome.findings, outcome.text)


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME.keys())
def test_a_finding_is_the_same_when(tmp_path: Path, one: str, other: str) -> None:
    assert known_by(tmp_path, one) == known_by(tmp_path, other)


@pytest.mark.parametrize(("one", "other"), OTHER.values(), ids=OTHER.keys())
def test_a_finding_is_another_in(tmp_path: Path, one: str, other: str) -> None:
    assert known_by(tmp_path, one) != known_by(tmp_path, other)
