"""The last state of what a program made: of modules and optimizers when they die, and of what is left at the end."""

from __future__ import annotations

from typing import Any

from samebits.agent.lanes import Lane
from samebits.agent.listening import Named
from samebits.agent.log import digested
from samebits.agent.models import COPIED, Holder
from samebits.agent.optimizers import HeldOptimizer
from samebits.bits.digest import Pending, is_evidence

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
