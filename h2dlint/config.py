"""Settings from `[tool.h2dlint]` in pyproject.toml, or h2dlint.toml: one frozen Config a folder, the nearest wins."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from h2dlint.discovery import MAX_FILE_BYTES, TooLarge, display_path, read_bytes
from h2dlint.settings import EVERY_CODE, FAMILIES, ConfigError, nearest, read_settings, settings_in, wrong_code
from h2dlint.settings_files import MOST_BYTES

if TYPE_CHECKING:
    from h2dlint.facts.options import FactOptions
    from h2dlint.fixing.options import FixOptions

__all__ = ["EVERY_CODE", "FAMILIES", "Config", "ConfigError", "Configs", "Selection", "check_codes", "nearest"]


class Table(Struct, frozen=True, rename="kebab"):
    """What a settings file may say; docs/configuration.md explains each key. None, or nothing: it does not say."""

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: dict[str, tuple[str, ...]] = {}
    """Glob -> codes that are not reported in the files that it names."""
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    strict: bool = False
    strict_paths: tuple[str, ...] = ()
    """Globs of files, or dotted names of functions and classes, in which every copy must be proven."""
    baseline: str | None = None
    """The file of known findings, relative to the settings file."""
    output_format: str | None = None
    hot_functions: tuple[str, ...] = ()
    """Dotted names of functions and classes that run at every step: findings there are marked."""
    pinned_factories: tuple[str, ...] = ()
    """Dotted names of functions whose results lie in pinned memory."""
    backend: str | None = None
    """The accelerator that an unnamed device stands for."""
    root: str | None = None
    """The folder in which imported modules are looked for, relative to the settings file."""
    max_caller_files: int = 5
    """Of how many other files callers are looked for."""
    max_caller_sites: int = 8
    """How many calls are followed back to what they pass."""
    pin_guard: str | None = None
    """An expression that is true where memory can be pinned; its dotted names are imported where a fix uses it."""
    transfer_helper: str | None = None
    """The dotted name of the project's own function that pins and transfers."""
    max_rows: int | None = None
    """Up to so many rows a gapped copy becomes one copy a row."""
    max_pin_bytes: int | None = None
    """No fix pins more than this for one call."""
    max_file_bytes: int = MAX_FILE_BYTES
    """Larger files are skipped, with a note; a notebook may be ten times as large."""
    cache_dir: str | None = None
    """The folder of stored results, relative to the settings file."""


KEYS = Table.__struct_encode_fields__


class Config(Table, frozen=True):
    """The settings that hold for a folder, and where they come from."""

    file: str = ""
    """Empty for the defaults."""
    folder: str = ""
    """What relative patterns are relative to."""

    def fix_options(self) -> FixOptions:
        """What these settings say about rewrites."""
        from h2dlint.fixing.options import MAX_PIN_BYTES, MAX_ROWS, FixOptions

        return FixOptions(
            guard=self.pin_guard,
            helper=self.transfer_helper,
            backend=self.backend or self.fact_options().backend,
            max_rows=MAX_ROWS if self.max_rows is None else self.max_rows,
            max_pin_bytes=MAX_PIN_BYTES if self.max_pin_bytes is None else self.max_pin_bytes,
        )

    def fact_options(self) -> FactOptions:
        """What these settings say about values that the code alone does not show."""
        from h2dlint.facts.options import FactOptions

        default = FactOptions()
        return FactOptions(
            pinned_factories=self.pinned_factories,
            backend=self.backend or default.backend,
            root=os.path.join(self.folder, self.root) if self.root is not None else "",
            max_caller_files=self.max_caller_files,
            max_caller_sites=self.max_caller_sites,
        )


class Configs:
    """Finds the settings for a folder, reading each file once."""

    def __init__(self, isolated: bool = False, file: str | None = None) -> None:
        """`isolated`: read no file at all; `file`: the one file whose settings hold everywhere.

        Raises ConfigError for a `file` that cannot be used.
        """
        self._known: dict[str, Config] = {}
        self._only = Config(folder=os.getcwd()) if isolated else _config_at(file) if file is not None else None

    def for_folder(self, folder: str) -> Config:
        """The settings of `folder`: its own, or those of the nearest folder above that has some.

        Raises:
            ConfigError: a file that is not TOML, or says something that h2dlint does not know.
        """
        return self._only or self._for_absolute(os.path.abspath(folder))

    def _for_absolute(self, folder: str) -> Config:
        known = self._known.get(folder)
        if known is None:
            parent = os.path.dirname(folder)
            inherited = Config(folder=os.getcwd()) if parent == folder else self._for_absolute(parent)
            known = config_in(folder) or inherited
            self._known[folder] = known
        return known


def config_in(folder: str) -> Config | None:
    """The settings that lie in `folder` itself, if any. Raises ConfigError as `Configs.for_folder` does."""
    for path, table in settings_in(folder):
        return _config_of(table, path)
    return None


def _config_at(path: str) -> Config:
    path = os.path.abspath(path)
    try:
        table = read_settings(path, read_bytes(path, MOST_BYTES))
    except TooLarge as error:
        raise ConfigError(f"{display_path(path)}: too large for settings: more than {error.most:,} bytes") from error
    except OSError as error:
        raise ConfigError(f"{display_path(path)}: cannot be read: {error.strerror}") from error
    if table is None:
        raise ConfigError(f"{display_path(path)}: has no [tool.h2dlint] table; add one, or name an h2dlint.toml")
    return _config_of(table, path)


def _config_of(table: dict[str, Any], path: str) -> Config:
    settings = msgspec.convert(table, Table)
    return Config(**msgspec.structs.asdict(settings), file=path, folder=os.path.dirname(path))


def shown(config: Config) -> str:
    """The settings as TOML, the defaults as comments, under a line that says where they come from."""
    import json

    from h2dlint.cache.folder import FOLDER
    from h2dlint.discovery import DEFAULT_EXCLUDES

    fixes, facts = Config().fix_options(), Config().fact_options()
    defaults: dict[str, Any] = {
        "exclude": DEFAULT_EXCLUDES,
        "strict": False,
        "backend": facts.backend,
        "max-rows": fixes.max_rows,
        "max-pin-bytes": fixes.max_pin_bytes,
        "max-file-bytes": MAX_FILE_BYTES,
        "cache-dir": FOLDER,
    }
    lines = [f"# {display_path(config.file)}" if config.file else "# no settings file: the defaults hold"]
    default = Table()
    for key, name in zip(KEYS, Table.__struct_fields__, strict=True):
        value = getattr(config, name)
        if value == getattr(default, name):
            lines.append(f"# {key} = {json.dumps(defaults[key])}" if key in defaults else f"# {key} is not set")
            continue
        if isinstance(value, dict):
            text = "{ " + ", ".join(f"{json.dumps(glob)} = {json.dumps(codes)}" for glob, codes in value.items()) + " }"
        else:
            text = json.dumps(value)
        lines.append(f"{key} = {text}")
    return "\n".join(lines)


# --- which rules run ----------------------------------------------------------------------------------------------


class Selection(Struct, frozen=True):
    """What the command line says about rules, on top of the settings of each file."""

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def codes(self, config: Config) -> tuple[str, ...]:
        """The codes of the rules that run under `config`, in order.

        `--select` stands in for everything that the settings say about rules. Of two selectors the longer decides,
        of two equally long ones the ignoring one.
        """
        from h2dlint.rules import all_rules

        select = self.select or config.select
        wanted = (*(select or ()), *self.extend_select, *(() if self.select else config.extend_select))
        unwanted = self._unwanted(config)
        return tuple(
            rule.meta.code
            for rule in all_rules()
            if _decide(rule.meta.code, wanted, unwanted, (rule.meta.default and not select) or rule.meta.code in ALWAYS)
        )

    def strict_codes(self, config: Config) -> tuple[str, ...]:
        """The codes of the opt-in rules that run inside `strict-paths`: all that nobody ignores.

        `--select` on the command line means these rules and no others, there too.
        """
        from h2dlint.rules import all_rules

        if self.select:
            return ()
        unwanted = self._unwanted(config)
        return without((rule.meta.code for rule in all_rules() if not rule.meta.default), unwanted)

    def _unwanted(self, config: Config) -> tuple[str, ...]:
        return (*self.ignore, *(() if self.select else config.ignore))


def without(codes: Iterable[str], selectors: Iterable[str]) -> tuple[str, ...]:
    """The codes that none of the selectors names."""
    selectors = tuple(selectors)
    if not selectors:
        return tuple(codes)
    return tuple(code for code in codes if all(_weight(code, selector) < 0 for selector in selectors))


ALWAYS = ("HTD190", "HTD902")
"""Rules that run unless they are ignored by name: what could not be shown is never passed over in silence."""


def _decide(code: str, wanted: Iterable[str], unwanted: Iterable[str], default: bool) -> bool:
    yes = max((_weight(code, selector) for selector in wanted), default=-1)
    no = max((_weight(code, selector) for selector in unwanted), default=-1)
    return default if yes == no == -1 else yes > no


def _weight(code: str, selector: str) -> int:
    """How closely `selector` names `code`: -1 not at all, else the longer the more."""
    if selector == EVERY_CODE:
        return 0
    return len(selector) if code.startswith(selector) else -1


def check_codes(selectors: Iterable[str]) -> None:
    """Raises ConfigError for a selector that is no rule's code nor the beginning of one."""
    for wrong in filter(None, map(wrong_code, selectors)):
        raise ConfigError(wrong)
