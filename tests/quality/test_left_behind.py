"""Scripts that meet themselves on disk, and one that writes as much and is not moved by it.

A guilty line carries the comment `# <- files-left-behind`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.quality.test_planted import MARK, TIMEOUT_SECONDS
from tests.schemas import assert_valid

FOLDER = Path(__file__).parent / "left_behind"
FACTOR = "files-left-behind"


def check(folder: Path, *words: str) -> dict[str, Any]:
    """The answer of `samebits check` in a copy of the scripts' folder."""
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    done = subprocess.run(
        [sys.executable, "-m", "samebits", "check", "--format", "json", *words],
        cwd=folder,
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    assert_valid(answer)
    return answer


def guilty_lines(script: str) -> dict[int, str]:
    """Line → factor."""
    lines = (FOLDER / script).read_text(encoding="utf-8").splitlines()
    return {number: mark[1] for number, line in enumerate(lines, start=1) if (mark := MARK.search(line))}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "told"),
    [
        # Resume if there is a checkpoint; the cache that the first run fills.
        (
            "resume.py",
            {"run 2 read ckpt/last.pt, which run 1 wrote", "run 2 read features.txt, which run 1 wrote"},
        ),
        # Go on where the last run stopped.
        ("go_on.py", {"run 2 read state.pt, which run 1 wrote"}),
        # A history that is read back, and numbered runs.
        (
            "history.py",
            {"run 2 read history.csv, which run 1 wrote", "run 2 asked for runs/1, as run 1 had left it"},
        ),
        # A folder that may not be there yet.
        ("makes.py", {"run 2 was to make out, which run 1 had made"}),
    ],
)
def test_a_script_that_meets_itself_is_explained(script: str, told: set[str], tmp_path: Path) -> None:
    """Path and line are named before anything else is tried; fresh copies cure it, which runs with all varied show."""
    answer = check(tmp_path, script)

    causes = answer["causes"]
    assert answer["verdict"] == "different"
    assert {cause["location"]["line"]: cause["factor"] for cause in causes} == guilty_lines(script), answer
    assert {cause["location"]["path"] for cause in causes} == {str(tmp_path / script)}
    assert {cause["what"] for cause in causes} == told
    assert all(cause["confirmed"] for cause in causes)
    assert answer["runs"][4]["role"] == f"{FACTOR} released"
    assert (answer["remedy"]["pins"], answer["remedy"]["verified"]) == ([FACTOR], True)
    assert answer["remedy"]["command"] == f"samebits check --fresh-copy {script}"
    # Copies and what was kept for them are gone.
    assert not [path for path in Path(answer["folder"]).iterdir() if path.name.startswith(("copy", "before"))]


@pytest.mark.parametrize("words", [("harmless.py",), ("--fresh-copy", "resume.py"), ("harmless.py", "--out", "{run}")])
def test_nobody_is_accused_where_nothing_matters(words: tuple[str, ...], tmp_path: Path) -> None:
    """Logs, overwritten checkpoints, numbered folders; a guilty script in fresh copies; a folder of the run's own."""
    answer = check(tmp_path, "--runs", "2", *words)

    assert (answer["verdict"], answer["causes"]) == ("same", []), answer
    assert answer["pinned"] == ([FACTOR] if "--fresh-copy" in words else [])
    if "--fresh-copy" in words or "{run}" in words:
        before = {path.name for path in FOLDER.iterdir()} - {"__pycache__"}
        assert {path.name for path in tmp_path.iterdir()} - {"__pycache__", ".samebits"} == before
    if "{run}" in words:
        assert (Path(answer["runs"][1]["folder"]) / "files" / "1" / "last.pt").is_file()


@pytest.mark.slow
def test_what_a_whole_run_takes_away_again_accuses_nobody(tmp_path: Path) -> None:
    """Only the first look leaves it, because it is ended in the middle: that was us."""
    answer = check(tmp_path, "taken_back.py")

    assert (answer["verdict"], answer["causes"]) == ("same", []), answer
    assert [run["steps"] for run in answer["runs"][1:]] == [750, 750, 750]
    assert answer["runs"][0]["steps"] < 750
    assert any("running.lock" in note and "ended in the middle" in note for note in answer["notes"])
    assert not any((tmp_path / name).exists() for name in ("running.lock", "job.pt"))


STRICT = """
import os, time
from common import make, train
os.mkdir("out")
model, optimizer = make()
for _ in range(250):
    train(model, optimizer)
    time.sleep(0.02)
"""


@pytest.mark.slow
def test_what_a_whole_run_leaves_is_named_though_the_look_left_it_first(tmp_path: Path) -> None:
    """Without samebits the second run fails, too; which run is to blame is that of the first whole one."""
    (tmp_path / "strict.py").write_text(STRICT, encoding="utf-8")
    answer = check(tmp_path, "strict.py")

    (cause,) = answer["causes"]
    assert (answer["verdict"], cause["factor"], cause["location"]["line"]) == ("different", FACTOR, 4)
    assert (cause["confirmed"], cause["what"]) == (True, "run 3 was to make out, which run 2 had made")
    assert answer["remedy"]["verified"]


CACHED = """
import os
from common import make, train
model, optimizer = make()
if not os.path.exists("noise.txt"):
    with open("noise.txt", "w") as file:
        file.write(str(int.from_bytes(os.urandom(4), "little") / 2**32))
with open("noise.txt") as file:
    scale = float(file.read())
train(model, optimizer, scale)
"""


READ_IN_C = """
import os, torch
from common import make, train
model, optimizer = make()
if not os.path.exists("noise.txt"):
    with open("noise.txt", "wb") as file:
        file.write(os.urandom(4))
scale = int(torch.from_file("noise.txt", size=1, dtype=torch.int32))
train(model, optimizer, scale / 2**32)
"""


@pytest.mark.parametrize("source", [pytest.param(CACHED, marks=pytest.mark.slow), READ_IN_C], ids=["read", "in C"])
def test_a_cache_does_not_make_runs_the_same(source: str, tmp_path: Path) -> None:
    """Later runs read what the first one drew and agree with it; without that file they would not."""
    (tmp_path / "cached.py").write_text(source, encoding="utf-8")
    answer = check(tmp_path, "--runs", "2", "--max-runs", "4", "cached.py")

    assert answer["verdict"] == "different"
    assert answer["first_divergence"]["runs"] == [3, 4]
    told = "run 2 asked for noise.txt, as run 1 had left it, cached.py:5"
    if source == CACHED:
        told = "run 2 read noise.txt, which run 1 wrote, cached.py:8"
    assert any(told in note for note in answer["notes"])
