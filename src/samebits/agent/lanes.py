"""One recording in the making: of the main thread, of another thread, or of one training of a worker.

A worker takes whichever job comes next, so what one process or thread does altogether depends on arrival, and only one
training can be compared with one of another run. A new one begins with an optimizer that is made after another stepped.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from samebits.agent.log import Log
from samebits.agent.models import Holder, Models
from samebits.agent.optimizers import HeldOptimizer, Optimizers
from samebits.agent.training import RecordedTraining
from samebits.base.ranks import current_rank
from samebits.base.sites import is_user_file

if TYPE_CHECKING:
    from samebits.agent.ops.mode import OpRecorder


@dataclass(eq=False)
class Lane:
    """What is known of one training, and where it is written.

    Attributes:
        number: counts the trainings of its thread from 1.
        is_own_thread: of a thread that is not the one the recorder was made for.
        serves_jobs: its thread takes jobs from a queue of a library, so that what is called there comes in any order.
    """

    log: Log
    training: RecordedTraining
    models: Models
    optimizers: Optimizers
    ops: OpRecorder | None = None
    number: int = 1
    is_own_thread: bool = False
    serves_jobs: bool = False

    @property
    def is_split(self) -> bool:
        """Whether every training here gets a recording of its own, and none may end the process."""
        return self.is_own_thread or (is_child() and current_rank() is None)

    @property
    def is_over(self) -> bool:
        """Whether an optimizer that is made now begins another training."""
        return self.is_split and (self.training.has_stepped or self.log.broken)

    @property
    def only_calls(self) -> bool:
        """Whether modules were called here in whatever order jobs came, and nothing was trained."""
        return self.serves_jobs and self.is_split and not (self.training.has_optimizer or self.training.has_backward)


def new_lane(log: Log, died: Callable[[Lane, Holder | HeldOptimizer], None], **more: Any) -> Lane:
    """One that has seen nothing yet."""

    def last_look(thing: Holder | HeldOptimizer) -> None:
        died(lane, thing)

    models = Models(last_look)
    lane = Lane(log, RecordedTraining(log), models, Optimizers(models, last_look), serves_jobs=_serves_jobs(), **more)
    return lane


def is_child() -> bool:
    """Whether multiprocessing, or a library that does as it does, has made this process."""
    return multiprocessing.parent_process() is not None or multiprocessing.current_process().name != "MainProcess"


def _serves_jobs() -> bool:
    thread: object = threading.current_thread()
    worker: object = multiprocessing.current_process() if thread is threading.main_thread() else thread
    target = getattr(worker, "_target", None)
    code = getattr(target, "__code__", None)
    if code is None:
        return False
    return not is_user_file(code.co_filename) and not str(target.__module__).startswith("torch.")
