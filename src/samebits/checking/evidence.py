"""How much a pattern of runs proves: what is released is drawn by lot, run by run, and the lots are bet on.

If a factor does nothing, a run comes out as it comes out, whatever was drawn. Then nobody who sees how it came out can
tell what was drawn any better than by the chances of the draw, and a bet on it at fair odds wins nothing in the long
run. So a stake that has become 128 has shown something that happens in less than one check of 128, however long the
bets went on (Ville's inequality; Shafer, "Testing by betting", Journal of the Royal Statistical Society A 184, 2021).
Nothing is assumed about what else makes runs differ: a coin, a rare coin, one that drifts, one that alternates.

The more treatments there are to draw from, the more a result that tells them apart proves: a factor that is released in
either of two ways, each with bits of its own, is found guilty after five lots instead of seven.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

# The share of checks that may call an innocent factor guilty, over all tests of a check together.
LIMIT = 0.01
# Each test that comes to nothing leaves an eighth of the limit to the next one: 7/8 + 7/64 + ... = 1.
SHARPER = 8
# In what share of the runs in which a factor is left alone it may show; a factor that is changed always shows.
RATES = (0.2, 0.4, 0.6, 0.8, 1.0)
# How likely it is that a factor changed in another way has bits that were seen before: a set of three has six orders.
COINCIDENCE = 0.3
# What a verdict of "same" is stated with.
CONFIDENCE = 0.95

# A factor, and the way in which it is released: the variant that it gets, or 0 for left alone.
Treatment: TypeAlias = tuple[str, int]
Likelihood: TypeAlias = Callable[[Treatment, Hashable, Mapping[Treatment, Hashable]], float]
HELD: Treatment = ("", 0)
# The result of a run that came out as if nothing had been released.
UNCHANGED = None


@dataclass(frozen=True)
class Draw:
    """One run whose treatment was drawn by lot.

    Attributes:
        shares: the chance of each treatment.
        drawn: the one that was.
        result: what came out: runs with the same bits have the same one, and those that are not changed `UNCHANGED`.
    """

    shares: Mapping[Treatment, float]
    drawn: Treatment
    result: Hashable


def limit_after(failures: int) -> float:
    """The chance below which a factor is called guilty, after the tests of this check that came to nothing.

    >>> f"{limit_after(0):.5f} {limit_after(1):.5f}"
    '0.00875 0.00109'
    """
    return float(LIMIT * (1 - 1 / SHARPER) / SHARPER**failures)


def chance_changed(name: str, draws: Sequence[Draw], seen: Mapping[Treatment, Hashable]) -> float:
    """The chance that the lots ever fit the results so well, though the factor that is changed is innocent.

    >>> shares = {HELD: 1 / 3, ("clock", 1): 1 / 3, ("clock", 2): 1 / 3}
    >>> lots = [Draw(shares, ("clock", way), f"clock {way}") for way in (1, 2, 2, 1, 2)]
    >>> f"{chance_changed('clock', lots, {('clock', 1): 'clock 1'}):.4f}"
    '0.0047'

    Args:
        name: of the factor.
        draws: those made since it was suspected; whatever treatment was drawn that had been seen before, the run came
            out as it had then.
        seen: treatments of earlier runs, with what came out.
    """
    return 1 / max(1.0, _stake(name, draws, _repeats, seen))


def chance_left_alone(name: str, draws: Sequence[Draw], seen: Mapping[Treatment, Hashable]) -> float:
    """The same of a factor that is left alone: each of its runs may have bits of its own.

    Which result is the one without any effect of it is not known, so the one that speaks best for the factor counts.
    """
    results = {draw.result for draw in draws if draw.drawn[0] == name}
    stakes = (
        sum(_stake(name, [_told(draw, result) for draw in draws], _shows(rate), seen) for rate in RATES) / len(RATES)
        for result in results
    )
    return 1 / max(1.0, min(stakes, default=1.0))


def _told(draw: Draw, unchanged: Hashable) -> Draw:
    return replace(draw, result=UNCHANGED) if draw.result == unchanged else draw


def _stake(name: str, draws: Sequence[Draw], likelihood: Likelihood, seen: Mapping[Treatment, Hashable]) -> float:
    """What a stake of 1 has become: each result is bet on, by how likely each treatment would have given it."""
    stake, known = 1.0, dict(seen)
    for draw in draws:
        # Another factor released in a way that is new may do anything: such a run says nothing, and is no bet.
        telling = {one: share for one, share in draw.shares.items() if one[0] in ("", name) or one in known}
        if draw.drawn in telling:
            result = draw.result if draw.drawn[0] == name else UNCHANGED
            odds = {one: likelihood(one, result, known) if one[0] == name else result is UNCHANGED for one in telling}
            if not odds[draw.drawn]:
                return 0.0
            mean = sum(telling[one] * odds[one] for one in telling) / sum(telling.values())
            stake *= odds[draw.drawn] / mean
        if draw.drawn[1]:
            known.setdefault(draw.drawn, draw.result)
    return stake


def _repeats(treatment: Treatment, result: Hashable, known: Mapping[Treatment, Hashable]) -> float:
    """A factor changed in the same way gives the same bits, and changed in another way most often other ones."""
    if treatment in known:
        return float(result == known[treatment])
    others = {UNCHANGED, *(known[one] for one in known if one[0] == treatment[0])}
    return COINCIDENCE / len(others) if result in others else 1 - COINCIDENCE


def _shows(rate: float) -> Likelihood:
    """A factor left alone changes something in this share of runs."""
    return lambda treatment, result, known: 1 - rate if result is UNCHANGED else rate


def detectable_rate(runs: int) -> float:
    """The smallest rate of differing runs that this many runs would have shown, with 95 % confidence.

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
