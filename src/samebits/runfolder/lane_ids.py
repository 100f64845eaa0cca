"""Which process or thread a recording is of: when it was made among the others of its run, and what users call it."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import sys
import threading
from dataclasses import dataclass

from samebits.base.processes import PARENT, START_TIME, stat_of


@dataclass(frozen=True)
class LaneId:
    """Where one recording comes from.

    Attributes:
        order: compares as the order of creation does: a pair of numbers for every ancestor, the eldest first, then for
            the process itself, and for a thread that is not the main one.
        process: what users call it: `SpawnProcess-2`, or the command line it was started with.
        thread: its name; empty for the main one.
        training: counts from 1 those that one worker or thread does one after the other; 0 where they are not counted.
    """

    order: tuple[tuple[int, int], ...] = ()
    process: str = ""
    thread: str = ""
    training: int = 0

    @property
    def name(self) -> str:
        """For an answer: `training 2 of thread Thread-1 of process SpawnProcess-2`."""
        training = f"training {self.training}" if self.training > 1 else ""
        thread = f"thread {self.thread}" if self.thread else ""
        return " of ".join(filter(None, (training, thread, self.process and f"process {self.process}")))


def current_lane_id(training: int = 0) -> LaneId:
    """The lane of the calling thread."""
    thread = threading.current_thread()
    if thread is threading.main_thread():
        return LaneId(_ancestry(os.getpid()), _process_name(), "", training)
    order = (*_ancestry(os.getpid()), (thread.native_id or 0, 0))
    return LaneId(order, _process_name(), thread.name, training)


def _ancestry(pid: int) -> tuple[tuple[int, int], ...]:
    """Start time and number of every process from the eldest ancestor down to this one.

    Arrival says nothing about who was made first, and numbers alone say it only until they start again from below.
    """
    chain: list[tuple[int, int]] = []
    while pid > 0 and (fields := stat_of(pid)):
        chain.append((int(fields[START_TIME]), pid))
        pid = int(fields[PARENT])
    return tuple(reversed(chain)) or ((0, os.getpid()),)


def _process_name() -> str:
    process = multiprocessing.current_process()
    if process.name != "MainProcess":
        return process.name
    program, *rest = getattr(sys, "orig_argv", None) or sys.argv or ["python"]
    return f"`{shlex.join([os.path.basename(program), *rest])}`"
