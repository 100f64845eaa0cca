"""What reading says of lines that experiments confirm: the planted cases, and the strange scripts with their cures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from samebits.lint.findings import Finding
from samebits.lint.linting import LintOptions, lint
from samebits.lint.rule import all_rules
from tests.quality.test_planted import FOLDER, MARK

CORPUS = Path(__file__).parents[2] / "corpus"
COVERED = {factor for rule in all_rules() for factor in rule.factors}


class Guilty(NamedTuple):
    """A line that is guilty of something; `rules` are those that say so when they read it."""

    where: str  # the case, or the script
    line: int
    factor: str
    rules: tuple[str, ...]


def planted() -> list[Guilty]:
    """Every line of a planted case that lets a factor in which some rule covers."""
    found = []
    for case in sorted(FOLDER.iterdir()):
        files = sorted(case.rglob("*.py"))
        said = by_line(findings(files))
        for path in files:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                mark = MARK.search(line)
                if mark and mark[1] in COVERED:
                    found.append(Guilty(case.name, number, mark[1], said.get((str(path), number), ())))
    return found


def strange() -> list[Guilty]:
    """Of each strange script whether reading names a line that its cure takes away."""
    found = []
    for path in sorted(CORPUS.glob("*.py")):
        removed = removed_lines(path.with_suffix(".diff").read_text())
        said = by_line(findings([path]))
        rules = tuple(sorted({rule for line in removed for rule in said.get((str(path), line), ())}))
        found.append(Guilty(path.stem, min(removed, default=0), "", rules))
    return found


def findings(files: list[Path]) -> tuple[Finding, ...]:
    """What the rules that are on say of files that belong together."""
    return lint(files, LintOptions()).findings


def by_line(found: tuple[Finding, ...]) -> dict[tuple[str, int], tuple[str, ...]]:
    said: dict[tuple[str, int], tuple[str, ...]] = {}
    for one in found:
        for line in one.lines:
            said[one.path, line] = (*said.get((one.path, line), ()), one.rule)
    return said


def removed_lines(diff: str) -> set[int]:
    """The numbers of the lines that a diff takes out of the first file, but not of imports."""
    found, number = set[int](), 0
    for line in diff.splitlines():
        if hunk := re.match(r"@@ -(\d+)", line):
            number = int(hunk[1])
        elif number:
            if line.startswith("-") and not re.match(r"-(import|from) ", line):
                found.add(number)
            number += not line.startswith("+")
    return found
