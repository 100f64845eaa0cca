"""What goes in and out beside the training: batches from a DataLoader, and what the program saves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch

from samebits.agent.lanes import Lane, look_at_copies
from samebits.agent.listening import Named, as_tensor, listen, unwrapped
from samebits.agent.models import COPIED
from samebits.agent.saves import Saves, content
from samebits.agent.trees import plain_digest

if TYPE_CHECKING:
    from samebits.agent.rows import Rows


class DataHooks:
    """What the recorder learns from loaders and from saving."""

    def __init__(self, recorder: Rows) -> None:
        self.recorder = recorder

    def install(self, stack: ExitStack) -> None:
        """Be called around every batch that a loader makes, and when something is saved."""
        watching = self.recorder.interruption
        passed = None if watching is None else watching.passed
        Saves(self.recorder.safely(self.saved), passed).install(stack)
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        made, failed = self.recorder.safely(self.batch_made), self.batch_failed
        stack.callback(listen(iterator, "__next__", before=self.before_batch, after=made, failed=failed))

    def before_batch(self, *_: object) -> None:
        self.recorder.inside.loading = True

    def batch_failed(self, *_: object) -> None:
        self.recorder.inside.loading = False

    def batch_made(self, batch: object, *_: object) -> None:
        self.recorder.inside.loading = False
        lane = self.recorder.active_lane()
        if lane is not None:
            closed = lane.log.add_tree("batch", batch, f"{lane.log.count('batch')}")
            # What a model is given stands for what cannot be looked into.
            lane.training.has_loader = not closed
            for kind in closed:
                self.recorder.note_once(f"what is in a {kind} of a batch")

    def saved(self, thing: object) -> None:
        """Tensors are the state of a training; what else is saved may be a time, and only says more."""
        lane = self.recorder.active_lane()
        if lane is None:
            return
        log = lane.log
        number = log.count("artifact")
        found = list(content(thing, f"{number}"))
        log.add("artifact", [(path, unwrapped(leaf)) for path, leaf in found if torch.is_tensor(leaf)])
        others = [(path, leaf) for path, leaf in found if not torch.is_tensor(leaf)]
        log.add("saved", [(path, tensor) for path, leaf in others if (tensor := as_tensor(leaf)) is not None])
        plain = [(path, digest) for path, leaf in others if (digest := plain_digest(leaf)) is not None]
        if plain:
            log.add_digests("saved", [path for path, _ in plain], [digest for _, digest in plain])
        log.add("artifact", [(f"{number}.state.{name}", tensor) for name, tensor in _changed_states(lane)])
        look_at_copies(lane)


def _changed_states(lane: Lane) -> Iterator[Named]:
    """Of modules, what was written to since the last step digested it: it may be what is saved."""
    held = lane.optimizers.all()
    versions = {id(p): version for one in held for p, version in zip(one.tensors, one.versions, strict=False)}
    for holder in lane.models.holders():
        if holder.stage != COPIED:
            yield from holder.changed_at_save(versions)
