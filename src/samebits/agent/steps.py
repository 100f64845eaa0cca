"""Where the rows of a training end: a pure rule from events to what becomes of the row in the making."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from samebits.agent.events import Event


class Act(Enum):
    """What becomes of the row in the making: it ends here, takes up what came, or lets it go."""

    CUT = "cut"
    KEEP = "keep"
    DROP = "drop"


@dataclass
class StepMachine:
    """Cuts one training into steps.

    A row ends with the step of an optimizer; where none is made, or none is seen to step while parameters change all
    the same (compiled ones have no hooks), with a backward; and where nothing trains, before the next call of a model.

    >>> machine = StepMachine()
    >>> [machine(event).value for event in (Event.CALLED, Event.BACKWARD_BEGINS, Event.BACKWARD_ENDS)]
    ['keep', 'keep', 'cut']
    """

    # Whether calls come as jobs do, so that what they make without training is nobody's row.
    comes_in_any_order: Callable[[], bool] = lambda: False
    has_optimizer: bool = False  # one of torch's was made or stepped
    has_stepped: bool = False  # one was seen to step
    has_backward: bool = False  # seen
    is_cut_at_backward: bool = False  # optimizers are there, and are never seen to step
    is_open: bool = False  # a model was called, and no row has ended since
    in_backward: bool = False  # one is under way; modules that are called now compute again what they computed before
    trains: bool = True  # the step that is under way trains, and does not only make state to load into

    @property
    def is_cut_at_steps(self) -> bool:
        """Whether rows end with a step of an optimizer, and with nothing else."""
        return self.has_stepped or (self.has_optimizer and not self.is_cut_at_backward)

    @property
    def is_untrained_call(self) -> bool:
        """Whether the row in the making holds a call, and nothing that trains was ever seen."""
        return self.is_open and not self.has_optimizer and not self.has_backward

    def __call__(self, event: Event, fact: bool = False) -> Act:
        """What becomes of the row.

        Args:
            event: what is told.
            fact: of `CALLED`, whether it is no part of the call before; of `BACKWARD_BEGINS`, whether parameters were
                written to since the last one; of `STEP_BEGINS`, whether it trains.
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
