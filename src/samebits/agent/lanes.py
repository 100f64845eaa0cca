"""One recording in the making: of the main thread, of another thread, or of one training of a worker.

A worker takes whichever job comes next, so what one process or thread does altogether depends on arrival, and only one
training can be compared with one of another run. A new one begins with an optimizer that is made after another stepped.

The last state of what a program made is seen of modules and optimizers when they die, and of what is left at the end.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from samebits.agent.listening import Named
from samebits.agent.log import Log, digested
from samebits.agent.models import COPIED, Holder, Models
from samebits.agent.optimizers import HeldOptimizer, Optimizers
from samebits.agent.training import RecordedTraining
from samebits.base.ranks import current_rank
from samebits.base.sites import is_user_file
from samebits.bits.digest import Pending, is_evidence

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


# ---- last looks

# Last looks go to the end row in the order of their kinds.
_OF_HOLDER, _OF_OPTIMIZER, _OF_LEAVES = range(3)


def look_at_copies(lane: Lane) -> None:
    """Copies are compared with what they were when they were new."""
    for holder in lane.models.new_copies():
        tensors = [tensor for _, tensor in holder.state() if is_evidence(tensor)]
        holder.at_first = digested(tensors) if tensors else ()


def look_at_all(lane: Lane) -> None:
    """Digest the last state of whatever is left at the end."""
    for holder in lane.models.holders():
        look_at_last(lane, holder)
    for held in lane.optimizers.all():
        look_at_last(lane, held)
    lane.log.add_end("end", (_OF_LEAVES,), lane.training.last_leaves())


def look_at_last(lane: Lane, thing: Holder | HeldOptimizer) -> None:
    """Digest the last state of a module or an optimizer."""
    if isinstance(thing, HeldOptimizer):
        if thing.number is not None:
            order = (_OF_OPTIMIZER, thing.number)
            lane.log.add_end("optimizer", order, list(thing.tree()))
            lane.log.add_end("end", order, lane.optimizers.own(thing))
        return
    state = thing.state()
    if thing.stage != COPIED or _has_changed(thing, state):
        lane.log.add_end("end", (_OF_HOLDER, thing.order), state)


def _has_changed(copy: Holder, state: list[Named]) -> bool:
    """Whether a copy is no longer what it was; one that came and went between two looks is missed."""
    if copy.at_first is None:
        return False
    now = digested(tensors) if (tensors := [tensor for _, tensor in state if is_evidence(tensor)]) else ()
    return _settled(copy.at_first) != _settled(now)


def _settled(part: Any) -> list[int]:
    return part.result() if isinstance(part, Pending) else list(part)
