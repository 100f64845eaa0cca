"""Keys and what starts from them: no two alike, and nothing that one of them tells about another."""

import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from samebits import derive
from samebits.base.seeds import KeyDeriver
from samebits.data import DataLoader, fetch
from samebits.data.fetching import Fetcher
from samebits.data.generators import Words
from samebits.data.order import index_word
from tests.data.augment import HAS_ALBUMENTATIONS

EPOCHS, LENGTH = 10, 1_000_000
# What lies outside happens to one test in a million by luck, and the keys are fixed.
LUCK = 1e-6


@given(st.integers(), st.lists(st.one_of(st.integers(), st.text())), st.integers(0, 2))
def test_a_stem_derives_as_derive_does(root: int, words: list[str | int], cut: int) -> None:
    """Wherever the path is cut."""
    key = KeyDeriver(root, *words[:cut]).key(*words[cut:])

    assert int.from_bytes(key, "little") == derive(root, *words, bits=512)


@given(st.binary(min_size=64, max_size=64), st.integers(0, 511))
def test_words_share_no_bit(key: bytes, bit: int) -> None:
    """Turning one bit of a key changes one library's word, or the rest, and nothing else."""
    number = int.from_bytes(key, "little") ^ 1 << bit
    before, after = Words.of(key), Words.of(number.to_bytes(64, "little"))
    changed = [name for name in Words._fields if getattr(before, name) != getattr(after, name)]

    # One bit is left over, since accelerators take 63.
    assert changed in ([], ["python"], ["numpy"], ["torch"], ["accelerator"], ["rest"])
    assert changed or bit == 192


DRAWS: dict[str, Any] = {
    "python": lambda: [random.random() for _ in range(4)],
    "numpy": lambda: np.random.random(4).tolist(),
    "torch": lambda: torch.rand(4, dtype=torch.float64).tolist(),
}


def drawn(path: Any, count: int = 20_000) -> np.ndarray[Any, Any]:
    """The first numbers of neighbouring samples."""
    fetcher = Fetcher(None, lambda samples: samples, 0)
    with fetcher.keyed() as generators:
        rows = []
        for index in range(count):
            generators.start(fetcher.key_of(index // 1000, index % 1000))
            rows.append(path())
    return np.array(rows)


@pytest.mark.parametrize("library", DRAWS)
def test_neighbouring_streams_are_independent(library: str) -> None:
    """First draws of neighbours: uniform in every byte, and not correlated with those before, for lags up to 10."""
    values = drawn(DRAWS[library])
    count = len(values)
    raw = (values[:, 0] * 2**32).astype(np.uint32).view(np.uint8)
    for byte in range(1, 4):
        _, luck = stats.chisquare(np.bincount(raw[byte::4], minlength=256))
        assert luck > LUCK, byte
    for lag in range(1, 11):
        for a, b in itertools.product(range(2), range(4)):
            r, luck = stats.pearsonr(values[lag:, a], values[: count - lag, b])
            assert luck > LUCK, (lag, a, b, r)


def test_the_tests_of_independence_can_fail() -> None:
    """Seeds that are sums give (epoch 1, index 0) the stream of (epoch 0, index 1)."""
    sums = np.array([np.random.RandomState(index // 1000 + index % 1000).random() for index in range(5000)])

    assert stats.pearsonr(sums[999:], sums[:-999])[1] < LUCK


def test_libraries_draw_different_numbers() -> None:
    """The recipe in the documentation gives NumPy and torch one stream; here no two are correlated."""
    values = {name: drawn(path, 5000)[:, 0] for name, path in DRAWS.items()}
    for a, b in itertools.combinations(values, 2):
        assert stats.pearsonr(values[a], values[b])[1] > LUCK
        assert not np.any(values[a] == values[b])
    torch.manual_seed(1)
    np.random.seed(torch.initial_seed() % 2**32)
    assert np.random.randint(0, 256, 16).tolist() == torch.randint(0, 256, (16,)).tolist()


class Flips:
    """Two flips, each with a generator of its own that was given the same seed."""

    def __init__(self) -> None:
        self.a, self.b = np.random.default_rng(1), np.random.default_rng(1)

    def __len__(self) -> int:
        return 2000

    def __getitem__(self, index: int) -> Any:
        return bool(self.a.random() < 0.5), bool(self.b.random() < 0.5)


class AlbumentationsFlips:
    """The same with the library that has this trap."""

    def __init__(self) -> None:
        import albumentations as A

        self.transform = A.Compose([A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5)], seed=1)
        # Given to each transform by itself, as a pipeline without Compose has them.
        self.parts = [A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5)]
        for part in self.parts:
            part.set_random_seed(1)

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> Any:
        image = np.arange(4, dtype=np.uint8).reshape(2, 2, 1)
        across, down = (part(image=image)["image"] for part in self.parts)
        return bool(across[0, 0, 0] == 1), bool(down[0, 0, 0] == 2)


@pytest.mark.parametrize("kind", [Flips, *([AlbumentationsFlips] if HAS_ALBUMENTATIONS else [])])
def test_flips_of_two_transforms_are_independent(kind: Any) -> None:
    """A shared seed makes them equal, always; keyed by their places they are as independent as they look."""
    dataset = kind()
    plain = [dataset[index] for index in range(len(dataset))]
    keyed = [pair for batch in DataLoader(dataset, batch_size=50, seed=0) for pair in zip(*batch, strict=True)]
    table = np.zeros((2, 2))
    for across, down in keyed:
        table[int(across), int(down)] += 1

    assert all(across == down for across, down in plain)
    assert stats.chi2_contingency(table).pvalue > LUCK
    assert table.min() > len(dataset) / 5


def test_indices_have_words_of_their_own() -> None:
    """Numbers of any library are the number; lists and texts are told apart."""
    same = [3, np.int64(3), torch.tensor(3), np.array(3)]
    others = [
        "3",
        (3,),
        [3, 3],
        [[3], 3],
        ("3",),
        ("a,b",),
        ("a", "b"),
        ("a,strsb",),
        slice(0, 3),
        slice(3),
        3.0,
        None,
        True and "True",
        b"3",
    ]

    assert {index_word(index) for index in same} == {3}
    assert len({index_word(index) for index in others} | {3}) == len(others) + 1
    assert index_word(torch.tensor([1, 2])) == index_word([1, 2]) == index_word((1, 2))


def test_a_key_is_fixed_for_ever() -> None:
    """What was trained on, and what a state stands for, must not change with samebits."""
    dataset: Any = type("Drawing", (), {"__getitem__": lambda self, index: (random.random(), torch.rand(1).item())})()

    assert fetch(dataset, 17, seed=3, epoch=2) == FIXED


FIXED = (0.8195428636000399, 0.01615375280380249)
