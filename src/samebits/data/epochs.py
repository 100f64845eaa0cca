"""The epochs of one loader: batches that depend only on (seed, epoch, index), fetched through torch's own loader.

torch's loader does what it does well (processes, prefetching, pinning memory), over a dataset whose items are whole
batches and a sampler that says which ones. So it neither draws for the batches nor decides what is in them.
"""

from __future__ import annotations

import re
import sys
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.sharedctypes import RawArray
from typing import Any, Literal, NamedTuple

import torch
import torch.utils.data
from torch.utils.data import DataLoader, IterableDataset

from samebits.base.errors import DataStateError, StateWarning, WorkerDiedError
from samebits.base.ranks import World
from samebits.base.seeds import KeyDeriver
from samebits.base.signals import outlives_sigterm
from samebits.data.fetching import FetchedBatch, Fetcher, Skipped, collate_nothing, prepare_worker
from samebits.data.order import BatchRequest, LastBatch, order_of
from samebits.data.streams import StreamFetcher

VERSION = 1
OnError = Literal["raise", "skip"]


class EpochPlace(NamedTuple):
    """The position of a loader: the epoch, and how many of its samples, over all ranks, come before the next one."""

    epoch: int
    samples: int = 0


class TorchLoader(torch.utils.data.DataLoader[object]):
    """The torch loader that does the work; the data-workers factor does not treat loaders of this class."""

    sampler: RequestSampler
    dataset: Fetcher


class Epochs:
    """The epochs of one loader: `place` is its position, `next` the position where the next iteration begins.

    Batches that workers have prefetched do not move `place`; batches handed to the user do. An iterator that is gone
    before its end has left its epoch, and this process goes on with `next`. `skipped` are the samples that this rank
    has left out of the current epoch so far, and `skips` is their number over all epochs.

    The loader itself is an argument wherever it is needed. If it were kept here, loader and epochs would refer to each
    other, and workers would end only when the garbage collector runs, with torch waiting five seconds for each.
    """

    def __init__(
        self, dataset: Any, seed: int, last_batch: LastBatch = "keep", on_error: OnError = "raise", label: object = None
    ) -> None:
        self.dataset, self.seed, self.last_batch, self.on_error, self.label = dataset, seed, last_batch, on_error, label
        self.place = self.next = EpochPlace(0)
        self.skipped: list[Skipped] = []
        self.skips = 0
        self._persistent: TorchLoader | None = None
        # The iterator that moves the position, and where its epoch ends; an older one has no effect.
        self._current: weakref.ref[EpochIterator] | None = None
        self._end: int | None = None
        self._here: Fetcher | None = None

    def begin(self, loader: DataLoader[object], ranks: World) -> EpochIterator:
        """Iterate over the next epoch, or over the rest of the epoch in which a loaded state was saved.

        Everything but the contents of the batches is taken from `loader`, a torch DataLoader.
        """
        self.place = self.next
        self.next, self.skipped = EpochPlace(self.place.epoch + 1), []
        # With up to as many threads as cores this changes nothing. With more, MKL now uses exactly that many, as it
        # does after fetching in the main process: so the training's bits do not depend on where samples are fetched.
        torch.set_num_threads(torch.get_num_threads())
        inner = self._persistent
        if inner is None:
            inner = _inner_loader(loader, self._fetcher(loader, ranks))
        if inner.persistent_workers:
            self._persistent = inner
        order = order_of(loader, self.last_batch, self.seed)
        inner.sampler.begin(order.requests(*self.place, ranks))
        iterator = EpochIterator(self, loader, inner)
        self._current, self._end = weakref.ref(iterator), order.end()
        return iterator

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration this epoch; a loaded position within the same epoch is kept."""
        if self.next.epoch != epoch:
            self.next = EpochPlace(epoch)
        self.place = self.next

    def set_position(self, loader: DataLoader[object], epoch: int, batches: int, ranks: World) -> None:
        """Make the next iteration the rest of this epoch, after its first `batches` global batches."""
        samples = order_of(loader, self.last_batch, self.seed).samples_in(epoch, batches, ranks)
        self.place = self.next = EpochPlace(epoch, samples)

    def handed_over(self, iterator: EpochIterator, place: EpochPlace, skipped: Sequence[Skipped] = ()) -> None:
        """Move the position behind a batch that the user got; an iterator left for a newer one has no effect."""
        if self._current is not None and self._current() is iterator:
            self.place = place
            self.skipped += skipped
            self.skips += len(skipped)

    def state(self, sampler: str) -> dict[str, object]:
        """Return the position, the seed, the dataset's length, and the sampler's name; warn of an epoch that was left.

        A resume continues as this process would: with the next epoch, if the iterator over this one is gone. While an
        exception is handled (Ctrl-C, say), the epoch was interrupted, and not left.
        """
        place = self.place
        if self._current is not None and self._current() is None and sys.exc_info()[0] is None:
            if place != self.next and (self._end is None or place.samples < self._end):
                warnings.warn(
                    "an epoch that was left early is saved as over: after a resume the next one begins, as it does "
                    "here; to continue within it, save before the break",
                    StateWarning,
                    stacklevel=3,
                )
            place = self.next
        numbers = {"version": VERSION, "seed": self.seed, "length": self.length, **place._asdict()}
        return {**numbers, "skipped": self.skips, "sampler": sampler}

    def load(self, state: dict[str, Any], may_take_seed: bool, sampler: str) -> None:
        """Take the position from `state`; DataStateError if it belongs to another loader, or is no such state."""
        _check_form(state)
        if state["version"] > VERSION:
            raise DataStateError(
                f"the state has version {state['version']}, this samebits reads up to {VERSION}", "update samebits"
            )
        if state["length"] != self.length:
            raise DataStateError(
                f"the state belongs to a dataset of {_samples(state['length'])}, this one has {_samples(self.length)}",
                "load it into a loader over the dataset it was saved with",
            )
        if state["seed"] != self.seed and not may_take_seed:
            raise DataStateError(
                f"the state was saved with seed={state['seed']}, this loader has seed={self.seed}",
                "give the loader the seed of the run that is resumed, or leave seed out to take the state's",
            )
        if state.get("sampler", sampler) != sampler:
            raise DataStateError(
                f"the state was saved with a {state['sampler']} for the order, this loader has a {sampler}",
                "give it the same shuffle=, sampler= or batch_sampler=",
            )
        self.seed, self._persistent = state["seed"], None
        self.place = self.next = EpochPlace(state["epoch"], state["samples"])
        self.skips = state["skipped"]

    @property
    def length(self) -> int:
        """The number of samples in the dataset; -1 if unknown."""
        try:
            return len(self.dataset)
        except TypeError:
            return -1

    def __getstate__(self) -> dict[str, Any]:
        # A copy has no iterator of its own; a reference to one would keep it from being pickled.
        is_left = self._current is not None and self._current() is None
        return {**vars(self), "_current": None, **({"place": self.next} if is_left else {})}

    def _fetcher(self, loader: DataLoader[object], ranks: World) -> Fetcher:
        # Memory that processes share; untyped, since ctypes has no types for what can be done with it.
        make_array: Any = RawArray
        working = make_array("q", 2 * loader.num_workers) if loader.num_workers else None
        options = self.dataset, loader.collate_fn, self.seed, self.on_error == "skip", working, self.label
        if isinstance(self.dataset, IterableDataset):
            return StreamFetcher(ranks, self.last_batch, *options)
        if loader.num_workers:
            return Fetcher(*options)
        # Without workers the fetcher is kept, so that the dataset is not searched for generators in every epoch.
        if self._here is None or (self._here.collate_fn, self._here.seed) != (loader.collate_fn, self.seed):
            self._here = Fetcher(*options)
        return self._here


def _inner_loader(loader: DataLoader[object], fetcher: Fetcher) -> TorchLoader:
    has_workers = loader.num_workers > 0
    return TorchLoader(
        fetcher,
        batch_size=None,
        sampler=RequestSampler(),
        num_workers=loader.num_workers,
        collate_fn=collate_nothing,
        pin_memory=loader.pin_memory,
        pin_memory_device=loader.pin_memory_device,
        timeout=loader.timeout,
        worker_init_fn=partial(prepare_worker, loader.worker_init_fn, outlives_sigterm()),
        multiprocessing_context=loader.multiprocessing_context if has_workers else None,
        # torch draws a seed for its workers: from this generator, instead of from the global one.
        generator=torch.Generator().manual_seed(
            int.from_bytes(KeyDeriver(fetcher.seed, "workers").key()[:4], "little")
        ),
        prefetch_factor=loader.prefetch_factor if has_workers else None,
        persistent_workers=loader.persistent_workers and has_workers,
    )


class RequestSampler:
    """The sampler of torch's loader: it yields the requests of an epoch; `pending` are those not yet answered."""

    def __init__(self) -> None:
        self.pending: deque[BatchRequest] = deque()
        self._requests: Iterator[BatchRequest] = iter(())

    def begin(self, requests: Iterator[BatchRequest]) -> None:
        """Set the requests that the next iteration yields."""
        self.pending, self._requests = deque(), requests

    def __iter__(self) -> Iterator[BatchRequest]:
        pending = self.pending
        for request in self._requests:
            pending.append(request)
            yield request


class EpochIterator:
    """The batches of one epoch; if a worker is killed, WorkerDiedError names the sample that it was fetching."""

    def __init__(self, epochs: Epochs, loader: DataLoader[object], inner: TorchLoader) -> None:
        self.epochs, self.loader = epochs, loader
        self.inner: Iterator[Any] = iter(inner)
        self.pending, self.working = inner.sampler.pending, inner.dataset.working
        self.epoch = epochs.place.epoch
        self.is_over = False
        # Batches that were fetched to see whether one follows, and are not handed over yet.
        self._ahead: deque[tuple[FetchedBatch, BatchRequest]] = deque()

    def __iter__(self) -> EpochIterator:
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __next__(self) -> object:
        while not self.is_over:
            try:
                fetched, request = self._ahead.popleft() if self._ahead else self._next()
            except StopIteration:
                self.is_over = True
                self.epochs.handed_over(self, EpochPlace(self.epoch + 1))
                raise
            self.epochs.handed_over(self, EpochPlace(self.epoch, request.end), fetched.skipped)
            if not fetched.is_empty:
                return fetched.batch
        raise StopIteration

    def is_at_end(self) -> bool:
        """Whether no batch follows; one is fetched for that, if need be, and the position stays where it is."""
        while not self.is_over and all(fetched.is_empty for fetched, _ in self._ahead):
            try:
                self._ahead.append(self._next())
            except StopIteration:
                return True
        return self.is_over

    def _next(self) -> tuple[FetchedBatch, BatchRequest]:
        try:
            batch, request = next(self.inner), self.pending.popleft()
            return batch if self.epochs.on_error == "skip" else FetchedBatch(batch, [], False), request
        except StopIteration as end:
            self._let_go(end)
            raise
        except BaseException as error:
            self._let_go(error)
            if self.pending and (self.working is None or "in DataLoader worker process" in str(error)):
                # Fetching raised this, not a timeout, an interrupt or a sampler: iteration goes on with the next
                # request. The position moves only when the batch of that one is handed over.
                self.pending.popleft()
            died = self._died(error)
            if died is None:
                raise
        try:
            raise died
        finally:
            # The error refers to this frame, so a reference from here would keep the frame and the other workers alive.
            del died

    def _let_go(self, error: BaseException) -> None:
        # torch raises a worker's error again from a frame that refers to it: a cycle, with this iterator in it. With
        # it, workers would end only when the garbage collector runs, after five seconds of waiting for each.
        if self.working is not None:
            traceback.clear_frames(error.__traceback__)

    def _died(self, error: BaseException) -> WorkerDiedError | None:
        """Return the error for a worker that died, with the sample it was fetching; None if `error` is another one."""
        matched = re.search(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\) (.*)", str(error))
        if matched is None or self.working is None:
            return None
        ends = dict(zip(self.working[::2], self.working[1::2], strict=True))
        positions = [end - 1 for pid in matched[1].split(",") if (end := ends.get(int(pid)))]
        where = f"while fetching {', '.join(map(self._named, positions))}" if positions else "before its first sample"
        hint = "what it printed is above; num_workers=0 shows where it comes from"
        if "killed" in matched[2]:
            hint = "a worker killed by the system usually ran out of memory: use fewer workers or less prefetching"
        if positions:
            hint += "; samebits.data.fetch(dataset, index, ...) fetches that sample alone"
        # The first clause of torch's message: `is killed by signal: Killed`.
        ending = matched[2].split(". ")[0].rstrip(". ")
        return WorkerDiedError(f"DataLoader worker (pid {matched[1]}) {ending} {where}", hint)

    def _named(self, position: int) -> str:
        for request in self.pending:
            if 0 <= position - request.start < len(request.indices):
                return f"sample {request.indices[position - request.start]!r} (number {position} of epoch {self.epoch})"
        return f"number {position} of epoch {self.epoch}"


def _check_form(state: object) -> None:
    if not isinstance(state, Mapping):
        raise DataStateError(f"a state is a dict, got {type(state).__name__}", "give what state_dict() returned")
    for name in ("version", "seed", "length", "epoch", "samples", "skipped"):
        if name not in state:
            raise DataStateError(f"this is not the state of a samebits loader: {name!r} is missing")
        if not isinstance(state[name], int) or (state[name] < 0 and name not in ("seed", "length")):
            raise DataStateError(f"this is not the state of a samebits loader: {name!r} is {state[name]!r}")


def _samples(length: int) -> str:
    return "unknown length" if length < 0 else f"{length} samples"
