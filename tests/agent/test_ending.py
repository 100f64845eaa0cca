"""Where a run ends before its script does: a first look, and a run that reads along in another one's recording."""

import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from samebits.comparison.locate import first_divergence
from samebits.launch.command import parse_command
from samebits.launch.process import Outcome
from samebits.runfolder.notes import Ended, read_notes
from samebits.runfolder.spec import RunSpec
from tests.running import run_recorded

PATIENCE_SECONDS = 120
SCRIPT = """
import os, sys, time
import torch

changed, steps = int(sys.argv[1]), int(sys.argv[2])
ranks = int(os.environ.get("WORLD_SIZE", 1))
if ranks > 1:
    torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
if ranks > 1:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(steps):
    optimizer.zero_grad()
    scale = 2.0 if step == changed and int(os.environ.get("RANK", 0)) == 0 else 1.0
    model(scale * torch.ones(3, 4)).sum().backward()
    optimizer.step()
    time.sleep(0.005)
print("the end")
"""


def run(folder: Path, name: str, changed: int, steps: int, plan: RunSpec, *launcher: str) -> Outcome:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    words = [*(launcher or (sys.executable,)), str(script), str(changed), str(steps)]
    outcome = run_recorded(parse_command(words), plan, folder / name, PATIENCE_SECONDS)
    assert outcome.succeeded, outcome.folder.stderr.read_text()
    return outcome


def lasts(outcome: Outcome) -> set[int | None]:
    """The step after which each process was ended."""
    return {note.stopped_after for note in read_notes(outcome.folder.path, Ended)}


SAVING = """
import queue, sys, threading
import torch

jobs = queue.Queue()
def write():
    while (state := jobs.get()) is not None:
        torch.save(state, f"{__file__}.pt")
        jobs.task_done()
writer = threading.Thread(target=write, daemon=True)
writer.start()
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    jobs.put({"weight": model.weight.detach().clone()})
    jobs.join()
jobs.put(None)
writer.join()
"""


def test_what_a_thread_saves_later_is_no_difference_from_a_run_that_was_ended(tmp_path: Path) -> None:
    """A thread has no steps: what it had saved when its process was ended is the beginning of something."""
    (tmp_path / "save.py").write_text(SAVING)
    command = parse_command([sys.executable, str(tmp_path / "save.py")])
    ended, whole = (
        run_recorded(command, plan, tmp_path / name, PATIENCE_SECONDS).folder.recordings()
        for name, plan in (("ended", RunSpec(stop_after=2)), ("whole", RunSpec()))
    )

    assert first_divergence(ended, whole, 2) is None
    assert first_divergence(whole, ended, 2) is None
    assert len(whole) == 2


def test_a_look_ends_and_a_run_that_follows_goes_on_until_it_differs(tmp_path: Path) -> None:
    """After so many steps and seconds; soon after the runs diverge; and not at all where they agree.

    Nor where there are several recordings: two processes that train at once may have begun in another order.
    """
    look = run(tmp_path, "look", -1, 200, RunSpec(look_seconds=0.1, look_steps=30))
    (recording,) = look.folder.recordings()
    (last,) = lasts(look)
    follow = RunSpec(follow=str(look.folder.path))
    same = run(tmp_path, "same", -1, 60, follow)
    whole = run(tmp_path, "whole", -1, 200, RunSpec())
    other = run(tmp_path, "other", 20, 200, RunSpec(follow=str(whole.folder.path)))
    (stopped,) = lasts(other)
    (whole.folder.path / "recording.process1.sqlite").touch()
    several = run(tmp_path, "several", 20, 60, RunSpec(follow=str(whole.folder.path)))

    assert last is not None
    assert 30 <= recording.steps == last + 1 < 200
    assert "the end" not in look.folder.stdout.read_text()
    assert lasts(same) == {None}
    assert "the end" in same.folder.stdout.read_text()
    assert stopped is not None
    assert 20 <= stopped < 190
    assert "the end" not in other.folder.stdout.read_text()
    assert lasts(several) == {None}


@pytest.mark.parametrize(
    ("changed", "begins"),
    [(20, "later"), *(pytest.param(changed, "together", marks=pytest.mark.slow) for changed in (20, -1))],
)
def test_runs_that_go_on_at_once_end_where_they_diverge(tmp_path: Path, changed: int, begins: str) -> None:
    """Each reads what the other one has written up to then, also where that is far ahead, or has not begun."""
    (tmp_path / "train.py").write_text(SCRIPT)
    folders = [tmp_path / "one", tmp_path / "other"]

    def made(number: int) -> Outcome:
        if number and begins == "later":
            time.sleep(2)
        words = [
            sys.executable,
            str(tmp_path / "train.py"),
            str(changed if number else -1),
            "200" if changed < 0 else "1500",
        ]
        plan = RunSpec(along=(str(folders[1 - number]),))
        return run_recorded(parse_command(words), plan, folders[number], PATIENCE_SECONDS)

    with ThreadPoolExecutor(2) as threads:
        ended = [one for outcome in threads.map(made, range(2)) for one in lasts(outcome)]

    if changed < 0:
        assert ended == [None, None]
    else:
        assert all(last is not None and 20 <= last < 1400 for last in ended)


# Whatever a run was writing when it ended is in a copy of the folder, and gone with it.
KEEPING = """
import os, zipfile
from multiprocessing import get_context, shared_memory
import torch

def main():
    archive, log = zipfile.ZipFile("archive.zip", "a"), open("log.txt", "a")
    shared, lock = shared_memory.SharedMemory(create=True, size=8), get_context("spawn").Lock()
    print(shared.name, flush=True)
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
        archive.writestr(f"{step}.txt", str(step))
        print(step, file=log)

if __name__ == "__main__":
    main()
"""


def test_what_a_run_was_writing_is_not_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's files are as they were, in bytes and times, wherever the run was ended; shared memory is taken away.

    The process that Python has for it outlives the run by a moment, and only by that.
    """
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(KEEPING)
    with zipfile.ZipFile("archive.zip", "w") as archive:
        archive.writestr("precious.txt", "from last month")
    before = Path("archive.zip").stat(), Path("archive.zip").read_bytes()
    words = parse_command([sys.executable, "train.py"])
    outcome = run_recorded(words, RunSpec(stop_after=3), tmp_path / "run", PATIENCE_SECONDS, isolation="copy")

    assert 3 in lasts(outcome)
    assert (Path("archive.zip").stat().st_ctime_ns, Path("archive.zip").read_bytes()) == (
        before[0].st_ctime_ns,
        before[1],
    )
    assert not Path("log.txt").exists()
    assert not Path("/dev/shm", outcome.folder.stdout.read_text().strip()).exists()


LOADING = """
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, number):
        if number >= 12:
            print(time.time(), flush=True)
            time.sleep(60)
        return torch.ones(4)

if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Numbers(), batch_size=2, num_workers=2, persistent_workers=True):
        model(batch).sum().backward()
        optimizer.step()
"""


def test_workers_are_not_waited_for_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the middle of an item when it ends, each with a temporary folder for the tensors that it gave."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    Path("train.py").write_text(LOADING)
    command = parse_command([sys.executable, "train.py"])
    outcome = run_recorded(command, RunSpec(stop_after=3), tmp_path / "run", PATIENCE_SECONDS, isolation="copy")

    ended = time.time()
    assert lasts(outcome) == {3}
    assert ended - float(outcome.folder.stdout.read_text().split()[0]) < 20.0
    assert list(tmp_path.rglob("pymp-*")) == []


FORKED = """
import os, sys
import torch

log = open("log.txt", "w")
log.write("once")
if os.fork() == 0:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
    os._exit(0)
os.wait()
"""


def test_a_forked_process_writes_nothing_of_the_other_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first process has not written yet, it writes itself."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(FORKED)
    outcome = run_recorded(
        parse_command([sys.executable, "train.py"]), RunSpec(stop_after=3), tmp_path / "run", PATIENCE_SECONDS
    )

    assert 3 in lasts(outcome)
    assert Path("log.txt").read_text() == "once"


@pytest.mark.slow
def test_all_ranks_end_after_the_same_step(tmp_path: Path) -> None:
    """Whichever decides first, in a look and where one rank leaves what it follows; none waits for another."""
    launcher = (str(Path(sys.executable).with_name("torchrun")), "--standalone", "--nproc-per-node", "2")
    look = run(tmp_path, "look", -1, 400, RunSpec(look_seconds=0.1, look_steps=30), *launcher)
    whole = run(tmp_path, "whole", -1, 200, RunSpec(), *launcher)
    other = run(tmp_path, "other", 20, 200, RunSpec(follow=str(whole.folder.path)), *launcher)

    folders = [tmp_path / "one", tmp_path / "two"]
    with ThreadPoolExecutor(2) as threads:
        plans = [RunSpec(along=(str(folders[1]),)), RunSpec(along=(str(folders[0]),))]
        one = threads.submit(run, tmp_path, "one", -1, 400, plans[0], *launcher)
        two = threads.submit(run, tmp_path, "two", 20, 400, plans[1], *launcher)

    for outcome, most in ((look, 399), (other, 199), (one.result(), 399), (two.result(), 399)):
        (last,) = lasts(outcome) - {None}
        assert last is not None
        assert last < most
        assert [one.steps for one in outcome.folder.recordings()] == [last + 1] * 2
    assert [one.steps for one in whole.folder.recordings()] == [200, 200]
