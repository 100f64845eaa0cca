"""The evidence that runs give against a factor: a lot decides what each run releases, and bets are laid on the lots.

If a factor does nothing, the result of a run does not depend on the lot. Then nobody can tell from the result what was
drawn any better than by the chances of the draw, and bets on it at fair odds win nothing in the long run. So a stake
of 1 that has grown to 128 shows something that happens in less than one check of 128, however long the bets went on
(Ville's inequality; Shafer, "Testing by betting", Journal of the Royal Statistical Society A 184, 2021).
Nothing is assumed about what else makes runs differ: a coin, a rare coin, one that drifts, one that alternates.

The more treatments there are to draw from, the more a result that tells them apart proves: a factor that is released in
either of two ways, each with bits of its own, is found guilty after five lots instead of seven.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

# The share of checks that may call an innocent factor guilty, over all tests of a check together.
LIMIT = 0.01
# Each test that ends without proof leaves an eighth of the limit to the next test: 7/8 + 7/64 + ... = 1.
SHARPER = 8
# The assumed shares of runs in which a factor that is left alone shows; a factor that is changed always shows.
RATES = (0.2, 0.4, 0.6, 0.8, 1.0)
# The chance that a factor changed in a new way gives bits that were seen before: a set of three has six orders.
COINCIDENCE = 0.3
# The confidence with which a verdict of "same" is stated.
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
        drawn: the treatment that was drawn.
        result: equal for runs with the same bits; `UNCHANGED` for a run as if nothing had been released.
    """

    shares: Mapping[Treatment, float]
    drawn: Treatment
    result: Hashable


def limit_after(failures: int) -> float:
    """Return the chance below which a factor is called guilty, after this many tests that ended without proof.

    >>> f"{limit_after(0):.5f} {limit_after(1):.5f}"
    '0.00875 0.00109'
    """
    return float(LIMIT * (1 - 1 / SHARPER) / SHARPER**failures)


def chance_changed(name: str, draws: Sequence[Draw], seen: Mapping[Treatment, Hashable]) -> float:
    """Return the chance that lots ever fit results this well although the factor, changed on purpose, is innocent.

    >>> shares = {HELD: 1 / 3, ("clock", 1): 1 / 3, ("clock", 2): 1 / 3}
    >>> lots = [Draw(shares, ("clock", way), f"clock {way}") for way in (1, 2, 2, 1, 2)]
    >>> f"{chance_changed('clock', lots, {('clock', 1): 'clock 1'}):.4f}"
    '0.0047'

    Args:
        name: of the factor.
        draws: those made since the factor was suspected; wherever a treatment was drawn again, the result was the same
            as before.
        seen: treatments of earlier runs, with their results.
    """
    return 1 / max(1.0, _stake(name, draws, _changed_likelihood, seen))


def chance_left_alone(name: str, draws: Sequence[Draw], seen: Mapping[Treatment, Hashable]) -> float:
    """Return the chance that lots ever fit results this well although the factor, left alone, is innocent.

    Each of its runs may have its own bits. Which result is free of its effect is unknown: the best for its case counts.
    """
    results = {draw.result for draw in draws if draw.drawn[0] == name}
    return max(
        (chance_shown(name, [_with_unchanged(draw, result) for draw in draws], seen) for result in results), default=1.0
    )


def chance_shown(
    name: str, draws: Sequence[Draw], seen: Mapping[Treatment, Hashable], earlier: Sequence[bool] = ()
) -> float:
    """Return the chance as `chance_left_alone` does, where it is known which result is free of the factor's effect.

    `earlier`: whether it showed in each of the runs made before the lots. A rate that fits them is bet on with more.
    """
    parts = [prod(rate if is_shown else 1 - rate for is_shown in earlier) for rate in RATES]
    stakes = [_stake(name, draws, _left_alone_likelihood(rate), seen) for rate in RATES]
    stake = sum(part * stake for part, stake in zip(parts, stakes, strict=True)) / sum(parts)
    return 1 / max(1.0, stake)


def _with_unchanged(draw: Draw, unchanged: Hashable) -> Draw:
    return replace(draw, result=UNCHANGED) if draw.result == unchanged else draw


def _stake(name: str, draws: Sequence[Draw], likelihood: Likelihood, seen: Mapping[Treatment, Hashable]) -> float:
    """Return what a stake of 1 has become: each result is bet on, by how likely each treatment was to give it."""
    stake, known = 1.0, dict(seen)
    for draw in draws:
        # Another factor released in a new way may do anything: such a run says nothing about this one, and is no bet.
        shares = {one: share for one, share in draw.shares.items() if one[0] in ("", name) or one in known}
        if draw.drawn in shares:
            result = draw.result if draw.drawn[0] == name else UNCHANGED
            odds = {one: likelihood(one, result, known) if one[0] == name else result is UNCHANGED for one in shares}
            if not odds[draw.drawn]:
                return 0.0
            mean = sum(shares[one] * odds[one] for one in shares) / sum(shares.values())
            stake *= odds[draw.drawn] / mean
        if draw.drawn[1]:
            known.setdefault(draw.drawn, draw.result)
    return stake


def _changed_likelihood(treatment: Treatment, result: Hashable, known: Mapping[Treatment, Hashable]) -> float:
    """Return how likely a changed factor gives this result: a known way repeats its bits, a new way mostly does not."""
    if treatment in known:
        return float(result == known[treatment])
    seen = {UNCHANGED, *(known[one] for one in known if one[0] == treatment[0])}
    return COINCIDENCE / len(seen) if result in seen else 1 - COINCIDENCE


def _left_alone_likelihood(rate: float) -> Likelihood:
    """Return the likelihood of results of a factor that, left alone, changes something in this share of runs."""
    return lambda treatment, result, known: 1 - rate if result is UNCHANGED else rate


def detectable_rate(runs: int) -> float:
    """Return the smallest rate of differing runs that this many runs would have shown, with 95 % confidence.

    >>> f"{detectable_rate(3):.2f} {detectable_rate(59):.2f}"
    '0.63 0.05'
    """
    return 1.0 - float((1.0 - CONFIDENCE) ** (1.0 / runs))


def runs_for_rate(rate: float) -> int:
    """Return the least number of runs that would show a difference in this share of runs, with 95 % confidence."""
    runs = 2
    while detectable_rate(runs) > rate:
        runs += 1
    return runs
