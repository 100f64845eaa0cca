"""Lines that let the hash seed or addresses in: the order of a set is used, `hash()` is called, or `id()` orders.

Reading a set leaves no trace at run time, so once such a factor is known to matter, only the source can say where.
Files are read with simple data flow: a set whose members may be strings has an order that changes from run to run.
What does not care about order (`sorted`, `len`, another set) is passed by in silence, and so are sets of numbers, whose
hashes have no seed. Strings hash by the seed, parameters and modules by their addresses, and what is not known may do
either.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from samebits.lint.findings import Finding
from samebits.lint.reader import Learned, Reader
from samebits.lint.source import read_sources

# Each reading knows what the one before has learned of functions and classes.
READINGS = 5


def find_hash_order(paths: Iterable[str | Path]) -> list[Finding]:
    """Lines that depend on hashes or addresses, the likeliest first, then by path and line; one finding a line.

    Args:
        paths: Python source files; those that cannot be read or parsed are skipped. Files that import each other are
            best given together.
    """
    sources, known, found = read_sources(paths), Learned(), list[Finding]()
    for _ in range(READINGS):
        learned, found = Learned(), []
        for source in sources:
            found += Reader(source, known, learned).read()
        if learned == known:
            break
        known = learned
    best: dict[tuple[str, int], Finding] = {}
    for finding in sorted(found, key=lambda finding: -finding.weight):
        best.setdefault((finding.path, finding.line), finding)
    return sorted(best.values(), key=lambda finding: (-finding.weight, finding.path, finding.line))
