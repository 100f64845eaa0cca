"""The chances that an accusation rests on: against the coins themselves, thrown many times."""

import random

import pytest

from samebits.checking.evidence import (
    LIMIT,
    LIMIT_WITHOUT_LINE,
    chance_of_scatter,
    chance_of_split,
    detectable_rate,
    runs_for_rate,
)

THROWS = 40_000


def is_accused(luck: random.Random, bias: float, held: int, released: int, factors: int) -> bool:
    """A coin, and innocents released one after the other: the first one that differs is the accused one, if any."""
    base = luck.random() < bias
    if any((luck.random() < bias) != base for _ in range(held - 1)):
        return False
    for _ in range(factors):
        if (luck.random() < bias) != base:
            return all((luck.random() < bias) != base for _ in range(released - 1))
    return False


@pytest.mark.parametrize(("held", "released", "factors"), [(3, 3, 1), (4, 4, 1), (4, 4, 6), (5, 4, 6), (5, 3, 3)])
def test_no_coin_exceeds_the_stated_chance(held: int, released: int, factors: int) -> None:
    """Thrown with nine biases, no coin is taken for a factor more often than stated, give or take three deviations."""
    chance = chance_of_split(held, released, factors)

    for bias in (number / 10 for number in range(1, 10)):
        luck = random.Random(f"{held} {released} {factors} {bias}")
        accused = sum(is_accused(luck, bias, held, released, factors) for _ in range(THROWS))
        deviation = (chance * (1 - chance) / THROWS) ** 0.5
        assert accused / THROWS <= chance + 3 * deviation


def test_a_coin_reaches_the_stated_chance() -> None:
    """The bound is no larger than it has to be: a fair coin shows four against four once in 128 checks."""
    luck = random.Random(0)
    accused = sum(is_accused(luck, 0.5, 4, 4, 1) for _ in range(THROWS))

    assert chance_of_split(4, 4) == 1 / 128
    assert abs(accused / THROWS - 1 / 128) < 0.002


def test_few_runs_prove_nothing() -> None:
    """Two against one, as the first version accused, is what a fair coin shows in one check of four."""
    assert chance_of_split(2, 1) >= 0.25
    assert chance_of_split(4, 3) > LIMIT
    assert chance_of_split(5, 4, tried=16) < LIMIT
    assert chance_of_split(5, 4) > LIMIT_WITHOUT_LINE
    assert chance_of_split(7, 5, tried=16) < LIMIT_WITHOUT_LINE


def test_scatter_counts_what_leaves_the_most_common_result() -> None:
    """Runs left alone that all agree prove nothing; the more of them stray, the more they prove."""
    assert chance_of_scatter(8, 6, 0) == 1.0
    chances = [chance_of_scatter(8, 6, strays) for strays in range(1, 6)]
    assert chances == sorted(chances, reverse=True)
    assert chances[-1] < LIMIT_WITHOUT_LINE < chances[2]


def test_same_is_stated_with_the_rate_that_would_have_shown() -> None:
    """Three runs show what differs in 63 % of runs, 59 runs what differs in 5 %."""
    assert [round(detectable_rate(runs), 2) for runs in (2, 3, 10, 59)] == [0.78, 0.63, 0.26, 0.05]
    assert runs_for_rate(0.05) == 59
    assert detectable_rate(58) > 0.05
