"""The rows of a recording: a lane for each thread and training, and a row for each step, cut where a step ends.

Hooks tell what they see to the lane of the calling thread; a mistake in one ends the recording, never the run.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import get_worker_info

from samebits.agent.graphs import Graphs, is_tracing
from samebits.agent.lanes import Lane
from samebits.agent.leash import Leash
from samebits.agent.listening import Named
from samebits.agent.log import Log
from samebits.agent.models import HeldOptimizer, Holder
from samebits.agent.saves import Passage
from samebits.agent.used import what_was_used
from samebits.factors import imports
from samebits.runfolder.lane_ids import current_lane_id
from samebits.runfolder.notes import Ended, Journal, Stopped, Unseen, Used
from samebits.runfolder.spec import OpWindow, RunSpec


def _nothing() -> None:
    """What a dead reference gives."""


class _Inside(threading.local):
    """Where a thread is.

    Attributes:
        lane: what it is recorded in, unless it is the main one.
        depth: calls of modules around this place.
        outermost: the module whose call is the outermost.
        loading: a DataLoader makes a batch.
        inputs: what `torch.autograd.grad` was asked for.
    """

    lane: Lane | None = None
    depth = 0
    outermost: Callable[[], object] = _nothing
    loading = False
    inputs: list[Any] = []  # noqa: RUF012 - replaced, never changed


class Rows:
    """What is written of this process.

    Attributes:
        on_call: called with the arguments of whatever module the program itself calls.
        on_step: called when the row of a step of the main thread was closed.
        on_passage: called when something was saved or loaded; None where nobody asks.
        buffers_of: what else a row holds of the state of models.
        has_loaders: a DataLoader gave a batch.
    """

    def __init__(self, folder: Path, spec: RunSpec, journal: Journal, thread: threading.Thread | None = None) -> None:
        self.folder, self.spec, self.journal = folder, spec, journal
        self.installed, self.graphs = ExitStack(), Graphs()
        self.on_call: list[Callable[[object], None]] = []
        self.on_step: list[Callable[[Log], None]] = []
        self.on_passage: Callable[[Passage], None] | None = None
        self.buffers_of: Callable[[Lane], list[Named]] = lambda lane: lane.models.changed_buffers()
        self.has_loaders = False
        # What has died, and was not looked at yet.
        self._dead: deque[tuple[Lane, Holder | HeldOptimizer]] = deque()
        self._begin((thread or threading.main_thread()).ident or 0)

    def _begin(self, thread: int) -> None:
        self.pid, self.thread = os.getpid(), thread
        # Hooks of several threads come one at a time.
        self.lock = threading.RLock()
        self.inside_hooks = 0
        self._dead.clear()
        self._noted: set[str] = set()
        self.inside = _Inside()
        self.main = self._new_lane()
        # Those of other threads, as they came.
        self.lanes: list[Lane] = []

    # ---- lanes -------------------------------------------------------------------------------------------------------

    def _new_lane(self, number: int = 1, is_own_thread: bool = False) -> Lane:
        lane_id = current_lane_id(number) if number > 1 or is_own_thread else None
        log = Log(self.folder, self.spec, self.journal, lane_id, self.finish)
        lane = Lane(log, self._died, number, is_own_thread)
        if not lane.is_split:
            log.leash = Leash(self.folder, self.spec)
        if self.spec.ops is not None and get_worker_info() is None:
            if is_own_thread:
                self.note_once("operations of threads other than the main one")
            else:
                # Only the first training of a process is followed and kept from: which one comes second is arrival.
                first = self.spec.ops if number == 1 else OpWindow(self.spec.ops.first, self.spec.ops.last)
                with self.unless_unknown("operations"):
                    # Only where operations are recorded: the schemas of all of them take a tenth of a second.
                    from samebits.agent.ops.mode import OpRecorder

                    lane.ops = OpRecorder(log, first)
        return lane

    @contextmanager
    def unless_unknown(self, what: str) -> Iterator[None]:
        """A torch that lacks something which only samebits needs costs what is seen by it, and not the recording."""
        try:
            yield
        except (AttributeError, ImportError) as error:
            self.note_once(f"{what}, because this torch is another one than samebits knows: {error}")

    @property
    def lane(self) -> Lane:
        """What the calling thread is recorded in."""
        if threading.get_ident() == self.thread:
            return self.main
        lane = self.inside.lane
        if lane is None:
            lane = self.inside.lane = self._new_lane(is_own_thread=True)
            self.lanes.append(lane)
        return lane

    def active_lane(self) -> Lane | None:
        """The same; None where nothing is recorded: in a DataLoader worker, and after a full disk."""
        lane = self.lane
        return None if lane.log.broken or get_worker_info() is not None else lane

    def begin_if_over(self, module: object) -> None:
        """A worker whose training has stepped, and that turns to a model of which nothing was met, has another job."""
        if self.lane.is_over and get_worker_info() is None and self.lane.models.is_new(module):
            self.begin_training()

    def begin_training(self) -> None:
        """What was recorded in this thread is over; what comes now is another training."""
        lane = self.lane
        if self.active_lane() is not None:
            self._finish(lane)
        following = self._new_lane(lane.number + 1, lane.is_own_thread)
        if lane.is_own_thread:
            self.lanes[self.lanes.index(lane)] = self.inside.lane = following
        else:
            self.main = following
            if following.ops is not None:
                following.ops.begin_step(0)

    def thread_ended(self, thread: object) -> None:
        """Its last training is over."""
        lane = self.inside.lane
        if lane is not None:
            if self.active_lane() is not None:
                self._finish(lane)
            self.lanes.remove(lane)
            self.inside.lane = None

    # ---- calls of hooks ----------------------------------------------------------------------------------------------

    def safely(self, hook: Callable[..., None]) -> Callable[..., None]:
        """A mistake of ours must not end the user's run: the recording ends instead, and says why."""

        def safe(*args: Any, **kwargs: object) -> None:
            # Inside a compiled region this must vanish: the compiler folds the test and never looks further.
            if torch.compiler.is_compiling():
                return
            if self.graphs.is_capturing():
                return
            with self.lock:
                self.inside_hooks += 1
                try:
                    hook(*args, **kwargs)
                except Exception as error:
                    self.lane.log.failed(error)
                finally:
                    self.inside_hooks -= 1
                if self._dead:
                    self._look_at_the_dead()

        return safe

    def told(self, hook: Callable[..., None]) -> Callable[..., None]:
        """The same for a hook that takes the lane first; called only where something is recorded."""

        def tell(*args: Any, **kwargs: object) -> None:
            lane = self.active_lane()
            if lane is not None:
                hook(lane, *args, **kwargs)

        return self.safely(tell)

    def note_once(self, what: str, sort: str = "") -> None:
        """Note what is not seen; of each sort the first."""
        if (sort or what) not in self._noted:
            self._noted.add(sort or what)
            self.journal.note(Unseen(what))

    # ---- last looks

    def _died(self, lane: Lane, thing: Holder | HeldOptimizer) -> None:
        """Called in whatever thread and place a module or an optimizer dies, also by the garbage collector."""
        if lane.log.broken or sys.is_finalizing() or self.pid != os.getpid():
            return
        self._dead.append((lane, thing))
        may_look = not is_tracing() and self.spec.ops is None and not self.graphs.is_capturing()
        if may_look and self.lock.acquire(blocking=False):
            try:
                # A digest that is under way must not be interrupted by another.
                if not self.inside_hooks:
                    self._look_at_the_dead()
            finally:
                self.lock.release()

    def _look_at_the_dead(self) -> None:
        self.inside_hooks += 1
        try:
            while self._dead:
                lane, thing = self._dead.popleft()
                if not lane.log.broken and get_worker_info() is None:
                    lane.look_at_last(thing)
        except Exception as error:
            self.lane.log.failed(error)
        finally:
            self.inside_hooks -= 1

    # ---- the end of a step, and of the process ----------------------------------------------------------------------

    def end_step(self, cut: str) -> None:
        """Write a row of the calling thread's lane, cut by what `cut` says."""
        lane = self.lane
        is_last = self._close_row(lane, cut)
        for ended in self.on_step if lane is self.main else ():
            ended(lane.log)
        if is_last:
            self._stop(lane)
        if lane.ops is not None and not lane.log.broken:
            lane.ops.begin_step(lane.log.step)

    def _close_row(self, lane: Lane, cut: str) -> bool:
        """Write a row; True when this was the last step that was asked for."""
        lane.forward_open = False
        lane.keep_outputs()
        lane.log.add("buffer", self.buffers_of(lane))
        lane.look_at_copies()
        if lane.ops is not None:
            lane.ops.end_step()
        is_last = lane.log.end_step(cut)
        if lane.is_split and not lane.is_own_thread:
            # A pool ends its workers with a signal when it is left.
            lane.log.commit()
        return is_last

    def end_call(self) -> None:
        """Where nothing is trained, a call of the outermost module is a step; workers call in unknown order."""
        if self.lane.only_calls:
            self._forget_call(self.lane)
        else:
            self.end_step("forward")

    def _forget_call(self, lane: Lane) -> None:
        self.note_once(f"what {lane.log.lane_id.name} computed without training: jobs come in any order")
        lane.forward_open = False
        lane.drop_outputs()
        lane.log.forget()

    def finish(self) -> None:
        """Write what came after the last step, and mark the recordings as complete."""
        if self.pid != os.getpid() or get_worker_info() is not None:
            return
        for failure in imports.failures:
            self.note_once(f"something, because of {failure}")
        for lane in (self.main, *self.lanes):
            if not lane.log.broken:
                self.safely(self._finish)(lane)

    def _finish(self, lane: Lane) -> None:
        log, only_calls = lane.log, lane.is_untrained_call
        if only_calls and lane.only_calls:
            self._forget_call(lane)
        lane.keep_outputs()
        if log.has_anything and (only_calls or not log.step):
            # Stopping is over with the end.
            self._close_row(lane, "backward" if lane.has_backward else "forward")
        if lane.ops is not None:
            lane.ops.close()
        if log.has_anything:
            lane.models.look_again()
            self._look_at_the_dead()
            lane.look_at_all()
            if lane.has_lost_leaves:
                self.note_once(
                    "the last values of tensors that gradients were computed for, which were gone at the end"
                )
        log.close()

    def _stop(self, lane: Lane) -> None:
        """Everything that was asked for is on disk: end the process here, or this recording where others may follow."""
        lane.log.close(complete=False)
        if lane.is_split:
            self.journal.note(Stopped(lane.log.step - 1, lane.log.rank))
        else:
            end_process(self.journal, lane.log.step - 1, lane.log.rank)


def end_process(journal: Journal, last_step: int, rank: int) -> None:
    """End this process after a step, on purpose; what the program printed so far is written."""
    journal.note(Used(tuple(what_was_used())))
    journal.note(Ended(rank, last_step))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(0)
