"""What frameworks are given: positions by number of batches, keys in the index stream, generators of a step."""

import pickle
import random
from typing import Any

import numpy as np
import pytest
import torch

from samebits.base.errors import UsageError
from samebits.data import DataLoader
from samebits.data.fetching import collate_nothing
from samebits.data.generators import StepGenerators
from samebits.data.keys import Key, KeyedDataset, KeyedSampler
from tests.data.augment import Samples

DRAWING = Samples(10, lambda index: (index, random.random(), float(torch.rand(()))))


def as_lists(batches: Any) -> list[Any]:
    return [[column.tolist() for column in batch] for batch in batches]


@pytest.mark.parametrize("options", [{"batch_size": 3, "shuffle": True}, {"batch_sampler": [[0, 1], [5], [7, 2, 3]]}])
@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_position_by_number_of_batches(options: dict[str, Any], done: int) -> None:
    """The rest of that epoch, also where batches differ in size; a position that was loaded counts no more."""
    whole, rest = DataLoader(DRAWING, seed=3, **options), DataLoader(DRAWING, seed=3, **options)
    epochs = [as_lists(whole), as_lists(whole)]
    rest.load_state_dict(rest.state_dict())
    rest.set_position(1, done)

    assert as_lists(rest) == epochs[1][done:]
    assert rest.state_dict()["epoch"] == 2


def test_a_key_is_an_index_that_travels() -> None:
    """To a worker it goes whole."""
    sent = pickle.loads(pickle.dumps(Key(7, 2, 30, 1)))

    assert (sent, sent.epoch, sent.position, sent.repeat) == (7, 2, 30, 1)
    assert [10, 20][Key(1, 0, 0, 0)] == 20


def loader_of(workers: int, epoch: int) -> Any:
    """As a framework makes one of the parts that it finds."""
    dataset = KeyedDataset(DRAWING, torch.utils.data.default_collate, 5)
    sampler = KeyedSampler(torch.utils.data.RandomSampler(dataset.dataset), 5, dataset.dataset)
    sampler.set_epoch(epoch)
    return torch.utils.data.DataLoader(dataset, 3, sampler=sampler, collate_fn=collate_nothing, num_workers=workers)


def test_keyed_batches_are_those_of_our_loader() -> None:
    """By a plain loader of torch, with workers or without; another epoch gives another order."""
    own = DataLoader(DRAWING, 3, shuffle=True, seed=5)
    own.set_epoch(1)
    expected = as_lists(own)

    assert as_lists(loader_of(0, 1)) == as_lists(loader_of(2, 1)) == expected
    assert as_lists(loader_of(0, 0)) != expected


def test_batches_without_keys_are_refused() -> None:
    """Also where only some indices are keys; and streams, which have none."""
    dataset = KeyedDataset(DRAWING, torch.utils.data.default_collate, 0)
    for plain in ([1, 2], [Key(1, 0, 0, 0), 2], []):
        with pytest.raises(UsageError, match="requested by plain indices"):
            dataset.__getitems__(plain)
    with pytest.raises(UsageError, match="keyed by their index"):
        KeyedDataset(iter([1]), torch.utils.data.default_collate, 0)


def test_generators_of_a_step_depend_on_its_words_alone() -> None:
    """Global ones and one that a model holds; whatever was drawn before."""
    held = torch.Generator()
    generators = StepGenerators(1, ("model", {"noise": held}))

    def drawn(*words: str | int) -> list[Any]:
        generators.start(*words)
        return [random.random(), np.random.rand(), torch.rand(2).tolist(), torch.rand(2, generator=held).tolist()]

    first, other = drawn("batch", 0, 1), drawn("batch", 0, 2)

    assert drawn("batch", 0, 1) == first
    assert all(one != two for one, two in zip(first, other, strict=True))
