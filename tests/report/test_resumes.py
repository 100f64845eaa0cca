"""What is said of a resume, in words, as data and on a page, from one verdict."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from samebits.base.errors import ScriptFailedError
from samebits.base.sites import Site
from samebits.comparison.locate import Divergence
from samebits.report.answers import document_of
from samebits.report.page import answer_page
from samebits.report.resumes import REMEDIES, resume_report
from samebits.resuming.verdict import Missing, Resumption, SavedCheckpoint, State, Trial
from samebits.runfolder.notes import Lacks
from tests.schemas import assert_valid

SAVED = Site("/work/train.py", 31, "save", 'torch.save(state, "last.pt")')
LOADED = Site("/work/train.py", 12, "<module>", 'state = torch.load("last.pt")')
RIGHT = Trial(
    "KILL", 12, saved_step=10, resumed_step=10, compared=30, checkpoint=SavedCheckpoint("last.pt", SAVED, LOADED)
)
WRONG = Trial(
    "KILL",
    22,
    saved_step=20,
    resumed_step=20,
    compared=10,
    divergence=Divergence(20, "param", "fc.weight", differing=2, total=4),
    missing=(Missing("optimizer", "the gradients are the same, and fc.weight.exp_avg differs", 0, True, SAVED),),
    checkpoint=RIGHT.checkpoint,
)
FAILED = Trial("KILL", 32, error=ScriptFailedError("killed after step 32, the command failed", "say --with"))


def resumption(*trials: Trial) -> Resumption:
    return Resumption("train.py", "train.py --resume", Path("/work/.samebits/1"), steps=40, trials=trials)


@pytest.mark.parametrize(
    ("trials", "kind", "status", "headline"),
    [
        (
            (RIGHT,),
            "same",
            0,
            "same bits: resumed from step 10, the training agrees with the uninterrupted one, for 30 steps",
        ),
        (
            (RIGHT, WRONG, FAILED),
            "different",
            1,
            "different bits: resumed from step 20, the training diverges at step 20, "
            "in the parameters after the update",
        ),
        ((FAILED,), "undecided", 2, "killed after step 32, the command failed"),
        ((), "undecided", 2, "undecided: no resumed step could be compared"),
        # where another one went on
        ((RIGHT, FAILED), "different", 1, "different bits: killed after step 32, the command failed"),
    ],
)
def test_the_first_line_answers(trials: tuple[Trial, ...], kind: str, status: int, headline: str) -> None:
    """In text, in JSON, and by the exit status."""
    found = resumption(*trials)
    document = document_of("resume", found)

    assert_valid(document)
    assert (found.kind, found.exit_code, document["verdict"], document["headline"]) == (kind, status, kind, headline)
    assert kind == "undecided" or resume_report(found).text.splitlines()[0] == headline


def test_a_missing_state_comes_with_its_lines_and_its_cure() -> None:
    """What is missing, whether that was confirmed, what to change, and where it was saved and loaded."""
    text = resume_report(resumption(WRONG)).text

    for line in (
        "  first     fc.weight: 2 of 4 tensors differ",
        "  missing   optimizer: the gradients are the same, and fc.weight.exp_avg differs",
        "            confirmed: restoring it makes the runs match",
        "  killed    after step 22, when 23 steps were done, by SIGKILL",
        '                torch.save(state, "last.pt")',
        '                state = torch.load("last.pt")',
    ):
        assert line in text.splitlines()
    assert "fix: save optimizer.state_dict(), and load it" in text
    assert "train.py:31, when 20 steps were done" in text


def test_what_an_answer_rests_on_and_what_is_not_known_is_said() -> None:
    """Each kill with its files and their steps; where nobody knows what is missing, what was tried and what to do."""
    unknown = replace(WRONG, missing=(), lacks=(Lacks("best", "counter", "0.9", "inf"),))
    ended = replace(RIGHT, loaded=(("best.pt", 5), ("last.pt", 10)), is_to_the_end=True)
    text = resume_report(resumption(ended, unknown)).text

    assert (
        "killed after step 12, loaded best.pt of 5 steps, last.pt of 10 steps: 30 steps compared, and what was" in text
    )
    assert (
        "not known: restoring this did not help: best is inf in the first resumed step, but was 0.9 when it saved; "
        "look at what the script does between the load and that step"
    ) in text


def test_what_was_loaded_is_said_in_one_way() -> None:
    """Its file and step, or else its line; nothing was seen only where there is neither."""
    nowhere = replace(RIGHT, checkpoint=SavedCheckpoint("last.pt", SAVED))
    by_line, by_file, not_at_all = (
        resume_report(resumption(trial)).text for trial in (RIGHT, replace(nowhere, loaded=(("last.pt", 10),)), nowhere)
    )

    assert f"loaded what {LOADED.place} reads: 30 steps" in by_line
    assert "nothing that was seen" not in by_line + by_file
    assert by_file.count("last.pt of 10 steps") == not_at_all.count("nothing that was seen") == 2


def test_only_what_leaves_no_difference_is_confirmed() -> None:
    """One that only moves the first difference says where to; of several, that all of them are needed."""
    (one,) = WRONG.missing
    moved = replace(WRONG, missing=(replace(one, confirmed=False, moves_to=24),))
    both = replace(WRONG, missing=(one, replace(one, state="scaler")))

    assert "suspected: restoring it moves the first difference to step 24" in resume_report(resumption(moved)).text
    text = resume_report(resumption(both)).text
    assert text.count("confirmed: restoring it, and all others named here, makes the runs match") == 2


def test_the_page_shows_the_same() -> None:
    """Every trial, what is missing, and lines of the code only where they may be shown."""
    found = resumption(RIGHT, WRONG, FAILED)
    page, bare = (answer_page("resume", found, resume_report(found), {}, sources=shown) for shown in (True, False))

    for words in ("killed after step 12", "killed after step 22", "fc.weight.exp_avg differs", "not judged"):
        assert words in page
    assert "torch.save(state" in page
    assert "torch.save(state" not in bare


def test_every_state_has_a_cure() -> None:
    """No state is named without saying what to do."""
    for state in get_args(State):
        assert len(REMEDIES[state]) > 20
