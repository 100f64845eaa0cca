"""The process, thread and training that a recording belongs to: the order of their creation, and their names."""

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
    """The process, thread and training that one recording belongs to.

    Attributes:
        order: sorts lanes by their creation: a pair of numbers for each ancestor, the eldest first, for the process
            itself, and for the thread if it is not the main one.
        process: the name that users know: `SpawnProcess-2`, or the command line that started the process.
        thread: name of the thread; empty for the main one.
        training: number, from 1, of the training among those of one worker or thread; 0 where they are not counted.
    """

    order: tuple[tuple[int, int], ...] = ()
    process: str = ""
    thread: str = ""
    training: int = 0

    @property
    def name(self) -> str:
        """The name in an answer, such as `training 2 of thread Thread-1 of process SpawnProcess-2`."""
        training = f"training {self.training}" if self.training > 1 else ""
        thread = f"thread {self.thread}" if self.thread else ""
        return " of ".join(filter(None, (training, thread, self.process and f"process {self.process}")))


def current_lane_id(training: int = 0) -> LaneId:
    """Return the id of the calling thread's lane."""
    thread = threading.current_thread()
    if thread is threading.main_thread():
        return LaneId(_ancestry(os.getpid()), _process_name(), "", training)
    order = (*_ancestry(os.getpid()), (thread.native_id or 0, 0))
    return LaneId(order, _process_name(), thread.name, training)


def _ancestry(pid: int) -> tuple[tuple[int, int], ...]:
    """Return start time and process id of every process from the eldest ancestor down to this one.

    The order in which recordings arrive says nothing about creation, and process ids alone start again at some point.
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
