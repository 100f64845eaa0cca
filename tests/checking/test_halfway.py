"""What a run leaves that was ended in the middle does not mislead the next one; what a whole run leaves stays."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.checking.plan import Request
from samebits.checking.pool import RunPool
from samebits.checking.verdict import Run
from samebits.launch.command import parse_command
from samebits.runfolder.plan import RunPlan
from tests.schemas import assert_valid

STEPS, ENDED = 8, RunPlan("control", stop_after=4)
BEGIN = """
import os, sys
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
begin = 0

def train(begin=0):
    for step in range(begin, 8):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).square().sum().backward()
        optimizer.step()
        yield step

"""
RESUMING = """
if os.path.exists("last.pt"):
    begin, weights = torch.load("last.pt")
    model.load_state_dict(weights)
for step in train(begin):
    if step % 2:
        torch.save([step + 1, model.state_dict()], "last.pt")
"""
LOCKED = """
if os.path.exists(LOCK):
    sys.exit("already running")
open(LOCK, "x").close()
try:
    for step in train():
        pass
finally:
    os.remove(LOCK)
"""
TAKEN_BACK = {
    "a lock": LOCKED.replace("LOCK", "'lock'"),
    "a lock elsewhere": LOCKED.replace("LOCK", "'../lock'"),
    "a checkpoint": RESUMING + "os.remove('last.pt')\n",
    "a folder": """
os.mkdir("work")
for step in train():
    torch.save(step, f"work/{step}.pt")
for step in range(8):
    os.remove(f"work/{step}.pt")
os.rmdir("work")
""",
    "a file that was there": """
count = int(open("count.txt").read())
for step in train():
    model.weight.data *= count
    open("count.txt", "w").write(str(step))
open("count.txt", "w").write("1")
""",
}


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPool:
    """In a folder of its own, with one file that is the user's."""
    folder = tmp_path / "work"
    home = folder / ".samebits" / "check"
    home.mkdir(parents=True)
    (folder / "count.txt").write_text("1")
    (folder / "train.py").touch()
    monkeypatch.chdir(folder)
    return RunPool(Request(parse_command(["train.py"])), home)


def made(pool: RunPool, script: str, *plans: RunPlan) -> list[Run]:
    Path("train.py").write_text(BEGIN + script)
    return [pool.run(plan) for plan in plans]


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir() if path.name not in ("train.py", ".samebits", "__pycache__"))


@pytest.mark.parametrize("what", TAKEN_BACK)
def test_what_a_whole_run_takes_back_misleads_nobody(pool: RunPool, what: str) -> None:
    """It was left only because the run was ended; from then on every run begins as the first one did."""
    first, *whole, last = made(pool, TAKEN_BACK[what], ENDED, RunPlan("control"), RunPlan("control"), ENDED)

    assert (first.steps, [run.steps for run in whole], last.steps) == (5, [STEPS, STEPS], 5)
    assert all(run.succeeded for run in whole)
    assert all(pool.compare(first, run) is None for run in (*whole, last))
    (remark,) = pool.remarks
    assert remark.startswith("run 2 was made again in the folder as the check found it: it met ")
    assert ", which run 1 had left when it was ended in the middle; " in remark
    assert remark.endswith(" is in .samebits/check/halfway now")
    assert pool.halfway.untested == ()
    pool.close()
    assert (files(), Path("count.txt").read_text()) == (["count.txt"], "1")
    assert not Path("../lock").exists()


def test_what_a_whole_run_leaves_is_found(pool: RunPool) -> None:
    """The script would meet it without samebits, too."""
    first, second, third = made(pool, RESUMING, ENDED, RunPlan("control"), RunPlan("control"))

    assert pool.compare(first, second) is None
    assert pool.compare(second, third) is not None
    assert [(left.how, left.writer) for left in third.facts.left] == [("tested", 2), ("read", 2)]
    assert len(pool.remarks) == 1
    pool.close()
    assert files() == ["count.txt", "last.pt"]


def test_what_makes_no_difference_stays(pool: RunPool) -> None:
    """A run that has the bits of the one before is not made again, whatever it has read."""
    script = """
print(os.path.exists("log.txt") and open("log.txt").read())
for step in train():
    open("log.txt", "a").write("1")
"""
    runs = made(pool, script, ENDED, RunPlan("control"), ENDED)

    assert [bool(run.facts.left) for run in runs] == [False, True, True]
    assert (pool.remarks, files()) == ([], ["count.txt", "log.txt"])


def test_a_bounded_check_says_that_it_has_not_seen_what_is_left(tmp_path: Path) -> None:
    """None of its runs goes to its end, so it accuses nobody of what they leave, and leaves nothing."""
    (tmp_path / "train.py").write_text(BEGIN + LOCKED.replace("LOCK", "'lock'"))
    words = [sys.executable, "-m", "samebits", "check", "--format", "json", "--max-steps", "3", "train.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    answer = json.loads(done.stdout)
    assert_valid(answer)
    assert (done.returncode, answer["verdict"], answer["steps_checked"]) == (0, "same", 3)
    assert answer["untested"] == ["what a run leaves for the next one: all were ended in the middle"]
    assert not any("wrote lock" in note for note in answer["notes"])
    assert not (tmp_path / "lock").exists()
