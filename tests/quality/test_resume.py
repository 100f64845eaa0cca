"""Trainings whose resume lacks one state, the right twin of each, and resumes that cannot be judged.

Each script of `resume/` resumes with the same bits, and lacks one state with `--defect`. `resume` must name that state,
and the step at which it shows.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.answers import answered, samebits

FOLDER = Path(__file__).parent / "resume"
RANKS = ("torchrun", "--nproc-per-node", "2")
# Script, the step that it resumes from, and its defects, each with the step at which it shows if that is another one.
SCRIPTS: dict[str, tuple[int, dict[str, int | None]]] = {
    "classifier.py": (
        10,
        dict.fromkeys(("parameters", "buffers", "averaged", "position", "order", "sample-generators"), 10)
        | {"not-resumed": None, "generators": 10, "optimizer": 10, "scheduler": 10, "epoch": 10},
    ),
    "language.py": (
        16,
        dict.fromkeys(("parameters", "position", "order", "generators", "optimizer", "scaler", "accumulation"), 16)
        | {"not-resumed": None, "look-ahead": 16, "scheduler": 17},
    ),
    "ranks.py": (
        10,
        dict.fromkeys(("parameters", "buffers", "averaged", "position", "generators", "optimizer", "scheduler"), 10)
        | {"not-resumed": None, "rank-state": 10, "epoch": 10},
    ),
    "agent.py": (7, {"replay": 7, "carried": 7, "counter": 8, "averaged": 7}),
    # Three steps come first that are undone.
    "primed.py": (8, {"not-resumed": None, "generators": 8, "optimizer": 8, "counter": 8}),
}
# What cannot be given back: a batch that was skipped, an order drawn before, what belongs to another rank or epoch; and
# generators that the script itself restores after its first batch.
SUSPECTED = frozenset(("not-resumed", "order", "position", "look-ahead", "rank-state", "epoch", "sample-generators"))
SAMPLE = ("agent.py", "replay")


def answer(folder: Path, *words: str) -> dict[str, Any]:
    """The answer in a copy of the scripts' folder."""
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    return answered(folder, "resume", *words)


def command(script: str, defect: str = "") -> list[str]:
    start = ["--", *RANKS] if script == "ranks.py" else []
    return [*start, script, *(["--defect", defect] if defect else [])]


def planted() -> list[Any]:
    cases = [(script, defect) for script, (_, defects) in SCRIPTS.items() for defect in defects]
    return [pytest.param(*case, marks=[] if case == SAMPLE else pytest.mark.slow) for case in cases]


@pytest.mark.parametrize(("script", "defect"), planted())
def test_the_missing_state_is_named(tmp_path: Path, script: str, defect: str) -> None:
    """With the step that it was saved at, the first that differs, and the lines that saved and loaded."""
    saved, defects = SCRIPTS[script]
    found = answer(tmp_path, *command(script, defect))

    assert [one["state"] for one in found["first"]["missing"]] == [defect]
    assert found["first"]["saved_step"] == (None if defect == "not-resumed" else saved)
    assert (found["first"]["divergence"] or {}).get("step") == defects[defect]
    if defect not in SUSPECTED:
        assert found["first"]["missing"][0]["confirmed"]
    assert "torch.save(" in found["first"]["checkpoint"]["saved_at"]["source"]
    assert (found["first"]["checkpoint"]["loaded_at"] is None) == (defect == "not-resumed")


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_right_twin_is_the_same(tmp_path: Path, script: str) -> None:
    """Nothing is missing, and the runs take no longer than three and a half of what is looked at."""
    found = answer(tmp_path, *command(script))

    first = found["first"]
    assert (found["verdict"], first["missing"], first["resumed_step"]) == ("same", [], SCRIPTS[script][0])
    assert sum(run["steps"] for run in found["runs"]) <= 3.5 * found["steps"]


@pytest.mark.slow
@pytest.mark.parametrize("script", ["primed.py --after", "primed.py --never", "checked.py"])
def test_what_does_not_count_before_a_resume(tmp_path: Path, script: str) -> None:
    """Steps that are undone, before the load or after it; a validation of fresh weights; a rate that warms up."""
    found = answer(tmp_path, *script.split())

    assert (found["verdict"], found["first"]["missing"]) == ("same", [])
    assert found["first"]["checkpoint"]["loaded_at"]


@pytest.mark.slow
def test_a_script_that_warms_up_from_zero_and_is_not_resumed(tmp_path: Path) -> None:
    """Its initial parameters are those after the first step, too."""
    found = answer(tmp_path, "primed.py", "--never", "--defect", "not-resumed")

    assert [one["state"] for one in found["first"]["missing"]] == ["not-resumed"]


@pytest.mark.slow
def test_within_an_epoch_and_at_its_end(tmp_path: Path) -> None:
    """Both are tried where both are seen."""
    found = answer(tmp_path, "classifier.py", "--every", "4")

    assert [trial["saved_step"] for trial in found["trials"]] == [12, 24]
    assert found["verdict"] == "same"


@pytest.mark.slow
def test_objects_that_were_pickled(tmp_path: Path) -> None:
    """An optimizer that was unpickled, and never made."""
    found = answer(tmp_path, "agent.py", "--objects")

    assert (found["verdict"], found["first"]["missing"]) == ("same", [])
    assert ["agent.pt", 7] in found["first"]["loaded"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "saved"),
    [
        (["plain.py"], [5, 20]),
        (["--at", "7", "--at", "21", "plain.py"], [5, 20]),
        (["--kills", "2", "plain.py"], None),
        (["--signal", "TERM", "plain.py", "--mode", "term", "--steps", "200"], None),
        (["--during-save", "plain.py"], [5]),
        (["--with=--resume last.pt", "plain.py", "--mode", "other-command"], [5, 20]),
        (["plain.py", "--out", "{run}"], [5, 20]),
        (["plain.py", "--mode", "pickle"], [5, 20]),
        (["--saved-at", "10", "--saved-at", "15", "plain.py", "--mode", "own-way"], [10, 15]),
    ],
)
def test_a_right_resume_is_the_same_however_it_is_stopped(
    tmp_path: Path, words: list[str], saved: list[int] | None
) -> None:
    """At steps that were asked for or chosen, by a signal that it handles, within a save, and with other arguments."""
    found = answer(tmp_path, *words)

    assert found["verdict"] == "same"
    assert saved is None or [trial["saved_step"] for trial in found["trials"]] == saved


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plain.py", "--mode", "never"], "the script never saved"),
        pytest.param(["plain.py", "--mode", "last-only"], "saves after its last step only", marks=pytest.mark.slow),
        pytest.param(
            *(["plain.py", "--mode", "other-command"], "say --resume\n\nhint: does it need other arguments to resume?"),
            marks=pytest.mark.slow,
        ),
        pytest.param(["plain.py", "--mode", "new-folder"], "it makes a folder that exists", marks=pytest.mark.slow),
        pytest.param(["plain.py", "--mode", "never-repeats"], "does not repeat even when", marks=pytest.mark.slow),
        pytest.param(["--at", "3", "plain.py"], "--at 3: nothing is saved before", marks=pytest.mark.slow),
        pytest.param(["--at", "29", "plain.py"], "none is left after that one", marks=pytest.mark.slow),
        pytest.param(["--during-save", "plain.py", "--mode", "torn"], "an intact checkpoint", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_judged_is_an_error_with_a_way_out(tmp_path: Path, words: list[str], message: str) -> None:
    """In words for the user, with exit status 2, and nothing on stdout."""
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    done = samebits(tmp_path, "resume", *words)

    assert done.returncode == 2
    assert message in done.stderr
    assert "\nhint: " in done.stderr or words[0] == "--at"
    assert not done.stdout


@pytest.mark.slow
def test_watching_checkpoints_changes_no_bit(tmp_path: Path) -> None:
    """The script prints the same weights by itself as under `resume`."""
    found = answer(tmp_path / "watched", "plain.py")
    alone = shutil.copytree(FOLDER, tmp_path / "alone")
    done = subprocess.run([sys.executable, "plain.py"], cwd=alone, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("[")
    assert Path(found["folder"], "1-uninterrupted", "stdout.log").read_text() == done.stdout


@pytest.mark.slow
def test_what_shows_later_than_the_kill(tmp_path: Path) -> None:
    """That the script repeats up to there is shown by one more run, before anything is said of its resume."""
    found = answer(tmp_path, "plain.py", "--mode", "late")

    assert [(one["state"], one["confirmed"]) for one in found["first"]["missing"]] == [("generators", True)]
    assert (found["first"]["resumed_step"], found["first"]["divergence"]["step"]) == (5, 8)
    assert [run["role"] for run in found["runs"]][3:] == ["uninterrupted again", "resumed, generators given back"]


@pytest.mark.slow
def test_what_is_saved_in_a_way_of_its_own(tmp_path: Path) -> None:
    """The user says when. Where it is loaded is not known, so generators that no loader asks cannot be given back."""
    found = answer(tmp_path, "--saved-at", "10", "--saved-at", "15", "plain.py", "--mode", "own-way-without-generators")

    assert [(one["state"], one["confirmed"]) for one in found["first"]["missing"]] == [("generators", False)]
    first = found["first"]
    assert (first["saved_step"], first["divergence"]["step"], first["checkpoint"]["saved_at"]) == (10, 10, None)


@pytest.mark.slow
def test_what_is_pickled_is_compared(tmp_path: Path) -> None:
    """A list whose length is saved, and which begins anew, shows in nothing but the next checkpoint."""
    found = answer(tmp_path, "plain.py", "--mode", "pickle-without-count")

    assert [one["state"] for one in found["first"]["missing"]] == ["replay"]
    assert (found["first"]["resumed_step"], found["first"]["divergence"]["step"]) == (5, 10)


@pytest.mark.slow
def test_a_torn_checkpoint_that_is_passed_over_in_silence(tmp_path: Path) -> None:
    """It starts from the beginning without a word: that is different bits."""
    found = answer(tmp_path, "--during-save", "plain.py", "--mode", "torn-silently")

    assert [one["state"] for one in found["first"]["missing"]] == ["not-resumed"]
    assert "last.pt was torn, the script skips it without a message" in found["first"]["missing"][0]["evidence"]


# What is as it was at first for long, so that only the later kill shows it.
LATE = {
    "plateau": "counter",
    "best": "parameters",
    "unfreezing": "mode",
    "curriculum": "counter",
    "average": "averaged",
}


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "state"), LATE.items())
def test_what_is_as_at_first_for_long_is_missing_at_a_late_kill(tmp_path: Path, defect: str, state: str) -> None:
    """Counters, levels, the best weights, what is trained, and an average that is saved once, at the very end."""
    found = answer(tmp_path, *command("trainer.py", defect))

    assert [trial["missing"] != [] for trial in found["trials"]] == [False, True]
    assert [(one["state"], one["confirmed"]) for one in found["first"]["missing"]] == [(state, True)]
    assert found["first"]["loaded"] == [["trainer.pt", 36]]


@pytest.mark.slow
@pytest.mark.parametrize(("script", "saved"), [("trainer.py", [4, 36]), ("distributed.py", [5, 15])])
def test_a_right_resume_is_the_same_at_both_kills(tmp_path: Path, script: str, saved: list[int]) -> None:
    """Whatever changes late, and by torch's own checkpoints, where a new optimizer takes a step that is none."""
    found = answer(tmp_path, script)

    assert (found["verdict"], found["first"]["missing"]) == ("same", [])
    assert [trial["saved_step"] for trial in found["trials"]] == saved


@pytest.mark.slow
def test_a_resume_that_fails_at_a_late_kill_is_different(tmp_path: Path) -> None:
    """An optimizer that has one group of parameters fewer than the one that was saved; it says what was loaded."""
    found = answer(tmp_path, *command("trainer.py", "group"))

    assert found["verdict"] == "different"
    assert "loaded state dict has a different number of parameter groups" in found["trials"][1]["error"]["message"]
    assert found["trials"][1]["loaded"] == [["trainer.pt", 36]]
