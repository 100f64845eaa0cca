"""What goes in and out beside the training: batches from a DataLoader, and what the program saves."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch

from samebits.agent.listening import Named, listen, unwrapped
from samebits.agent.models import COPIED
from samebits.agent.saves import Saves, content, kind_of, saved_digest

if TYPE_CHECKING:
    from samebits.agent.recorder import Recorder


class DataHooks:
    """What the recorder learns from loaders and from saving."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.saves = Saves(recorder.safely(self.saved))

    def install(self, stack: ExitStack) -> None:
        """Be called around every batch that a loader makes, and when something is saved."""
        self.saves.install(stack)
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        made, failed = self.recorder.safely(self.batch_made), self.batch_failed
        stack.callback(listen(iterator, "__next__", before=self.before_batch, after=made, failed=failed))

    def before_batch(self, *_: object) -> None:
        self.recorder.inside.loading = True

    def batch_failed(self, *_: object) -> None:
        self.recorder.inside.loading = False

    def batch_made(self, batch: object, *_: object) -> None:
        self.recorder.inside.loading = False
        if self.recorder.is_active():
            log = self.recorder.log
            closed = log.add_tree("batch", batch, f"{log.count('batch')}")
            # What a model is given stands for what cannot be looked into.
            self.recorder.training.has_loader = not closed
            for kind in closed:
                self.recorder.note_once(f"what is in a {kind} of a batch")

    def saved(self, thing: object, file: str) -> None:
        if not self.recorder.is_active():
            return
        number = self.recorder.log.count("artifact")
        tensors: list[Named] = []
        plain: list[tuple[str, int]] = []
        for path, leaf, tells_time in content(thing, f"{number}", file):
            if tells_time:
                self.recorder.note_once(
                    f"a number in what was saved, because it seems to be a time: {_key(path, number, file)}"
                )
            elif torch.is_tensor(leaf):
                tensors.append((path, unwrapped(leaf)))
            elif (digest := saved_digest(leaf)) is not None:
                plain.append((path, digest))
            else:
                # One of each kind: a vocabulary has a hundred thousand texts.
                kind = kind_of(leaf)
                self.recorder.note_once(f"{kind} in what was saved, such as {_key(path, number, file)}", kind)
        self.recorder.log.add("artifact", tensors)
        if plain:
            self.recorder.log.add_digests("artifact", [name for name, _ in plain], [digest for _, digest in plain])
        self.recorder.log.add("artifact", self._changed_states(f"{number}.state."))
        self.recorder.last_looks.look_at_copies(self.recorder.lane)

    def _changed_states(self, prefix: str) -> list[Named]:
        """Of modules, what was written to since the last step digested it: it may be what is saved."""
        held = self.recorder.optimizers.all()
        versions = {id(p): version for one in held for p, version in zip(one.tensors, one.versions, strict=False)}
        return [
            (f"{prefix}{name}", tensor)
            for holder in self.recorder.models.holders()
            if holder.stage != COPIED
            for name, tensor in holder.changed_at_save(versions)
        ]


def _key(path: str, number: int, file: str) -> str:
    """What is said of a number's place: the same for all numbers of one list."""
    return re.sub(r"\[\d+\]", "[]", path.removeprefix(f"{number}").removeprefix(".")) or file
