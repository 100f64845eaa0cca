"""Keys that travel with the indices, for frameworks that make torch's loaders themselves, and remake them.

A loader that is remade keeps its dataset, its sampler, and what the sampler yields. So the sampler yields indices that
carry their epoch and their position in it, and the dataset, given a list of them, fetches the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch.utils.data import Dataset, IterableDataset, Sampler

from samebits.base.errors import UsageError
from samebits.base.ranks import ALONE
from samebits.data.fetching import Fetcher
from samebits.data.order import BatchRequest, Order

# How many indices the sampler yields at a time, while the generators of the order are in place.
_AT_ONCE = 256


class Key(int):
    """An index that carries its position in the training.

    Attributes:
        epoch: counts from 0.
        position: position in the epoch, counted over all ranks.
        repeat: how often the index came before in this epoch.
    """

    epoch: int
    position: int
    repeat: int

    def __new__(cls, index: Any, epoch: int, position: int, repeat: int) -> Key:
        key = super().__new__(cls, index)
        key.epoch, key.position, key.repeat = epoch, position, repeat
        return key

    def __reduce__(self) -> tuple[type[Key], tuple[int, ...]]:
        # So that workers receive the attributes, too.
        return Key, (int(self), self.epoch, self.position, self.repeat)


class KeyedSampler(Sampler[int]):
    """A sampler that yields the indices of another one as keys.

    The other one draws from generators that start from (seed, epoch), so its order depends on these or its own seed.
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
        """Make the next iteration this epoch, here and in the other sampler."""
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)


class KeyedDataset(Dataset[object]):
    """A map-style dataset that returns a whole collated batch for a list of keys; the loader collates nothing."""

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
        """Return one sample as a batch of its own."""
        return self.__getitems__([index])

    def __getitems__(self, keys: Iterable[object]) -> object:
        """Return the batch; raise UsageError if something replaced the keys by plain indices."""
        items = list(keys)
        keyed = [key for key in items if isinstance(key, Key)]
        if not keyed or len(keyed) != len(items):
            raise UsageError(
                "the batch was requested by plain indices, which do not tell its epoch",
                "leave the sampler of the train loader as the callback of samebits has set it",
            )
        indices, repeats = tuple(map(int, keyed)), tuple(key.repeat for key in keyed)
        end = keyed[-1].position + 1
        return self._fetcher[BatchRequest(keyed[0].epoch, keyed[0].position, indices, repeats, end)]
