"""Keys that travel with the indices: for frameworks that make loaders of torch themselves, and make them anew.

Whatever becomes of the loader, its dataset, its sampler and what the sampler yields stay. So the sampler yields
indices that know their epoch and their place in it, and the dataset, given a list of them, fetches the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch.utils.data import Dataset, IterableDataset, Sampler

from samebits.base.errors import UsageError
from samebits.base.ranks import ALONE
from samebits.data.fetching import Fetcher
from samebits.data.order import BatchRequest, Order

# How many indices are drawn at a time, with the generators of the order.
_AT_ONCE = 256


class Key(int):
    """An index that knows where it stands.

    Attributes:
        epoch: counts from 0.
        position: in the epoch, over all ranks.
        repeat: how often the index has come before in this epoch.
    """

    epoch: int
    position: int
    repeat: int

    def __new__(cls, index: Any, epoch: int, position: int, repeat: int) -> Key:
        key = super().__new__(cls, index)
        key.epoch, key.position, key.repeat = epoch, position, repeat
        return key

    def __reduce__(self) -> tuple[type[Key], tuple[int, ...]]:
        # To a worker, whole.
        return Key, (int(self), self.epoch, self.position, self.repeat)


class KeyedSampler(Sampler[int]):
    """The order of another sampler, as keys; what that one draws, it draws from generators of the epoch's own.

    The order hangs on the seed, unless the sampler has one itself.
    """

    def __init__(self, sampler: Any, seed: int, dataset: Any) -> None:
        self.sampler, self.epoch = sampler, 0
        self._order = Order(sampler, False, _AT_ONCE, "keep", dataset, seed)

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[int]:
        for request in self._order.requests(self.epoch, 0, ALONE):
            for number, (index, repeat) in enumerate(zip(request.indices, request.repeats, strict=True)):
                yield Key(index, self.epoch, request.start + number, repeat)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch, here and in the sampler within."""
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)


class KeyedDataset(Dataset[object]):
    """A map-style dataset that gives whole batches for lists of keys; the loader has nothing left to collate."""

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], object], seed: int) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
            raise UsageError(
                f"samples are keyed by their index, and {type(dataset).__name__} is iterable",
                "train on a map-style dataset, or without the callback of samebits",
            )
        self.dataset = dataset
        self._fetcher = Fetcher(dataset, collate_fn, seed)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: object) -> object:
        """One sample, as a batch of its own."""
        return self.__getitems__([index])

    def __getitems__(self, keys: Iterable[object]) -> object:
        """The batch; UsageError where something put plain indices in the place of the keys."""
        asked = list(keys)
        known = [key for key in asked if isinstance(key, Key)]
        if not known or len(known) != len(asked):
            raise UsageError(
                "the batch was asked for by plain indices, so that nothing is known of its epoch",
                "leave the sampler of the train loader as the callback of samebits has set it",
            )
        indices, repeats = tuple(map(int, known)), tuple(key.repeat for key in known)
        end = known[-1].position + 1
        return self._fetcher[BatchRequest(known[0].epoch, known[0].position, indices, repeats, end)]
