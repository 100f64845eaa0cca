"""Batches as loaders hand them over: which indices each was made of, and its place in the epoch."""

from __future__ import annotations

import hashlib
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from samebits.agent.listening import listen
from samebits.runfolder.notes import Fetched

if TYPE_CHECKING:
    from samebits.agent.recorder import Recorder


@dataclass
class _Epoch:
    """One pass through a loader.

    Attributes:
        waiting: digests of indices whose batches were not handed over yet.
    """

    loader: int = 0
    number: int = 0
    position: int = 0
    ahead: int = 0
    waiting: deque[str] = field(default_factory=deque)


class Fetches:
    """Notes every batch.

    Attributes:
        count: batches that were handed over in this process.
        iterated: how often a loader was iterated.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.count = self.iterated = 0
        self._epochs: WeakKeyDictionary[Any, _Epoch] = WeakKeyDictionary()
        # Loader → its number, and how often it was iterated.
        self._loaders: WeakKeyDictionary[Any, tuple[int, int]] = WeakKeyDictionary()

    def install(self, stack: ExitStack) -> None:
        """Be called when a loader is iterated, when indices are drawn, and when a batch is handed over."""
        data, safely = torch.utils.data, self.recorder.safely
        iterator = data.dataloader._BaseDataLoaderIter
        stack.callback(listen(data.DataLoader, "__iter__", safely(self.begins), safely(self.begun)))
        stack.callback(listen(iterator, "_next_index", after=safely(self.drawn)))
        stack.callback(listen(iterator, "__next__", after=safely(self.handed_over)))

    def begins(self, loader: Any) -> None:
        # Persistent workers serve one epoch after the other; what was left of the last one is not handed over.
        kept = getattr(loader, "_iterator", None)
        if kept is not None:
            self._epochs.pop(kept, None)

    def begun(self, iterator: object, loader: Any) -> None:
        self.iterated += 1
        if iterator.__class__.__module__ != "torch.utils.data.dataloader":
            return
        number, times = self._loaders.get(loader, (len(self._loaders), 0))
        self._loaders[loader] = number, times + 1
        epoch = self._epochs.setdefault(iterator, _Epoch())
        epoch.loader, epoch.number, epoch.position = number, times, 0
        epoch.ahead = loader.num_workers * (loader.prefetch_factor or 0)

    def drawn(self, indices: object, iterator: object) -> None:
        self._epochs.setdefault(iterator, _Epoch()).waiting.append(_digest(indices))

    def handed_over(self, batch: object, iterator: object) -> None:
        self.count += 1
        epoch = self._epochs.setdefault(iterator, _Epoch())
        indices = epoch.waiting.popleft() if epoch.waiting else ""
        if self.recorder.is_active():
            log = self.recorder.main.log
            place = epoch.loader, epoch.number, epoch.position, epoch.ahead
            self.recorder.journal.note(
                Fetched(log.step, max(0, log.counts.get("batch", 0) - 1), indices, *place, log.rank)
            )
        epoch.position += 1


def _digest(indices: object) -> str:
    """Of what a sampler gave; an iterable dataset is asked for nothing in particular."""
    if isinstance(indices, list) and all(one is None for one in indices):
        return ""
    return hashlib.blake2b(repr(indices).encode(), digest_size=8).hexdigest()
