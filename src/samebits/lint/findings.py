"""What reading finds, and how likely it is to matter."""

from __future__ import annotations

from dataclasses import dataclass

# How likely a use is to be the one that matters: the order becomes numbers, a list, steps of a loop, a rounding error.
NUMBERS, LISTS, LOOPS, WEAK, SILENT = 40, 30, 20, 10, 0


@dataclass(frozen=True)
class Finding:
    """A line whose result depends on the hash seed, as far as reading can tell.

    Attributes:
        path: as it was given.
        line: counts from 1.
        function: qualified name; `<module>` at the top level.
        source: the stripped source line.
        reason: what the line does, as a clause that could follow "it".
        weight: larger is likelier.
    """

    path: str
    line: int
    function: str
    source: str
    reason: str
    weight: int
