"""Datasets that can only be read from the beginning: every process reads all of it and keeps what is its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch.utils.data import IterableDataset
from torch.utils.data._utils import worker as torch_worker

from samebits.base.errors import UsageError
from samebits.base.ranks import World
from samebits.data.fetching import Fetcher, Skipped, note
from samebits.data.generators import Generators
from samebits.data.order import BatchRequest, LastBatch, own_part, require_one_each

_END = object()


class Mapped(IterableDataset[object]):
    """A stream of which every element goes through a function, at the worker and rank that keeps it only.

    >>> doubled = Mapped(range(3), lambda number: 2 * number)
    >>> list(doubled)
    [0, 2, 4]

    Every worker has to read the whole stream, so that should be cheap (file names, raw bytes); what is expensive
    (decoding, augmentation) goes into the function, and is shared out among the workers.

    Args:
        stream: yields the same elements in the same order whenever it is iterated.
        function: makes a sample of an element; what it draws is keyed by the element's position.

    Raises:
        UsageError: the stream can be read only once, as a generator or a file can.
    """

    def __init__(self, stream: Iterable[object], function: Callable[[object], object]) -> None:
        if isinstance(stream, Iterator):
            raise UsageError(
                f"a {type(stream).__name__} can be read only once, and every worker and epoch reads the stream",
                "give an object whose __iter__ begins anew: a list, a range, an IterableDataset",
            )
        self.stream, self.function = stream, function

    def __iter__(self) -> Iterator[object]:
        return map(self.function, self.stream)


class StreamFetcher(Fetcher):
    """A stream as a dataset of batches, of which the ranks keep their parts. Elements are keyed by their position."""

    def __init__(self, ranks: World, last_batch: LastBatch, *options: Any) -> None:
        super().__init__(*options)
        self.ranks, self.last_batch = ranks, last_batch
        self._source: Iterator[object] | None = None
        self._epoch = self._position = 0

    def __reduce__(self) -> tuple[type[Fetcher], tuple[object, ...]]:
        kind, options = super().__reduce__()
        return kind, (self.ranks, self.last_batch, *options)

    def samples(self, request: BatchRequest, generators: Generators, skipped: list[Skipped]) -> list[object]:
        """This rank's part of the elements from `start` to `end`.

        StopIteration where the stream has ended before, or ends in a batch that is to be dropped or leaves nothing for
        this rank.
        """
        read = self._read(request, generators)
        known = len(read)
        missing = request.end - request.start - known
        if missing and self.last_batch == "drop":
            raise StopIteration
        if known and self.last_batch == "pad":
            read += [read[number % known] for number in range(missing)]
        require_one_each(self.ranks, len(read), self.last_batch)
        own = range(len(read))[own_part(self.ranks, len(read))]
        if not own:
            raise StopIteration
        function = self.dataset.function if isinstance(self.dataset, Mapped) else None
        found: list[object] = []
        for number in own:
            position, element = read[number]
            if function is None:
                found.append(element)
            else:
                # What pads is the same element again, under a key of its own.
                repeat = (number // known,) if number >= known else ()
                generators.start(self._derivers["stream"].key(request.epoch, position, "function", *repeat))
                self.one(partial(function, element), position, position, found, skipped)
        return found

    def _read(self, request: BatchRequest, generators: Generators) -> list[tuple[int, object]]:
        """Position and element of what lies from `start` to `end`, as far as there is any."""
        if self._source is None or request.epoch != self._epoch or request.start < self._position:
            self._source = self._opened(request.epoch, generators)
        read: list[tuple[int, object]] = []
        while self._position < request.end:
            generators.start(self._derivers["stream"].key(self._epoch, self._position))
            try:
                with _whole():
                    self._report(self._position)
                    element = next(self._source, _END)
            except Exception as error:
                note(error, f"while reading element {self._position} of the stream")
                raise
            if element is _END:
                break
            if self._position >= request.start:
                read.append((self._position, element))
            self._position += 1
        return read

    def _opened(self, epoch: int, generators: Generators) -> Iterator[object]:
        stream = self.dataset.stream if isinstance(self.dataset, Mapped) else self.dataset
        self._epoch, self._position = epoch, 0
        generators.start(self._derivers["stream"].key(epoch))
        with _whole():
            return iter(stream)


@contextmanager
def _whole() -> Iterator[None]:
    """Hide from a stream that it is read in a worker: one that shares itself out would be shared out twice."""
    info, torch_worker._worker_info = torch_worker._worker_info, None
    try:
        yield
    finally:
        torch_worker._worker_info = info
