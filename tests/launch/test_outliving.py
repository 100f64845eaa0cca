"""Nothing outlives samebits: daemons of the script, and whatever runs when samebits itself is killed."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from samebits.launch.command import parse_command
from samebits.runfolder.spec import RunSpec
from tests.launch.conftest import PATIENCE_SECONDS, PYTHON, SAMEBITS, SLOW, only_run, samebits, write
from tests.launch.test_ending import lives, pids, started, until
from tests.running import run_recorded

# A daemon by the book: two forks and a session of its own; and one that has forgotten where it came from.
DAEMON = """
import os, subprocess, sys, time
from pathlib import Path
here = Path(__file__).parent
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        (here / f"pid.{os.getpid()}").touch()
        time.sleep(600)
    os._exit(0)
code = f"import os, time; open('{here}/pid.' + str(os.getpid()), 'w'); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
subprocess.Popen([sys.executable, "-S", "-c", code], env={})
while len(list(here.glob("pid.*"))) < 3:
    time.sleep(0.01)
"""


def test_daemons_end_with_their_run(tmp_path: Path) -> None:
    """A run that ended by itself leaves no process behind."""
    write(tmp_path, {"it.py": DAEMON})

    outcome = run_recorded(
        parse_command([PYTHON, str(tmp_path / "it.py")]), RunSpec(), tmp_path / "run", PATIENCE_SECONDS
    )

    assert outcome.exit_code == 0
    assert len(pids(tmp_path)) == 3
    until(lambda: not any(lives(pid) for pid in pids(tmp_path)))


def test_under_run_daemons_live_on(tmp_path: Path) -> None:
    """`samebits run` is the program and nothing else: what it leaves behind on purpose stays."""
    write(tmp_path, {"it.py": DAEMON})

    # They keep what they were given to write to.
    words = [SAMEBITS, "run", "--no-record", "it.py"]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)

    assert done.returncode == 0
    alive = [pid for pid in pids(tmp_path) if lives(pid)]
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    assert len(alive) == 3


# A training's processes without the seconds that torch takes.
STANDS_FOR = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"pid.{os.getpid()}", "w")
if sys.argv[1:] != ["worker"]:
    for number in range(2):
        subprocess.Popen([sys.executable, __file__, "worker"], start_new_session=number == 1)
time.sleep(600)
"""


TORCHRUN = ["torchrun", "--standalone", "--nproc-per-node", "2", "it.py"]


@pytest.mark.parametrize(
    ("words", "times", "most_seconds"),
    [
        pytest.param(["--jobs", "1", "it.py"], 4, 0.6, marks=pytest.mark.slow),
        (["--jobs", "2", "it.py"], 4, 0.6),
        pytest.param(TORCHRUN, 20, 3.0, marks=pytest.mark.slow),
    ],
    ids=["alone", "side by side", "torchrun"],
)
def test_nothing_outlives_a_samebits_that_was_killed(
    words: list[str], times: int, most_seconds: float, tmp_path: Path
) -> None:
    """At any moment, also in the middle of a start: of a run, of torchrun and of its ranks."""
    luck = random.Random(str(words))
    write(tmp_path, {"it.py": STANDS_FOR})
    given = ["check", "--isolation", "none", "--out"]
    for number in range(times):
        with started(*given, str(number), *words, cwd=tmp_path, env=_environment()) as check:
            begun = len(pids(tmp_path))
            if number % 2:
                until(lambda begun=begun: len(pids(tmp_path)) > begun)  # type: ignore[misc]
            time.sleep(luck.uniform(0.1, most_seconds))
            check.send_signal(signal.SIGKILL)
            check.wait()
            until(lambda: not _alive(tmp_path))
    assert pids(tmp_path)


def _alive(folder: Path) -> list[int]:
    """The processes that have anything to do with this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(entry / "cwd") == str(folder) and lives(int(entry.name)):
                found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("words", [["it.py"], TORCHRUN])
def test_what_a_killed_check_has_recorded_can_be_read(words: list[str], tmp_path: Path) -> None:
    """No process is left, alone and under torchrun; `diff` and `report` answer."""
    write(tmp_path, {"it.py": f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SLOW}"})
    count = 1 if words[0] == "it.py" else 2
    with started("check", "--isolation", "none", *words, cwd=tmp_path, env=_environment()) as check:
        until(lambda: len(pids(tmp_path)) == count)
        run = only_run(tmp_path) / "1-control"
        until(lambda: len(list(run.glob("recording*"))) >= count)
        time.sleep(0.5)
        check.send_signal(signal.SIGKILL)
        check.wait()
    until(lambda: not _alive(tmp_path))

    diff = samebits("diff", str(run), str(run), cwd=tmp_path)
    report = samebits("report", cwd=tmp_path)

    assert (diff.status, diff.err) == (0, "")
    assert "is incomplete" in diff.out
    assert (report.status, report.out, report.err) == (0, "samebits.html\n", "")


def _environment() -> dict[str, str]:
    here = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}


def test_a_supervisor_leaves_with_its_run(tmp_path: Path) -> None:
    """It is the run's parent, and ends as the command does: with its status, or of its signal."""
    write(tmp_path, {"it.py": "import os; open(f'{__file__[:-5]}pid.{os.getppid()}', 'w'); os.kill(os.getpid(), 10)"})

    outcome = run_recorded(parse_command([PYTHON, str(tmp_path / "it.py")]), RunSpec(), tmp_path / "run")

    assert outcome.exit_code == -signal.SIGUSR1
    (supervisor,) = pids(tmp_path)
    assert not lives(supervisor)
