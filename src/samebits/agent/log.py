"""The log of one training: its current row, rows that wait for digests, and the file that they go to."""

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
from samebits.agent.handlers import is_of_handler
from samebits.agent.leash import Leash
from samebits.agent.tensors import Named, as_tensor, unwrapped
from samebits.agent.trees import BY_NAME, data_inside, leaves, plain_digest
from samebits.base.errors import StorageError
from samebits.base.ranks import current_rank
from samebits.base.sites import user_files
from samebits.bits.digest import DIGEST, Pending, digests_on_host, is_evidence, numbers, pending, results
from samebits.rng.digests import generator_states
from samebits.runfolder import tensors as values
from samebits.runfolder.lane_ids import LaneId, current_lane_id
from samebits.runfolder.notes import ComputedIn, Cut, Failed, Files, Journal
from samebits.runfolder.spec import RunSpec
from samebits.runfolder.steps import Column, Writer

# Digests of so many rows are fetched from an accelerator together, so that the device is rarely waited for.
ROWS_WAITING = 16
# At most so many leaves are read inside an object of the user's, which may refer to a whole data set.
MOST_WITHIN = 4096
Part = Sequence[int] | Pending


@dataclass
class _Row:
    """One row, of a step or of the end: the names and digests in each stream."""

    step: int = 0
    kind: str = "step"
    streams: dict[str, tuple[list[str], list[Part]]] = field(default_factory=dict)

    def add(self, stream: str, names: Collection[str], part: Part) -> None:
        if names:
            all_names, parts = self.streams.setdefault(stream, ([], []))
            all_names.extend(names)
            parts.append(part)

    def columns(self) -> dict[str, Column]:
        """Return the columns of the row by stream; no digest may be pending any more."""
        return {
            stream: Column(tuple(names), [digest for part in parts for digest in cast("list[int]", part)])
            for stream, (names, parts) in self.streams.items()
        }

    def waiting(self) -> Iterator[tuple[list[Part], int, Pending]]:
        """The digests that still lie on an accelerator, each with the list that holds it and its index there."""
        for _, parts in self.streams.values():
            yield from ((parts, number, part) for number, part in enumerate(parts) if isinstance(part, Pending))

    def is_waiting(self) -> bool:
        return next(self.waiting(), None) is not None


class Log:
    """Collects the digests of a step by stream, and writes a row at its end; `lane_id` None means the thread's own."""

    def __init__(
        self,
        spec: RunSpec,
        journal: Journal,
        lane_id: LaneId | None,
        at_end: Callable[[], None],  # called at the end of a child of multiprocessing
    ) -> None:
        self.spec, self.journal = spec, journal
        self.step = 0  # the current step
        self.has_stopped = False  # nothing is written any more: the recording failed, or is closed
        # Stream → how many items came so far in this step.
        self.counts: Counter[str] = Counter()
        self.writer: Writer | None = None
        # Where a process runs several trainings, each ends only after the last step that was asked for.
        self.leash = Leash(journal.folder, RunSpec(stop_after=spec.stop_after))
        self._row = _Row()
        self._queue: list[_Row] = []
        self._cuts: set[str] = set()
        self._ends: list[tuple[tuple[int, ...], str, list[str], Part]] = []
        self._lane_id, self._at_end = lane_id, at_end
        self._finalizer: Any = None

    @property
    def lane_id(self) -> LaneId:
        """The id of the process, thread and training that this log is of."""
        return self._lane_id or current_lane_id()

    @property
    def rank(self) -> int:
        return current_rank() or 0

    # ---- what goes into a row

    def count(self, stream: str) -> int:
        """Count an item, and return how many of its stream came before in this step, to name what has no name."""
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
        """Add digests that were made before."""
        self._row.add(stream, names, part)

    def add_end(self, stream: str, order: tuple[int, ...], tree: Iterable[tuple[str, object]]) -> None:
        """Digest the last state of an object; the end row is sorted by `order`, and not by time."""
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
        """Add losses as numbers, next to their digests: they show how a difference grows, and are not compared."""
        held = [(name, t) for name, t in named if is_evidence(t) and t.numel() == 1 and t.is_floating_point()]
        names = [f"{name} {str(tensor.dtype).removeprefix('torch.')}" for name, tensor in held]
        self._row.add("number", names, numbers([tensor for _, tensor in held]))

    def add_trees(self, stream: str, trees: Iterable[tuple[str, object]]) -> Collection[str]:
        """Digest the leaves of containers, under their names; return the type names of leaves that have no digest."""
        tensors, plain, undigested = _content(trees)
        self.add(stream, tensors)
        self._row.add(stream, *plain)
        return undigested

    # ---- the end of a row, and of the log

    def end_step(self, cut: str) -> bool:
        """End the current row; True when the run ends with it."""
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
        """Whether rows may be written now: none waits for a device, and written rows are committed at once."""
        return (self.writer is None or self.writer.is_due) and not any(row.is_waiting() for row in self._queue)

    def _queue_row(self, kind: str) -> None:
        self._row.step, self._row.kind = self.step, kind
        self._queue.append(self._row)
        self.begin_row()

    def begin_row(self) -> None:
        """Begin an empty row; if the current row is not queued, what it holds belongs to no step."""
        self._row = _Row()
        self.counts.clear()

    def flush(self) -> None:
        """Write all rows that wait; digests on accelerators take one copy from each, however many rows there are."""
        queue, self._queue = self._queue, []
        try:
            unfetched = [entry for row in queue for entry in row.waiting()]
            fetched = results([part for _, _, part in unfetched]) if unfetched else ()
            for (parts, number, _), digests in zip(unfetched, fetched, strict=True):
                parts[number] = digests
        finally:
            # A device that failed returns nothing any more; the digests of earlier rows are already on the host.
            with self._storing():
                for row in takewhile(lambda row: not row.is_waiting(), queue):
                    writer = self.open_writer()
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
        """End the recording, and not the run, where the disk is full."""
        try:
            yield
        except StorageError as error:
            self.has_stopped = True
            self.journal.note(Failed(error.kind, error.message, error.hint))

    def open_writer(self) -> Writer:
        """Return the writer, which is made with the first row: by then the rank is known."""
        if self.writer is None:
            self.writer = Writer(self.journal.folder, self.rank, self.lane_id, DIGEST)
            # Children of multiprocessing skip atexit, but run finalizers. It is bound to no object, since nothing else
            # must end when a log dies, one training of many.
            self._finalizer = multiprocessing.util.Finalize(None, self._at_end, exitpriority=100)
        return self.writer

    def failed(self, error: Exception, where: str = "") -> None:
        """End the recording, not the run, and note why: a mistake of ours, or a device that failed or is full.

        Where a signal handler's error has interrupted a hook, half of a row may be missing.
        """
        self.has_stopped = True
        message = str(error).partition("\n")[0]
        if _is_broken(message):
            # An earlier call of the program's failed; whoever waits for the device next gets its error.
            hint = "does it work without samebits? With CUDA_LAUNCH_BLOCKING=1 the traceback shows the call"
            self.journal.note(Failed("script_failed", f"the accelerator failed: {message}", hint))
        elif isinstance(error, MemoryError | torch.OutOfMemoryError):
            hint = "check it with a smaller batch or a smaller model"
            self.journal.note(Failed(StorageError.kind, f"the run left no memory to record with: {message}", hint))
        elif is_of_handler(error):
            message = f"a signal handler raised {type(error).__name__} while a step was being recorded"
            self.journal.note(Failed("recording", message, "let the handler set a flag, and raise in the loop"))
        else:
            self.journal.note(Failed("recording", f"{where}{type(error).__name__}: {error}", "please report this"))
        # The device that failed may be the one that rows wait for.
        with suppress(Exception):
            self.commit()

    def close(self, complete: bool = True) -> None:
        """Write what came after the last step, and close the file."""
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
        self.has_stopped = True

    @property
    def has_anything(self) -> bool:
        """Whether there is anything to write: a process that only makes modules leaves no recording."""
        return self.writer is not None or bool(self._queue) or bool(self._row.streams)


def _is_broken(told: str) -> bool:
    """Whether the device repeats the error: a broken one fails at every call, and a mistake of ours does not recur."""
    try:
        synchronize()
    except Exception as error:
        return told in str(error) and "captur" not in told
    return False


def _content(trees: Iterable[tuple[str, object]]) -> tuple[list[Named], tuple[list[str], list[int]], dict[str, None]]:
    """Return tensors with bits in containers, names and digests of numbers and texts, and type names of all else."""
    tensors: list[Named] = []
    plain: tuple[list[str], list[int]] = [], []
    undigested: dict[str, None] = {}
    for path, leaf in (pair for prefix, tree in trees for pair in leaves(tree, prefix)):
        if (digest := plain_digest(leaf)) is not None:
            plain[0].append(path)
            plain[1].append(digest)
        elif leaf is not None:
            # Of other objects only tensors count: anything else in them may be a time or an id.
            within = islice(leaves(leaf, path, data_inside), MOST_WITHIN)
            named = [(name, unwrapped(tensor)) for name, inner in within if (tensor := as_tensor(inner)) is not None]
            tensors += [(name, tensor) for name, tensor in named if is_evidence(tensor)]
            if not named and not isinstance(leaf, BY_NAME):
                undigested[type(leaf).__name__] = None
    return tensors, plain, undigested


def tensors_in(tree: object, prefix: str) -> list[Named]:
    """Return the tensors with bits in a container or an object, with their names."""
    return _content([(prefix, tree)])[0]


def evidence(named: Sequence[Named]) -> tuple[Sequence[Named], Part]:
    """Return the tensors that hold bits, and their digests, without waiting for those on an accelerator."""
    early = digests_on_host([tensor for _, tensor in named])
    if None not in early:
        return named, cast("list[int]", early)
    # Some tensor lies on an accelerator, is made of several tensors, is wrapped by a transform, or holds no bits.
    inner = [(name, unwrapped(tensor)) for name, tensor in named]
    if any(new is not old for (_, new), (_, old) in zip(inner, named, strict=True)):
        return evidence(inner)
    pairs = [(one, known) for one, known in zip(named, early, strict=True) if known is not None or is_evidence(one[1])]
    part = pending([one[1] for one, _ in pairs], [known for _, known in pairs])
    return [one for one, _ in pairs], part if part.is_under_way else part.result()
