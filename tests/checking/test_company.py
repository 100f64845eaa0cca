"""Runs side by side in one folder: as many as change nothing there, and what others would find is never missed."""

import re
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import pytest

from samebits.checking import abreast
from samebits.checking.asking import BudgetSpentError
from samebits.checking.plan import Request
from samebits.checking.pool import RunPool
from samebits.checking.verdict import Run
from samebits.factors.catalog import held_by_copies
from samebits.factors.context import Setting
from samebits.launch.command import parse_command
from samebits.launch.process import Outcome
from samebits.runfolder.plan import RunPlan

BEGIN = """
import ctypes, os, socket, subprocess, sys, tempfile, time
libc = ctypes.CDLL(None, use_errno=True)
print(time.monotonic(), flush=True)
"""
END = """
time.sleep(0.3)
print(time.monotonic())
"""
QUIET = {
    "nothing": "",
    "reads": "open(__file__).read(); os.listdir('.')",
    "reads HDF5": "import h5py\nfile = h5py.File('kept.h5', 'r')",
    "temporary files": """
with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as file, tempfile.TemporaryFile():
    open(os.path.join(folder, "cache"), "w").write("1")
    os.mkdir(os.path.join(folder, "more"))
    file.write(b"1")
""",
    "any port": "server = socket.create_server(('127.0.0.1', 0))",
    "devices": "open('/dev/null', 'w').write('1')",
    "shared memory of its own": """
from multiprocessing import Array, shared_memory
shared, array = shared_memory.SharedMemory(create=True, size=8), Array("d", 4)
shared.close(), shared.unlink()
""",
}
CHANGING = {
    "a file": "open('out.txt', 'a').write('1')",
    "an HDF5 file": "import h5py\nfile = h5py.File('store.h5', 'a')",
    "a file elsewhere": "open(f'../samebits-{os.getppid()}', 'a').close()",
    "shared memory": "path = f'/dev/shm/samebits-{os.getppid()}'\nopen(path, 'w').close()\nos.remove(path)",
    "shared memory with a name": """
from multiprocessing import shared_memory
shared = shared_memory.SharedMemory(f"samebits-{os.getppid()}", create=True, size=8)
shared.close(), shared.unlink()
""",
    "a folder": "os.makedirs('runs/1', exist_ok=True)",
    "a file taken away": "os.remove('kept.txt') if os.path.exists('kept.txt') else open('kept.txt', 'x')",
    "a port": "server = socket.create_server(('127.0.0.1', PORT))",
    "another program": "subprocess.run([sys.executable, '-S', '-c', 'pass'])",
    "in a child": "if os.fork() == 0:\n    os.mkdir(str(os.getpid()))\n    os._exit(0)\nos.wait()",
    # Past Python: nobody sees it but for the traces.
    "past Python": "libc.mkdir(b'lock', 0o755) == 0 or sys.exit('locked')\ntime.sleep(1)\nlibc.rmdir(b'lock')",
}


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPool:
    """Of a machine with two idle cores."""
    monkeypatch.setattr(abreast, "fitting", lambda most, *_: most)
    monkeypatch.chdir(tmp_path)
    return pool_of(tmp_path, "it.py")


def pool_of(tmp_path: Path, *words: str) -> RunPool:
    home = tmp_path / ".samebits" / "check"
    home.mkdir(parents=True)
    for name in ("it.py", "kept.txt"):
        (tmp_path / name).touch()
    h5py.File(tmp_path / "kept.h5", "w").close()
    return RunPool(Request(parse_command([*words]), jobs=2, as_fits=True, unasked=True), home)


def made(pool: RunPool, middle: str, count: int = 4) -> list[Run]:
    """The first run, and then others that may go on side by side."""
    Path("it.py").write_text(BEGIN + middle.replace("PORT", str(free_port())) + END)
    plan = RunPlan("control")
    return [pool.run(plan), *pool.run_all([plan] * count)]


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def overlapping(runs: list[Run]) -> int:
    """How many of them began before the one before had ended."""
    times = sorted([float(word) for word in run.outcome.folder.stdout.read_text().split()] for run in runs)
    return sum(after[0] < before[1] for before, after in pairwise(times))


@pytest.mark.parametrize("what", QUIET)
def test_what_changes_nothing_goes_side_by_side(pool: RunPool, what: str) -> None:
    runs = made(pool, QUIET[what])

    assert [run.succeeded for run in runs] == [True] * 5
    assert overlapping(runs) == 2


@pytest.mark.parametrize("what", CHANGING)
def test_what_changes_something_goes_alone(pool: RunPool, what: str) -> None:
    runs = made(pool, CHANGING[what])

    assert [run.succeeded for run in runs] == [True] * 5
    assert [run.id for run in runs] == [1, 2, 3, 4, 5]
    assert overlapping(runs) == 0


def test_each_run_finds_what_those_before_it_left(pool: RunPool) -> None:
    """A guest has neither written nor read before its turn, also where the first run wrote nothing."""
    late = """
number = os.path.getsize("out.txt") if os.path.exists("out.txt") else 0
print(number, file=sys.stderr)
time.sleep(0.3)
if os.path.exists("second"):
    open("out.txt", "a").write("1")
"""
    first = made(pool, late, count=0)
    Path("second").touch()
    runs = first + pool.run_all([RunPlan("control")] * 4)

    assert overlapping(runs) == 0
    assert [run.outcome.folder.stderr.read_text() for run in runs] == ["0\n", "0\n", "1\n", "2\n", "3\n"]
    assert Path("out.txt").read_text() == "1111"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no such file system")
def test_a_working_folder_in_memory_is_one_like_any_other(pool: RunPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What samebits writes there itself is no change."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        monkeypatch.chdir(folder)

        assert overlapping(made(pool_of(Path(folder), "it.py"), "")) == 2


def test_one_that_fails_beside_another_is_made_again(pool: RunPool) -> None:
    """A device, a licence, memory: whatever it was, it was our doing."""
    taken = "b'/samebits-PORT'"
    runs = made(
        pool,
        f"libc.shm_open({taken}, os.O_CREAT | os.O_EXCL, 0o600) >= 0 or sys.exit('taken')\n"
        f"time.sleep(1)\nlibc.shm_unlink({taken})",
    )

    assert [run.succeeded for run in runs] == [True] * 5
    assert overlapping(runs) == 0


@pytest.mark.parametrize(("name", "times"), [("data.bin", 2), ("it.py", 1), (".data.swp", 1)])
def test_what_somebody_else_changes_costs_one_run_at_most(pool: RunPool, name: str, times: int) -> None:
    """It may have been the guest, past Python: where that one changes nothing by itself, it was somebody else."""
    made(pool, "", count=0)
    change = threading.Timer(0.3, lambda: Path(name).touch())
    change.start()
    starts: list[int] = []
    pool.watch = lambda number, _, outcome, path: starts.append(number) if not path.exists() else None
    runs = pool.run_all([RunPlan("control")] * 2)
    change.join()

    assert [run.succeeded for run in runs] == [True] * 2
    assert (starts.count(2), starts.count(3)) == (2, 2 * times)  # each is announced twice before it is made


def test_one_that_fails_now_and_then_has_failed(pool: RunPool, tmp_path: Path) -> None:
    """Beside another one as well as by itself: company does not excuse it."""
    ticket = f"path = b'{tmp_path.parent}/ticket%d'\n"
    ticket += "number = next(n for n in range(9) if libc.open(path % n, os.O_CREAT | os.O_EXCL, 0o600) >= 0)\n"
    ticket += "number == 1 and sys.exit('lost a race')"
    runs = made(pool, ticket, count=2)

    assert sorted(run.succeeded for run in runs) == [False, True, True]
    assert not pool.remarks


STORE = """
import socket, torch
try:
    store = torch.distributed.TCPStore("127.0.0.1", PORT, 1, True)
    seed = 0
except Exception:
    seed = 1
torch.manual_seed(seed)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    time.sleep(0.1)
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
"""


def test_what_only_company_changes_is_no_difference(pool: RunPool) -> None:
    """A port that is taken in C++: seen by nobody, and told apart by one run by itself."""
    runs = made(pool, STORE, count=2)

    assert [pool.compare(runs[0], run) for run in runs[1:]] == [None, None]
    (remark,) = pool.remarks
    assert re.fullmatch("run [23] had other bits beside another one than by itself: .*", remark)
    assert overlapping(runs) == 0


MOMENT = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    time.sleep(0.05)
    scale = libc.time(None) % 1000 if step == 25 else 1.0
    model(scale * torch.ones(1, 4)).sum().backward()
    optimizer.step()
"""


def test_what_runs_have_of_their_moment_is_not_shared(pool: RunPool) -> None:
    """Once company is known to be harmless, nothing but the time between them tells whole runs apart."""
    runs = made(pool, MOMENT, count=0)
    short = RunPlan("control", stop_after=21)
    runs += pool.run_all([short, short])
    assert pool.abreast.harmless_steps == 22

    first, second = pool.run_all([RunPlan("remedy")] * 2)
    place = pool.compare(first, second)

    assert place is not None
    assert place.step == 25
    assert not pool.remarks


TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(80):
    time.sleep(PAUSE)
    optimizer.zero_grad()
    model(SCALE * torch.ones(1, 4)).sum().backward()
    optimizer.step()
"""


def training(scale: str = "1.0", pause: float = 0.0) -> str:
    return TRAINING.replace("SCALE", f"({scale})").replace("PAUSE", str(pause))


ALONG = RunPlan("control", along=())


def steps_of(runs: list[Run]) -> list[int]:
    return [run.steps for run in runs]


def test_the_run_by_itself_is_one_that_was_asked_for(pool: RunPool) -> None:
    """Three runs that read along in one another: two at once, and the third one shows that company does nothing."""
    made(pool, training(), count=0)
    pool.runs.clear()
    assert pool.lone(ALONG) == 1
    announced: list[int] = []
    pool.watch = lambda number, _, outcome, __: announced.append(number) if outcome is not None else None
    runs = pool.run_all([ALONG] * 3)

    assert (announced, overlapping(runs), steps_of(runs)) == ([2, 3, 4], 1, [80] * 3)
    assert [pool.compare(runs[0], run) for run in runs[1:]] == [None] * 2
    assert (pool.abreast.harmless_steps, pool.lone(ALONG)) == (80, 1)  # nobody knows that none goes further
    assert pool.lone(replace(ALONG, stop_after=79)) == 0


@pytest.mark.parametrize("scale", ["1.0 if step < 20 else torch.seed() % 1000", "1.0 if step < 20 else varied"])
def test_runs_that_read_along_end_where_they_diverge(pool: RunPool, scale: str) -> None:
    """Every run has other bits, or the one that was varied has: each that is accused was made by itself."""
    varied = "varied = 2.0 if os.environ.get('PYTHONHASHSEED', 'random') != 'random' else 1.0\n"
    made(pool, varied + training(scale, 0.05), count=0)
    pool.runs.clear()
    plan = ALONG.with_settings({"hash-seed": Setting("varied", variant=1)})
    runs = pool.run_all([plan, ALONG, ALONG])
    places = [pool.compare(runs[0], run) for run in runs[1:]]

    assert all(21 <= steps < 75 for steps in steps_of(runs))
    assert [None if place is None else place.step for place in places] == [20, 20]
    assert (pool.compare(runs[1], runs[2]) is None) == scale.endswith("varied")
    assert pool.abreast.harmless_steps >= 20
    assert not pool.remarks
    assert pool.room(ALONG) == 2


@pytest.mark.parametrize("scale", ["1.0", "torch.seed() % 1000"])
def test_what_is_interrupted_by_itself_leaves_what_agreed_before(
    pool: RunPool, monkeypatch: pytest.MonkeyPatch, scale: str
) -> None:
    """Hours of a long training; but nothing is said of a difference that company may have made."""
    made(pool, training(scale), count=0)
    pool.runs.clear()
    ended = pool.ended

    def interrupted(number: int, *more: Any, **named: Any) -> Outcome:
        if number == 4:
            raise KeyboardInterrupt(2)
        return ended(number, *more, **named)

    monkeypatch.setattr(pool, "ended", interrupted)
    with pytest.raises(BudgetSpentError):
        pool.run_all([ALONG] * 3)

    assert [run.id for run in pool.runs] == ([2, 3] if scale == "1.0" else [])


def test_a_large_folder_is_not_looked_through(pool: RunPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abreast, "MOST_PATHS", 1)

    assert overlapping(made(pool, "")) == 0


def test_copies_and_folders_of_their_own_have_paths_of_their_own(tmp_path: Path, pool: RunPool) -> None:
    made(pool, "", count=0)
    plan = RunPlan("control")
    copied = plan.with_settings({name: Setting("pinned") for name in held_by_copies()})
    asking = pool_of(tmp_path / "other", "it.py", "{run}")
    asking.run(plan)

    assert [pool.room(plan), pool.room(copied), asking.room(plan)] == [2, 1, 1]


def test_short_runs_still_go_side_by_side_where_the_end_writes(pool: RunPool) -> None:
    """A checkpoint at the end keeps whole runs apart, and no others."""
    made(pool, CHANGING["a file"], count=0)

    assert [pool.room(RunPlan("control")), pool.room(RunPlan("control", stop_after=10_000))] == [1, 2]
