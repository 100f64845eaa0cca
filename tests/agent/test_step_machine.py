"""Where rows end, as a rule on events alone: no torch is needed for it."""

import subprocess
import sys

import pytest

from samebits.agent.events import Event
from samebits.agent.steps import StepMachine

CALL, NEXT = (Event.CALLED, False), (Event.CALLED, True)
BEGINS, WRITTEN, DONE = (Event.BACKWARD_BEGINS, False), (Event.BACKWARD_BEGINS, True), (Event.BACKWARD_ENDS, False)
MADE, STEP, FILLS = (Event.OPTIMIZER_MADE, False), (Event.STEP_BEGINS, True), (Event.STEP_BEGINS, False)
STEPPED, RETURNED = (Event.STEP_ENDS, False), (Event.RETURNED, False)


@pytest.mark.parametrize(
    ("events", "acts"),
    [
        ([MADE, CALL, BEGINS, DONE, STEP, STEPPED], "kkkkkc"),
        ([CALL, BEGINS, DONE, CALL, BEGINS, DONE], "kkckkc"),
        ([CALL, NEXT, NEXT], "kcc"),
        ([CALL, CALL, NEXT, (Event.ENDS, False)], "kkcc"),
        ([CALL, BEGINS, RETURNED, DONE, RETURNED], "kkdck"),
        ([BEGINS, (Event.BACKWARD_FAILED, False), RETURNED], "kkk"),
        # A compiled optimizer's steps are not seen: until parameters are found to change, nothing is cut.
        ([MADE, BEGINS, DONE, BEGINS, DONE, WRITTEN, DONE, BEGINS, DONE], "kkkkkkckc"),
        # One that was seen to step cuts, whatever else writes.
        ([MADE, STEP, STEPPED, BEGINS, DONE, WRITTEN, DONE], "kkckkkk"),
        ([FILLS, STEPPED, STEP, STEPPED], "ddkc"),
        ([CALL, (Event.DERIVED, False), NEXT], "kck"),
        ([MADE, (Event.REPLAYED, False), NEXT], "kck"),
        # A demo before the training is a row; a gradient before the optimizer, too.
        ([CALL, NEXT, MADE, BEGINS, DONE, STEP, STEPPED], "kckkkkc"),
    ],
)
def test_rows_end_where_something_trains(events: list[tuple[Event, bool]], acts: str) -> None:
    """With steps of optimizers, else backwards, else calls; `k`, `c` and `d` stand for keep, cut and drop."""
    machine = StepMachine()

    assert "".join(machine(*event).value[0] for event in events) == acts


def test_jobs_are_nobodys_rows_unless_they_train() -> None:
    """Calls that come in any order are let go of; one that trains is a row as ever."""
    machine = StepMachine(lambda: True)

    assert [machine(*event).value[0] for event in (CALL, NEXT, BEGINS, DONE, CALL, NEXT)] == [*"kdkckk"]


def test_the_rule_needs_no_torch() -> None:
    """Nor does it load it."""
    code = "import sys, samebits.agent.steps; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
