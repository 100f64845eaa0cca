"""Processes of a run that train and could not be entered: no verdict "same" without them."""

import json
import sys
from pathlib import Path

import pytest

from samebits import verdict
from samebits.launch.command import parse_command
from samebits.launch.supervised import unentered
from samebits.runfolder.notes import Failed, read_notes
from samebits.runfolder.spec import RunSpec
from tests.launch.conftest import PYTHON, TRAIN, samebits, write
from tests.running import run_recorded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

NOISE = "import torch\ntorch.nn.Linear(2, 1)(torch.randn(2))\n"
# Torch is known by a library that a process has in its memory: this is one without the seconds that torch takes.
LIBRARY = "libtorch_python.so"
STANDS_FOR = f"""
import mmap, time
file = open({LIBRARY!r}, "rb")
held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
time.sleep(1)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {LIBRARY: "code", "noise.py": STANDS_FOR})
    # OpenCV, once another test has imported it, lets the linker look in the working folder.
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.chdir(tmp_path)


def run(folder: Path, *words: str) -> list[str]:
    """What could not be entered in one run of a command."""
    outcome = run_recorded(parse_command(words), RunSpec("control"), folder / "run", 120)
    assert outcome.exit_code == 0, outcome.folder.stderr.read_text()
    return unentered(outcome.folder)


def test_what_was_not_entered_is_named_and_leaves_a_check_undecided(tmp_path: Path) -> None:
    """Everything recorded agrees, and the second line of the script trained unseen; Python reads what was printed."""
    write(tmp_path, {"train.py": TRAIN, "noise.py": NOISE, "train.sh": f"{PYTHON} train.py\n{PYTHON} -I noise.py\n"})

    done = samebits("check", "--runs", "2", "--", "bash", "train.sh", cwd=tmp_path)
    path = next((tmp_path / ".samebits").glob("*/answer.json"))

    assert done.status == 2, done.err
    assert done.out.startswith("undecided: a process could not be entered; of the others, same bits: 2 runs of 3 steps")
    assert f"not seen  a process that could not be entered: {Path(PYTHON).name} -I noise.py" in done.out
    assert json.loads(path.read_text())["verdict"] == "undecided"
    assert f"{verdict(path.parent)}\n" == done.out


HELPERS = f"""
import multiprocessing, os, subprocess, sys, time
{STANDS_FOR}
if os.fork() == 0:
    time.sleep(0.5)
    os._exit(0)
os.wait()
subprocess.run([sys.executable, "-I", "-c", "import json, time; time.sleep(0.5)"], check=True)
subprocess.run(["sleep", "0.5"], check=True)
subprocess.run([sys.executable, "noise.py"], check=True)
worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0.5,))
worker.start()
worker.join()
"""


def test_helpers_are_no_strangers(tmp_path: Path) -> None:
    """Forked children, entered ones, isolated Python without torch, and other programs."""
    write(tmp_path, {"it.py": HELPERS})

    assert run(tmp_path, PYTHON, "it.py") == []


def test_a_process_that_becomes_another_program_is_looked_at_again(tmp_path: Path) -> None:
    """Entered first, then replaced by an isolated Python; in a session and with an environment of its own."""
    replaced = "os.setsid(); os.execve(sys.executable, [sys.executable, '-I', 'noise.py'], dict(os.environ))"
    script = f"{STANDS_FOR}\nimport os, sys\npid = os.fork()\nif pid == 0:\n    {replaced}\nos.waitpid(pid, 0)\n"
    write(tmp_path, {"it.py": script})

    found = run(tmp_path, PYTHON, "it.py")
    assert found == [f"a process that could not be entered: {Path(PYTHON).name} -I noise.py"]


def test_a_process_in_which_samebits_crashes_at_its_start_was_not_entered(tmp_path: Path) -> None:
    """Nothing of its training is recorded, though it says why; one without torch is a helper like any other."""
    start = "spoilt = {**os.environ, 'PYTHONPATH': os.environ['PYTHONPATH'] + os.pathsep + 'spoilt'}\n"
    start += (
        "for name in ('idle.py', 'noise.py'):\n    subprocess.run([sys.executable, name], env=spoilt, check=True)\n"
    )
    write(tmp_path, {"train.py": f"import os, subprocess, sys\n{start}", "idle.py": "import time\ntime.sleep(0.5)\n"})
    # samebits imports it as it starts.
    write(tmp_path, {"spoilt/sysconfig.py": "raise OSError(28, 'No space left on device')"})

    outcome = run_recorded(parse_command([PYTHON, "train.py"]), RunSpec("control"), tmp_path / "run", 120)
    crashed = [note.message for note in read_notes(outcome.folder.path, Failed)]

    assert len(crashed) == 2
    assert all("OSError: [Errno 28]" in message for message in crashed)
    assert unentered(outcome.folder) == [f"a process that could not be entered: {Path(PYTHON).name} noise.py"]
