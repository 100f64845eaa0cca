"""The states of global generators, as digests: equal states are equal, a draw shows, and nothing is drawn."""

import random
import sys
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np
import pytest
import torch

from samebits.rng import digests
from samebits.rng.digests import generator_states

SEEDS: dict[str, Callable[[int], object]] = {"python": random.seed, "numpy": np.random.seed, "torch": torch.manual_seed}
DRAWS: dict[str, Callable[[], object]] = {
    "python": random.random,
    "numpy": np.random.random,
    "torch": lambda: torch.rand(1),
}


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])


@pytest.mark.parametrize("name", SEEDS)
def test_a_draw_shows_and_a_seed_takes_it_back(name: str) -> None:
    """One draw is another digest, in that generator alone; the same seed is the same digest, another seed another."""
    SEEDS[name](3)
    seeded = generator_states()
    DRAWS[name]()
    drawn = generator_states()
    SEEDS[name](4)
    other = generator_states()
    SEEDS[name](3)

    assert generator_states() == seeded
    assert {key for key in seeded if seeded[key] != drawn[key]} == {name}
    assert len({states[name] for states in (seeded, drawn, other)}) == 3


def test_looking_draws_nothing() -> None:
    """What comes next is what would have come."""
    for seed in SEEDS.values():
        seed(0)
    expected = [float(draw()) for draw in DRAWS.values()]
    for seed in SEEDS.values():
        seed(0)
    generator_states()

    assert [float(draw()) for draw in DRAWS.values()] == expected


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox, np.random.SFC64])
def test_numpys_global_generator_may_be_another(kind: Callable[[int], np.random.BitGenerator]) -> None:
    """Since NumPy 1.24 the global functions may draw from any bit generator; its state counts as well."""
    before = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(kind(1))
        first = generator_states()["numpy"]
        np.random.random()
        second = generator_states()["numpy"]
        np.random.set_bit_generator(kind(1))
        again = generator_states()["numpy"]
    finally:
        np.random.set_bit_generator(before)

    assert first == again != second


def test_the_state_in_memory_is_the_state() -> None:
    """Where an interpreter lays it out otherwise, the same digest is made of what `getstate` says."""
    digests._lies_behind_its_head.cache_clear()
    assert sys.implementation.name != "cpython" or digests._lies_behind_its_head()
    looked = []
    for draws in (0, 1, 623, 1):
        for _ in range(draws):
            random.random()
        random.gauss(0, 1)
        looked.append(digests._python_state())
        with mock.patch.object(digests, "_lies_behind_its_head", return_value=False):
            assert digests._python_state() == looked[-1]

    assert len(set(looked)) == 4
