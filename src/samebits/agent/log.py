"""What one training has to write: rows in the making, rows that wait, and the file they go to."""

from __future__ import annotations

import multiprocessing.util
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Any, cast

import torch

from samebits.accelerators.devices import synchronize
from samebits.agent.environment import environment_now
from samebits.agent.leash import Leash
from samebits.agent.tensors import Named, as_tensor, unwrapped
from samebits.agent.trees import BY_NAME, data_inside, leaves, plain_digest
from samebits.base.errors import StorageError
from samebits.base.ranks import current_rank
from samebits.base.sites import user_files
from samebits.bits.digest import DIGEST, Pending, found_at_once, is_evidence, numbers, pending, results
from samebits.rng.digests import generator_states
from samebits.runfolder import tensors as values
from samebits.runfolder.lane_ids import LaneId, current_lane_id
from samebits.runfolder.notes import ComputedIn, Cut, Failed, Files, Journal
from samebits.runfolder.spec import RunSpec
from samebits.runfolder.steps import Column, Writer

# Digests that still lie on an accelerator come over together, so the device is waited for once in a while only.
ROWS_WAITING = 16
# At most this many things are looked at within an object of the user's: it may refer to a whole data set.
MOST_WITHIN = 4096
Part = Sequence[int] | Pending


@dataclass
class _Row:
    """One step: names and digests of what each stream holds."""

    step: int = 0
    kind: str = "step"
    streams: dict[str, tuple[list[str], list[Part]]] = field(default_factory=dict)

    def add(self, stream: str, names: Collection[str], part: Part) -> None:
        if names:
            known, parts = self.streams.setdefault(stream, ([], []))
            known.extend(names)
            parts.append(part)

    def columns(self) -> dict[str, Column]:
        """What it holds; nothing may wait any more."""
        return {
            stream: Column(tuple(names), [digest for part in parts for digest in cast("list[int]", part)])
            for stream, (names, parts) in self.streams.items()
        }

    def waiting(self) -> Iterator[tuple[list[Part], int, Pending]]:
        """What still lies on an accelerator: the list that it is in, and its number there."""
        for _, parts in self.streams.values():
            yield from ((parts, number, part) for number, part in enumerate(parts) if isinstance(part, Pending))

    def is_waiting(self) -> bool:
        return next(self.waiting(), None) is not None


class Log:
    """Takes what a step holds, stream by stream, and writes a row at its end; without a `lane_id` of this thread."""

    def __init__(
        self,
        spec: RunSpec,
        journal: Journal,
        lane_id: LaneId | None,
        at_end: Callable[[], None],  # of a child of multiprocessing
    ) -> None:
        self.spec, self.journal = spec, journal
        self.step = 0  # the one in the making
        self.broken = False  # nothing can be written any more, or everything has been
        # Stream → how many came so far in this step.
        self.counts: Counter[str] = Counter()
        self.writer: Writer | None = None
        # Of several trainings of a process only the last step that was asked for counts.
        self.leash = Leash(journal.folder, RunSpec(stop_after=spec.stop_after))
        self._row = _Row()
        self._queue: list[_Row] = []
        self._cuts: set[str] = set()
        self._ends: list[tuple[tuple[int, ...], str, list[str], Part]] = []
        self._lane_id, self._at_end = lane_id, at_end
        self._finalizer: Any = None

    @property
    def lane_id(self) -> LaneId:
        """Which process, thread and training this is of."""
        return self._lane_id or current_lane_id()

    @property
    def rank(self) -> int:
        return current_rank() or 0

    # ---- what a row takes up

    def count(self, stream: str) -> int:
        """How many came before in this step: the name of what has no name of its own."""
        self.counts[stream] += 1
        return self.counts[stream] - 1

    def has(self, stream: str) -> bool:
        return stream in self._row.streams

    def add(self, stream: str, named: Sequence[Named]) -> None:
        """Digest tensors as they are now."""
        held, part = evidence(named)
        self._row.add(stream, [name for name, _ in held], part)
        if self.step == self.spec.keep_step:
            self._keep(stream, held)

    def add_digests(self, stream: str, names: Collection[str], part: Part) -> None:
        """Take up what was digested before."""
        self._row.add(stream, names, part)

    def add_end(self, stream: str, order: tuple[int, ...], tree: Iterable[tuple[str, object]]) -> None:
        """Digest the last state of something; it is written at the end, by its order and not by when it came."""
        tensors, plain, _ = _content(tree)
        held, part = evidence(tensors)
        if held:
            self._ends.append((order, stream, [name for name, _ in held], part))
            self._keep(stream, held)
        if plain[0]:
            self._ends.append((order, stream, *plain))

    def _keep(self, stream: str, held: Sequence[Named]) -> None:
        step, names = self.spec.keep_step, self.spec.keep_names
        wanted = [pair for pair in held if not names or pair[0] in names]
        if wanted and step is not None and stream in self.spec.keep_streams:
            values.keep(self.journal.folder / "values", self.rank, step, stream, wanted)

    def add_numbers(self, named: Iterable[Named]) -> None:
        """Losses as numbers, besides their digests: they show how a difference grows, and are not compared."""
        held = [(name, t) for name, t in named if is_evidence(t) and t.numel() == 1 and t.is_floating_point()]
        names = [f"{name} {str(tensor.dtype).removeprefix('torch.')}" for name, tensor in held]
        self._row.add("number", names, numbers([tensor for _, tensor in held]))

    def add_trees(self, stream: str, trees: Iterable[tuple[str, object]]) -> Collection[str]:
        """Digest whatever can be digested in containers, under their names; gives the kinds of what cannot."""
        tensors, plain, closed = _content(trees)
        self.add(stream, tensors)
        self._row.add(stream, *plain)
        return closed

    # ---- the end of a row, and of all

    def end_step(self, cut: str) -> bool:
        """Close the row; True when the run ends with it."""
        states = generator_states()
        self._row.add("rng", states, list(states.values()))
        self._queue_row("step")
        if cut not in self._cuts:
            self._cuts.add(cut)
            self.journal.note(Cut(cut))
        if self.step == 0:
            self.journal.note(Files(tuple(user_files())))
            self.journal.note(ComputedIn(environment_now()))
        if self.leash.is_asked_for(self.step) or len(self._queue) >= ROWS_WAITING or self._is_due():
            self.flush()
        self.step += 1
        return self.leash.is_last(self.step - 1)

    def _is_due(self) -> bool:
        """Whether rows may be written now: none waits for a device, and what is written would be committed."""
        return (self.writer is None or self.writer.is_due) and not any(row.is_waiting() for row in self._queue)

    def _queue_row(self, kind: str) -> None:
        self._row.step, self._row.kind = self.step, kind
        self._queue.append(self._row)
        self.forget()

    def forget(self) -> None:
        """The row in the making belongs to no step."""
        self._row = _Row()
        self.counts.clear()

    def flush(self) -> None:
        """Write all rows that wait; of what lies on accelerators, one copy from each, however many rows there are."""
        queue, self._queue = self._queue, []
        try:
            places = [place for row in queue for place in row.waiting()]
            found = results([part for _, _, part in places]) if places else ()
            for (parts, number, _), own in zip(places, found, strict=True):
                parts[number] = own
        finally:
            # A device that failed gives nothing back any more; what came before lies here.
            with self._storing():
                for row in takewhile(lambda row: not row.is_waiting(), queue):
                    writer = self.opened()
                    root = writer.write(row.step, row.kind, row.columns())
                    if row.kind == "step":
                        self.leash.wrote(writer.path, root)

    def commit(self) -> None:
        """Commit the rows so far, so that they survive a kill."""
        self.flush()
        with self._storing():
            if self.writer is not None:
                self.writer.commit()

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """A full disk ends the recording, not the run."""
        try:
            yield
        except StorageError as error:
            self.broken = True
            self.journal.note(Failed(error.kind, error.message, error.hint))

    def opened(self) -> Writer:
        """The file, made when the first row is there: by then the rank is known."""
        if self.writer is None:
            self.writer = Writer(self.journal.folder, self.rank, self.lane_id, DIGEST)
            # Children of multiprocessing leave without atexit; they do run these. Bound to no object: when a log dies,
            # one training of many, nothing else ends.
            self._finalizer = multiprocessing.util.Finalize(None, self._at_end, exitpriority=100)
        return self.writer

    def failed(self, error: Exception, where: str = "") -> None:
        """A mistake of ours ends the recording, not the run, and says why; so does a device that failed or is full."""
        self.broken = True
        told = str(error).partition("\n")[0]
        if _is_broken(told):
            # A call of the program's, long ago: who waits for the device hears of it.
            hint = "does it work without samebits? With CUDA_LAUNCH_BLOCKING=1 the traceback shows the call"
            self.journal.note(Failed("script_failed", f"the accelerator failed: {told}", hint))
        elif isinstance(error, MemoryError | torch.OutOfMemoryError):
            hint = "check it with a smaller batch or a smaller model"
            self.journal.note(Failed(StorageError.kind, f"the run left no memory to record with: {told}", hint))
        else:
            self.journal.note(Failed("recording", f"{where}{type(error).__name__}: {error}", "please report this"))
        # What failed may be the device that rows wait for.
        with suppress(Exception):
            self.commit()

    def close(self, complete: bool = True) -> None:
        """Write what came after the last step, and no more."""
        if complete and self.has_anything:
            for _, stream, names, part in sorted(self._ends, key=lambda end: end[0]):
                self._row.add(stream, names, part)
            if self._row.streams:
                self._queue_row("end")
        self.flush()
        if self.writer is not None:
            self.writer.close(complete=complete)
            self.writer = None
            self._finalizer.cancel()
        self.broken = True

    @property
    def has_anything(self) -> bool:
        """Whether there is anything to write: a process that only makes modules leaves no recording."""
        return self.writer is not None or bool(self._queue) or bool(self._row.streams)


def _is_broken(told: str) -> bool:
    """Whether the device says so again: what breaks it breaks all that follows, and a mistake of ours does not."""
    try:
        synchronize()
    except Exception as error:
        return told in str(error) and "captur" not in told
    return False


def _content(trees: Iterable[tuple[str, object]]) -> tuple[list[Named], tuple[list[str], list[int]], dict[str, None]]:
    """What is in containers: tensors with bits, names and digests of numbers and texts, kinds of what is neither."""
    tensors: list[Named] = []
    plain: tuple[list[str], list[int]] = [], []
    closed: dict[str, None] = {}
    for path, leaf in (found for prefix, tree in trees for found in leaves(tree, prefix)):
        if (digest := plain_digest(leaf)) is not None:
            plain[0].append(path)
            plain[1].append(digest)
        elif leaf is not None:
            # Of an object tensors count: what else it holds may be a time or an id.
            within = islice(leaves(leaf, path, data_inside), MOST_WITHIN)
            found = [(name, unwrapped(tensor)) for name, one in within if (tensor := as_tensor(one)) is not None]
            tensors += [(name, tensor) for name, tensor in found if is_evidence(tensor)]
            if not found and not isinstance(leaf, BY_NAME):
                closed[type(leaf).__name__] = None
    return tensors, plain, closed


def tensors_in(tree: object, prefix: str) -> list[Named]:
    """The tensors that hold bits in a container or an object."""
    return _content([(prefix, tree)])[0]


def evidence(named: Sequence[Named]) -> tuple[Sequence[Named], Part]:
    """Those of these tensors that hold bits, and their digests, on an accelerator without waiting for them."""
    found = found_at_once([tensor for _, tensor in named])
    if None not in found:
        return named, cast("list[int]", found)
    # Something lies on an accelerator, is made of several tensors, is wrapped by a transform, or holds no bits at all.
    below = [(name, unwrapped(tensor)) for name, tensor in named]
    if any(new is not old for (_, new), (_, old) in zip(below, named, strict=True)):
        return evidence(below)
    pairs = [(one, known) for one, known in zip(named, found, strict=True) if known is not None or is_evidence(one[1])]
    part = pending([one[1] for one, _ in pairs], [known for _, known in pairs])
    return [one for one, _ in pairs], part if part.is_under_way else part.result()
