"""The tap of data loaders: batches; and where it is asked for, epochs and the indices that batches are made of."""

from __future__ import annotations

from contextlib import ExitStack

import torch

from samebits.agent.events import Event, Tell
from samebits.agent.taps.listening import listen
from samebits.agent.taps.modules import CallDepth


def install(stack: ExitStack, tell: Tell, inside: CallDepth, with_indices: bool) -> None:
    """Report every batch that a loader makes; calls of modules within a loader are not the program's own."""
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter

    def fetches(own: object) -> None:
        tell(Event.FETCHES, own)
        inside.loading += 1

    def failed(*_: object) -> None:
        inside.loading -= 1

    def fetched(batch: object, own: object) -> None:
        inside.loading -= 1
        tell(Event.FETCHED, own, batch)

    stack.callback(listen(iterator, "__next__", fetches, fetched, failed))
    if with_indices:
        iterates, iterated = (lambda own: tell(Event.ITERATES, own)), (lambda new, own: tell(Event.ITERATED, own, new))
        draws, drawn = (lambda own: tell(Event.DRAWS, own)), (lambda found, own: tell(Event.DRAWN, own, found))
        stack.callback(listen(torch.utils.data.DataLoader, "__iter__", iterates, iterated))
        stack.callback(listen(iterator, "_next_index", draws, drawn))
