"""The states of global generators, as digests: equal states are equal, a draw shows, and nothing is drawn."""

import copy
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from samebits.data import fetch
from samebits.rng.digests import default_generator, generator_states
from samebits.rng.handles import handle_of
from samebits.rng.packing import pack, unpack
from samebits.state import Training, preserved

SEEDS: dict[str, Callable[[int], object]] = {"python": random.seed, "numpy": np.random.seed, "torch": torch.manual_seed}
DRAWS: dict[str, Callable[[], float]] = {
    "python": random.random,
    "numpy": np.random.random,
    "torch": lambda: float(torch.rand(1)),
}


@pytest.mark.parametrize("name", SEEDS)
def test_a_draw_shows_and_looking_draws_nothing(name: str) -> None:
    """One draw is another digest, in that generator alone; the same seed is the same digest, and the same draw."""
    with preserved():
        SEEDS[name](3)
        expected = DRAWS[name]()
        drawn = generator_states()
        SEEDS[name](4)
        other = generator_states()
        SEEDS[name](3)
        seeded = generator_states()

        assert {key for key in seeded if seeded[key] != drawn[key]} == {name}
        assert len({states[name] for states in (seeded, drawn, other)}) == 3
        assert DRAWS[name]() == expected
        assert generator_states() == drawn


def test_a_gaussian_that_python_keeps_counts() -> None:
    """It is drawn next, and is in no word of the twister."""
    with preserved():
        random.seed(0)
        random.gauss(0, 1)
        kept = generator_states()["python"]
        random.gauss(0, 1)

        assert generator_states()["python"] != kept


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


def test_any_accelerator_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that torch has never heard of: its generator is digested, kept, brought back, and keyed for samples."""
    other, own = torch.Generator(), torch.Generator().manual_seed(1)
    device = torch.device("privateuseone", 1)
    module = SimpleNamespace(default_generators=(other, own), is_initialized=lambda: True, is_available=bool)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: device)
    monkeypatch.setattr(torch, "get_device_module", lambda _: module)

    class Drawing:
        def __getitem__(self, index: int) -> float:
            return float(torch.rand(1, generator=own))

    training, before = Training(), generator_states()
    state = copy.deepcopy(training.state_dict())
    with preserved():
        first = Drawing()[0]
        moved = generator_states()
    sample = fetch(Drawing(), 0)

    assert {name for name in before if before[name] != moved[name]} == {"torch privateuseone:1"}
    assert default_generator(device) is own
    assert [Drawing()[0], fetch(Drawing(), 0)] == [first, sample]
    training.load_state_dict(state)
    assert Drawing()[0] == first != sample


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng, random.Random])
@pytest.mark.parametrize("bit", [0, 40, 70, 127])
def test_every_bit_of_a_seed_counts(make: Callable[[], Any], bit: int) -> None:
    """Of a generator that takes 128 of them."""
    generator = make()
    start = handle_of(generator).start
    first = [start(word) or [generator.random() for _ in range(3)] for word in (0, 1 << bit, 0)]

    assert first[0] == first[2] != first[1]


def test_a_number_that_needs_more_than_64_bits_is_a_text() -> None:
    """With a sign, they reach to 2⁶³ − 1."""
    assert [pack((1 << 63) - 1), pack(-1 << 63)] == [(1 << 63) - 1, -1 << 63]
    assert pack(1 << 63) == {"<int>": str(1 << 63)}
    assert unpack(pack(1 << 63)) == 1 << 63
