"""The step-level recording: hooks that see a training run pass by and write one row per optimizer step.

Everything here runs inside the user's program and must leave its bits alone: it draws from no generator, keeps no
graph, waits for no device, and uses only hooks that are known to be neutral (no full backward hooks). What there is to
see is divided among `module_hooks`, `gradient_hooks`, `optimizer_hooks`, `data_hooks` and `last_looks`; what they find
goes to the lane of the calling thread, and rows are cut here.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import get_worker_info

from samebits.agent.data_hooks import DataHooks
from samebits.agent.ending import Ending
from samebits.agent.gradient_hooks import GradientHooks
from samebits.agent.interruption import Interruption
from samebits.agent.lanes import Lane, new_lane
from samebits.agent.last_looks import LastLooks
from samebits.agent.listening import Named, listen
from samebits.agent.log import Log
from samebits.agent.models import Models
from samebits.agent.module_hooks import ModuleHooks
from samebits.agent.optimizer_hooks import OptimizerHooks, remove_left_over
from samebits.agent.optimizers import Optimizers
from samebits.agent.training import Training
from samebits.agent.used import what_was_used
from samebits.bits.digest.unseen import MISSING
from samebits.factors import imports
from samebits.runfolder.lane_ids import current_lane_id
from samebits.runfolder.notes import Ended, Journal, Stopped, Unseen, Used
from samebits.runfolder.spec import OpWindow, RunSpec

if TYPE_CHECKING:
    from samebits.agent.ops.mode import OpRecorder


# A process that leaves by `os._exit` waits no longer for what is still to be written.
SECONDS_TO_FINISH = 30.0


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


class Recorder:
    """Watches this process. One per process; a forked child begins a new one when it trains itself."""

    def __init__(self, folder: Path, spec: RunSpec, journal: Journal, thread: threading.Thread | None = None) -> None:
        self.folder, self.spec, self.journal = folder, spec, journal
        self.installed = ExitStack()
        self.last_looks = LastLooks(self)
        self.module_hooks, self.gradient_hooks = ModuleHooks(self), GradientHooks(self)
        self.optimizer_hooks, self.data_hooks = OptimizerHooks(self), DataHooks(self)
        self.interruption = None if spec.resume is None else Interruption(self, spec.resume)
        # Of the process that this one was forked from.
        self.inherited: list[Lane] = []
        self._begin((thread or threading.main_thread()).ident or 0)

    def _begin(self, thread: int) -> None:
        self.pid, self.thread = os.getpid(), thread
        # Hooks of several threads come one at a time.
        self.lock = threading.RLock()
        self.inside_hooks = 0
        self.last_looks.forget()
        self._noted: set[str] = set()
        self.inside = _Inside()
        self.main = self._new_lane()
        # Those of other threads, as they came.
        self.lanes: list[Lane] = []

    # ---- lanes -------------------------------------------------------------------------------------------------------

    def _new_lane(self, number: int = 1, is_own_thread: bool = False) -> Lane:
        lane_id = current_lane_id(number) if number > 1 or is_own_thread else None
        log = Log(self.folder, self.spec, self.journal, lane_id)
        log.when_opened(self.finish)
        lane = new_lane(log, self.last_looks.died, number=number, is_own_thread=is_own_thread)
        if not lane.is_split:
            log.ending = Ending(self.folder, self.spec)
        if self.spec.ops is not None and get_worker_info() is None:
            if is_own_thread:
                self.note_once("operations of threads other than the main one")
            else:
                # Only the first training of a process is followed and kept from: which one comes second is arrival.
                first = self.spec.ops if number == 1 else OpWindow(self.spec.ops.first, self.spec.ops.last)
                with self._unless_unknown("operations"):
                    # Only where operations are recorded: the schemas of all of them take a tenth of a second.
                    from samebits.agent.ops.mode import OpRecorder

                    lane.ops = OpRecorder(log, first)
        return lane

    @contextmanager
    def _unless_unknown(self, what: str) -> Iterator[None]:
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

    @property
    def log(self) -> Log:
        return self.lane.log

    @property
    def training(self) -> Training:
        return self.lane.training

    @property
    def models(self) -> Models:
        return self.lane.models

    @property
    def optimizers(self) -> Optimizers:
        return self.lane.optimizers

    @property
    def ops(self) -> OpRecorder | None:
        return self.lane.ops

    def begin_if_over(self, module: object) -> None:
        """A worker whose training has stepped, and that turns to a model of which nothing was met, has another job."""
        if self.lane.is_over and get_worker_info() is None and self.models.is_new(module):
            self.begin_training()

    def begin_training(self) -> None:
        """What was recorded in this thread is over; what comes now is another training."""
        lane = self.lane
        if self.is_active():
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
            if self.is_active():
                self._finish(lane)
            self.lanes.remove(lane)
            self.inside.lane = None

    # ---- hooks -------------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Hook torch. Call once; what a process has to do at its end is done by `finish`."""
        for what, hooks in (
            ("steps of optimizers", self.optimizer_hooks),
            ("calls of modules", self.module_hooks),
            ("gradients", self.gradient_hooks),
            ("batches, and what is saved", self.data_hooks),
        ):
            with self._unless_unknown(what):
                hooks.install(self.installed)
        if MISSING:
            self.note_once(f"whether samebits shows in the program's own modes: this torch has no {', '.join(MISSING)}")
        if self.interruption is not None:
            self.interruption.install(self.installed)
        if hasattr(threading.Thread, "_delete"):
            self.installed.callback(listen(threading.Thread, "_delete", before=self.safely(self.thread_ended)))
        if self.ops is not None:
            self.ops.begin_step(0)

    def uninstall(self) -> None:
        """Leave torch as it was."""
        if self.main.ops is not None:
            self.main.ops.abandon()
        self.module_hooks.remove()
        self.installed.close()
        remove_left_over()

    def stay_to_the_end(self) -> None:
        """Record until the process ends, however it does, and in children that it forks."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_in_child)
        atexit.register(self.finish)
        # Leaving without atexit is common after training; what was recorded must not depend on how a script leaves.
        leave = os._exit
        listen(os, "_exit", before=lambda *status, **named: self._finish_before(leave, *status, **named))

    def _finish_before(self, leave: Callable[[int], object], *given: Any, **named: Any) -> None:
        """Write what there is, in bounded time: who leaves so may leave because a thread or a device hangs."""
        if self.pid != os.getpid() or get_worker_info() is not None:
            return
        done = _thread.allocate_lock()
        done.acquire()

        def leave_late() -> None:
            if not done.acquire(timeout=SECONDS_TO_FINISH):
                leave(*given, **named)

        # At the very end of an interpreter there may be no more threads, nor others to wait for.
        with suppress(RuntimeError):
            # One that `threading` does not know: the program's own are counted and listed.
            _thread.start_new_thread(leave_late, ())
        try:
            self.finish()
        finally:
            done.release()

    def safely(self, hook: Callable[..., None]) -> Callable[..., None]:
        """A mistake of ours must not end the user's run: the recording ends instead, and says why."""

        def safe(*args: Any, **kwargs: object) -> None:
            # Inside a compiled region this must vanish: the compiler folds the test and never looks further.
            if torch.compiler.is_compiling():
                return
            if self.optimizer_hooks.graphs.is_capturing():
                if hook == self.optimizer_hooks.after_step:
                    self.optimizer_hooks.graphs.note_step(args[0])
                return
            with self.lock:
                self.inside_hooks += 1
                try:
                    hook(*args, **kwargs)
                except Exception as error:
                    self.log.failed(error)
                finally:
                    self.inside_hooks -= 1
                if self.last_looks.are_due:
                    self.last_looks.look_at_the_dead()

        return safe

    def _begin_in_child(self) -> None:
        # The parent's file must not be closed from here, not even by the garbage collector: it is kept, and left alone.
        self.inherited = [self.main, *self.lanes]
        if self.main.ops is not None:
            self.main.ops.abandon()
        self._begin(threading.get_ident())

    def is_active(self) -> bool:
        """Whether this process trains: not a DataLoader worker, not broken by a full disk."""
        return self.active_lane() is not None

    def active_lane(self) -> Lane | None:
        """What the calling thread is recorded in; None where it does not train."""
        lane = self.lane
        return None if lane.log.broken or get_worker_info() is not None else lane

    def note_once(self, what: str, sort: str = "") -> None:
        """Note what is not seen; of each sort the first."""
        if (sort or what) not in self._noted:
            self._noted.add(sort or what)
            self.journal.note(Unseen(what))

    # ---- the end of a step, and of the process ----------------------------------------------------------------------

    def end_step(self, cut: str) -> None:
        lane = self.lane
        is_last = self._close_row(lane, cut)
        if self.interruption is not None and lane is self.main:
            self.interruption.step_ended(lane.log)
        if is_last:
            self._stop()
        if lane.ops is not None and not lane.log.broken:
            lane.ops.begin_step(lane.log.step)

    def _close_row(self, lane: Lane, cut: str) -> bool:
        """Write a row; True when this was the last step that was asked for."""
        lane.training.forward_open = False
        lane.training.keep_outputs()
        lane.log.add("buffer", self._buffers(lane))
        self.last_looks.look_at_copies(lane)
        if lane.ops is not None:
            lane.ops.end_step()
        is_last = lane.log.end_step(cut)
        if lane.is_split and not lane.is_own_thread:
            # A pool ends its workers with a signal when it is left.
            lane.log.commit()
        return is_last

    def _buffers(self, lane: Lane) -> list[Named]:
        return lane.models.changed_buffers() if self.interruption is None else self.interruption.states(lane)

    def end_call(self) -> None:
        """Where nothing is trained, a call of the outermost module is a step; workers call in unknown order."""
        if self.lane.only_calls:
            self._forget_call(self.lane)
        else:
            self.end_step("forward")

    def _forget_call(self, lane: Lane) -> None:
        self.note_once(f"what {lane.log.lane_id.name} computed without training: jobs come in any order")
        lane.training.forward_open = False
        lane.training.drop_outputs()
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
        training, log = lane.training, lane.log
        only_calls = training.forward_open and not training.has_optimizer and not training.has_backward
        if only_calls and lane.only_calls:
            self._forget_call(lane)
        training.keep_outputs()
        if log.has_anything and (only_calls or not log.step):
            # Stopping is over with the end.
            self._close_row(lane, "backward" if training.has_backward else "forward")
        if lane.ops is not None:
            lane.ops.close()
        if log.has_anything:
            self.last_looks.look_at_all(lane)
        log.close()

    def _stop(self) -> None:
        """Everything that was asked for is on disk: end the process here, or this recording where others may follow."""
        lane = self.lane
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
