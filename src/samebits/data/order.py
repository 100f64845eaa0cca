"""The order of an epoch: which samples are fetched for which batch, derived only from (seed, epoch).

Samplers draw from generators that start from the epoch's key and are put aside between two batches. So the order is the
same whatever the training loop draws, and however far ahead workers fetch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from samebits.base.errors import UsageError
from samebits.base.ranks import World
from samebits.base.seeds import KeyDeriver
from samebits.data.generators import Generators
from samebits.rng.handles import restore

LastBatch = Literal["keep", "drop", "pad", "uneven"]


class BatchRequest(NamedTuple):
    """The samples that one process fetches for one batch.

    Attributes:
        epoch: counts from 0.
        start: position in the epoch of the first sample.
        indices: as the sampler gave them; empty for a batch of a stream, which is everything from `start` to `end`.
        repeats: for each index, how often it came before in this epoch.
        end: position in the epoch of the first sample after the global batch.
        is_batch: whether `collate_fn` gets a list of samples; if not, it gets the only sample as it is.
    """

    epoch: int
    start: int
    indices: tuple[object, ...]
    repeats: tuple[int, ...]
    end: int
    is_batch: bool = True


@dataclass(frozen=True)
class Order:
    """The batches of a loader's epochs, from a sampler of indices or, with `makes_batches`, of lists of indices.

    `size` is the size of a global batch; None when samples are not batched, or when the sampler makes the batches.
    """

    sampler: Iterable[object]
    makes_batches: bool
    size: int | None
    last_batch: LastBatch
    dataset: object
    seed: int

    def requests(self, epoch: int, start: int, ranks: World) -> Iterator[BatchRequest]:
        """Return the requests for this rank's part of every batch of an epoch, from position `start` on.

        A batch that is too small for all ranks is refused: at once if the sampler has a length, else when it comes.
        """
        size = self._batch_size(ranks)
        if isinstance(self.dataset, IterableDataset):
            # Endless: only reading shows where a stream ends.
            starts = itertools.count(start, size)
            return (BatchRequest(epoch, first, (), (), first + size, self.size is not None) for first in starts)
        if not self.makes_batches and isinstance(self.sampler, Sized):
            last = max(0, len(self.sampler) - start) % size
            require_one_each(ranks, last if self.last_batch == "keep" else 0, self.last_batch)
        return self._issued(epoch, start, size, ranks)

    def end(self) -> int | None:
        """Return the position at which every epoch ends; None if only reading shows it."""
        if self.makes_batches or not isinstance(self.sampler, Sized) or isinstance(self.dataset, IterableDataset):
            return None
        count = len(self.sampler)
        return count - count % (self.size or 1) if self.last_batch == "drop" else count

    def samples_in(self, epoch: int, batches: int, ranks: World) -> int:
        """Return the number of samples in the first `batches` global batches of an epoch."""
        if not self.makes_batches:
            return batches * self._batch_size(ranks)
        return sum(len(batch) for batch in itertools.islice(self._global_batches(epoch, 0, 1), batches))

    def _batch_size(self, ranks: World) -> int:
        """Return the size of a global batch; samples that are not batched are shared out one to a rank."""
        return self.size or ranks.size

    def _issued(self, epoch: int, start: int, size: int, ranks: World) -> Iterator[BatchRequest]:
        position = 0
        for batch in self._counted(self._global_batches(epoch, start, size)):
            first, position = position, position + len(batch)
            if first < start < position:
                # Of a batch that the sampler made, the samples before `start` were handed over already.
                batch, first = batch[start - first :], start
            if first < start or not batch:
                continue
            require_one_each(ranks, len(batch), self.last_batch)
            part = own_part(ranks, len(batch))
            if batch[part]:
                indices, repeats = zip(*batch[part], strict=True)
                is_batched = self.makes_batches or self.size is not None
                yield BatchRequest(epoch, first + part.start, indices, repeats, position, is_batched)

    def _counted(self, batches: Iterator[list[object]]) -> Iterator[list[tuple[object, int]]]:
        if not self.makes_batches and self.last_batch != "pad" and _never_repeats(self.sampler):
            yield from ([(index, 0) for index in batch] for batch in batches)
            return
        seen: dict[object, int] = {}
        for batch in batches:
            counted = []
            for index in batch:
                word = index_word(index)
                seen[word] = repeat = seen.get(word, -1) + 1
                counted.append((index, repeat))
            yield counted

    def _global_batches(self, epoch: int, start: int, size: int) -> Iterator[list[object]]:
        """The sampler's indices in global batches; where they are cut here, those before `start` are one batch."""
        source = _IsolatedIterator(self.sampler, KeyDeriver(self.seed).key("order", epoch), self.dataset)
        if self.makes_batches:
            while taken := source.take(1):
                yield list(taken[0])
            return
        beginning: list[object] = source.take(start) if start else []
        if beginning:
            yield beginning
        while batch := source.take(size):
            missing = size - len(batch)
            if missing and self.last_batch == "drop":
                return
            if len(beginning) < size:
                beginning = beginning + batch
            if missing and self.last_batch == "pad":
                # Repeated as often as needed: the whole epoch may be shorter than a batch.
                batch += itertools.islice(itertools.cycle(beginning), missing)
            yield batch


class _IsolatedIterator:
    """An iterator over a sampler that draws from generators of its own, started from the epoch's key."""

    def __init__(self, sampler: Iterable[object], key: bytes, dataset: object) -> None:
        only_torch = type(sampler) in _ONLY_TORCH
        # torch's own samplers hold the dataset, which is no part of the order: only their generator is searched.
        root = getattr(sampler, "generator", None) if only_torch else sampler
        self.generators = Generators(("sampler", root), only_torch=only_torch, beside=[dataset])
        with self.generators.restored_afterwards():
            self.generators.start(key)
            self.iterator = iter(sampler)
            self.states = self.generators.states()

    def take(self, count: int) -> list[Any]:
        """Return the next `count` items; fewer at the end."""
        with self.generators.restored_afterwards():
            restore(self.states)
            taken = list(itertools.islice(self.iterator, count))
            self.states = self.generators.states()
        return taken


def own_part(world: World, count: int) -> slice:
    """Return this rank's part of `count` samples: contiguous, and of equal size on all ranks, give or take one."""
    return slice(world.rank * count // world.size, (world.rank + 1) * count // world.size)


def require_one_each(world: World, count: int, last_batch: LastBatch) -> None:
    """Raise UsageError if a global batch of `count` samples is too small for all ranks, unless they may be uneven."""
    if 0 < count < world.size and last_batch != "uneven":
        raise UsageError(
            f"a global batch of {count} samples leaves some of {world.size} ranks without any, and the others "
            "would wait for them forever",
            "give last_batch='drop' or last_batch='pad', or last_batch='uneven' where ranks may take unequal "
            "numbers of steps",
        )


def index_word(index: object) -> str | int:
    """Return the word for an index in a key: a number, or a text that is the same in every process."""
    if type(index) is int:
        return index
    if isinstance(index, str):
        return f"s{index}"
    if isinstance(index, list | tuple):
        words = [f"{type(word).__name__}{word}" for word in map(index_word, index)]
        return f"[{','.join(f'{len(word)}:{word}' for word in words)}]"
    if isinstance(index, slice):
        return f"slice{index_word([index.start, index.stop, index.step])}"
    if hasattr(index, "tolist"):
        # NumPy's numbers, arrays and tensors.
        return index_word(index.tolist())
    if hasattr(index, "__index__"):
        return int(index.__index__())
    if isinstance(index, float | bytes | type(None)):
        return repr(index)
    if isinstance(index, dict):
        return index_word([item for pair in index.items() for item in pair])
    raise UsageError(
        f"the sampler yields an index of type {type(index).__name__}, which cannot be part of a key",
        "indices may be numbers, text, and lists, tuples and dicts of them",
    )


# These draw only from torch's generators, which take 2 µs to put aside; NumPy's would take 70.
_ONLY_TORCH = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)


def _never_repeats(sampler: object) -> bool:
    if type(sampler) is SequentialSampler:
        return True
    return (
        type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
    )


def own_batches(loader: DataLoader[object]) -> Iterable[object] | None:
    """Return the sampler by which the user makes the batches; of one that torch made, the loader has the size."""
    return loader.batch_sampler if loader.batch_size is None else None


def order_of(loader: DataLoader[object], last_batch: LastBatch, seed: int) -> Order:
    """Return the order of a torch loader; the BatchSampler that torch made is not used, since batches are cut here."""
    batches = own_batches(loader)
    sampler = loader.sampler if batches is None else batches
    return Order(sampler, batches is not None, loader.batch_size, last_batch, loader.dataset, seed)
