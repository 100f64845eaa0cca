"""The recording at level step: taps report events, every thread and training has a lane, and every step a row.

Everything here runs inside the user's program and must leave its bits alone: it draws from no generator, keeps no
graph, waits for no device, and uses only hooks that are known to be neutral (no full backward hooks).
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import torch
from torch.utils.data import get_worker_info

from samebits.agent.events import Event
from samebits.agent.handlers import is_of_handler
from samebits.agent.lanes import Lane, Last
from samebits.agent.leash import Leash
from samebits.agent.log import Log
from samebits.agent.process_end import end_process
from samebits.agent.taps import autograd, loaders, optimizers, saving, threads
from samebits.agent.taps.graphs import Graphs, is_tracing
from samebits.agent.taps.listening import listen
from samebits.agent.taps.modules import CallDepth, ModuleTap
from samebits.bits.digest.unseen import MISSING
from samebits.factors import imports
from samebits.runfolder.lane_ids import current_lane_id
from samebits.runfolder.notes import Journal, Unseen
from samebits.runfolder.spec import OpWindow, RunSpec

# At most so many trainings are kept open that no thread is at; each has a file of its own.
MOST_LEFT = 32
# A process that leaves by `os._exit` waits at most so long until its recording is written.
SECONDS_TO_FINISH = 30.0


class ThreadState(CallDepth):
    """How deep a thread is in calls of modules, and the lane that records it, unless that is the main lane."""

    lane: Lane | None = None


class Recorder:
    """Records this process. There is one per process; in a forked child it begins a new recording."""

    def __init__(self, spec: RunSpec, journal: Journal, thread: threading.Thread | None = None) -> None:
        self.spec, self.journal = spec, journal
        self._installed, self._graphs = ExitStack(), Graphs()
        # Further listeners, which are called before the lane takes up an event, and after it.
        self._listeners_before: defaultdict[Event, list[Callable[..., None]]] = defaultdict(list)
        self._listeners_after: defaultdict[Event, list[Callable[..., None]]] = defaultdict(list)
        for event in (Event.CALLED, Event.COPIED, Event.LOADED, Event.OPTIMIZER_MADE):
            self.on(event, self._begin_if_over, first=True)
        self.on(Event.JOB_ENDS, self._job_ends)
        # Whether a DataLoader gave a batch.
        self.has_loaders = False
        # Objects that have died, and whose last state was not digested yet.
        self._dead: deque[tuple[Lane, Last]] = deque()
        # The lanes of the process that this one was forked from.
        self._inherited: list[Lane] = []
        self._begin((thread or threading.main_thread()).ident or 0)

    def _begin(self, thread: int) -> None:
        self.pid, self.thread = os.getpid(), thread
        # Events of several threads are handled one at a time.
        self.lock = threading.RLock()
        self._inside_hooks = 0
        self._dead.clear()
        self._noted: set[str] = set()
        self._here = ThreadState()
        # The lane of the thread that the recorder was made for; and those of other threads, as they came.
        self.main = self._new_lane()
        self.lanes: list[Lane] = []

    def _begin_in_child(self) -> None:
        # A child must not close its parent's file, not even by garbage collection: the lanes are kept, and never used.
        self._inherited = [self.main, *self.lanes]
        if self.main.ops is not None:
            self.main.ops.close(writes=False)
        self._begin(threading.get_ident())

    # ---- beginning and end of the recording

    def install(self) -> None:
        """Hook torch. Call it once; `finish` does what is due when the process ends."""
        stack, tell, is_watched = self._installed, self.tell, self.spec.resume is not None
        module_tap = ModuleTap(tell, self._here, self._module_passes)
        taps: tuple[tuple[str, Callable[[], None]], ...] = (
            ("steps of optimizers", lambda: optimizers.install(stack, tell, self._graphs)),
            ("calls of modules", lambda: module_tap.install(stack)),
            ("gradients", lambda: autograd.install(stack, tell)),
            ("batches", lambda: loaders.install(stack, tell, self._here, with_indices=is_watched)),
            ("the ends of jobs and threads", lambda: threads.install(stack, tell)),
            ("what is saved", lambda: saving.install(stack, tell, with_passages=is_watched)),
        )
        for what, install in taps:
            with self._unless_unknown(what):
                install()
        if MISSING:
            self.note_once(f"whether the program's own modes notice samebits: this torch has no {', '.join(MISSING)}")
        if self.lane.ops is not None:
            self.lane.ops.begin_step(0)

    def uninstall(self) -> None:
        """Leave torch as it was."""
        if self.main.ops is not None:
            self.main.ops.close(writes=False)
        self._installed.close()
        optimizers.remove_left_over()

    def stay_to_the_end(self) -> None:
        """Record until the process ends, in whatever way it does, and in the children that it forks."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_in_child)
        atexit.register(self.finish)
        # Leaving without atexit is common after training; what was recorded must not depend on how a script leaves.
        leave = os._exit
        listen(os, "_exit", before=lambda *status, **named: self._finish_before(leave, *status, **named))

    def _finish_before(self, leave: Callable[..., object], *given: object, **named: object) -> None:
        """Finish the recording before `os._exit`, in bounded time: a thread or a device may hang."""
        if self.pid != os.getpid() or get_worker_info() is not None:
            return
        done = _thread.allocate_lock()
        done.acquire()

        def leave_late() -> None:
            if not done.acquire(timeout=SECONDS_TO_FINISH):
                leave(*given, **named)

        # At the very end of an interpreter no thread can be started, and there is none to wait for.
        with suppress(RuntimeError):
            # A thread that `threading` does not know, since programs count and list those that it knows.
            _thread.start_new_thread(leave_late, ())
        try:
            self.finish()
        finally:
            done.release()

    @contextmanager
    def _unless_unknown(self, what: str) -> Iterator[None]:
        """Note what is not seen where torch lacks something that samebits needs, and go on recording all else."""
        try:
            yield
        except (AttributeError, ImportError) as error:
            self.note_once(f"{what}, because samebits does not know this version of torch: {error}")

    def note_once(self, what: str) -> None:
        """Note what is not seen, unless that was noted before."""
        if what not in self._noted:
            self._noted.add(what)
            self.journal.note(Unseen(what))

    # ---- events

    def on(self, event: Event, heard: Callable[..., None], first: bool = False) -> None:
        """Add a listener to an event: called before the lane takes it up (`first`), or after it."""
        (self._listeners_before if first else self._listeners_after)[event].append(heard)

    def tell(self, event: Event, *facts: object) -> None:
        """Handle an event of a tap. A mistake of ours must not end the run: it ends the recording, and is noted."""
        # A forked worker may have inherited a lock that nobody releases any more.
        if torch.compiler.is_compiling() or get_worker_info() is not None or self._graphs.is_capturing():
            return
        with self.lock, self._in_hooks():
            for listener in self._listeners_before[event]:
                listener(*facts)
            # An event that is none of a training begins no lane.
            lane = self.lane if event in self.main.event_handlers else None
            if lane is not None and not lane.log.has_stopped:
                lane.event_handlers[event](*facts)
                self.has_loaders |= event is Event.FETCHED
            for listener in self._listeners_after[event]:
                listener(*facts)
        if self._dead:
            with self.lock:
                self._look_at_the_dead()

    def _module_passes(self, module: torch.nn.Module, begins: bool) -> None:
        if self.main.ops is not None:
            self.main.ops.module_passes(module, begins)

    @contextmanager
    def _in_hooks(self) -> Iterator[None]:
        self._inside_hooks += 1
        try:
            yield
        except Exception as error:
            self.lane.log.failed(error)
            if is_of_handler(error):
                raise
        finally:
            self._inside_hooks -= 1

    # ---- lanes

    def _new_lane(self, number: int = 1, is_own_thread: bool = False) -> Lane:
        lane_id = current_lane_id(number) if number > 1 or is_own_thread else None
        log = Log(self.spec, self.journal, lane_id, self.finish)
        lane = Lane(log, number, is_own_thread, self._died, self._end_row, self.note_once)
        if not lane.is_split:
            log.leash = Leash(self.journal.folder, self.spec)
        if self.spec.ops is not None and get_worker_info() is None:
            if is_own_thread:
                self.note_once("operations of threads other than the main one")
            else:
                # Only in the first training are operations compared and kept: which comes second depends on arrival.
                window = self.spec.ops if number == 1 else OpWindow(self.spec.ops.first, self.spec.ops.last)
                with self._unless_unknown("operations"):
                    # Imported only where operations are recorded: all of their schemas take a tenth of a second.
                    from samebits.agent.ops.mode import OpRecorder

                    lane.ops = OpRecorder(log, window, self.note_once)
        return lane

    @property
    def lane(self) -> Lane:
        """The lane that records the calling thread."""
        if threading.get_ident() == self.thread:
            return self.main
        lane = self._here.lane
        if lane is None or lane.thread != threading.get_ident():
            if _is_autograds():
                # A device's backward has a thread of its own, which calls checkpointed modules again.
                return self.main
            lane = self._here.lane = self._new_lane(is_own_thread=True)
            self.lanes.append(lane)
        return lane

    def _begin_if_over(self, thing: object, *_: object) -> None:
        """Begin a new lane if a worker whose training has stepped has another job: a new optimizer or a new model.

        A thread that goes on with what another one has trained takes up its lane.
        """
        lane = self.lane
        is_made = isinstance(thing, torch.optim.Optimizer)
        if not (lane.is_over or lane.is_unused) or not (is_made or lane.models.is_new(thing)):
            return
        begun = None if is_made or not lane.is_own_thread else self._left_by_others(thing)
        if begun is not None:
            self._leave(lane)
            begun.thread, self._here.lane = threading.get_ident(), begun
        elif lane.is_over and lane.is_own_thread:
            self._leave(lane)
            self._here.lane = self._new_lane(lane.number + 1, is_own_thread=True)
            self.lanes.append(self._here.lane)
        elif lane.is_over:
            self._finish_lane(lane)
            self.main = self._new_lane(lane.number + 1)
            if self.main.ops is not None:
                self.main.ops.begin_step(0)

    def _left_by_others(self, module: object) -> Lane | None:
        """Return the lane in which this module was trained by a thread that is not at work now."""
        for lane in self.lanes:
            if lane.thread != threading.get_ident() and lane.trains(module) and not threads.is_at_work(lane.thread):
                return lane
        return None

    def _leave(self, lane: Lane) -> None:
        """Leave a lane to whoever goes on with its training; it ends when nothing of it is alive any more."""
        lane.thread, self._here.lane = None, None
        left = [one for one in self.lanes if one.thread is None]
        for number, one in enumerate(left, start=MOST_LEFT - len(left)):
            if number < 0 or not one.is_alive:
                self._finish_lane(one)
                self.lanes.remove(one)

    def _job_ends(self, is_last: bool) -> None:
        lane = self._here.lane
        if lane is not None and lane.thread == threading.get_ident() and (lane.is_over or is_last):
            self._leave(lane)

    def _finish_lane(self, lane: Lane) -> None:
        if not lane.log.has_stopped:
            lane.finish(self._look_at_the_dead)

    # ---- last looks

    def _died(self, lane: Lane, thing: Last) -> None:
        """Queue a dead module or optimizer for a last look. Called wherever it dies, also by the garbage collector."""
        if lane.log.has_stopped or sys.is_finalizing() or self.pid != os.getpid():
            return
        self._dead.append((lane, thing))
        may_look = not is_tracing() and self.spec.ops is None and not self._graphs.is_capturing()
        if may_look and self.lock.acquire(blocking=False):
            try:
                # A digest that is under way must not be interrupted by another.
                if not self._inside_hooks:
                    self._look_at_the_dead()
            finally:
                self.lock.release()

    def _look_at_the_dead(self) -> None:
        with self._in_hooks():
            while self._dead:
                lane, thing = self._dead.popleft()
                if not lane.log.has_stopped and get_worker_info() is None:
                    lane.digest_last_state(thing)

    # ---- the end of a row, and of the process

    def _end_row(self, lane: Lane, cut: str) -> None:
        """End a row, cut by a step of the name `cut`, and the run if the row was its last."""
        is_last = lane.close_row(cut)
        for listener in self._listeners_after[Event.ROW_ENDED] if lane is self.main else ():
            listener(lane.log)
        if is_last:
            # All steps that were asked for are done: end the process, or only this recording where others may follow.
            lane.log.close(complete=False)
            if not lane.is_split:
                # The rows of other threads are left in the middle, so they are not written: nothing compares with them.
                for other in self.lanes:
                    other.log.close(complete=False)
                end_process(self.journal, lane.log.step - 1)
        if lane.ops is not None and not lane.log.has_stopped:
            lane.ops.begin_step(lane.log.step)

    def finish(self) -> None:
        """Write what came after the last step, and mark the recordings as complete."""
        if self.pid != os.getpid() or get_worker_info() is not None or self._graphs.is_capturing():
            return
        for failure in imports.failures:
            self.note_once(f"something, because of {failure}")
        for lane in (self.main, *self.lanes):
            with self.lock, self._in_hooks():
                self._finish_lane(lane)


def _is_autograds() -> bool:
    """Whether this thread is one of autograd's, which Python did not start and knows at most as a dummy thread."""
    thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    is_foreign = thread is None or isinstance(thread, threading._DummyThread)
    return is_foreign and torch._C._current_autograd_node() is not None
