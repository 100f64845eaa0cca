"""A whole home folder is watched while every command runs in it, and is killed in it: nothing of it is touched."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from samebits.workspace.workspace import temporary_of
from tests.launch.conftest import SAMEBITS, samebits, write
from tests.workspace.conftest import state_of

# It reads, writes, locks, makes folders, caches, appends and removes, in the folder and by its full path.
SCRIPT = """
import os, sqlite3, sys, time
from pathlib import Path
import torch

here = Path(__file__).resolve().parent
if os.path.exists("running.lock"):
    sys.exit("another job trains here")
open("running.lock", "w").close()
try:
    os.makedirs("runs", exist_ok=True)
    number = len(os.listdir("runs"))
    os.makedirs(f"runs/{number}")
    if not os.path.exists("cache.pt"):
        torch.save(torch.arange(9.0), "cache.pt")
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = 0
    if os.path.exists("last.pt"):
        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        first = state["step"]
    database = sqlite3.connect(here / "runs.db")
    database.execute("create table if not exists losses (x)")
    for step in range(first, int(sys.argv[1])):
        time.sleep(0.01)
        optimizer.zero_grad()
        loss = model(torch.ones(4, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        with open(here / "log.txt", "a") as log:
            log.write("step\\n")
        with open("notes/precious.txt", "r+") as file:
            file.write("X")
        database.execute("insert into losses values (1)")
        database.commit()
        if step % 10 == 9:
            torch.save({"model": model.state_dict(), "step": step + 1}, "new.pt")
            os.replace("new.pt", "last.pt")
    if os.path.exists("last.pt"):
        os.remove("last.pt")
finally:
    os.remove("running.lock")
"""


def home_of(tmp_path: Path) -> Path:
    """Somebody's home, and a project in it; `.samebits` is there already, so that its making is no change."""
    write(
        tmp_path,
        {
            "home/project/train.py": SCRIPT,
            "home/project/notes/precious.txt": "precious",
            "home/project/log.txt": "from last month\n",
            "home/project/runs/0/old.txt": "old",
            "home/.cache/hub/model.bin": "weights",
            "home/data/images/1.png": "an image",
            "home/other/notes.md": "text",
        },
    )
    project = tmp_path / "home" / "project"
    (project / "sealed").mkdir(mode=0o500)
    (project / "images").symlink_to("../data/images")
    (project / ".samebits").mkdir()
    return tmp_path / "home"


COMMANDS = {
    "check": ("check", "--max-runs", "8"),
    "against": ("check", "--against", sys.executable),
    "quick": ("check", "--quick", "--max-runs", "4"),
    "cost": ("cost", "--budget", "12", "--warm-up", "4", "--factor", "cpu-threads"),
    "lock": ("lock", "--max-steps", "5", "--lockfile", "../train.lock"),
    "resume": ("resume", "--at", "14"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "resume" else pytest.mark.slow) for name in COMMANDS]
)
def test_no_command_touches_anything_of_the_users(name: str, tmp_path: Path) -> None:
    """Names, inodes, modes, times and contents are as before, in the whole home."""
    home = home_of(tmp_path)
    before = state_of(home)
    commands = [(*COMMANDS[name], "train.py", "30")]
    if name == "lock":
        commands.append(("verify", "--lockfile", "../train.lock"))
    done = [samebits(*words, cwd=home / "project", env={"HOME": str(home)}) for words in commands]
    (home / "train.lock").unlink(missing_ok=True)

    # Killed, it leaves its lock, and does not start again: that is the script's own.
    said = "".join(one.err for one in done)
    assert all(one.status in (0, 1) for one in done) or (name == "resume" and "another job trains here" in said), said
    after = state_of(home)
    # A lockfile was written beside the project, as it was asked for.
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed - {str(home)} == set()
    assert leftovers(home / "project") == []


def leftovers(project: Path) -> list[Path]:
    """What commands have left of their copies."""
    homes = [path for path in (project / ".samebits").iterdir() if path.is_dir()]
    own = [path for home in homes for path in (*home.glob("work-*"), *home.glob("trees"))]
    return [*own, *(path for home in homes for path in temporary_of(home) if path.exists())]


@pytest.mark.parametrize("times", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_a_command_that_is_killed_has_touched_nothing(times: int, tmp_path: Path) -> None:
    """SIGKILL at a random moment, again and again; the next command takes away what was left of the copies."""
    home = home_of(tmp_path)
    luck, before = random.Random(times), state_of(home)
    for number in range(times):
        words = COMMANDS[("check", "cost", "resume")[number % 3]]
        environment = {**os.environ, "HOME": str(home)}
        with subprocess.Popen(
            [SAMEBITS, *words, "train.py", "400"],
            cwd=home / "project",
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            time.sleep(luck.uniform(0.2, 6.0 if number % 2 else 3.0))
            process.send_signal(signal.SIGKILL)
            process.wait()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _processes_in(home):
        time.sleep(0.1)

    assert state_of(home) == before
    cleaned = samebits("clean", cwd=home / "project")
    assert cleaned.status == 0, cleaned.err
    assert leftovers(home / "project") == []
    assert state_of(home) == before


def _processes_in(home: Path) -> list[int]:
    """Processes of runs that are still there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(str(home)) in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
