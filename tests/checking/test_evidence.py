"""The chances that an accusation rests on: against whatever makes runs differ, thousands of times."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from samebits.checking.evidence import (
    HELD,
    LIMIT,
    UNCHANGED,
    Draw,
    Treatment,
    chance_changed,
    chance_left_alone,
    chance_shown,
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


@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("factors", [1, 3])
@pytest.mark.parametrize("nature", NATURES)
def test_an_innocent_is_accused_no_more_often_than_stated(nature: str, factors: int, ways: int) -> None:
    """One factor does nothing, the others show each time; it is tested until it passes, or the lots are used up."""
    luck = random.Random(f"{nature} {factors} {ways}")
    passed = sum(is_accused(factors, ways, NATURES[nature], luck) for _ in range(TESTS // 10))

    # Give or take three deviations.
    assert passed <= TESTS / 10 * LIMIT + 3 * (TESTS / 10 * LIMIT) ** 0.5


def is_accused(factors: int, ways: int, nature: Callable[[int, random.Random], bool], luck: random.Random) -> bool:
    """Whether the first of these factors, which does nothing, is called guilty.

    Runs that are strange by nature have the bits of either way in which it is released.
    """
    treatments = [(f"factor {number}", way) for number in range(factors) for way in range(1, ways + 1)]
    shares: dict[Treatment, float] = dict.fromkeys([HELD, *treatments], 1 / (1 + len(treatments)))
    seen = {(name, way): f"{name}, way {way}" for name, way in treatments if way == 1}
    draws: list[Draw] = []
    for run in range(LOTS):
        drawn = luck.choice(list(shares))
        strays, is_own = nature(run, luck), drawn[0] == "factor 0"
        if strays != is_own:
            return False  # runs that were treated alike do not agree
        result = f"factor 0, way {luck.randint(1, ways)}" if strays else UNCHANGED
        draws.append(Draw(shares, drawn, result))
        if chance_changed("factor 0", draws, seen) < LIMIT:
            return True
    return False


def lots(*drawn: Treatment, of: list[Treatment]) -> list[Draw]:
    """Draws of which each came out as what was drawn does."""
    shares = dict.fromkeys([HELD, *of], 1 / (1 + len(of)))
    return [Draw(shares, one, UNCHANGED if one == HELD else one) for one in drawn]


def test_one_suspect_takes_seven_lots_and_five_where_it_is_released_in_two_ways() -> None:
    """The more results a draw may have, the more it proves that it was foreseen."""
    a, b = ("a", 2), ("a", 6)
    one = lots(a, HELD, a, HELD, HELD, a, a, of=[a])
    two = lots(HELD, b, a, HELD, b, of=[a, b])

    assert chance_changed("a", one, {a: a}) == 1 / 128 < limit_after(0)
    assert chance_changed("a", one[:-1], {a: a}) > limit_after(0)
    assert chance_changed("a", two, {a: a}) < limit_after(0) < chance_changed("a", two[:-1], {a: a})


def test_four_suspects_together_take_little_more_than_one() -> None:
    """What is drawn for one of them speaks about the others, too."""
    every = [(name, 2) for name in "abcd"]
    a, b, c, d = every
    four = lots(a, b, HELD, c, d, a, HELD, d, c, b, HELD, a, of=every)

    assert chance_changed("a", four, {one: one for one in every}) < limit_after(0)


def test_what_another_factor_does_for_the_first_time_proves_nothing() -> None:
    """Nobody knows how its runs come out, so a coin may hide in them."""
    a, b, other = ("a", 2), ("b", 2), ("b", 6)
    known = {a: a, b: b}
    draws = lots(other, of=[a, b, other])

    assert chance_changed("a", draws, known) == 1
    assert chance_changed("a", [*draws, *draws], known) < 1  # the second time, it is known


def test_two_ways_with_the_same_bits_prove_as_much_with_more_lots() -> None:
    """A listing of two files has two orders: a coincidence costs something, and convicts all the same."""
    a, b = ("a", 2), ("a", 6)
    draws = [replace(one, result=one.result and a) for one in lots(HELD, b, a, HELD, b, a, b, HELD, HELD, a, of=[a, b])]

    assert chance_changed("a", draws[:5], {a: a}) > limit_after(0) > chance_changed("a", draws, {a: a})


def test_a_result_that_does_not_fit_is_the_end_of_an_accusation() -> None:
    """Held, and changed all the same; or released as before, and not as it came out then."""
    a = ("a", 2)
    fitting = lots(a, HELD, a, of=[a])

    for wrong in (Draw(fitting[0].shares, a, UNCHANGED), Draw(fitting[0].shares, a, "other")):
        assert chance_changed("a", [*fitting, wrong, *fitting], {a: a}) == 1


def test_all_tests_of_a_check_together_keep_to_the_limit() -> None:
    """Each that comes to nothing leaves less to the next one."""
    assert sum(limit_after(failures) for failures in range(10)) <= LIMIT


def test_runs_left_alone_prove_the_more_the_more_of_them_stray() -> None:
    """That all agree proves nothing, and two sides less than many; the side that speaks best for the factor counts."""
    a = ("a", 0)

    def chance(results: list[int]) -> float:
        held = lots(*[HELD] * len(results), of=[a])
        return chance_left_alone("a", [*(Draw(held[0].shares, a, result) for result in results), *held], {})

    assert chance([0] * 8) == 1.0
    assert chance([0] * 8) > chance([0, 1, 1, 1] * 2) > chance([0, 1] * 4) > chance(list(range(8)))
    assert chance(list(range(8))) < limit_after(0)


def test_runs_made_before_the_lots_save_lots_and_never_win_the_bets() -> None:
    """Four that all showed make eight lots enough; without any lot they prove nothing, whatever they showed."""
    a = ("a", 0)
    draws = lots(*[a, HELD] * 4, of=[a])

    assert chance_shown("a", [], {}, [True] * 9) == 1.0
    assert chance_shown("a", draws, {}, [True] * 4) < limit_after(0) < chance_shown("a", draws, {})
    assert chance_shown("a", draws, {}, [True, False] * 2) > limit_after(0)


def test_same_is_stated_with_the_rate_that_would_have_shown() -> None:
    """Three runs show what differs in 63 % of runs, 59 runs what differs in 5 %."""
    assert [round(detectable_rate(runs), 2) for runs in (2, 3, 10, 59)] == [0.78, 0.63, 0.26, 0.05]
    assert runs_for_rate(0.05) == 59
    assert detectable_rate(58) > 0.05
