"""Which of many runs have the same bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from samebits.comparison.locate import first_divergence
from samebits.runfolder.steps import Recording


def agreeing(runs: Mapping[int, Sequence[Recording]]) -> dict[int, list[int]]:
    """For each run, those that have the same bits as far as both went.

    Args:
        runs: the recordings of each, by its number; a run that took no step agrees with none.
    """
    steps = {number: max((one.steps for one in own), default=0) for number, own in runs.items()}
    found: dict[int, list[int]] = {number: [] for number in runs}
    for a, b in combinations(runs, 2):
        until = min(steps[a], steps[b]) - 1
        if until >= 0 and first_divergence(runs[a], runs[b], until) is None:
            found[a].append(b)
            found[b].append(a)
    return found
