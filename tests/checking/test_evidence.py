"""The chances that an accusation rests on: against whatever makes runs differ, thousands of times."""

import random
from collections.abc import Callable

import pytest

from samebits.checking.evidence import (
    LIMIT,
    RATES,
    Draw,
    chance_by_lot,
    detectable_rate,
    limit_after,
    runs_for_rate,
)

TESTS, LOTS = 20_000, 20
NATURES: dict[str, Callable[[int, random.Random], bool]] = {
    "coin": lambda run, luck: luck.random() < 0.5,
    "rare coin": lambda run, luck: luck.random() < 0.05,
    "drift": lambda run, luck: luck.random() < run / LOTS,
    "turns": lambda run, luck: run % 2 == 1,
    "once": lambda run, luck: run > 5,
    "never": lambda run, luck: False,
    "always": lambda run, luck: True,
}


@pytest.mark.parametrize("factors", [1, 3])
@pytest.mark.parametrize("nature", NATURES)
def test_an_innocent_is_accused_no_more_often_than_stated(nature: str, factors: int) -> None:
    """One factor does nothing, the others show each time; it is tested until it passes, or the lots are used up."""
    luck = random.Random(f"{nature} {factors}")
    names = [f"factor {number}" for number in range(factors)]
    passed = sum(is_accused(names, NATURES[nature], luck) for _ in range(TESTS // 10))

    # Give or take three deviations.
    assert passed <= TESTS / 10 * LIMIT + 3 * (TESTS / 10 * LIMIT) ** 0.5


def is_accused(names: list[str], nature: Callable[[int, random.Random], bool], luck: random.Random) -> bool:
    """Whether the first of these factors, which does nothing, is called guilty."""
    draws: list[Draw] = []
    for run in range(LOTS):
        drawn = luck.choice(["", *names])
        strays = nature(run, luck)
        if strays != (drawn == names[0]):
            return False  # runs that were treated alike do not agree
        draws.append(Draw({name: 1 / (len(names) + 1) for name in names}, drawn, strays))
        if chance_by_lot(names[0], draws, [False], (1.0,)) < LIMIT:
            return True
    return False


def test_one_suspect_takes_seven_lots_and_four_together_little_more() -> None:
    """What is drawn for one of them speaks about the others, too."""
    one = [Draw({"a": 0.5}, drawn, drawn == "a") for drawn in ("a", "", "a", "", "", "a", "a")]
    many = ["a", "b", "", "c", "d", "a", "", "d", "c", "b", "", "a"]
    four = [Draw(dict.fromkeys("abcd", 0.2), drawn, drawn == "a") for drawn in many]

    assert chance_by_lot("a", one, [False], (1.0,)) == 1 / 128 < limit_after(0)
    assert chance_by_lot("a", one[:-1], [False], (1.0,)) > limit_after(0)
    assert chance_by_lot("a", four, [False], (1.0,)) < limit_after(0)


def test_all_tests_of_a_check_together_keep_to_the_limit() -> None:
    """Each that comes to nothing leaves less to the next one."""
    assert sum(limit_after(failures) for failures in range(10)) <= LIMIT


def test_runs_left_alone_prove_the_more_the_more_of_them_stray() -> None:
    """That all agree proves nothing, and two sides less than many."""

    def chance(results: list[int]) -> float:
        draws = [Draw({"a": 0.5}, "a", result) for result in results]
        held = [Draw({"a": 0.5}, "", None)] * len(results)
        return chance_by_lot("a", [*draws, *held], sorted(set(results)), RATES)

    assert chance([0] * 8) == 1.0
    assert chance([0] * 8) > chance([0, 1] * 4) > chance(list(range(8)))
    assert chance(list(range(8))) < limit_after(0)


def test_of_results_that_may_be_untouched_the_one_that_speaks_for_the_factor_counts() -> None:
    """Six of eight came out as 1: if that is what comes without it, it did little."""
    draws = [Draw({"a": 0.5}, "a", result) for result in (0, 1, 1, 1, 0, 1, 1, 1)]
    most, least = (chance_by_lot("a", [*draws, Draw({"a": 0.5}, "", None)], [one], RATES) for one in (1, 0))

    assert most > least
    assert chance_by_lot("a", [*draws, Draw({"a": 0.5}, "", None)], [0, 1], RATES) == most


def test_same_is_stated_with_the_rate_that_would_have_shown() -> None:
    """Three runs show what differs in 63 % of runs, 59 runs what differs in 5 %."""
    assert [round(detectable_rate(runs), 2) for runs in (2, 3, 10, 59)] == [0.78, 0.63, 0.26, 0.05]
    assert runs_for_rate(0.05) == 59
    assert detectable_rate(58) > 0.05
