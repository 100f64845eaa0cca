"""Streams, datasets that can only be read from the beginning: every process reads all, and keeps its own part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch.utils.data import IterableDataset
from torch.utils.data._utils import worker as torch_worker

from samebits.base.errors import UsageError
from samebits.base.ranks import World
from samebits.data.fetching import Fetcher, Skipped, annotate_error
from samebits.data.generators import Generators
from samebits.data.order import BatchRequest, LastBatch, own_part, require_one_each

_END = object()


class Mapped(IterableDataset[object]):
    """A stream whose elements go through a function, which only the worker and rank that keep an element call.

    >>> doubled = Mapped(range(3), lambda number: 2 * number)
    >>> list(doubled)
    [0, 2, 4]

    Every worker has to read the whole stream, so reading should be cheap (file names, raw bytes). Expensive work
    (decoding, augmentation) belongs in the function, whose calls are shared out among ranks and workers.

    Args:
        stream: an iterable that yields the same elements in the same order whenever it is iterated.
        function: makes a sample of an element; what it draws is keyed by the element's position.

    Raises:
        UsageError: the stream can be read only once, like a generator or a file.
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
    """A stream as a dataset of batches, of which each rank keeps its part; elements are keyed by their positions."""

    def __init__(self, ranks: World, last_batch: LastBatch, *options: Any) -> None:
        super().__init__(*options)
        self.ranks, self.last_batch = ranks, last_batch
        self._source: Iterator[object] | None = None
        self._epoch = self._position = 0

    def __reduce__(self) -> tuple[type[Fetcher], tuple[object, ...]]:
        kind, options = super().__reduce__()
        return kind, (self.ranks, self.last_batch, *options)

    def samples(self, request: BatchRequest, generators: Generators, skipped: list[Skipped]) -> list[object]:
        """Return the samples of this rank's part of the elements from `start` to `end`.

        StopIteration if the stream ended before, or ends in a batch that is dropped or leaves nothing for this rank.
        """
        read = self._read(request, generators)
        count = len(read)
        missing = request.end - request.start - count
        if missing and self.last_batch == "drop":
            raise StopIteration
        if count and self.last_batch == "pad":
            read += [read[number % count] for number in range(missing)]
        require_one_each(self.ranks, len(read), self.last_batch)
        numbers = range(len(read))[own_part(self.ranks, len(read))]
        if not numbers:
            raise StopIteration
        function = self.dataset.function if isinstance(self.dataset, Mapped) else None
        fetched: list[object] = []
        for number in numbers:
            position, element = read[number]
            if function is None:
                fetched.append(element)
            else:
                # Padding repeats an element of the batch, under a key of its own.
                repeat = (number // count,) if number >= count else ()
                generators.start(self._derivers["stream"].key(request.epoch, position, "function", *repeat))
                self.fetch_into(partial(function, element), position, position, fetched, skipped)
        return fetched

    def _read(self, request: BatchRequest, generators: Generators) -> list[tuple[int, object]]:
        """Return the position and element of everything from `start` to `end`; less if the stream ends before."""
        if self._source is None or request.epoch != self._epoch or request.start < self._position:
            self._source = self._opened(request.epoch, generators)
        read: list[tuple[int, object]] = []
        while self._position < request.end:
            generators.start(self._derivers["stream"].key(self._epoch, self._position))
            try:
                with _hiding_worker():
                    self._report(self._position)
                    element = next(self._source, _END)
            except Exception as error:
                annotate_error(error, f"while reading element {self._position} of the stream")
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
        with _hiding_worker():
            return iter(stream)


@contextmanager
def _hiding_worker() -> Iterator[None]:
    """Hide from a stream that it is read in a worker: one that splits itself among workers would be split twice."""
    info, torch_worker._worker_info = torch_worker._worker_info, None
    try:
        yield
    finally:
        torch_worker._worker_info = info
