"""The epochs of one loader: its batches by (seed, epoch, index) alone, fetched through torch's own loader.

torch does what it does well (processes, prefetching, pinning memory), over a dataset whose items are whole batches and
a sampler that says which. So it neither draws for them nor decides anything about them.
"""

from __future__ import annotations

import re
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.sharedctypes import RawArray
from typing import Any, Literal, NamedTuple

import torch
import torch.utils.data
from torch.utils.data import DataLoader, IterableDataset

from samebits.base.errors import DataStateError, WorkerDiedError
from samebits.base.ranks import World
from samebits.base.seeds import KeyDeriver
from samebits.base.signals import ends_later
from samebits.data.fetching import FetchedBatch, Fetcher, Skipped, as_it_is, prepare_worker
from samebits.data.order import BatchRequest, LastBatch, order_of
from samebits.data.streams import StreamFetcher

VERSION = 1
OnError = Literal["raise", "skip"]


class EpochPlace(NamedTuple):
    """Where a loader stands: the epoch, and the position in it of the sample that comes next, over all ranks."""

    epoch: int
    samples: int = 0


class TorchLoader(torch.utils.data.DataLoader[object]):
    """The loader of torch that does the work. The data-workers factor leaves this one alone."""

    sampler: RequestSampler
    dataset: Fetcher


class Epochs:
    """The epochs of one loader: `place` is behind what its user has got, `next` where the next iteration begins.

    What workers hold ready does not count. `skipped` are the samples that were left out of this epoch so far, and
    `skips` how many were in all epochs, on this rank.

    The loader itself is given whenever it is needed: were it kept here, the two would keep each other, and workers
    would end whenever the garbage collector comes by, with torch waiting five seconds for each.
    """

    def __init__(
        self, dataset: Any, seed: int, last_batch: LastBatch = "keep", on_error: OnError = "raise", label: object = None
    ) -> None:
        self.dataset, self.seed, self.last_batch, self.on_error, self.label = dataset, seed, last_batch, on_error, label
        self.place = self.next = EpochPlace(0)
        self.skipped: list[Skipped] = []
        self.skips = 0
        self._persistent: TorchLoader | None = None
        self._begun = 0
        self._here: Fetcher | None = None

    def begin(self, loader: DataLoader[object], ranks: World) -> EpochIterator:
        """Iterate over the next epoch, or over the rest of the one that a loaded state stood in.

        From the loader, one of torch's, everything but the batches' contents is taken.
        """
        self.place = self.next
        self.next, self.skipped = EpochPlace(self.place.epoch + 1), []
        self._begun += 1
        # With as many threads as cores this changes nothing; with more, it makes MKL keep to them, as fetching in
        # the main process does, so that the training's bits depend on neither.
        torch.set_num_threads(torch.get_num_threads())
        inner = self._persistent
        if inner is None:
            inner = _inner_loader(loader, self._fetcher(loader, ranks))
        if inner.persistent_workers:
            self._persistent = inner
        inner.sampler.begin(order_of(loader, self.last_batch, self.seed).requests(*self.place, ranks))
        return EpochIterator(self, self._begun, loader, inner)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch; a loaded position within the same epoch stays."""
        if self.next.epoch != epoch:
            self.next = EpochPlace(epoch)
        self.place = self.next

    def set_position(self, loader: DataLoader[object], epoch: int, batches: int, ranks: World) -> None:
        """Let the next iteration be the rest of this epoch, after its first `batches`."""
        samples = order_of(loader, self.last_batch, self.seed).samples_in(epoch, batches, ranks)
        self.place = self.next = EpochPlace(epoch, samples)

    def handed_over(self, turn: int, place: EpochPlace, skipped: Sequence[Skipped] = ()) -> None:
        """Another batch is the user's; an iterator that was left for a newer one counts no more."""
        if turn == self._begun:
            self.place = place
            self.skipped += skipped
            self.skips += len(skipped)

    def state(self) -> dict[str, object]:
        """The position, as plain ints."""
        place = self.place._asdict()
        return {"version": VERSION, "seed": self.seed, "length": self.length, **place, "skipped": self.skips}

    def load(self, state: dict[str, Any], may_take_seed: bool) -> None:
        """Stand where `state` was saved; DataStateError where it belongs to another loader, or is none."""
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
        self.seed, self._persistent = state["seed"], None
        self.place = self.next = EpochPlace(state["epoch"], state["samples"])
        self.skips = state["skipped"]

    @property
    def length(self) -> int:
        """The dataset's length, or -1."""
        try:
            return len(self.dataset)
        except TypeError:
            return -1

    def _fetcher(self, loader: DataLoader[object], ranks: World) -> Fetcher:
        # Plain memory that processes share: ctypes has no types for what can be made of it.
        make_array: Any = RawArray
        working = make_array("q", 2 * loader.num_workers) if loader.num_workers else None
        options = self.dataset, loader.collate_fn, self.seed, self.on_error == "skip", working, self.label
        if isinstance(self.dataset, IterableDataset):
            return StreamFetcher(ranks, self.last_batch, *options)
        if loader.num_workers:
            return Fetcher(*options)
        # In this process what the dataset holds has not to be looked for anew in every epoch.
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
        collate_fn=as_it_is,
        pin_memory=loader.pin_memory,
        pin_memory_device=loader.pin_memory_device,
        timeout=loader.timeout,
        worker_init_fn=partial(prepare_worker, loader.worker_init_fn, ends_later()),
        multiprocessing_context=loader.multiprocessing_context if has_workers else None,
        # torch draws a seed for its workers, from here instead of from the global generator.
        generator=torch.Generator().manual_seed(
            int.from_bytes(KeyDeriver(fetcher.seed, "workers").key()[:4], "little")
        ),
        prefetch_factor=loader.prefetch_factor if has_workers else None,
        persistent_workers=loader.persistent_workers and has_workers,
    )


class RequestSampler:
    """What torch's loader takes for a sampler: the requests of the epoch that has begun; those not back yet pend."""

    def __init__(self) -> None:
        self.pending: deque[BatchRequest] = deque()
        self._requests: Iterator[BatchRequest] = iter(())

    def begin(self, requests: Iterator[BatchRequest]) -> None:
        """The next iteration yields these."""
        self.pending, self._requests = deque(), requests

    def __iter__(self) -> Iterator[BatchRequest]:
        pending = self.pending
        for request in self._requests:
            pending.append(request)
            yield request


class EpochIterator:
    """The batches of one epoch; WorkerDiedError names the sample where a worker was killed."""

    def __init__(self, epochs: Epochs, turn: int, loader: DataLoader[object], inner: TorchLoader) -> None:
        self.epochs, self.turn, self.loader = epochs, turn, loader
        self.inner: Iterator[Any] = iter(inner)
        self.pending, self.working = inner.sampler.pending, inner.dataset.working
        self.epoch = epochs.place.epoch
        self.is_over = False

    def __iter__(self) -> EpochIterator:
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __next__(self) -> object:
        while not self.is_over:
            batch, request = self._next()
            fetched = batch if self.epochs.on_error == "skip" else FetchedBatch(batch, [], False)
            self.epochs.handed_over(self.turn, EpochPlace(self.epoch, request.end), fetched.skipped)
            if not fetched.is_empty:
                return fetched.batch
        raise StopIteration

    def _next(self) -> tuple[Any, BatchRequest]:
        try:
            return next(self.inner), self.pending.popleft()
        except StopIteration as end:
            self._let_go(end)
            self.is_over = True
            self.epochs.handed_over(self.turn, EpochPlace(self.epoch + 1))
            raise
        except BaseException as error:
            self._let_go(error)
            if self.pending and (self.working is None or "in DataLoader worker process" in str(error)):
                # Fetching raised this, not a timeout, an interrupt or a sampler: the next batch is another one. Until
                # it comes, the user has got no more than before.
                self.pending.popleft()
            died = self._died(error)
            if died is None:
                raise
        try:
            raise died
        finally:
            # Kept here, it would keep this frame, and this frame the other workers.
            del died

    def _let_go(self, error: BaseException) -> None:
        # What a worker raised is raised again by a frame of torch that keeps it: a cycle, with this iterator in it, so
        # that workers would end when the garbage collector comes by, after five seconds of waiting for each.
        if self.working is not None:
            traceback.clear_frames(error.__traceback__)

    def _died(self, error: BaseException) -> WorkerDiedError | None:
        """What torch says of a worker's end, with the sample that it was fetching."""
        named = re.search(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\) (.*)", str(error))
        if named is None or self.working is None:
            return None
        places = dict(zip(self.working[::2], self.working[1::2], strict=True))
        known = [place - 1 for pid in named[1].split(",") if (place := places.get(int(pid)))]
        where = f"while fetching {', '.join(map(self._named, known))}" if known else "before its first sample"
        hint = "what it printed is above; num_workers=0 shows where it comes from"
        if "killed" in named[2]:
            hint = "a worker killed by the system usually ran out of memory: use fewer workers or less prefetching"
        if known:
            hint += "; samebits.data.fetch(dataset, index, ...) fetches that sample alone"
        # The first clause of what torch says: `is killed by signal: Killed`.
        how = named[2].split(". ")[0].rstrip(". ")
        return WorkerDiedError(f"DataLoader worker (pid {named[1]}) {how} {where}", hint)

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
