"""`h2dlint init`: looks at a project and writes its first settings, its baseline and its commit hook."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from h2dlint.checking import Options, check_paths, inventory_of
from h2dlint.config import Configs, config_in
from h2dlint.discovery import display_path, python_files
from h2dlint.facts.copies import Copy, Direction
from h2dlint.finding import Severity
from h2dlint.settings import ConfigError
from h2dlint.settings_files import OWN, SHARED

BASELINE = "h2dlint-baseline.json"
HOOKS = ".pre-commit-config.yaml"
MOST_HOT = 10
"""More names than this are no help to whoever reads the settings."""

_EACH_STEP = re.compile(
    r"(?:^|_)(?:step|forward|decode|prefill|generate|sample|sampling|execute|infer|inference|predict|schedule|iteration"
    r"|prepare_inputs?|update)(?:_|$|s$)",
    re.IGNORECASE,
)
"""How functions that run at every step are usually called."""

HOOK = """\
- repo: local
  hooks:
    - id: h2dlint
      name: h2dlint
      entry: h2dlint check --affected --force-exclude
      language: system
      types_or: [python, jupyter]
      require_serial: true
"""


class Adopted(Struct, frozen=True):
    """What was done, as lines for people."""

    done: tuple[str, ...]
    next: tuple[str, ...]
    """Commands to go on with."""


def adopt(folder: str, processes: int, done: Callable[[int, int], None]) -> Adopted:
    """Writes the first settings into `folder`.

    Raises ConfigError where there are settings already.
    """
    folder = os.path.abspath(folder)
    present = config_in(folder)
    if present is not None:
        raise ConfigError(
            f"{display_path(present.file)} has settings already; `h2dlint check --show-settings` prints them"
        )
    told: list[str] = []
    lines = [*_names(folder, told), *_hot(folder, processes, told)]
    lines += _known(folder, processes, done, told)
    settings = _write_settings(folder, lines)
    told.insert(0, f"wrote {display_path(settings)}" + ("" if lines else ", which says nothing yet: the defaults fit"))
    told.append(_hook(folder))
    written = [os.path.basename(settings)]
    written += [name for name in (BASELINE, HOOKS) if os.path.exists(os.path.join(folder, name))]
    return Adopted(tuple(told), ("h2dlint check", f"git add {' '.join(written)}"))


def _names(folder: str, told: list[str]) -> Iterator[str]:
    """The project's own guard and helper, from the package with most files that has one."""
    from h2dlint.fixing.project_files import package_root
    from h2dlint.fixing.project_flags import project_guard, project_helper

    roots = Counter(package_root(file) for file in python_files([folder]))
    for key, find, what in (
        ("pin-guard", project_guard, "true where memory can be pinned"),
        ("transfer-helper", project_helper, "pins a tensor and sends it"),
    ):
        name = next((name for root, _ in roots.most_common() if (name := find(root)) is not None), None)
        if name is not None:
            told.append(f"found {name}: {what}")
            yield f"{key} = {json.dumps(name)}"


def _hot(folder: str, processes: int, told: list[str]) -> Iterator[str]:
    """Functions that send something to the device and are called as if they ran at every step."""
    options = Options(processes=processes)
    found = inventory_of([folder], Configs(isolated=True), options, lambda done, total: None)
    names = Counter(_dotted(copy, folder) for copy in found.copies if _runs_each_step(copy))
    likely = sorted(name for name, _ in names.most_common(MOST_HOT))
    if likely:
        what = "1 function that seems" if len(likely) == 1 else f"{len(likely)} functions that seem"
        told.append(f"found {what} to run at every step; correct `hot-functions` if not")
        yield "hot-functions = [" + "".join(f"\n    {json.dumps(name)}," for name in likely) + "\n]"


def _runs_each_step(copy: Copy) -> bool:
    last = copy.function.rpartition(".")[2]
    return copy.asked and copy.direction is not Direction.H2H and _EACH_STEP.search(last) is not None


def _dotted(copy: Copy, folder: str) -> str:
    parts = os.path.relpath(copy.path, folder).removesuffix(".py").split(os.sep)
    parts = parts[1:] if parts[0] == "src" and len(parts) > 1 else parts
    return ".".join([*(parts[:-1] if parts[-1] == "__init__" else parts), copy.function])


def _known(folder: str, processes: int, done: Callable[[int, int], None], told: list[str]) -> Iterator[str]:
    """What is found today is known from tomorrow on."""
    from h2dlint.baseline import write

    options = Options(processes=processes, all_known=True)
    report = check_paths([folder], Configs(isolated=True), options, done)
    if not any(finding.severity is not Severity.NOTE for finding in report.findings):
        told.append("found nothing to report: no baseline is needed")
        return
    file = os.path.join(folder, BASELINE)
    number = write(file, report.findings, report.sources, report.seen, None)
    what = "1 finding" if number == 1 else f"{number:,} findings"
    told.append(f"wrote {display_path(file)} with {what} of today: they are not reported again")
    yield f"baseline = {json.dumps(BASELINE)}"


def _write_settings(folder: str, lines: Sequence[str]) -> str:
    shared = os.path.join(folder, SHARED)
    body = "".join(f"{line}\n" for line in lines)
    try:
        if not os.path.exists(shared):
            own = os.path.join(folder, OWN)
            with open(own, "w", encoding="utf-8") as file:
                file.write(body or "# See docs/configuration.md for what can be said here.\n")
            return own
        with open(shared, encoding="utf-8", newline="") as file:
            text = file.read()
        end = "\r\n" if "\r\n" in text else "\n"
        gap = "" if not text else end if text.endswith("\n") else end * 2
        with open(shared, "a", encoding="utf-8", newline="") as file:
            file.write(gap + f"[tool.h2dlint]\n{body}".replace("\n", end))
        return shared
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{display_path(folder)}: the settings cannot be written: {error}") from error


def _hook(folder: str) -> str:
    """Adds the commit hook; what was done about it."""
    if not os.path.exists(os.path.join(folder, ".git")):
        return "wrote no commit hook: this is not the top of a git repository"
    file = os.path.join(folder, HOOKS)
    shown = display_path(file)
    text = ""
    if os.path.exists(file):
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
    if "h2dlint" in text:
        return f"{shown} knows h2dlint already"
    added = with_hook(text)
    if added is None:
        return f"{shown} is written in a way of its own; add this to its `repos`:\n\n{HOOK}"
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(added)
    return f"wrote the hook into {shown}; `pre-commit install` makes git run it"


def with_hook(text: str) -> str | None:
    """The hooks file with h2dlint's at its end; None where the end is not the list of repositories."""
    if not text.strip():
        return f"repos:\n{HOOK}"
    keys = re.findall(r"^([\w-]+):", text, re.MULTILINE)
    first = re.search(r"^([ ]*)- +repo:", text, re.MULTILINE)
    if not keys or keys[-1] != "repos" or first is None:
        return None
    hook = "".join(f"{first[1]}{line}" for line in HOOK.splitlines(keepends=True))
    return text.rstrip("\n") + "\n" + hook
