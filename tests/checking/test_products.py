"""What runs make: left out only where it is shown to follow the clock, by runs of simulated scripts."""

import random
from dataclasses import replace

import pytest

from samebits.checking.plan import RELEASED
from samebits.checking.products import products_compared
from samebits.checking.search import SearchState
from tests.checking.simulation import Effect, Script, Simulation, simulated

A_TIME = Effect("clock", 3, None, makes="leaf")


def checked(script: Script, seed: int = 0) -> tuple[SearchState, Simulation]:
    found, simulation, _ = simulated(script, random.Random(seed))
    return found, simulation


def confirmed(found: SearchState) -> list[tuple[str, int]]:
    return [(cause.factor, cause.site.line) for cause in found.causes if cause.confirmed and cause.site is not None]


def test_a_time_in_what_is_made_is_left_out_once_it_is_shown_to_be_one() -> None:
    """Four runs more where it is another one with the clock held, and again with it changed; and the leaf is named."""
    found, simulation = checked(Script(effects=(A_TIME,)))

    assert found.divergent is None
    assert found.product_comparison.follows == (("/made", "leaf 3"),)
    assert [run.plan.role for run in simulation.runs[3:]] == [
        "clock held",
        "clock held, rest varied",
        "clock changed",
        "clock changed",
    ]


def test_a_time_of_few_values_is_shown_to_be_one_by_those_that_no_other_run_has() -> None:
    """As a duration in whole seconds has: held and changed, it is another one than in any run that is left alone."""
    seen = [checked(Script(effects=(replace(A_TIME, kinds=3),)), seed) for seed in range(12)]

    assert all(found.divergent is None for found, _ in seen)
    assert {found.product_comparison.follows for found, _ in seen} <= {(), (("/made", "leaf 3"),)}
    assert {len(simulation.runs) for _, simulation in seen} <= {3, 7}


def test_beside_two_runs_a_time_takes_one_more_to_be_shown() -> None:
    """Two others show less than three."""
    found, simulation, _ = simulated(Script(effects=(A_TIME,)), random.Random(0), runs=2)

    assert found.product_comparison.follows == (("/made", "leaf 3"),)
    assert [run.plan.role for run in simulation.runs[-2:]] == ["clock held, rest varied", "clock changed"]
    assert len(simulation.runs) == 7


def test_a_slow_clock_shows_a_time_where_a_quick_one_ends_the_training() -> None:
    """Ten minutes at the most: no run left alone takes them."""
    found, simulation = checked(Script(effects=(A_TIME,), is_limited=True))

    assert found.divergent is None
    assert found.product_comparison.follows == (("/made", "leaf 3"),)
    assert [run.plan.role for run in simulation.runs[5:]] == ["clock changed", *["clock changed to a slow one"] * 2]


def test_a_time_that_is_the_same_held_and_changed_takes_more_runs() -> None:
    """What happens to coins once in a hundred checks is shown first."""
    found, simulation = checked(Script(effects=(replace(A_TIME, hides=(RELEASED,)),)))

    assert found.divergent is None
    assert found.product_comparison.follows == (("/made", "leaf 3"),)
    assert len(simulation.runs) == 12


@pytest.mark.parametrize("faces", [pytest.param(2, marks=pytest.mark.slow), 5])
def test_what_is_drawn_is_hardly_ever_taken_for_a_time(faces: int) -> None:
    """Where the clock enters as well: of a coin two runs agree half of the time, a die of five is new most easily."""
    script = Script(effects=(Effect("clock", 9, None),), faces=faces)
    taken = [bool(checked(script, seed)[0].product_comparison.follows) for seed in range(200)]

    assert sum(taken) <= 6


def test_what_only_the_first_run_has_otherwise_is_no_time_where_it_left_something_outside() -> None:
    """All later runs agree, held or not: by what they found there, not by the clock."""
    found, _ = checked(Script(effects=(A_TIME,), outside=True))

    assert found.product_comparison.follows == (("/made", "leaf 3"),)
    assert found.divergent is not None
    assert found.divergent.divergence.name == "/made: was there"


def test_what_runs_make_alike_costs_no_run() -> None:
    """Its clean twin."""
    found, simulation = checked(Script(effects=(Effect("clock", 3, None),)))

    assert found.divergent is None
    assert found.product_comparison.words == []
    assert len(simulation.runs) == 3


@pytest.mark.parametrize("factor", ["numpy-rng", "os-entropy", "hash-seed"])
def test_what_is_drawn_is_no_time(factor: str) -> None:
    """It is explained like any other divergence, and the time beside it is not accused."""
    found, _ = checked(Script(effects=(A_TIME, Effect(factor, 7, None, makes="leaf"))))

    assert found.divergent is not None
    assert found.divergent.divergence.name == "/made: leaf 7"
    assert confirmed(found) == [(factor, 7)]
    assert found.remedy is not None
    assert found.remedy.pins == (factor,)


def test_what_differs_with_the_clock_held_costs_two_runs() -> None:
    """It follows something else: the clock need not be changed to see that."""
    found, simulation = checked(Script(effects=(Effect("clock", 3, None), Effect("os-entropy", 7, None, makes="leaf"))))

    assert confirmed(found) == [("os-entropy", 7)]
    about_clock = [run.plan.role for run in simulation.runs if run.plan.role.startswith("clock ")]
    assert about_clock[:3] == ["clock held", "clock held, rest varied"]


def test_a_time_that_seeds_is_a_cause() -> None:
    """Predictions may follow the clock through a generator: then they are no times."""
    found, _ = checked(Script(effects=(Effect("clock", 3, None, makes="seeds"),)))

    assert found.product_comparison.follows == ()
    assert confirmed(found) == [("clock", 3)]


@pytest.mark.parametrize("seed", range(30))
def test_what_nobody_can_explain_accuses_nobody(seed: int) -> None:
    """One of two values, by luck: if it is seen at all, nothing is confirmed, and it is never taken for a time."""
    found, _ = checked(Script(faces=2), seed)

    assert confirmed(found) == []
    assert found.product_comparison.follows == ()


def test_what_is_made_is_looked_at_once_a_remedy_holds() -> None:
    """A cause in the training does not hide one in what is saved."""
    script = Script(effects=(Effect("torch-rng", 5, 1), Effect("numpy-rng", 7, None, makes="leaf")))
    found, _ = checked(script)

    assert sorted(confirmed(found)) == [("numpy-rng", 7), ("torch-rng", 5)]
    assert found.remedy is not None
    assert found.remedy.pins == ("numpy-rng", "torch-rng")


def test_what_is_made_counts_after_a_look_that_was_ended() -> None:
    """The first run of a long script is ended in the middle, and has made nothing that could be compared."""
    script = Script(effects=(Effect("os-entropy", 10, None, makes="leaf"),))
    _, simulation, inquiry = simulated(script, random.Random(0))
    first, *others = simulation.runs[:3]
    look = replace(first, stopped_after=1)

    simulation.most_runs = lambda: 0
    asking = products_compared(inquiry, [look, *others])
    with pytest.raises(StopIteration) as ended:
        next(asking)

    assert ended.value.value.at is not None
