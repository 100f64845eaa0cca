"""Words for the answer of `samebits lint`."""

from __future__ import annotations

import textwrap
from collections import Counter

from samebits.base.printable import listed
from samebits.base.sites import shown_path
from samebits.lint.findings import Finding
from samebits.lint.linting import Linted
from samebits.lint.rule import Rule
from samebits.report.rows import AnswerReport, Rows, counted, source_row

_FIXES = {
    "safe": "changes only whether results repeat",
    "unsafe": "changes what the script does: review it",
    "none": "by hand",
}


def lint_report(found: Linted) -> AnswerReport:
    """Return the answer: findings by path and line, each with its line of code."""
    rows: Rows = []
    for item in found.findings:
        rows += [(item.level, f"{place_of(item)}  {item.rule}: {item.reason}{_further(item)}"), source_row(item.source)]
    rows += [
        ("not read", f"{shown_path(file.path)}{f':{file.line}' * bool(file.line)}: {file.why}") for file in found.unread
    ]
    rows += [("fixed", f"{place_of(item)}  {item.rule}: {item.reason}") for item in found.fixed]
    ignored = f"{counted(found.ignored, 'finding')} by comments that say why" if found.ignored else ""
    explain = f"samebits lint --explain {found.findings[0].rule}" if found.findings else ""
    return AnswerReport(_headline(found), [*rows, ("ignored", ignored), ("explain", explain)])


def _headline(found: Linted) -> str:
    levels = Counter(item.level for item in found.findings)
    named = [counted(levels[level], level) for level in ("error", "warning") if levels[level]]
    named += [counted(levels["info"], "note")] if levels["info"] else []
    where = f"in {counted(found.files, 'file')}"
    fixed = f"{counted(len(found.fixed), 'finding')} fixed, " if found.fixed else ""
    return f"{fixed}{', '.join(named) or 'nothing found'} {where}"


def place_of(finding: Finding) -> str:
    """Return the place of a finding: `train.py:31`, or in a notebook `nb.ipynb:4:31` with the number of the cell."""
    cell = f":{finding.cell}" if finding.cell else ""
    return f"{shown_path(finding.path)}{cell}:{finding.line}"


def _further(finding: Finding) -> str:
    lines = [*map(str, finding.others)]
    return f" (so {'does line' if len(lines) == 1 else 'do lines'} {listed(lines, 5)})" if lines else ""


def rule_page(rule: Rule) -> str:
    """Return the page of a rule: what it looks for, why, bad and good code, and what its fix does."""
    heading = f"{rule.code} ({rule.level})"
    facts = [f"fix: {rule.fix}, {_FIXES[rule.fix]}"]
    facts += [f"torch: {rule.torch}"] if rule.torch else []
    facts += [f"factors: {', '.join(rule.factors)}"] if rule.factors else []
    return "\n\n".join([heading, textwrap.dedent(rule.doc).strip(), "\n".join(facts)])
