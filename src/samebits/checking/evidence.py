"""How much a pattern of runs proves: whether to release a factor is drawn by lot, run by run, and the lots are bet on.

If a factor does nothing, a run comes out as it comes out, whatever was drawn. Then nobody who sees how it came out can
tell what was drawn any better than by the chances of the draw, and a bet on it at fair odds wins nothing in the long
run. So a stake that has become 128 has shown something that happens in less than one check of 128, however long the
bets went on (Ville's inequality; Shafer, "Testing by betting", Journal of the Royal Statistical Society A 184, 2021).
Nothing is assumed about what else makes runs differ: a coin, a rare coin, one that drifts, one that alternates.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

# The share of checks that may call an innocent factor guilty, over all tests of a check together.
LIMIT = 0.01
# Each test that comes to nothing leaves an eighth of the limit to the next one: 7/8 + 7/64 + ... = 1.
SHARPER = 8
# In what share of the runs in which a factor is left alone it may show; a factor that is changed always shows.
RATES = (0.2, 0.4, 0.6, 0.8, 1.0)
# What a verdict of "same" is stated with.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Draw:
    """One run whose treatment was drawn by lot.

    Attributes:
        shares: factor → the chance with which it was to be released; with what is left, none was.
        drawn: the factor that was; empty where none was.
        result: what came out: runs with the same bits have the same one.
    """

    shares: Mapping[str, float]
    drawn: str
    result: Hashable


def limit_after(failures: int) -> float:
    """The chance below which a factor is called guilty, after so many tests of this check that came to nothing.

    >>> f"{limit_after(0):.5f} {limit_after(1):.5f}"
    '0.00875 0.00109'
    """
    return float(LIMIT * (1 - 1 / SHARPER) / SHARPER**failures)


def chance_by_lot(name: str, draws: Sequence[Draw], unchanged: Collection[Hashable], rates: Sequence[float]) -> float:
    """The chance that the lots ever fit the results so well, though the factor is innocent.

    >>> seven = [Draw({"clock": 0.5}, name, name) for name in ("clock", "", "", "clock", "clock", "", "clock")]
    >>> chance_by_lot("clock", seven, [""], (1.0,))
    0.0078125

    Args:
        name: of the factor.
        draws: those made since the factor was suspected; in all in which another one was drawn, or none, runs came out
            as such runs had come out before.
        unchanged: results with the factor released that may be those without any effect of it. Which of them is not
            known, so the one that speaks best for it counts.
        rates: in which share of runs it may show; each gets the same part of the stake.
    """
    own = [draw for draw in draws if name in draw.shares]
    stakes = (sum(_stake(name, own, result, rate) for rate in rates) / len(rates) for result in unchanged)
    return 1.0 / max(1.0, min(stakes, default=1.0))


def _stake(name: str, draws: Sequence[Draw], unchanged: Hashable, rate: float) -> float:
    stake = 1.0
    for draw in draws:
        share = draw.shares[name]
        if draw.drawn != name:
            stake *= 1 / (1 - share * rate)
        elif draw.result != unchanged:
            stake *= 1 / share
        else:
            stake *= (1 - rate) / (1 - share * rate)
    return stake


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
