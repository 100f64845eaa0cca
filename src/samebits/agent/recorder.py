"""The step-level recording: hooks that see a training run pass by and write one row per optimizer step.

Everything here runs inside the user's program and must leave its bits alone: it draws from no generator, keeps no
graph, waits for no device, and uses only hooks that are known to be neutral (no full backward hooks). What there is to
see is divided between `call_hooks` and `training_hooks`; what they find goes to `rows`.
"""

from __future__ import annotations

import _thread
import atexit
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch.utils.data import get_worker_info

from samebits.agent.call_hooks import CallHooks, DataHooks
from samebits.agent.interruption import Interruption
from samebits.agent.lanes import Lane
from samebits.agent.listening import listen
from samebits.agent.rows import Rows
from samebits.agent.training_hooks import GradientHooks, OptimizerHooks, remove_left_over
from samebits.bits.digest.unseen import MISSING
from samebits.runfolder.notes import Journal
from samebits.runfolder.spec import RunSpec

# A process that leaves by `os._exit` waits no longer for what is still to be written.
SECONDS_TO_FINISH = 30.0


class Recorder(Rows):
    """Watches this process. One per process; a forked child begins a new one when it trains itself."""

    def __init__(self, folder: Path, spec: RunSpec, journal: Journal, thread: threading.Thread | None = None) -> None:
        super().__init__(folder, spec, journal, thread)
        self.call_hooks = CallHooks(self)
        # Of the process that this one was forked from.
        self.inherited: list[Lane] = []

    def install(self) -> None:
        """Hook torch. Call once; what a process has to do at its end is done by `finish`."""
        interruption = None if self.spec.resume is None else Interruption(self, self.spec.resume)
        for what, hooks in (
            ("steps of optimizers", OptimizerHooks(self)),
            ("calls of modules", self.call_hooks),
            ("gradients", GradientHooks(self)),
            ("batches, and what is saved", DataHooks(self)),
        ):
            with self.unless_unknown(what):
                hooks.install(self.installed)
        if MISSING:
            self.note_once(f"whether samebits shows in the program's own modes: this torch has no {', '.join(MISSING)}")
        if interruption is not None:
            # Around the hooks: what it notes of a batch or a save, they have counted.
            interruption.install(self.installed)
        if hasattr(threading.Thread, "_delete"):
            self.installed.callback(listen(threading.Thread, "_delete", before=self.safely(self.thread_ended)))
        if self.lane.ops is not None:
            self.lane.ops.begin_step(0)

    def uninstall(self) -> None:
        """Leave torch as it was."""
        if self.main.ops is not None:
            self.main.ops.abandon()
        self.call_hooks.remove()
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

    def _begin_in_child(self) -> None:
        # The parent's file must not be closed from here, not even by the garbage collector: it is kept, and left alone.
        self.inherited = [self.main, *self.lanes]
        if self.main.ops is not None:
            self.main.ops.abandon()
        self._begin(threading.get_ident())
