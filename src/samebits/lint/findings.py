"""What reading finds, and how likely it is to matter."""

from __future__ import annotations

from dataclasses import dataclass

# What the order of a set, or a hash, can depend on: named as the factors are.
SEED, ADDRESS = "hash-seed", "memory-addresses"

# How likely a use is to be the one that matters: the order becomes numbers, a list, steps of a loop, a rounding error.
NUMBERS, LISTS, LOOPS, WEAK, SILENT = 40, 30, 20, 10, 0


@dataclass(frozen=True)
class Finding:
    """A line whose result depends on hashes or addresses, as far as reading can tell.

    Attributes:
        path: as it was given.
        line: counts from 1.
        function: qualified name; `<module>` at the top level.
        source: the stripped source line.
        reason: what the line does, as a clause that could follow "it".
        weight: larger is likelier.
        depends_on: which of the factors `SEED` and `ADDRESS` may change it.
    """

    path: str
    line: int
    function: str
    source: str
    reason: str
    weight: int
    depends_on: frozenset[str] = frozenset({SEED})
