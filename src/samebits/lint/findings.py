"""What reading finds, and how likely it is to matter."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from samebits.lint.source import Source

# What the order of a set, or a hash, can depend on: named as the factors are.
SEED, ADDRESS = "hash-seed", "memory-addresses"

# How likely a use is to be the one that matters: the order becomes numbers, a list, steps of a loop, a rounding error.
NUMBERS, LISTS, LOOPS, WEAK, SILENT = 40, 30, 20, 10, 0


@dataclass(frozen=True)
class Finding:
    """A line that may not repeat, as far as reading can tell; lines count from 1."""

    path: str
    line: int
    function: str  # its qualified name; `<module>` at the top level
    source: str
    reason: str  # what the line does, as a clause that could follow "it"; of a seed argument, what is the matter
    weight: int = SILENT  # larger is likelier
    depends_on: frozenset[str] = frozenset()  # which of the factors `SEED` and `ADDRESS` may change it

    @classmethod
    def at(
        cls, source: Source, node: ast.AST, reason: str, weight: int = SILENT, depends_on: frozenset[str] = frozenset()
    ) -> Finding:
        """What was found in a file, at the line where something begins."""
        line: int = node.lineno  # type: ignore[attr-defined]
        text = source.lines[line - 1].strip()
        return cls(source.path, line, source.qualname(node), text, reason, weight, depends_on)
