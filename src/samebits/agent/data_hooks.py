"""What goes in and out beside the training: batches from a DataLoader, and what the program saves."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch

from samebits.agent.listening import Named, listen, unwrapped
from samebits.agent.models import COPIED
from samebits.agent.saves import Saves, content, kind_of
from samebits.agent.trees import plain_digest

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
            self.recorder.training.has_loader = True
            self.recorder.log.add_tree("batch", batch, f"{self.recorder.log.count('batch')}")

    def saved(self, thing: object, file: str) -> None:
        if not self.recorder.is_active():
            return
        number = self.recorder.log.count("artifact")
        tensors: list[Named] = []
        numbers: list[tuple[str, int]] = []
        for path, leaf, tells_time in content(thing, f"{number}", file):
            if tells_time:
                self.recorder.note_once(
                    f"a number in what was saved, because it seems to be a time: {_key(path, number, file)}"
                )
            elif torch.is_tensor(leaf):
                tensors.append((path, unwrapped(leaf)))
            elif isinstance(leaf, bool | int | float | complex) and (digest := plain_digest(leaf)) is not None:
                numbers.append((path, digest))
            else:
                # One of each kind: a vocabulary has a hundred thousand texts.
                kind = kind_of(leaf)
                self.recorder.note_once(f"{kind} in what was saved, such as {_key(path, number, file)}", kind)
        self.recorder.log.add("artifact", tensors)
        if numbers:
            self.recorder.log.add_digests("artifact", [name for name, _ in numbers], [digest for _, digest in numbers])
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
