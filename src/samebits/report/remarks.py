"""Turns an answer into remarks on lines of code, for annotations and for SARIF."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from samebits.base.errors import SamebitsError
from samebits.base.sites import Site, shown_path
from samebits.checking.verdict import Cause, CheckVerdict
from samebits.factors.catalog import find
from samebits.lint.findings import Finding
from samebits.lint.linting import Linted
from samebits.lint.rule import find_rule
from samebits.locking.verdict import EntriesVerified, Verified
from samebits.report.causes import cause_line, figures
from samebits.report.lints import place_of
from samebits.report.locks import change_line, divergence_line, headline_of, next_commands, values_line
from samebits.report.origins import describe_finding, site_of
from samebits.report.text import check_report

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Remark:
    """A remark on a line of code: `path` is empty where there is no line to name, and `line` counts from 1."""

    rule: str  # its kind: a factor, a rule of lint, or what diverged
    about: str  # the rule in one sentence
    level: Level
    message: str
    path: str = ""
    line: int = 1
    others: tuple[tuple[str, int], ...] = ()
    source: str = ""


def check_remarks(verdict: CheckVerdict) -> list[Remark]:
    """Return a remark for each cause, or else one for the first operation that differs, or else one for the answer."""
    remarks = [_cause(cause) for cause in verdict.causes]
    if verdict.kind == "same":
        return [replace(remark, level="note") for remark in remarks]
    if remarks:
        return remarks
    headline = check_report(verdict).headline if verdict.error is None else verdict.error.message
    about = "runs of one command that give other bits"
    level: Level = "error" if verdict.kind == "different" else "warning"
    site = None if verdict.origin is None else site_of(verdict.origin.first.place.row.kind)
    if site is None or verdict.origin is None:
        return [Remark(verdict.kind, about, level, headline)]
    message = f"{headline}: {describe_finding(verdict.origin)}"
    return [Remark("operation", about, level, message, *_place(site), source=site.source)]


def _cause(cause: Cause) -> Remark:
    level: Level = "error" if cause.confirmed else "warning"
    factor, (held, released) = find(cause.factor), figures(cause)
    message = f"{cause_line(cause)}. {held}; {'' if factor.by_folder else f'only {cause.factor} '}{released}."
    if cause.site is None:
        return Remark(cause.factor, factor.summary, level, message)
    others = tuple(_place(site) for site in cause.others)
    source = cause.source or cause.site.source
    return Remark(cause.factor, factor.summary, level, message, *_place(cause.site), others, source)


def verify_remarks(found: EntriesVerified) -> list[Remark]:
    """Return a remark for each entry that does not agree, at the first changed line or else at its script."""
    return [_entry(entry, found) for entry in found.entries if entry.kind != "same"]


_ABOUT = {
    "different": "bits that are not those of the lockfile",
    "unknown": "an environment for which no bits are locked",
    "undecided": "a locked command that could not be judged",
}


def _entry(one: Verified, found: EntriesVerified) -> Remark:
    level: Level = "warning" if one.kind == "unknown" else "error"
    parts = [headline_of(one, found), *map(divergence_line, one.divergences[1:])]
    parts += [change_line(change) for change in one.code]
    if one.kind == "unknown":
        parts += [values_line(item) for item in one.differences if item.can_change_bits]
    parts += [command.split("  ")[0] for command in next_commands(one)]
    changed = next((change for change in one.code if change.line is not None), None)
    path, line = (changed.path, changed.line or 1) if changed is not None else (_script_of(one), 1)
    return Remark(one.kind, _ABOUT[one.kind], level, "; ".join(parts), path, line)


def _script_of(one: Verified) -> str:
    """Return the first word of a command that is a Python file here; empty where none is."""
    return next((word for word in shlex.split(one.command) if word.endswith(".py") and os.path.isfile(word)), "")


def lint_remarks(found: Linted) -> list[Remark]:
    """Return a remark for each finding, and for each file that could not be read."""
    remarks = [_finding(finding) for finding in found.findings]
    about = "a file that cannot be read as Python"
    return remarks + [
        Remark("unread", about, "warning", f"not read: {file.why}", shown_path(file.path), file.line or 1)
        for file in found.unread
    ]


def _finding(one: Finding) -> Remark:
    level: Level = "note" if one.level == "info" else one.level
    path, about = shown_path(one.path), find_rule(one.rule).summary
    if one.cell:
        # A line of a notebook cell is not a line of the file, so the remark names the file only.
        return Remark(one.rule, about, level, f"{place_of(one)}: {one.reason}", path, source=one.source)
    others = tuple((path, line) for line in one.others)
    return Remark(one.rule, about, level, one.reason, path, one.line, others, one.source)


def failure_remark(error: SamebitsError) -> Remark:
    """Return the remark on an answer that could not even begin."""
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    return Remark(error.kind, "samebits could not begin", "error", message)


def _place(site: Site) -> tuple[str, int]:
    return shown_path(site.path), site.line


# Kind of answer → what makes remarks of it; only kinds that have lines of code.
REMARKS: dict[str, Callable[[Any], list[Remark]]] = {
    "check": check_remarks,
    "lint": lint_remarks,
    "verify": verify_remarks,
}
