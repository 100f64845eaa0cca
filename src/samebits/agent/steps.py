"""The rule by which rows of a training end: a pure function from events to what becomes of the current row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from samebits.agent.events import Event


class Act(Enum):
    """The decision about the current row: it ends here, continues, or what has come is discarded."""

    CUT = "cut"
    KEEP = "keep"
    DROP = "drop"


@dataclass
class StepMachine:
    """Cuts one training into steps.

    A row ends with the step of an optimizer. Where no optimizer is made, or none is seen to step although parameters
    change (compiled optimizers have no hooks), it ends with a backward; where nothing trains, before the next call.

    >>> machine = StepMachine()
    >>> [machine(event).value for event in (Event.CALLED, Event.BACKWARD_BEGINS, Event.BACKWARD_ENDS)]
    ['keep', 'keep', 'cut']
    """

    # Whether calls come as jobs in any order, so that a call without training belongs to no row.
    comes_in_any_order: Callable[[], bool] = lambda: False
    has_optimizer: bool = False  # an optimizer of torch's was made or stepped
    has_stepped: bool = False  # an optimizer was seen to step
    has_backward: bool = False  # a backward was seen
    is_cut_at_backward: bool = False  # optimizers exist, and are never seen to step
    is_open: bool = False  # a model was called, and no backward or end of a row has followed
    in_backward: bool = False  # a backward is under way; modules called in it only recompute what they computed before
    trains: bool = True  # the optimizer step under way trains, and does not only make state to load into

    @property
    def is_cut_at_steps(self) -> bool:
        """Whether rows end only with steps of an optimizer."""
        return self.has_stepped or (self.has_optimizer and not self.is_cut_at_backward)

    @property
    def is_untrained_call(self) -> bool:
        """Whether the current row holds a model call, and no optimizer or backward was ever seen."""
        return self.is_open and not self.has_optimizer and not self.has_backward

    def __call__(self, event: Event, fact: bool = False) -> Act:
        """Return what becomes of the current row at an event.

        Args:
            event: the reported event.
            fact: of `CALLED`, whether the call is no part of the call before; of `BACKWARD_BEGINS`, whether parameters
                were written to since the last backward; of `STEP_BEGINS`, whether the step trains.
        """
        match event:
            case Event.CALLED:
                act = self._of_call() if fact else Act.KEEP
                self.is_open = True
                return act
            case Event.RETURNED:
                return Act.DROP if self.in_backward else Act.KEEP
            case Event.BACKWARD_BEGINS:
                if self.has_optimizer and not self.has_stepped and self.has_backward:
                    self.is_cut_at_backward |= fact
                self.has_backward, self.is_open, self.in_backward = True, False, True
            case Event.BACKWARD_FAILED:
                self.in_backward = False
            case Event.BACKWARD_ENDS | Event.DERIVED:
                self.has_backward, self.is_open, self.in_backward = True, False, False
                return Act.KEEP if self.is_cut_at_steps else Act.CUT
            case Event.OPTIMIZER_MADE:
                self.has_optimizer = True
            case Event.STEP_BEGINS:
                self.trains = fact
                if not fact:
                    return Act.DROP
                self.has_stepped = self.has_optimizer = True
            case Event.STEP_ENDS:
                return self._cut() if self.trains else Act.DROP
            case Event.REPLAYED:
                self.has_stepped = self.has_optimizer = self.has_backward = True
                return self._cut()
            case Event.ENDS:
                return self._of_call()
        return Act.KEEP

    def _of_call(self) -> Act:
        if not self.is_untrained_call:
            return Act.KEEP
        self.is_open = False
        return Act.DROP if self.comes_in_any_order() else Act.CUT

    def _cut(self) -> Act:
        self.is_open = False
        return Act.CUT
