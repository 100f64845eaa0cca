"""How much a pattern of runs proves: the chance that a coin outside the catalogue would have shown it, too.

The coin stands for whatever samebits does not know: which thread came first, what a file held. It falls on one of two
sides in each run, with any bias, and independently of how the run is treated. All figures are the largest over every
bias, so they hold whatever the coin is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import comb

# Chances below which a factor is called guilty: where its line was seen, and where it was not seen how it enters.
LIMIT = 0.01
LIMIT_WITHOUT_LINE = 0.001
# What a verdict of "same" is stated with.
CONFIDENCE = 0.95

# Both sides are added up, so half of all biases will do; between neighbours a chance changes by less than a thousandth.
_BIASES = [number / 400 for number in range(201)]


@cache
def chance_of_split(held: int, released: int, tried: int = 1) -> float:
    """The chance that a coin makes all held runs agree, and all released runs agree on the other side.

    Factors that were tried before and changed nothing are counted in: each of them could have been accused instead.

    >>> f"{chance_of_split(4, 4):.4f}"
    '0.0078'

    Args:
        held: runs with everything pinned.
        released: runs with one factor changed.
        tried: factors released so far, this one included.
    """
    return _largest(lambda p: p**held * (1 - p) ** released * _tries(p, tried))


@cache
def chance_of_scatter(held: int, left_alone: int, strays: int, tried: int = 1) -> float:
    """The chance that a coin makes all held runs agree, while so many of those left alone leave the most common result.

    Args:
        held: runs with everything pinned.
        left_alone: runs with one factor left alone.
        strays: those among them that differ from the most common result.
        tried: factors released so far, this one included.
    """
    if strays == 0:
        return 1.0
    return _largest(lambda p: p**held * _at_least(strays, left_alone, 1 - p) * _tries(p, tried))


def detectable_rate(runs: int) -> float:
    """The smallest rate of differing runs that so many runs would have shown, with 95 % confidence.

    >>> f"{detectable_rate(3):.2f} {detectable_rate(59):.2f}"
    '0.63 0.05'
    """
    return 1.0 - float((1.0 - CONFIDENCE) ** (1.0 / runs))


def runs_for_rate(rate: float) -> int:
    """The least number of runs that would show a difference in this share of runs, with 95 % confidence."""
    runs = 2
    while detectable_rate(runs) > rate:
        runs += 1
    return runs


def _tries(p: float, tried: int) -> float:
    # Each earlier factor, innocent too, showed the side of the held runs: another p for each.
    return sum(p**number for number in range(tried))


def _largest(chance: Callable[[float], float]) -> float:
    # Either side of the coin may be the one that the held runs show.
    return min(1.0, max(chance(p) + chance(1 - p) for p in _BIASES))


def _at_least(count: int, runs: int, p: float) -> float:
    return sum(comb(runs, k) * p**k * (1 - p) ** (runs - k) for k in range(count, runs + 1))
