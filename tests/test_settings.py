"""Settings: every key, the file that holds, areas of files, and the ways to look at them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from conftest import Cli, WriteFiles
from h2dlint.rules import all_rules

from h2dlint import settings
from h2dlint.areas import Area, area_of
from h2dlint.config import KEYS, Config, ConfigError, Configs, Selection
from h2dlint.facts.options import FactOptions
from h2dlint.output import FORMATS
from h2dlint.settings import line_of, rule_codes, rule_needles

FAKE = "import torch\n\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"
UNKNOWN = """\
def f(x):
    return x.to('cuda', non_blocking=True)


class C:
    def g(self, y):
        y.cuda(non_blocking=True)
"""


def found(out: str) -> list[tuple[str, str, str]]:
    """Path, code and severity of each finding in a JSON report."""
    return [(one["path"], one["code"], one["severity"]) for one in json.loads(out)["findings"]]


def test_the_codes_read_off_the_rule_files_are_those_of_the_rules() -> None:
    assert list(rule_codes()) == [rule.meta.code for rule in all_rules()]


def test_the_needles_read_off_the_rule_files_are_those_of_the_rules() -> None:
    assert set(rule_needles() or ()) == {needle for rule in all_rules() for needle in rule.meta.needles}


def test_every_key_is_a_field_and_every_format_can_be_written() -> None:
    assert set(settings.KEYS) == set(KEYS)
    assert settings.FORMATS == FORMATS


def test_the_guide_explains_every_key_and_shows_it(tmp_path: Path) -> None:
    guide = (Path(__file__).parent.parent / "docs" / "configuration.md").read_text("utf-8")
    example = guide.split("```toml\n", 1)[1].split("```", 1)[0]
    shown = settings.read_settings("pyproject.toml", example.encode())
    assert shown is not None
    assert set(shown) == set(settings.KEYS)
    explained = re.findall(r"^\| `([a-z-]+)` \| ", guide, re.MULTILINE)
    assert set(settings.KEYS) <= set(explained)
    assert set(FORMATS) <= set(explained)


ALL_KEYS = """\
select = ["HTD1"]
extend-select = ["HTD201"]
ignore = ["HTD106"]
exclude = ["gen"]
extend-exclude = ["*_pb2.py"]
strict = true
strict-paths = ["src/engine/*", "engine.worker.Worker"]
baseline = "known.json"
output-format = "sarif"
hot-functions = ["engine.worker.Worker.step"]
pinned-factories = ["engine.buffers.take"]
backend = "rocm"
root = "src"
max-caller-files = 0
max-caller-sites = 20
pin-guard = "engine.platform.PIN_MEMORY"
transfer-helper = "engine.utils.to_device"
max-rows = 4
max-pin-bytes = 1024
max-file-bytes = 1000000
cache-dir = "kept"

[per-file-ignores]
"tests/*" = ["HTD1"]
"""


def test_every_key_can_be_set(write: WriteFiles) -> None:
    folder = write({"h2dlint.toml": ALL_KEYS})
    config = Configs().for_folder(str(folder))
    default = Config()
    assert [
        key for key in KEYS if getattr(config, key.replace("-", "_")) == getattr(default, key.replace("-", "_"))
    ] == []
    assert config.per_file_ignores == {"tests/*": ("HTD1",)}
    assert config.fact_options() == FactOptions(
        pinned_factories=("engine.buffers.take",),
        backend="rocm",
        root=str(folder / "src"),
        max_caller_files=0,
        max_caller_sites=20,
    )


WRONG: dict[str, tuple[str, str]] = {
    "a key's neighbour": ("strict-path = []", "1: unknown key `strict-path`; did you mean `strict-paths`?"),
    "a key below others": ("strict = true\n\nmax-row = 3", "3: unknown key `max-row`; did you mean `max-rows`?"),
    "a list of something else": ("select = [1]", "1: `select`: expected strings in the list, not `1`"),
    "a code in a table of ignores": (
        "[per-file-ignores]\n'a/*' = ['HTD7']",
        "1: `per-file-ignores`: 'a/*': no rule begins with `HTD7`",
    ),
    "a list for a table": ("per-file-ignores = []", "1: `per-file-ignores`: expected a table such as"),
    "a backend that there is not": ("backend = 'coda'", "1: `backend`: cannot be `'coda'`; did you mean `cuda`?"),
    "a number that is a truth": ("max-rows = true", "1: `max-rows`: expected a whole number from 1 on, not `true`"),
    "a name without a dot": ("hot-functions = ['step']", "1: `hot-functions`: not a dotted name such as"),
    "a format's neighbour": ("output-format = 'sarf'", "1: `output-format`: cannot be `'sarf'`; did you mean `sarif`?"),
    "an empty path": ("baseline = ''", "1: `baseline`: expected a string, not `''`"),
    "no TOML on the third line": ("strict = true\n\nselect = [\n", "not TOML"),
}


def test_the_header_that_the_shared_file_has_is_none_of_the_own_one(write: WriteFiles, cli: Cli) -> None:
    write({"h2dlint.toml": '[tool.h2dlint]\nselect = ["HTD1"]\n', "a.py": ""})
    ran = cli("check")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == "h2dlint: h2dlint.toml:1: the keys stand at the top here, without [tool.h2dlint]\n"


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told_with_its_line(write: WriteFiles, cli: Cli, text: str, message: str) -> None:
    write({"h2dlint.toml": text, "a.py": ""})
    ran = cli("check")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("h2dlint: h2dlint.toml:")
    assert message in ran.err
    write({"pyproject.toml": f"[project]\nname = 'x'\n\n[tool.h2dlint]\n{text}".replace("[per", "[tool.h2dlint.per")})
    (Path(write({})) / "h2dlint.toml").unlink()
    ran = cli("check")
    assert ran.err.startswith("h2dlint: pyproject.toml:")
    shifted = re.sub(r"^\d+", lambda number: str(int(number[0]) + 4), message)
    assert shifted in ran.err


def test_a_table_that_is_none(write: WriteFiles, cli: Cli) -> None:
    write({"pyproject.toml": "[tool]\nh2dlint = 3\n"})
    assert "pyproject.toml:2: `h2dlint` must be a table" in cli("check").err


LINES: dict[str, tuple[str, str, int]] = {
    "in its table": ("[a]\nx = 1\n[tool.h2dlint]\ny = 2\n", "tool.h2dlint.y", 4),
    "with a dotted key": ("[tool]\nh2dlint.y = 2\n", "tool.h2dlint.y", 2),
    "in quotes": ("[tool.'h2dlint']\n\"y\" = 2\n", "tool.h2dlint.y", 2),
    "as a table of its own": ("[tool.h2dlint.y]\nz = 1\n", "tool.h2dlint.y", 1),
    "not the same key of another table": ("[tool.other]\ny = 1\n[tool.h2dlint]\ny = 2\n", "tool.h2dlint.y", 4),
    "out of sight": ("tool = {h2dlint = {y = 1}}\n", "tool.h2dlint.y", 1),
}


@pytest.mark.parametrize(("text", "key", "line"), LINES.values(), ids=LINES.keys())
def test_the_line_of_a_key(text: str, key: str, line: int) -> None:
    assert line_of(text, key) == line


def test_a_named_settings_file_holds_everywhere(write: WriteFiles, cli: Cli) -> None:
    write({"p/a.py": FAKE, "p/h2dlint.toml": "ignore = ['HTD101']", "ci.toml": "ignore = ['HTD2']"})
    assert cli("check").status == 0
    assert cli("check", "--config", "ci.toml").status == 1
    assert "nowhere.toml: cannot be read: No such file" in cli("check", "--config", "nowhere.toml").err
    write({"pyproject.toml": "[project]\nname = 'x'\n"})
    assert "has no [tool.h2dlint] table" in cli("check", "--config", "pyproject.toml").err
    assert cli("check", "--config", "ci.toml", "--isolated").status == 2


def test_settings_are_shown_with_where_they_come_from(write: WriteFiles, cli: Cli) -> None:
    write({"p/a.py": FAKE, "p/h2dlint.toml": ALL_KEYS})
    shown = cli("check", "--show-settings", "p/a.py").out
    assert shown.startswith("# p/h2dlint.toml\n")
    assert 'per-file-ignores = { "tests/*" = ["HTD1"] }\n' in shown
    write({"again.toml": shown})
    default = Configs().for_folder("/")
    again = Configs(file=str(write({}) / "again.toml")).for_folder(".")
    first = Configs(file=str(write({}) / "p" / "h2dlint.toml")).for_folder(".")
    assert msgspec.structs.replace(again, file="", folder="") == msgspec.structs.replace(first, file="", folder="")
    assert again != default
    nothing = cli("check", "--show-settings").out
    assert nothing.startswith("# no settings file")
    assert "# max-rows = 8\n" in nothing
    assert "# pin-guard is not set\n" in nothing


def test_the_files_are_shown(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": "", "p/b.py": "", "gen/c.py": "", "h2dlint.toml": "extend-exclude = ['gen']"})
    assert cli("check", "--show-files").out.split() == ["a.py", "p/b.py"]
    assert cli("check", "--show-files", "p").out.split() == ["p/b.py"]


# --- parts of files -----------------------------------------------------------------------------------------------


def test_ignores_by_file(write: WriteFiles, cli: Cli) -> None:
    write(dict.fromkeys(("a.py", "tests/a.py", "tests/deep/a.py", "tools/x_gen.py", "q/tests/a.py"), FAKE))
    ignores = "'tests' = ['HTD1']\n'*_gen.py' = ['HTD101']\n'./q/**' = ['HTD2']\n"
    write({"pyproject.toml": f"[tool.h2dlint.per-file-ignores]\n{ignores}"})
    ran = cli("check", "--output-format", "json")
    assert [path for path, _, _ in found(ran.out)] == ["a.py"]
    write({"pyproject.toml": "[tool.h2dlint.per-file-ignores]\n'tests/*' = ['HTD1']\n"})
    paths = [path for path, _, _ in found(cli("check", "--output-format", "json").out)]
    assert paths == ["a.py", "q/tests/a.py", "tools/x_gen.py"]


AREAS: dict[str, tuple[list[str], Area]] = {
    "nothing": ([], Area()),
    "another file": (["pkg/other.py"], Area()),
    "a file": (["pkg/mod.py"], Area(whole=True)),
    "a name at any depth": (["mod.py"], Area(whole=True)),
    "a folder by a glob": (["pkg/*"], Area(whole=True)),
    "all below": (["**/mod.py"], Area(whole=True)),
    "the module": (["pkg.mod"], Area(whole=True)),
    "the package": (["pkg"], Area(whole=True)),
    "a class": (["pkg.mod.Worker"], Area(names=("Worker",))),
    "a method and a function": (["pkg.mod.Worker.step", "pkg.mod.f"], Area(names=("Worker.step", "f"))),
    "a name of another module": (["pkg.model.f"], Area()),
}


@pytest.mark.parametrize(("entries", "expected"), AREAS.values(), ids=AREAS.keys())
@pytest.mark.parametrize("package", [True, False], ids=["a package", "a plain folder"])
def test_which_part_of_a_file_is_meant(write: WriteFiles, entries: list[str], expected: Area, package: bool) -> None:
    folder = write({"src/pkg/mod.py": "", **({"src/pkg/__init__.py": ""} if package else {})})
    under_src = [entry.replace("pkg/", "src/pkg/") if not entry.startswith("**") else entry for entry in entries]
    assert area_of(under_src, str(folder / "src" / "pkg" / "mod.py"), str(folder)) == expected


def test_a_name_holds_what_is_inside_it() -> None:
    area = Area(names=("Worker", "f"))
    assert [name for name in ("Worker", "Worker.step", "f", "f.inner", "func", "Workers.step") if area.holds(name)] == [
        "Worker",
        "Worker.step",
        "f",
        "f.inner",
    ]


def test_inside_strict_paths_an_unproven_copy_is_an_error(write: WriteFiles, cli: Cli) -> None:
    write({"a.py": UNKNOWN, "p/b.py": UNKNOWN, "h2dlint.toml": "strict-paths = ['p/*', 'a.C']"})
    ran = cli("check", "--output-format", "json")
    assert ran.status == 1
    assert found(ran.out) == [
        ("a.py", "HTD190", "error"),
        ("p/b.py", "HTD190", "error"),
        ("p/b.py", "HTD190", "error"),
    ]
    assert json.loads(ran.out)["summary"]["unproven"] == 1
    shown = found(cli("check", "--output-format", "json", "--show-unproven", "a.py").out)
    assert [severity for _, _, severity in shown] == ["note", "error"]


def test_opt_in_rules_run_inside_strict_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    import h2dlint.rules

    rules = tuple(
        msgspec.structs.replace(rule, meta=msgspec.structs.replace(rule.meta, default=rule.meta.code != "HTD201"))
        for rule in all_rules()
    )
    monkeypatch.setattr(h2dlint.rules, "all_rules", lambda: rules)
    strict = Config(strict_paths=("p/*",))
    assert "HTD201" not in Selection().codes(strict)
    assert Selection().strict_codes(strict) == ("HTD201",)
    assert Selection(ignore=("HTD2",)).strict_codes(strict) == ()
    assert Selection(select=("HTD1",)).strict_codes(strict) == ()


def test_an_opt_in_rule_is_an_error_where_all_is_strict_and_silent_elsewhere() -> None:
    from h2dlint.engine import Job, look_at
    from h2dlint.facts.project import Project

    folder = Path(__file__).parent.parent / "examples"
    file = str(folder / "serving_step.py")
    everywhere = look_at(Project(), Job(file, "x.py", codes=("HTD201", "HTD101"))).findings
    function = next(one.function for one in everywhere if one.code == "HTD201")
    job = Job(file, "x.py", codes=("HTD101",), strict_codes=("HTD201",), strict_area=Area(names=(function,)))
    assert [one.code for one in look_at(Project(), job).findings] == ["HTD201", "HTD101"]
    job = msgspec.structs.replace(job, strict_area=Area(names=("nothing",)))
    assert [one.code for one in look_at(Project(), job).findings] == ["HTD101"]


def test_findings_in_hot_functions_are_marked_and_counted(write: WriteFiles, cli: Cli) -> None:
    body = "    return torch.rand(99999).to('cuda', non_blocking=True)\n"
    write({"a.py": f"import torch\n\n\ndef step():\n{body}\n\ndef load():\n{body}"})
    write({"h2dlint.toml": "hot-functions = ['a.step']"})
    ran = cli("check", "--output-format", "json")
    assert [(one["function"], one["hot"]) for one in json.loads(ran.out)["findings"]] == [
        ("step", True),
        ("load", False),
    ]
    assert "Found 2 errors in 1 file (1 analysed) · 1 in hot functions" in cli("check").out


# --- facts --------------------------------------------------------------------------------------------------------


def verdicts(cli: Cli, *paths: str) -> list[str]:
    """The verdicts of the copies in files, in order."""
    return [one["verdict"] for one in json.loads(cli("copies", "--output-format", "json", *paths).out)["copies"]]


POOLS = """\
import torch


def take(n):
    return native.alloc(n)


def wrap(n):
    return torch.empty(n)


class Pool:
    def get(self, n):
        return self.free.pop()
"""
USERS = """\
import vendor.mem
from pools import Pool, take, wrap


def f(n, d):
    take(n).to(d, non_blocking=True)
    wrap(n).to(d, non_blocking=True)
    wrap(n)[::2].to(d, non_blocking=True)
    vendor.mem.alloc(n).to(d, non_blocking=True)
    pool = Pool()
    pool.get(n).to(d, non_blocking=True)
"""


def test_pinned_factories_are_believed(write: WriteFiles, cli: Cli) -> None:
    write({"pools.py": POOLS, "users.py": USERS, "pyproject.toml": ""})
    assert verdicts(cli, "users.py") == ["unproven", "fake-async", "fake-async", "unproven", "unproven"]
    names = ["pools.take", "pools.wrap", "pools.Pool.get", "vendor.mem.alloc"]
    write({"h2dlint.toml": f"pinned-factories = {json.dumps(names)}"})
    assert verdicts(cli, "users.py") == ["async", "async", "fake-async", "async", "async"]


def test_a_configured_root_is_where_imports_are_looked_for(write: WriteFiles, cli: Cli) -> None:
    write({"lib/python/pools.py": POOLS, "app/users.py": USERS, "h2dlint.toml": ""})
    assert verdicts(cli, "app/users.py")[1] == "unproven"
    write({"h2dlint.toml": "root = 'lib/python'"})
    assert verdicts(cli, "app/users.py")[1] == "fake-async"


def test_bad_settings_are_an_error_of_their_own_kind(tmp_path: Path) -> None:
    (tmp_path / "h2dlint.toml").write_text("backend = 'abacus'")
    with pytest.raises(ConfigError, match="backend"):
        Configs().for_folder(str(tmp_path))


SENDS = "import torch\n\n\ndef f(n, device):\n    return torch.rand(n).to(device, non_blocking=True)\n"
NAMED = "import torch\n\n\ndef g(n):\n    return torch.rand(n).to('cuda', non_blocking=True)\n"


@pytest.mark.parametrize(
    ("backend", "codes"),
    [("cuda", {"f.py", "g.py"}), ("rocm", {"f.py", "g.py"}), ("hpu", {"g.py"}), ("xla", {"g.py"})],
)
def test_the_backend_decides_for_a_device_without_a_name(
    write: WriteFiles, cli: Cli, backend: str, codes: set[str]
) -> None:
    """Nobody measured whether an HPU or XLA stages pageable memory; a literal device overrides the setting."""
    write({"h2dlint.toml": f"backend = '{backend}'\n", "f.py": SENDS, "g.py": NAMED})
    assert {path for path, _, _ in found(cli("check", "--output-format", "json").out)} == codes


def test_what_is_not_known_of_the_backend_is_said(write: WriteFiles, cli: Cli) -> None:
    write({"h2dlint.toml": "backend = 'hpu'\n", "f.py": SENDS})
    assert "whether `hpu` stages pageable memory is not known" in cli("check", "--show-unproven").out
