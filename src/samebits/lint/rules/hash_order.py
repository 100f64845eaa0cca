"""Lines that let the hash seed or addresses in: the order of a set is used, `hash()` is called, or `id()` orders.

Reading a set leaves no trace at run time, so once such a factor is known to matter, only the source can say where.
The files are read with simple data flow: a name, attribute, argument or return value has a `Shape`, and a set whose
members may be strings has an order that changes from run to run. What does not care about order (`sorted`, `len`,
another set) is passed by in silence, and so are sets of numbers, whose hashes have no seed. Strings hash by the seed,
parameters and modules by their addresses, and what is not known may do either.

Several rounds are read: a round knows what the round before learned about functions, classes and other files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from samebits.lint.findings import LISTS, LOOPS, NUMBERS, WEAK, Finding
from samebits.lint.flow.learned import Learned
from samebits.lint.flow.source import read_source
from samebits.lint.flow.statements import Reader

__all__ = ["LISTS", "LOOPS", "NUMBERS", "WEAK", "Finding", "find_hash_order"]

ROUNDS = 5


def find_hash_order(paths: Iterable[str | Path]) -> list[Finding]:
    """Lines that depend on hashes or addresses, the likeliest first, then by path and line; one finding a line.

    Args:
        paths: Python source files; those that cannot be read or parsed are skipped. Files that import each other are
            best given together.
    """
    return list(_read(tuple((path, _changed(path)) for path in dict.fromkeys(map(str, paths)))))


@lru_cache(maxsize=8)
def _read(files: tuple[tuple[str, float], ...]) -> tuple[Finding, ...]:
    # Two factors ask about the same files, for every run of a check: they are read again only where they have changed.
    sources = [source for path, _ in files if (source := read_source(path)) is not None]
    known, found = Learned(), list[Finding]()
    for _ in range(ROUNDS):
        learned, found = Learned(), []
        for source in sources:
            found += Reader(source, sources, known, learned).read()
        if learned == known:
            break
        known = learned
    best: dict[tuple[str, int], Finding] = {}
    for finding in sorted(found, key=lambda finding: -finding.weight):
        best.setdefault((finding.path, finding.line), finding)
    return tuple(sorted(best.values(), key=lambda finding: (-finding.weight, finding.path, finding.line)))


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except (OSError, ValueError):
        return 0.0
