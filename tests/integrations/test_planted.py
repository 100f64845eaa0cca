"""Scripts of each framework with planted faults, and their twins: named at the user's line, or nothing said."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent / "scripts"
FAULTS = ("unsorted", "collator", "evaluation", "metric")
# Factor, and the line of the script that brings it in.
CAUSES = {
    ("os-entropy", 'seed = int.from_bytes(os.urandom(2), "little")'),
    ("hash-seed", 'names = list({"recall", "precision", "top1", "top5"})'),
    ("file-order", "self.names = os.listdir(folder)"),
}


def answer(folder: Path, command: str, script: str, *arguments: str, options: Sequence[str] = ()) -> Any:
    """What a command of samebits says of a script, as JSON."""
    framework = script.removesuffix(".py").rpartition("_")[2]
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    for name in (script, "planted.py"):
        shutil.copy(SCRIPTS / name, folder)
    (folder / "samples").mkdir()
    for number in range(10, 42):
        (folder / "samples" / f"s-{number}").touch()
    done = subprocess.run(
        [sys.executable, "-m", "samebits", command, "--format", "json", *options, script, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("framework", ["lightning", "transformers", "accelerate"])
def test_planted_faults_are_named_at_the_users_lines(framework: str, tmp_path: Path) -> None:
    """A dataset unsorted, a collator that draws, a metric from a set.

    Of two lines that let the same factor in, the collator's diverges first, and may hide the evaluation's.
    """
    # Four causes, one behind the other, may take more runs than a check makes by itself.
    found = answer(tmp_path, "check", f"train_{framework}.py", *FAULTS, options=["--max-runs", "80"])

    assert found["verdict"] == "different"
    named = {(cause["factor"], cause["location"]["source"]) for cause in found["causes"]}
    assert named >= CAUSES
    assert all(source.endswith("rng = random.Random()") for _, source in named - CAUSES)
    assert all(cause["confirmed"] for cause in found["causes"])


@pytest.mark.parametrize("framework", ["lightning", "transformers", "accelerate"])
def test_an_evaluation_that_draws_is_named(framework: str, tmp_path: Path) -> None:
    """By itself; the line that makes the generator."""
    found = answer(tmp_path, "check", f"train_{framework}.py", "evaluation")

    assert [(cause["factor"], cause["location"]["source"].split(" = ")[1]) for cause in found["causes"]] == [
        ("os-entropy", "random.Random()")
    ]


@pytest.mark.parametrize(
    ("framework", "words"),
    [("lightning", []), ("transformers", []), ("transformers", ["full-determinism"]), ("accelerate", [])],
)
def test_twins_are_silent(framework: str, words: list[str], tmp_path: Path) -> None:
    """The framework's own seeds, bars and folders make no difference and no note of one."""
    found = answer(tmp_path, "check", f"train_{framework}.py", *words)

    assert found["verdict"] == "same"
    assert found["causes"] == []
    assert not [note for note in found["notes"] if "print different text" in note]


@pytest.mark.parametrize(
    ("framework", "missing"),
    [
        ("lightning", {"position", "order", "epoch"}),
        ("transformers", {"sample-generators", "generators"}),
        ("accelerate", {"position", "order", "epoch"}),
    ],
)
def test_a_resume_by_the_framework_is_told_from_one_with_ours(
    framework: str, missing: set[str], tmp_path: Path
) -> None:
    """By itself it begins the epoch anew, or restores generators too late; with the adapter it is the same bits."""
    for name in ("plain", "ours"):
        (tmp_path / name).mkdir()
    plain = answer(tmp_path / "plain", "resume", f"resume_{framework}.py", "plain")
    ours = answer(tmp_path / "ours", "resume", f"resume_{framework}.py", "ours")

    assert ours["verdict"] == "same"
    assert plain["verdict"] == "different"
    assert plain["first"]["missing"][0]["state"] in missing
