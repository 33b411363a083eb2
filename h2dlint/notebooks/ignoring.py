"""`--add-ignore` for a notebook: the comments go into its cells, and no other byte changes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import msgspec

from h2dlint.finding import Finding
from h2dlint.ignoring import with_ignores
from h2dlint.notebooks.module import opened
from h2dlint.notebooks.places import Carrier
from h2dlint.notebooks.view import CellView
from h2dlint.source import parse


def notebook_with_ignores(data: bytes, path: str, findings: Sequence[Finding], reason: str) -> bytes:
    """The bytes of a notebook with a comment at each statement that holds one of the findings.

    Raises ValueError, with a clause that says why, where anything but comments would change.
    """
    module = opened(data)
    cells = CellView({path: module.notebook.text})
    first_lines = {section.cell: section.first for section in module.sections}
    inside = []
    for finding in findings:
        place = cells.in_cell(path, finding.span)
        if place is not None:
            by = first_lines[place.cell] - 1
            span = msgspec.structs.replace(place.span, line=place.span.line + by, end_line=place.span.end_line + by)
            inside.append(msgspec.structs.replace(finding, span=span))
    text = with_ignores(module.text, inside, reason)
    if ast.dump(parse(text)) != ast.dump(parse(module.text)):
        raise ValueError("a comment would change what it says")
    return Carrier(path, module, text).file_bytes(data)
