"""Findings: lines that may not repeat, as far as reading can tell, and how likely each of them matters."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from samebits.lint.source import Source

# The factors on which a hash, or the order of a set, can depend.
SEED, ADDRESS = "hash-seed", "memory-addresses"

# Weights of uses, the likeliest to matter first: the order becomes numbers, a list, a loop, rounding errors, nothing.
NUMBERS, LISTS, LOOPS, WEAK, SILENT = 40, 30, 20, 10, 0


Level = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """A line that may not repeat, as far as reading can tell; lines count from 1.

    Attributes:
        path: of the file, as it was given.
        line: of the file; of a notebook, of the cell.
        function: the qualified name of what is around it; `<module>` at the top level.
        source: the line.
        reason: what is the matter, as a clause.
        weight: how likely it matters; larger is likelier.
        depends_on: which factors may change it.
        others: further lines that have the same cure.
        cell: of a notebook, from 1; 0 elsewhere.
        rule: the code of the rule that found it, where one did.
        level: error (it breaks the next run), warning (it is likely to), info (results depend on it).
    """

    path: str
    line: int
    function: str
    source: str
    reason: str
    weight: int = SILENT
    depends_on: frozenset[str] = frozenset()
    others: tuple[int, ...] = ()
    cell: int = 0
    rule: str = ""
    level: Level = "warning"

    @property
    def lines(self) -> tuple[int, ...]:
        """The line of the finding, and the further ones that have the same cure."""
        return (self.line, *self.others)

    @classmethod
    def at(
        cls,
        source: Source,
        node: ast.AST,
        reason: str,
        weight: int = SILENT,
        depends_on: frozenset[str] = frozenset(),
        others: Iterable[ast.AST] = (),
    ) -> Finding:
        """Return a finding in a file, at the line on which a node begins."""
        line = _line_of(node)
        text, further = source.lines[line - 1].strip(), {_line_of(other) for other in others} - {line}
        return cls(
            source.path, line, source.qualname(node), text, reason, weight, depends_on, others=tuple(sorted(further))
        )


def _line_of(node: ast.AST) -> int:
    line: int = node.lineno  # type: ignore[attr-defined]
    return line


Findings = Iterable[Finding]
