"""Generators that objects hold are found wherever they are, under ways that are the same in every process."""

import functools
import random
import weakref
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

from samebits.data import DataLoader
from samebits.data.generators import Generators
from samebits.rng.handles import restore
from samebits.rng.search import find_generators

MODULE_RNG = np.random.default_rng(0)
Pair = namedtuple("Pair", "left right")


def uses_module_rng() -> float:
    return helper()


def helper() -> float:
    return MODULE_RNG.random()


class OfClass:
    rng = random.Random(0)

    def __call__(self) -> float:
        return self.rng.random()


class Slots:
    __slots__ = ("missing", "rng")

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self) -> float:
        return float(self.rng.random())


class PrivateSlot:
    __slots__ = ("__rng",)

    def __init__(self) -> None:
        self.__rng = np.random.default_rng(0)

    def __call__(self) -> float:
        return float(self.__rng.random())


class Steps(list[Any]):
    """A list with an iterator of its own, which nobody but the user may call."""

    def __iter__(self) -> Any:
        raise RuntimeError("was iterated")

    def __call__(self) -> float:
        return float(self[0].random())


class Lazy:
    """Makes its generator when it is first needed, and says so in many ways."""

    def __init__(self) -> None:
        self.rng: Any = None

    @functools.cached_property
    def cached(self) -> Any:
        return random.Random(0)

    def __call__(self) -> float:
        if self.rng is None:
            self.rng = np.random.default_rng(0)
        return float(self.rng.random()) + self.cached.random()


class Strokes:
    """More data than is looked through, and a transform behind it."""

    def __init__(self) -> None:
        self.data = [[[number, [number]] for number in range(150)] for _ in range(1000)]
        self.transform = Slots()

    def __call__(self) -> float:
        return self.transform()


class Method:
    def __init__(self) -> None:
        self._rng = np.random.RandomState(0)

    def draw(self) -> float:
        return float(self._rng.random())


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Identity(), Child())

    def forward(self) -> Any:
        return self.inner[1]()


class Child(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def forward(self) -> Any:
        return torch.rand(1, generator=self.generator).item()


def closure() -> Any:
    rng = np.random.default_rng(0)
    return lambda: rng.random()


def default(rng: Any = np.random.default_rng(0)) -> float:  # noqa: B008
    return float(rng.random())


def nested() -> Any:
    rngs = {"a": [(np.random.Generator(np.random.SFC64(1)),)], 2: Pair(1, np.random.PCG64DXSM(3))}
    return lambda: (rngs["a"][0][0].random(), np.random.Generator(rngs[2].right).random())  # type: ignore[index]


HOLDERS: dict[str, Any] = {
    "global of a function that a function calls": uses_module_rng,
    "class attribute": OfClass(),
    "slots": Slots(),
    "bound method": Method().draw,
    "module": Module(),
    "closure": closure(),
    "default": default,
    "nested": nested(),
    "partial": functools.partial(lambda rng: rng.random(), random.Random(0)),
    "private slot": PrivateSlot(),
    "subclass of a list": Steps([random.Random(0)]),
    "tuple as a key": functools.partial(lambda table: table["a", 0].random(), {("a", 0): random.Random(0)}),
    "made when needed": Lazy(),
    "behind much data": Strokes(),
    "wrapped": functools.wraps(default)(lambda: default()),
}


class Calling(torch.utils.data.Dataset[Any]):
    def __init__(self, call: Any) -> None:
        self.call = call

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return index, torch.tensor(self.call())


# Reading a wide dataset to its end is what the warning is for.
pytestmark = pytest.mark.filterwarnings("ignore:samebits looked through")


@pytest.mark.parametrize(
    "holder",
    [
        # What is to be looked through there is found below, too.
        pytest.param(one, id=name, marks=pytest.mark.slow if name == "behind much data" else ())
        for name, one in HOLDERS.items()
    ],
)
def test_every_way_to_hold_one(holder: Any) -> None:
    """The batches are the same in any order of epochs, with and without workers; each sample draws its own.

    And the main process goes on drawing what it would have drawn.
    """
    holder()
    states = Generators(("it", holder)).states()
    outside = str(holder())
    restore(states)
    found = []
    for workers in (0, 2):
        loader = DataLoader(Calling(holder), batch_size=3, num_workers=workers, seed=0)
        loader.set_epoch(1 - workers // 2)
        two = [[batch[1].tolist() for batch in loader] for _ in range(2)]
        found.append(two[0] if not workers else two[1])
    values = {str(value) for batch in found[0] for value in batch}

    assert found[0] == found[1]
    assert len(values) == 6
    assert str(holder()) == outside


def test_ways_are_the_same_in_every_process() -> None:
    """They are words of the keys: named after attributes, not addresses."""
    paths = [path for path, _ in find_generators(("dataset", Calling(HOLDERS["nested"])))]

    assert sorted(paths) == ["dataset.call.rngs['a'][0][0]", "dataset.call.rngs[2][1]"]


def test_a_class_and_its_object_have_streams_of_their_own() -> None:
    """Under one name; and two functions' defaults as well."""

    class Both:
        rng = random.Random(0)

        def __init__(self) -> None:
            self.rng = random.Random(0)

        def __call__(self) -> float:
            return self.rng.random() - type(self).rng.random()

    drawn = [batch[1].item() for batch in DataLoader(Calling(Both()), seed=0)]

    assert 0.0 not in drawn
    assert len({path for path, _ in find_generators(("it", Both()))}) == 2


def test_more_than_can_be_looked_through_is_said() -> None:
    """By a warning; and what holds no data was looked at before."""
    holder = Strokes()
    with pytest.warns(UserWarning, match="stopped: one that lies deeper is not found"):
        found = find_generators(("it", holder))

    assert [path for path, _ in found] == ["it.transform.rng"]


def test_data_is_known_for_what_it_is() -> None:
    """Long lists of numbers, text and pairs of them are passed over as a whole; a generator among them is not."""
    pairs: list[Any] = [(f"{number}.jpg", number) for number in range(9_000)]
    flat: list[Any] = list(range(9_000))
    table: dict[str, Any] = {f"{number}": (number, "a") for number in range(100)}
    assert find_generators(("it", [pairs, flat, table])) == []

    pairs[8_000] = ("8000.jpg", random.Random(0))
    flat[17] = random.Random(1)
    table["50"] = [random.Random(2)]
    ways = [way for way, _ in find_generators(("it", [pairs, flat, table]))]
    assert ways == ["it[1][17]", "it[0][8000][1]", "it[2]['50'][0]"]


def test_rings_large_and_strange_objects_are_passed() -> None:
    """Each object once, the beginning of long lists, no property is called, and no iterator is moved."""

    class Strange:
        @property
        def boom(self) -> Any:
            raise RuntimeError("was called")

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(f"asked for {name}")

        def __iter__(self) -> Any:
            raise RuntimeError("was iterated")

    class Opening(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("opens every file")

    gone = weakref.proxy(Strange())
    ring: list[Any] = [range(10**9), iter([1]), Strange(), list(range(10**6)), {1, 2}]
    ring += [ring, random.SystemRandom(), np.random.default_rng(0), gone, Opening(a=1)]
    generators = Generators(("it", ring))

    assert [path for path, *_ in generators.held] == ["it[7]"]
    assert next(ring[1]) == 1


def test_a_global_generator_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's global one may have been given other bits, which cannot be seeded where they stand."""
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(1))
    try:
        # Of two Gaussians one is kept for the next call, and must not reach the next sample.
        loader = DataLoader(Calling(lambda: np.random.randn()), batch_size=6, seed=0)
        first, second = [next(iter(loader))[1].tolist() for _ in range(2)]
        loader.set_epoch(0)
        np.random.randn()
        mine = np.random.get_state(legacy=False)

        assert next(iter(loader))[1].tolist() == first != second
        assert np.random.get_state(legacy=False) == mine
    finally:
        np.random.set_bit_generator(before)
