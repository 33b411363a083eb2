"""Writes the page of each rule and their index into docs/rules/, from the rule files themselves.

    python docs/generate_rules.py [FOLDER]

Run it after changing a rule; a test fails where the pages are stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from h2dlint.rules import all_rules

from h2dlint.output import pages

FOLDER = Path(__file__).parent / "rules"


def rendered() -> dict[str, str]:
    """File name to text of every page."""
    rules = all_rules()
    return {"index.md": pages.index(rules), **{f"{rule.meta.code}.md": pages.render(rule) for rule in rules}}


def write(folder: Path) -> None:
    """Brings `folder` up to date; pages of rules that are gone are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = rendered()
    for stale in folder.glob("*.md"):
        if stale.name not in texts:
            stale.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
