"""The last state of what a program made: of modules and optimizers when they die, and of what is left at the end."""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

from samebits.agent.compilers import is_tracing
from samebits.agent.lanes import Lane
from samebits.agent.listening import Named
from samebits.agent.log import digested
from samebits.agent.models import COPIED, Holder
from samebits.agent.optimizers import Held
from samebits.bits.digest import Pending, is_evidence

if TYPE_CHECKING:
    from samebits.agent.recorder import Recorder

# Last looks go to the end row in the order of their kinds.
_OF_HOLDER, _OF_OPTIMIZER, _OF_LEAVES = range(3)


class LastLooks:
    """What the recorder digests last of modules and optimizers."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._dead: deque[tuple[Lane, Holder | Held]] = deque()

    def forget(self) -> None:
        """Nothing has died yet: a forked child begins anew."""
        self._dead.clear()

    @property
    def are_due(self) -> bool:
        """Whether something died that was not looked at yet."""
        return bool(self._dead)

    def died(self, lane: Lane, thing: Holder | Held) -> None:
        """Called in whatever thread and place a module or an optimizer dies, also by the garbage collector."""
        if lane.log.broken or sys.is_finalizing() or self.recorder.pid != os.getpid():
            return
        self._dead.append((lane, thing))
        if self._may_look() and self.recorder.lock.acquire(blocking=False):
            try:
                # A digest that is under way must not be interrupted by another.
                if not self.recorder.inside_hooks:
                    self.look_at_the_dead()
            finally:
                self.recorder.lock.release()

    def _may_look(self) -> bool:
        return (
            not is_tracing()
            and self.recorder.spec.ops is None
            and not self.recorder.optimizer_hooks.graphs.is_capturing()
        )

    def look_at_the_dead(self) -> None:
        self.recorder.inside_hooks += 1
        try:
            while self._dead:
                lane, thing = self._dead.popleft()
                if not lane.log.broken and get_worker_info() is None:
                    _look_at_last(lane, thing)
        except Exception as error:
            self.recorder.log.failed(error)
        finally:
            self.recorder.inside_hooks -= 1

    def look_at_copies(self, lane: Lane) -> None:
        """Copies are compared with what they were when they were new."""
        for holder in lane.models.new_copies():
            tensors = [tensor for _, tensor in holder.state() if is_evidence(tensor)]
            holder.at_first = digested(tensors) if tensors else ()

    def look_at_all(self, lane: Lane) -> None:
        lane.models.look_again()
        self.look_at_the_dead()
        for holder in lane.models.holders():
            _look_at_last(lane, holder)
        for held in lane.optimizers.all():
            _look_at_last(lane, held)
        lane.log.add_end("end", (_OF_LEAVES,), lane.training.last_leaves())
        if lane.training.has_lost_leaves:
            self.recorder.note_once(
                "the last values of tensors that gradients were computed for, which were gone at the end"
            )


def _look_at_last(lane: Lane, thing: Holder | Held) -> None:
    """Digest the last state of a module or an optimizer."""
    if isinstance(thing, Held):
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
