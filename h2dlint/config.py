"""Settings from `[tool.h2dlint]` in pyproject.toml, or h2dlint.toml: one frozen Config a folder, the nearest wins."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Struct

from h2dlint.settings_files import OWN, settings_files

if TYPE_CHECKING:
    from h2dlint.fixing.options import FixOptions

EVERY_CODE = "ALL"


class ConfigError(Exception):
    """Settings that cannot be used; the message names the file and the remedy."""


class Table(Struct, frozen=True, rename="kebab"):
    """What a settings file may say. None, or nothing, means that it does not say."""

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    strict: bool = False
    output_format: Literal["full", "concise", "json"] | None = None
    pin_guard: str | None = None
    """An expression that is true where memory can be pinned; its dotted names are imported where a fix uses it."""
    transfer_helper: str | None = None
    """The dotted name of the project's own function that pins and transfers."""
    max_rows: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Up to so many rows a gapped copy becomes one copy a row."""
    max_pin_bytes: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """No fix pins more than this for one call."""


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
            max_rows=MAX_ROWS if self.max_rows is None else self.max_rows,
            max_pin_bytes=MAX_PIN_BYTES if self.max_pin_bytes is None else self.max_pin_bytes,
        )


class Configs:
    """Finds the settings for a folder, reading each file once."""

    def __init__(self, isolated: bool = False) -> None:
        """`isolated`: read no file at all."""
        self._known: dict[str, Config] = {}
        self._isolated = isolated

    def for_folder(self, folder: str) -> Config:
        """The settings of `folder`: its own, or those of the nearest folder above that has some.

        Raises:
            ConfigError: a file that is not TOML, or says something that h2dlint does not know.
        """
        if self._isolated:
            return Config(folder=os.getcwd())
        return self._for_absolute(os.path.abspath(folder))

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
    try:
        for path, data in settings_files(folder):
            table = _table_of(path, data)
            if table is not None:
                return _config_of(table, path, folder)
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from error
    return None


def _table_of(path: str, data: bytes) -> dict[str, Any] | None:
    try:
        table = _parse_toml(data.decode("utf-8"))
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(f"{path}: {error}") from error
    if os.path.basename(path) == OWN:
        return table
    tool = table.get("tool")
    found = tool.get("h2dlint") if isinstance(tool, dict) else None
    return found if isinstance(found, dict) else None


def _parse_toml(text: str) -> dict[str, Any]:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _config_of(table: dict[str, Any], path: str, folder: str) -> Config:
    for key in table:
        if key not in KEYS:
            raise ConfigError(f"{path}: unknown key `{key}`{nearest(key, KEYS)}")
    try:
        settings = msgspec.convert(table, Table)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_in_our_words(str(error))}") from error
    try:
        _check_names(settings)
        check_codes((*(settings.select or ()), *settings.extend_select, *settings.ignore))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return Config(**msgspec.structs.asdict(settings), file=path, folder=folder)


def _check_names(settings: Table) -> None:
    """Raises ConfigError for a guard that is no expression and for a helper that is no dotted name."""
    if settings.pin_guard is not None and not _is_expression(settings.pin_guard):
        raise ConfigError(f"`pin-guard`: not an expression on one line: {settings.pin_guard!r}")
    helper = settings.transfer_helper
    if helper is not None and not ("." in helper and all(part.isidentifier() for part in helper.split("."))):
        raise ConfigError(f"`transfer-helper`: not a dotted name such as `pkg.mod.send`: {helper!r}")


def _is_expression(text: str) -> bool:
    import ast

    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return "\n" not in text and text == text.strip()


def _in_our_words(error: str) -> str:
    what, _, where = error.partition(" - at `$.")
    what = what.replace("array", "list of strings").replace("`bool`", "`true` or `false`")
    return f"`{where.rstrip('`')}`: {what[:1].lower()}{what[1:]}"


def nearest(word: str, known: Iterable[str]) -> str:
    """A clause that offers the known words which `word` may have meant; the whole list if none comes near."""
    import difflib

    known = tuple(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean `{near[0]}`?" if near else f"; known are {', '.join(known)}"


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
        unwanted = (*self.ignore, *(() if self.select else config.ignore))
        return tuple(
            rule.meta.code
            for rule in all_rules()
            if _decide(rule.meta.code, wanted, unwanted, (rule.meta.default and not select) or rule.meta.code in ALWAYS)
        )


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


FAMILIES = ("HTD", "HTD1", "HTD2", "HTD3", "HTD4", "HTD9")
"""Groups of rules by what they are about; each may be selected, whether or not it has a rule yet."""


def check_codes(selectors: Iterable[str]) -> None:
    """Raises ConfigError for a selector that is no rule's code nor the beginning of one."""
    from h2dlint.rules import all_rules

    codes = [rule.meta.code for rule in all_rules()]
    for selector in selectors:
        known = bool(selector) and any(code.startswith(selector) for code in codes)
        if not known and selector != EVERY_CODE and selector not in FAMILIES:
            raise ConfigError(f"no rule begins with `{selector}`{nearest(selector, codes)}")
