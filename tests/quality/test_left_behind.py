"""Scripts that meet themselves on disk, and one that writes as much and is not moved by it.

A guilty line carries the comment `# <- files-left-behind`.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.answers import answered
from tests.quality.test_planted import MARK

FOLDER = Path(__file__).parent / "left_behind"
FACTOR = "files-left-behind"


def check(folder: Path, *words: str) -> dict[str, Any]:
    """The answer of `samebits check` in a copy of the scripts' folder."""
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    return answered(folder, "check", *words)


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
            {
                "reads ckpt/last.pt (an earlier run wrote it at resume.py:20)",
                "reads features.txt (an earlier run wrote it at resume.py:17)",
            },
        ),
        # Go on where the last run stopped.
        ("go_on.py", {"reads state.pt (an earlier run wrote it at go_on.py:18)"}),
        # A history that is read back, and numbered runs.
        (
            "history.py",
            {
                "reads history.csv (an earlier run wrote it)",
                "asks whether runs/1 is there (an earlier run wrote it at history.py:11)",
            },
        ),
        # A folder that may not be there yet.
        ("makes.py", {"tries to make out (an earlier run made it)"}),
    ],
)
def test_a_script_that_meets_itself_is_explained(script: str, told: set[str], tmp_path: Path) -> None:
    """Both lines are named; runs that begin in folders of their own agree, and those in what one left differ."""
    answer = check(tmp_path, script)

    causes = answer["causes"]
    assert answer["verdict"] == "different"
    assert {cause["location"]["line"]: cause["factor"] for cause in causes} == guilty_lines(script), answer
    assert {cause["location"]["path"] for cause in causes} == {str(tmp_path / script)}
    assert {cause["what"] for cause in causes} == told
    assert all(cause["confirmed"] for cause in causes)
    assert answer["runs"][3]["role"] == "in what run 1 left"
    assert (answer["remedy"]["pins"], answer["remedy"]["verified"]) == ([], True)
    assert "start every training in a folder of its own" in answer["remedy"]["code"][0]
    # Copies and what was kept for them are gone, and the folder is as it was.
    assert {path.name.partition("-")[0].isdecimal() for path in Path(answer["folder"]).glob("*/")} == {True}
    before = {path.name for path in FOLDER.iterdir()} - {"__pycache__"}
    assert {path.name for path in tmp_path.iterdir()} - {".samebits"} == before


@pytest.mark.slow
def test_what_lay_there_before_the_check_is_told(tmp_path: Path) -> None:
    """A training of yesterday was half done: every run goes on with it; in what one has left another finds it done."""
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    half = "import torch; from common import make; model, _ = make(); own = {'model': model.state_dict(), 'epoch': 1}"
    subprocess.run([sys.executable, "-c", f"{half}; torch.save(own, 'state.pt')"], cwd=tmp_path, check=True)
    before = (tmp_path / "state.pt").read_bytes()
    answer = check(tmp_path, "go_on.py")

    assert [cause["factor"] for cause in answer["causes"]] == [FACTOR]
    assert "state.pt was there before the check: every run began with it" in answer["notes"]
    assert (tmp_path / "state.pt").read_bytes() == before


@pytest.mark.parametrize(
    "words", [("harmless.py",), pytest.param(("harmless.py", "--out", "{run}"), marks=pytest.mark.slow)]
)
def test_nobody_is_accused_where_nothing_matters(words: tuple[str, ...], tmp_path: Path) -> None:
    """Logs, overwritten checkpoints, numbered folders; a folder of the run's own."""
    answer = check(tmp_path, "--runs", "2", *words)

    assert (answer["verdict"], answer["causes"]) == ("same", []), answer
    before = {path.name for path in FOLDER.iterdir()} - {"__pycache__"}
    assert {path.name for path in tmp_path.iterdir()} - {".samebits"} == before
    if "{run}" in words:
        assert (Path(answer["runs"][1]["folder"]) / "files" / "1" / "last.pt").is_file()


@pytest.mark.slow
def test_what_a_whole_run_takes_away_again_accuses_nobody(tmp_path: Path) -> None:
    """Only runs that are ended in the middle leave it, and that was us."""
    answer = check(tmp_path, "taken_back.py")

    assert (answer["verdict"], answer["causes"]) == ("same", []), answer
    assert [run["steps"] for run in answer["runs"][1:4]] == [750, 750, 750]
    assert answer["runs"][0]["steps"] < 750
    assert len(answer["runs"]) <= 5
    assert not any((tmp_path / name).exists() for name in ("running.lock", "job.pt"))


# Longer than the first look, each with what it does before it trains, seeded or not: 250 steps of 20 ms.
LONG = """
import csv, os, sqlite3, sys, time
import numpy as np
import torch
from pathlib import Path

if "seeded" in sys.argv:
    torch.manual_seed(0)
scale = 1.0
{before}
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(250):
    time.sleep(0.02)
    optimizer.zero_grad()
    model(torch.ones(4, 4) * scale).pow(2).mean().backward()
    optimizer.step()
{after}
"""
# What is done before, what after, and whether a later run then does something else.
KINDS = {
    "cache": ('if not os.path.exists("cache.pt"):\n    torch.save(torch.arange(9.0), "cache.pt")', "", False),
    "tokens": (
        'try:\n    vocabulary = open("vocab.txt").read().split()\nexcept FileNotFoundError:\n'
        '    vocabulary = ["a", "b"]\n    open("vocab.txt", "w").write("a b")\nscale = len(vocabulary)',
        "",
        False,
    ),
    "numbered": (
        'number = sum(os.path.exists(f"runs/{n}") for n in range(99))\nos.makedirs(f"runs/{number}")\n'
        "scale = 1 + number",
        "",
        True,
    ),
    "history": (
        'rows = list(csv.reader(open("history.csv"))) if os.path.exists("history.csv") else []\nscale = 1 + len(rows)',
        'csv.writer(open("history.csv", "a")).writerow([1])',
        True,
    ),
    "resumed": (
        "",
        'if os.path.exists("last.pt"):\n    model.load_state_dict(torch.load("last.pt"))\n'
        "for _ in range(2):\n    model(torch.ones(4, 4)).sum().backward()\n    optimizer.step()\n"
        'torch.save(model.state_dict(), "last.pt")',
        True,
    ),
    "strict": ('os.mkdir("out")', "", True),
    "lock": ('if os.path.exists("lock"):\n    sys.exit(1)\nopen("lock", "w").close()', 'os.remove("lock")', False),
    "sqlite": (
        'db = sqlite3.connect("runs.db")\ndb.execute("create table if not exists runs (x)")\n'
        'scale = 1 + db.execute("select count(*) from runs").fetchone()[0]',
        'db.execute("insert into runs values (1)")\ndb.commit()',
        True,
    ),
    "mapped": (
        'if not os.path.exists("data.bin"):\n    np.arange(4, dtype="float32").tofile("data.bin")\n'
        'data = np.memmap("data.bin", "float32", "r+")\nscale = 1 + float(data[3])\ndata[3] += 1\ndata.flush()',
        "",
        True,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS])
@pytest.mark.parametrize("seeded", [True, False], ids=["seeded", "unseeded"])
def test_a_long_script_and_what_it_leaves(kind: str, seeded: bool, tmp_path: Path) -> None:
    """The right verdict and cause, a remedy that holds, few runs more than without files, and nothing touched."""
    before, after, matters = KINDS[kind]
    (tmp_path / "train.py").write_text(LONG.format(before=before, after=after), encoding="utf-8")
    answer = check(tmp_path, "train.py", *(["seeded"] if seeded else []))

    guilty = {*([] if seeded else ["torch-rng"]), *([FACTOR] if matters else [])}
    assert {cause["factor"] for cause in answer["causes"] if cause["confirmed"]} == guilty, answer
    assert answer["verdict"] == ("different" if guilty else "same")
    assert answer["remedy"] is None or answer["remedy"]["verified"]
    own = {path.name for path in FOLDER.iterdir()} - {"__pycache__"}
    assert {path.name for path in tmp_path.iterdir()} - own == {"train.py", ".samebits"}
    left = [run for run in answer["runs"] if " left" in run["role"]]
    assert len(left) <= 1 if not matters else len(left) <= 9


NAMED_ANEW = """import uuid, zlib
folder = f"runs/{uuid.uuid4().hex[:8]}"
os.makedirs(folder)
torch.manual_seed(zlib.crc32(folder.encode()))"""
LOADED = """
if os.path.exists("last.pt"):
    scale = torch.load("last.pt")"""


@pytest.mark.slow
@pytest.mark.parametrize("steps", [30, 250], ids=["short", "long"])
@pytest.mark.parametrize("loaded", [LOADED, ""], ids=["loads", "loads nothing"])
def test_a_folder_that_only_a_pin_names_alike_accuses_nobody(steps: int, loaded: str, tmp_path: Path) -> None:
    """With its name pinned, a second run finds that of the first, as nobody else ever does; what it loads counts."""
    source = LONG.format(before=NAMED_ANEW + loaded, after='torch.save(scale * 0.9, "last.pt")')
    (tmp_path / "train.py").write_text(source.replace("range(250)", f"range({steps})"), encoding="utf-8")
    answer = check(tmp_path, "train.py")

    causes = {cause["factor"]: cause for cause in answer["causes"] if cause["confirmed"]}
    assert set(causes) == {"os-entropy", *([FACTOR] if loaded else [])}, answer
    assert not loaded or causes[FACTOR]["what"].startswith("reads last.pt")
    assert any("begin the next one in a folder without it" in note for note in answer["notes"])


PARTS = """import tempfile
torch.manual_seed(0)
if not os.path.isdir("parts"):
    os.makedirs("parts")
    for part in range(9):
        with tempfile.NamedTemporaryFile("w", dir="parts", delete=False) as file:
            file.write(str(part))
parts = [int(Path("parts", name).read_text()) for name in sorted(os.listdir("parts"))]
scale = sum(part * 10.0**-at for at, part in enumerate(parts))"""


@pytest.mark.slow
def test_files_named_anew_that_a_next_run_finds_accuse_nobody(tmp_path: Path) -> None:
    """Their order is another one in each fresh folder, and the one that they had for whoever finds them."""
    source = LONG.format(before=PARTS, after="").replace("range(250)", "range(30)")
    (tmp_path / "train.py").write_text(source, encoding="utf-8")
    answer = check(tmp_path, "train.py")

    assert [(cause["factor"], cause["confirmed"]) for cause in answer["causes"]] == [("os-entropy", True)], answer
    assert answer["remedy"]["verified"]


PREPARING = """
import os, sys, time
import torch

if "seeded" in sys.argv:
    torch.manual_seed(0)
if not os.path.exists("data/tokens.pt"):
    print("preparing")
    os.makedirs("data")
    for part in range(6):
        time.sleep(2)
        with open(f"data/part{part}.txt", "w") as file:
            file.write(str(part))
    torch.save(torch.arange(8.0) / 8{drawn}, "data/tokens.pt")
tokens = torch.load("data/tokens.pt")
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(400):
    time.sleep(0.01)
    optimizer.zero_grad()
    model(tokens).pow(2).sum().backward()
    optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.parametrize("seeded", [True, False], ids=["seeded", "unseeded"])
def test_a_long_preparation_is_made_at_most_twice(seeded: bool, tmp_path: Path) -> None:
    """Later runs find what the first one has made; what they find changes nothing, which is seen once without it."""
    (tmp_path / "train.py").write_text(PREPARING.replace("{drawn}", ""), encoding="utf-8")
    answer = check(tmp_path, "train.py", *(["seeded"] if seeded else []))

    causes = [cause["factor"] for cause in answer["causes"] if cause["confirmed"]]
    assert (answer["verdict"], causes) == (("same", []) if seeded else ("different", ["torch-rng"])), answer
    assert answer["remedy"] is None or answer["remedy"]["verified"]
    printed = [(Path(run["folder"]) / "stdout.log").read_text() for run in answer["runs"]]
    assert sum("preparing" in text for text in printed) == 2
    own = {path.name for path in FOLDER.iterdir()} - {"__pycache__"}
    assert {path.name for path in tmp_path.iterdir()} - own == {"train.py", ".samebits"}


@pytest.mark.slow
def test_a_preparation_that_changes_what_follows_is_named(tmp_path: Path) -> None:
    """It draws from the seeded generator, so that the second run begins elsewhere: all runs begin as the first one."""
    source = PREPARING.replace("{drawn}", " + 0 * torch.rand(8)")
    (tmp_path / "train.py").write_text(source, encoding="utf-8")
    answer = check(tmp_path, "train.py", "seeded")

    (cause,) = answer["causes"]
    assert (answer["verdict"], cause["factor"], cause["confirmed"]) == ("different", FACTOR, True), answer
    assert cause["location"]["line"] == 15


@pytest.mark.slow
def test_a_long_preparation_that_is_another_one_each_time_is_named(tmp_path: Path) -> None:
    """All runs that find it agree; one that begins without it shows that they do so because they find it."""
    source = PREPARING.replace("{drawn}", " + int.from_bytes(os.urandom(4), 'little') / 2**32")
    (tmp_path / "train.py").write_text(source, encoding="utf-8")
    answer = check(tmp_path, "train.py", "seeded")

    (cause,) = answer["causes"]
    assert (answer["verdict"], cause["factor"], cause["confirmed"]) == ("different", "os-entropy", True), answer
    assert cause["location"]["line"] == 14


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
    """In a folder of its own each run draws what it keeps; later ones would read what the first one drew."""
    (tmp_path / "cached.py").write_text(source, encoding="utf-8")
    answer = check(tmp_path, "--runs", "2", "--max-runs", "2", "cached.py")

    assert answer["verdict"] == "different"
    assert [answer["divergent"][one] for one in ("a", "b")] == [1, 2]
