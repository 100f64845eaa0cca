"""What a person reads while runs are made."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.text import Text

from samebits.checking import plan as plans
from samebits.checking.plan import CheckRequest
from samebits.launch.command import Command
from samebits.launch.process import Outcome
from samebits.report.progress import _Board, progress_words
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.steps import Column, Writer

REQUEST = CheckRequest(Command(("python", "train.py"), ("train.py",)))
PINNED = plans.pinned_run(REQUEST, ["clock", "torch-rng", "torch-algorithms"], 3)


@pytest.mark.parametrize(
    ("step", "last", "said"),
    [
        (None, None, "starting, 12 s"),
        (4, None, "step 4, 12 s"),
        (4, 16, "step 4 of 16, 12 s, 36 s left"),
        (16, 16, "step 16 of 16, 12 s"),
    ],
)
def test_how_far_a_run_is(step: int | None, last: int | None, said: str) -> None:
    assert progress_words(step, last, 12.0) == said


class Screen:
    """What is drawn."""

    def update(self, text: Text) -> None:
        self.lines = text.plain.splitlines()


def test_whole_runs_say_how_many_steps_there_are(tmp_path: Path) -> None:
    """Once one has gone to its end; those that end on purpose say where they will."""
    screen = Screen()
    board = _Board(screen)
    writer = Writer(tmp_path, 0)
    for step in range(3):
        writer.write(step, "step", {"loss": Column(("0",), [step])})
    writer.commit()
    whole = replace(plans.look_run(REQUEST), look_seconds=None)

    drawn = []
    for number, plan, is_done in ((1, whole, False), (1, whole, True), (2, whole, False), (3, PINNED, False)):
        outcome = Outcome(RunFolder(tmp_path), plan, 0, 4.0) if is_done else None
        board.show(number, plan, outcome, tmp_path)
        drawn.append([re.sub(r"\d+ s\b", "N s", line) for line in screen.lines])
    writer.close()

    assert drawn[0] == ["> run 1   control  step 3, N s"]
    assert drawn[1] == ["  run 1   control  4.N s"]
    assert drawn[3][-2:] == [
        "> run 2   control  step 3 of 3, N s",
        "> run 3   pinned  step 3 of 4, N s, N s left",
    ]
