"""What a measurement decides, without any run: time, memory, when it is enough, and what to leave out."""

from types import SimpleNamespace
from typing import Any

import pytest

from samebits.base.errors import BudgetError
from samebits.factors.context import Setting
from samebits.pricing import experiments
from samebits.pricing.decisions import affordable, cheaper_sets, fitting, is_enough, need_time
from samebits.pricing.plan import Candidate, default_set
from samebits.pricing.prices import Price, Ratio

CANDIDATES = [
    Candidate(name, {name: Setting("pinned")}) for name in ("clock", "hash-seed", "os-entropy", "torch-algorithms")
]


def priced(name: str, low: float, high: float) -> Price:
    return Price(Candidate(name, {name: Setting("pinned")}), Ratio((low + high) / 2, low, high, 20), repeats=True)


def test_a_budget_below_three_starts_is_refused_with_one_that_is_enough() -> None:
    """The hint names a budget; with three starts left it goes on."""
    need_time(5.0, 6.0, 2.0)

    with pytest.raises(BudgetError, match="give --budget 13 or more"):
        need_time(5.0, 5.9, 2.0)


@pytest.mark.parametrize(("left", "count"), [(10.0, 1), (32.0, 4), (19.0, 3), (0.0, 1)])
def test_what_there_is_no_time_for_is_said(left: float, count: int) -> None:
    """The first ones are measured, at least one; the others are listed with the budget that they would need."""
    wanted, rest = affordable(CANDIDATES, left, 2.0, 1)

    assert len(wanted) == min(count, len(CANDIDATES))
    assert [price.candidate for price in rest] == CANDIDATES[len(wanted) :]
    assert all("give --budget" in price.not_measured for price in rest)


def test_the_budget_that_is_named_is_enough() -> None:
    """With it, nothing is left out."""
    _, rest = affordable(CANDIDATES, 10.0, 2.0, 2)
    needed = float(rest[0].not_measured.split()[-3])

    assert affordable(CANDIDATES, needed, 2.0, 2)[1] == []


@pytest.mark.parametrize(("free", "peak", "count"), [(100, 10, 5), (10, 100, 1), (10**9, 1, 12)])
def test_as_many_wait_as_fit(free: int, peak: int, count: int) -> None:
    """Six tenths of the memory, one of them for the run with nothing pinned."""
    assert fitting(free, peak) == count


def test_timing_ends_with_the_others_or_with_the_time() -> None:
    """Late, but not before a few rounds; never before that while one of them has more."""
    assert is_enough(1, [False, False], is_late=False)
    assert is_enough(16, [True], is_late=True)
    assert not is_enough(15, [True], is_late=True)
    assert not is_enough(60, [True], is_late=False)


def test_only_what_costs_something_is_left_out() -> None:
    """Each alone, and all of them; nothing where the default set itself does not repeat."""
    whole = Price(default_set(), Ratio(1.4, 1.3, 1.5, 20), repeats=True)
    costly = [priced("torch-algorithms", 1.1, 1.2), priced("uninitialized-memory", 1.05, 1.1)]
    free = [priced("clock", 0.99, 1.02), priced("cpu-isa", 1.2, 1.3)]

    found = [candidate.label for candidate in cheaper_sets([whole, *costly, *free])]

    assert found == [default_set([name]).label for name in ("torch-algorithms", "uninitialized-memory")] + [
        default_set(["torch-algorithms", "uninitialized-memory"]).label
    ]
    assert cheaper_sets([Price(default_set(), repeats=False), *costly]) == []


@pytest.mark.parametrize(("device_free", "expected"), [(None, 3), (40 * 2**30, 12)])
def test_as_many_runs_wait_as_the_container_has_room_for(
    device_free: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accelerator's room where the peak is of its memory, else what the container leaves, and not the host."""
    monkeypatch.setattr(experiments, "free_bytes", lambda: 8 * 2**30)
    plain: Any = SimpleNamespace(ready={"free_bytes": device_free}, peak_bytes=2**30)

    assert experiments._fitting(plain) == expected
