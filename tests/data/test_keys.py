"""Keys and what starts from them: no two alike, and nothing that one of them tells about another."""

import random
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from samebits import derive
from samebits.base.seeds import KeyDeriver
from samebits.data import DataLoader, fetch
from samebits.data.generators import Words
from samebits.data.order import index_word
from tests.data.augment import Samples

# What lies outside happens to one test in a million by luck, and the keys are fixed.
LUCK = 1e-6


@settings(max_examples=40)
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


def test_flips_of_two_transforms_are_independent() -> None:
    """A shared seed makes them equal, always; keyed by their places they are as independent as they look."""
    dataset: Any = Samples(2000, lambda _: (bool(dataset.a.random() < 0.5), bool(dataset.b.random() < 0.5)))
    dataset.a, dataset.b = np.random.default_rng(1), np.random.default_rng(1)
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
    lists = [(3,), [3, 3], [[3], 3], ("3",), ("a,b",), ("a", "b"), ("a,strsb",)]
    others = ["3", *lists, slice(0, 3), slice(3), 3.0, None, "True", b"3"]

    assert {index_word(index) for index in same} == {3}
    assert len({index_word(index) for index in others} | {3}) == len(others) + 1
    assert index_word(torch.tensor([1, 2])) == index_word([1, 2]) == index_word((1, 2))


def test_a_key_is_fixed_for_ever() -> None:
    """What was trained on, and what a state stands for, must not change with samebits."""
    dataset = Samples(20, lambda _: (random.random(), torch.rand(1).item()))

    assert fetch(dataset, 17, seed=3, epoch=2) == (0.8195428636000399, 0.01615375280380249)
