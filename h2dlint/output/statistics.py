"""How many findings each rule has, most first."""

from __future__ import annotations

import json
from collections import Counter

from h2dlint.output import listed
from h2dlint.report import Report


def render(report: Report, show_unproven: bool, as_json: bool) -> str:
    """A line for each rule with findings: number, code, name, and how many can be fixed; or the same as JSON."""
    findings = listed(report, show_unproven)
    names = {finding.code: finding.name for finding in findings}
    fixable = Counter(finding.code for finding in findings if finding.fix is not None)
    hot = Counter(finding.code for finding in findings if finding.hot)
    counts = sorted(Counter(finding.code for finding in findings).items(), key=lambda pair: (-pair[1], pair[0]))
    if as_json:
        rows = [
            {"code": code, "name": names[code], "count": number, "fixable": fixable[code], "hot": hot[code]}
            for code, number in counts
        ]
        return json.dumps(rows, indent=2) + "\n"
    wide = max((len(f"{number:,}") for _, number in counts), default=0)
    longest = max((len(names[code]) for code, _ in counts), default=0)
    lines = []
    for code, number in counts:
        parts = [f"{fixable[code]:,} fixable"] * bool(fixable[code]) + [f"{hot[code]:,} hot"] * bool(hot[code])
        tail = f"  ({', '.join(parts)})" if parts else ""
        lines.append(f"{number:>{wide},}  {code}  {names[code]:<{longest}}{tail}".rstrip())
    return "".join(f"{line}\n" for line in lines)
