"""Seeds are witnessed with their values, at the user's line, and nothing else is; no bit changes."""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import samebits
from samebits.factors.context import Setting
from samebits.factors.pinning import treat
from samebits.factors.seed_calls import MOST_AT_ONE_LINE, SeedCall, witness_seeds
from tests.factors.contexts import differences, everything, here


@contextmanager
def seeds() -> Iterator[list[SeedCall]]:
    """The seeds given inside, all factors pinned and watched as in a run that is witnessed."""
    found: list[SeedCall] = []
    treatment = treat({name: Setting("pinned") for name in ("python-rng", "numpy-rng", "torch-rng")}, 0, report=print)
    context = witness_seeds(found.append)
    try:
        yield found
    finally:
        context.end()
        treatment.undo()


CALLS: list[tuple[Callable[[], Any], str, Any]] = [
    (lambda: random.seed(4711), "random.seed", 4711),
    (lambda: random.seed("four"), "random.seed", "four"),
    (lambda: random.seed(a=b"\x01\xff"), "random.seed", "01ff"),
    (lambda: random.Random(4711), "random.Random", 4711),
    (lambda: random.Random(0.5), "random.Random", 0.5),
    (lambda: np.random.seed(4711), "np.random.seed", 4711),
    (lambda: np.random.seed(np.array([1, 2])), "np.random.seed", "[1, 2]"),
    (lambda: np.random.RandomState(4711), "np.random.RandomState", 4711),
    (lambda: np.random.RandomState().seed(4711), "np.random.RandomState", 4711),
    (lambda: np.random.default_rng(4711), "np.random.default_rng", 4711),
    (lambda: np.random.default_rng(seed=[4, 7]), "np.random.default_rng", "[4, 7]"),
    (
        lambda: np.random.default_rng(np.random.SeedSequence(3)),
        "np.random.default_rng",
        "SeedSequence(3, spawn_key=())",
    ),
    (lambda: torch.manual_seed(4711), "torch.manual_seed", 4711),
    (lambda: torch.random.manual_seed(seed=-1), "torch.manual_seed", -1),
    (lambda: torch.manual_seed(torch.tensor(4711)), "torch.manual_seed", 4711),
    (lambda: torch.cuda.manual_seed_all(4711), "torch.cuda.manual_seed_all", 4711),
    (lambda: torch.Generator().manual_seed(4711), "torch.Generator.manual_seed", 4711),
    (lambda: torch.default_generator.manual_seed(4711), "torch.Generator.manual_seed", 4711),
]


@pytest.mark.parametrize(("call", "what", "value"), CALLS, ids=[f"{i} {what}" for i, (_, what, _) in enumerate(CALLS)])
def test_every_way_to_seed_is_witnessed_once_with_its_value(call: Callable[[], Any], what: str, value: Any) -> None:
    """What was called, the seed as it was given, the line; seeding that this brings about elsewhere is not told."""
    with seeds() as found:
        call()

    assert [(seed.what, seed.value, type(seed.value)) for seed in found] == [(what, value, type(value))]
    assert (found[0].site.path, found[0].site.line) == (__file__, call.__code__.co_firstlineno)


def test_a_hash_seed_that_the_program_sets_is_witnessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is too late for this process; other variables are no seeds."""
    with seeds() as found:
        monkeypatch.setenv("PYTHONHASHSEED", "4711")
        monkeypatch.setenv("SEED", "4711")

    assert [(seed.what, seed.value) for seed in found] == [("PYTHONHASHSEED", "4711")]


def test_seeds_that_change_are_there_to_be_compared() -> None:
    """From the time, a process id, entropy, and from torch itself: the value is the one that was in effect."""
    with seeds() as found:
        random.seed(time.time_ns())
        torch.manual_seed(os.getpid())
        drawn = [torch.seed(), torch.Generator().seed()]

    assert found[0].value > time.time_ns() - 60 * 10**9  # type: ignore[operator]
    assert found[1].value == os.getpid()
    assert [(seed.what, seed.value) for seed in found[2:]] == [
        ("torch.seed", drawn[0]),
        ("torch.Generator.seed", drawn[1]),
    ]


def test_what_is_no_seed_is_not_told() -> None:
    """States, generators passed on, seeding without a seed, drawing, loaders that seed themselves, samebits' pins."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    generator = np.random.default_rng(3)
    with seeds() as found:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        random.seed()
        random.Random()
        np.random.seed()
        np.random.default_rng()
        np.random.default_rng(generator)
        np.random.RandomState()
        torch.rand(2)
        for _ in DataLoader(range(4), shuffle=True):  # type: ignore[arg-type]
            pass
        with samebits.pinned(seed=3):
            random.random()

    assert found == []


def test_each_value_once_and_not_for_ever() -> None:
    """A line that seeds again with the same seed says so once, one that seeds in a loop shows its first values."""
    with seeds() as found:
        start = here()
        for _ in range(20):
            random.seed(1)
        for step in range(20):
            torch.manual_seed(step)

    at = [(seed.site.line - start, seed.value) for seed in found]
    assert at == [(2, 1), *((4, step) for step in range(MOST_AT_ONE_LINE))]


def test_a_failing_seed_is_not_told_and_the_next_one_is() -> None:
    """What the generator refuses was no seed."""
    with seeds() as found:
        for wrong in (lambda: torch.manual_seed("x"), lambda: np.random.seed(-1), lambda: random.seed([])):
            with pytest.raises((TypeError, ValueError, RuntimeError)):
                wrong()  # type: ignore[no-untyped-call]
        random.seed(3)

    assert [seed.value for seed in found] == [3]


def test_witnessing_seeds_changes_nothing() -> None:
    """The same draws as without, the same classes; and afterwards everything is what it was."""

    def program() -> list[Any]:
        random.seed(3)
        np.random.seed(4)
        torch.manual_seed(5)
        own = torch.Generator()
        own.manual_seed(6)
        legacy, new = np.random.RandomState(7), np.random.default_rng(8)
        assert type(own) is torch.Generator
        draws = [random.random(), np.random.rand(), torch.rand(1).item(), torch.rand(1, generator=own).item()]
        return [*draws, legacy.rand(), new.random(), random.Random(9).random()]

    plain = program()
    # Where no device is in use, each seeding queues a function of its own.
    queue = vars(torch.cuda._lazy_seed_tracker)
    waiting, before = dict(queue), everything()
    context = witness_seeds(lambda seed: None)
    watched = program()
    context.end()
    program()
    queue.update(waiting)

    assert watched == plain
    assert differences(before, everything()) == {}
