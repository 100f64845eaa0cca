"""The order of an epoch: which samples are fetched for which batch, by (seed, epoch) alone.

Samplers draw from generators started from the epoch's key, which are put aside between two batches: whatever the
training loop draws, or however far ahead workers fetch, the order is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from torch.utils.data import RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from samebits.data.generators import Current, Generators, States, bring_back
from samebits.data.ranks import Ranks, Tail
from samebits.errors import UsageError
from samebits.seeds import Stem


class Ticket(NamedTuple):
    """What one process fetches for one batch.

    Attributes:
        epoch: counts from 0.
        start: position in the epoch of the first sample.
        indices: as the sampler gave them; for a stream, the positions.
        repeats: how often each index has come before in this epoch; None when none has.
        end: position in the epoch of what comes after the global batch.
        is_batch: whether samples are collated; else the only one is handed over as it is.
    """

    epoch: int
    start: int
    indices: tuple[Any, ...]
    repeats: tuple[int, ...] | None
    end: int
    is_batch: bool = True


class Order:
    """The batches of a loader's epochs.

    Args:
        sampler: yields indices, or (`batches`) lists of them.
        batches: whether it yields whole batches.
        size: of a global batch; None when every sample is a batch of its own, or when the sampler makes them.
        tail: what becomes of a last batch that is not full.
    """

    def __init__(self, sampler: Iterable[Any], batches: bool, size: int | None, tail: Tail) -> None:
        self.sampler, self.batches, self.size, self.tail = sampler, batches, size, tail
        self._needs_counting = batches or not _never_repeats(sampler)

    def tickets(self, stem: Stem, epoch: int, start: int, ranks: Ranks) -> Iterator[Ticket]:
        """This rank's part of every batch of an epoch that begins at position `start` or later."""
        counted = self._counted(self._global_batches(stem, epoch))
        position = 0
        for number, batch in enumerate(counted):
            first, position = position, position + len(batch)
            if first < start < position and not self.batches:
                # The state was saved with another batch size: what is left of this one is a batch, too.
                batch, first = batch[start - first :], start
            if first < start:
                continue
            ticket = self._ticket(epoch, number, first, position, batch, ranks)
            if ticket.indices:
                yield ticket

    def _ticket(
        self, epoch: int, number: int, first: int, end: int, batch: list[tuple[Any, int]], ranks: Ranks
    ) -> Ticket:
        if self.size is None and not self.batches:
            own = slice(0, int(number % ranks.world_size == ranks.rank))
        else:
            ranks.refuse_to_leave_one_without(len(batch), self.tail)
            own = ranks.slice_of(len(batch))
        part = batch[own]
        repeats = tuple(repeat for _, repeat in part)
        indices = tuple(index for index, _ in part)
        is_batch = self.batches or self.size is not None
        return Ticket(epoch, first + own.start, indices, repeats if any(repeats) else None, end, is_batch)

    def _counted(self, batches: Iterator[list[Any]]) -> Iterator[list[tuple[Any, int]]]:
        if not self._needs_counting:
            yield from ([(index, 0) for index in batch] for batch in batches)
            return
        seen: dict[Any, int] = {}
        for batch in batches:
            counted = []
            for index in batch:
                word = index_word(index)
                seen[word] = repeat = seen.get(word, -1) + 1
                counted.append((index, repeat))
            yield counted

    def _global_batches(self, stem: Stem, epoch: int) -> Iterator[list[Any]]:
        """What the sampler yields, a batch at a time."""
        source = _Private(self.sampler, stem.key("order", epoch))
        if self.batches:
            yield from map(list, iter(source.next, None))
            return
        beginning: list[Any] = []
        while batch := source.take(self.size or 1):
            missing = (self.size or 1) - len(batch)
            if missing and self.tail == "drop":
                return
            if missing and self.tail == "pad":
                # As often as it takes: the whole epoch may be shorter than a batch.
                batch += itertools.islice(itertools.cycle(beginning or list(batch)), missing)
            if len(beginning) < (self.size or 1):
                beginning += batch
            yield batch


class _Private:
    """An iterator over a sampler, which draws from generators that are the sampler's own for this epoch."""

    def __init__(self, sampler: Iterable[Any], key: bytes) -> None:
        self.generators = Generators(("sampler", sampler), only_torch=type(sampler) in _ONLY_TORCH)
        self.sampler, self.key = sampler, key
        self.iterator: Iterator[Any] | None = None
        self.states: States = []

    def next(self) -> Any:
        """The next item; None at the end."""
        taken = self.take(1)
        return taken[0] if taken else None

    def take(self, count: int) -> list[Any]:
        """So many items, fewer at the end."""
        outside = self.generators.states()
        fetching = Current.words
        try:
            if self.iterator is None:
                self.generators.start(self.key)
                self.iterator = iter(self.sampler)
            else:
                bring_back(self.states)
            taken = list(itertools.islice(self.iterator, count))
            self.states = self.generators.states()
        finally:
            bring_back(outside)
            Current.set(fetching)
        return taken


def index_word(index: Any) -> str | int:
    """What an index is called in a key: a number, or text that is the same in every process.

    Raises:
        UsageError: it has no value that could be written down.
    """
    if type(index) is int:
        return index
    if isinstance(index, str):
        return f"s{index}"
    if isinstance(index, list | tuple):
        return f"[{','.join(f'{type(word).__name__}{word}' for word in map(index_word, index))}]"
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


# These draw from torch's generators alone, which takes 2 µs to put aside, and NumPy's would take 70.
_ONLY_TORCH = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)


def _never_repeats(sampler: Any) -> bool:
    if type(sampler) is SequentialSampler:
        return True
    return (
        type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
    )


def order_of(loader: Any, tail: Tail) -> Order:
    """The order of a loader of torch's; its own BatchSampler is left out, since batches are cut here."""
    if loader.batch_size is None and loader.batch_sampler is not None:
        return Order(loader.batch_sampler, True, None, tail)
    return Order(loader.sampler, False, loader.batch_size, tail)
