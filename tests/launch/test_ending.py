"""Time limits, signals and interrupts: processes end, what was recorded stays, and the shell sees what it should."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from samebits.base.errors import RecordingError
from samebits.runfolder.folder import RunFolder
from tests.launch.conftest import PATIENCE_SECONDS, PYTHON, SAMEBITS, SLOW, TRAIN, only_run, plain, samebits, write
from tests.schemas import assert_valid

# A program with a child and a grandchild that left its group, all of which can only be killed; each says who it is.
STUBBORN = """
import os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
here = Path(__file__).parent
if os.fork() == 0 and os.fork() == 0:
    os.setsid()
(here / f"pid.{os.getpid()}").touch()
time.sleep(600)
"""


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


def pids(folder: Path) -> list[int]:
    """The processes that said who they are."""
    return [int(path.suffix[1:]) for path in folder.glob("pid.*")]


def lives(pid: int) -> bool:
    """Whether a process does anything any more; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


@contextlib.contextmanager
def started(*words: str, cwd: Path, **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """samebits, going on beside the test."""
    process = subprocess.Popen(
        [SAMEBITS, *words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **more
    )  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_run_that_hangs_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    """The time limit ends children and grandchildren, also those that ignore SIGTERM or left the group."""
    write(tmp_path, {"it.py": STUBBORN})

    done = samebits("check", "--isolation", "none", "--timeout", "3", "--format", "json", "it.py", cwd=tmp_path)

    verdict = json.loads(done.out)
    assert done.status == 2
    assert verdict["error"]["kind"] == "timeout"
    # What it took us to end it is not what it was given.
    assert verdict["error"]["message"].startswith("the command was ended by samebits after 3 s, its time limit")
    (run,) = verdict["runs"]
    assert run["timed_out"]
    assert 3 <= run["wall_seconds"] < 4
    assert len(pids(tmp_path)) == 3
    assert not [pid for pid in pids(tmp_path) if lives(pid)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_a_signal_ends_a_check_and_every_process_of_it(number: int, tmp_path: Path) -> None:
    """Also when it comes twice; the folder can be read, and the status is the shell's for that signal."""
    write(tmp_path, {"it.py": STUBBORN})

    with started("check", "--isolation", "none", "it.py", cwd=tmp_path) as check:
        until(lambda: len(pids(tmp_path)) == 3)
        check.send_signal(number)
        time.sleep(0.5)
        check.send_signal(number)
        out, err = check.communicate(timeout=PATIENCE_SECONDS)

    assert check.returncode == 128 + number
    assert out.decode().splitlines()[:2] == [
        "undecided: interrupted before the first run was complete",
        "  untested  interrupted in run 1 (control), and nothing was run after that",
    ]
    # The blank line is for the terminal, which shows ^C where it stands.
    assert err.decode() == (
        f"\nerror: interrupted; every process was ended\n\nhint: what was recorded is in {only_run(tmp_path)}\n"
    )
    assert not [pid for pid in pids(tmp_path) if lives(pid)]
    assert RunFolder(only_run(tmp_path) / "1-control").manifest()["status"] == "interrupted"
    assert not (only_run(tmp_path) / ".busy").exists()


def steps_so_far(run: Path) -> int:
    """How many steps were recorded; none while the recording is only begun."""
    try:
        return max((one.steps for one in RunFolder(run).recordings()), default=0)
    except RecordingError:
        return 0


@pytest.mark.slow
def test_a_signal_ends_runs_that_go_on_side_by_side(tmp_path: Path) -> None:
    """The answer names each, and says what agreed: after hours, that is what is known. What was recorded is kept."""
    write(tmp_path, {"it.py": SLOW.replace("Path(f", "repr(f").replace(".touch()", "")})
    runs = [tmp_path / "kept" / name for name in ("2-varied", "3-control")]

    with started("check", "--jobs", "2", "--out", "kept", "it.py", cwd=tmp_path) as check:
        until(lambda: all(steps_so_far(run) > 20 for run in runs))
        check.send_signal(signal.SIGINT)
        out, _ = check.communicate(timeout=PATIENCE_SECONDS)
    diff = samebits("diff", *map(str, runs), cwd=tmp_path)

    assert check.returncode == 128 + signal.SIGINT
    assert "interrupted in run 2 (varied) and run 3 (control), and nothing was run after that" in out.decode()
    told = re.search(r"no two runs differ in the first (\d+) steps, as far as each got", out.decode())
    assert told is not None, out.decode()
    assert 20 < int(told[1]) < 1000
    assert {path.name for path in tmp_path.iterdir()} == {"it.py", "kept"}
    (recording,) = RunFolder(runs[0]).recordings()
    assert (recording.steps > 20, recording.complete) == (True, False)
    assert (diff.status, diff.err) == (0, "")
    assert f"is incomplete: its process did not end by itself; {recording.steps} steps were read" in diff.out


def test_an_interrupted_check_answers_in_json_when_asked_to(tmp_path: Path) -> None:
    """The answer is one document in this case too."""
    write(tmp_path, {"it.py": "import time; open('pid.1', 'w'); time.sleep(600)"})

    with started("check", "--isolation", "none", "--format", "json", "it.py", cwd=tmp_path) as check:
        until(lambda: bool(pids(tmp_path)))
        check.send_signal(signal.SIGINT)
        out, err = check.communicate(timeout=PATIENCE_SECONDS)

    document = json.loads(out)
    assert (check.returncode, err) == (130, b"")
    assert_valid(document)
    assert document["error"]["kind"] == "interrupted"
    assert (document["signal"], document["cut_short"]) == (signal.SIGINT, [[1, "control"]])
    assert (only_run(tmp_path) / "answer.json").read_bytes() == out


SAYS_SIGNALS = """
import os, signal, sys, time
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
    if signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:
        signal.signal(getattr(signal, name), lambda number, _: print(signal.Signals(number).name, flush=True))
open(f"pid.{os.getpid()}", "w")
deadline = time.monotonic() + 2
while time.monotonic() < deadline and not os.path.exists("enough"):
    time.sleep(0.02)
"""


def test_a_run_passes_signals_on(tmp_path: Path) -> None:
    """What a scheduler or a supervisor sends to samebits reaches the command, once."""
    write(tmp_path, {"it.py": SAYS_SIGNALS.replace("+ 2", "+ 60")})
    given = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]
    # A shell starts what goes on in the background with some of them ignored, and so do its children.
    names = [name for name in given if signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN]

    with started("run", PYTHON, "-u", "it.py", cwd=tmp_path, start_new_session=True) as run:
        until(lambda: bool(pids(tmp_path)))
        for name in names:
            run.send_signal(getattr(signal, name))
            time.sleep(0.1)
        (tmp_path / "enough").touch()
        out, err = run.communicate(timeout=PATIENCE_SECONDS)

    assert (run.returncode, err) == (0, b"")
    assert sorted(out.decode().split()) == sorted(names)  # two that wait at once arrive by their numbers


def test_ctrl_c_in_a_terminal_reaches_the_command_once(tmp_path: Path) -> None:
    """The terminal sends it to samebits and to the command alike, so samebits does not send it again."""
    write(tmp_path, {"it.py": SAYS_SIGNALS})

    shown = _with_ctrl_c([SAMEBITS, "run", PYTHON, "it.py"], tmp_path)

    assert shown.count(b"SIGINT\r\n") == 1
    assert shown == _with_ctrl_c([PYTHON, "it.py"], tmp_path)


def _with_ctrl_c(words: list[str], cwd: Path) -> bytes:
    for old in cwd.glob("pid.*"):
        old.unlink()
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(cwd)
        os.execv(words[0], words)
    until(lambda: bool(pids(cwd)))
    os.write(terminal, b"\x03")
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while chunk := os.read(terminal, 4096):
            shown += chunk
    os.close(terminal)
    os.waitpid(child, 0)
    return shown


def test_nohup_still_protects(tmp_path: Path) -> None:
    """A signal that was ignored when samebits began is ignored by the command as well."""
    write(tmp_path, {"it.py": "import signal; print([signal.getsignal(n).name for n in (1, 2)])"})
    words = ["sh", "-c", "trap '' HUP INT; exec \"$@\"", "-"]

    alone = plain([*words, PYTHON, "it.py"], tmp_path)
    with_us = plain([*words, SAMEBITS, "run", PYTHON, "it.py"], tmp_path)

    assert with_us == alone
    assert alone.out == "['SIG_IGN', 'SIG_IGN']\n"


def test_no_core_is_dumped_for_the_command(tmp_path: Path) -> None:
    """Samebits dies of the signal of which the command died, but leaves no file for it."""
    text = "import resource, os; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.abort()"

    done = plain(["sh", "-c", f'ulimit -c unlimited; {SAMEBITS} run {PYTHON} -c "{text}"; echo $?'], tmp_path)

    assert done.out == "134\n"
    assert [path.name for path in tmp_path.iterdir()] == [".samebits"]


# Two runs that diverge by an unseeded draw; the third one never ends.
THIRD_HANGS = f"""
import time
from pathlib import Path
Path(f"pid.{{len(list(Path('.').glob('pid.*')))}}").touch()
if len(list(Path(".").glob("pid.*"))) == 3:
    time.sleep(600)
{TRAIN.replace("torch.manual_seed(0)", "")}
"""


@pytest.mark.slow
def test_an_interrupted_check_says_what_it_knows(tmp_path: Path) -> None:
    """The verdict so far is printed and kept, with what remained untested; the page can be made of it."""
    write(tmp_path, {"it.py": THIRD_HANGS})

    with started("check", "--isolation", "none", "it.py", cwd=tmp_path) as check:
        until(lambda: len(list(tmp_path.glob("pid.*"))) == 3)
        check.send_signal(signal.SIGINT)
        out, _ = check.communicate(timeout=PATIENCE_SECONDS)
    page = samebits("report", cwd=tmp_path)

    said = out.decode()
    answer = json.loads((only_run(tmp_path) / "answer.json").read_text())
    assert check.returncode == 130
    assert said.startswith("different bits: runs 1 and 2 diverge at step 0")
    assert "  untested  interrupted in run 3 (pinned), and nothing was run after that\n" in said
    assert_valid(answer)
    assert (answer["verdict"], answer["cut_short"]) == ("different", [[3, "pinned"]])
    assert (page.status, page.err) == (0, "")


def test_an_interrupted_measurement_says_what_ran(tmp_path: Path) -> None:
    """The same of `samebits cost`."""
    write(tmp_path, {"it.py": "import time; open('pid.1', 'w'); time.sleep(600)"})

    with started("cost", "--isolation", "none", "it.py", cwd=tmp_path) as cost:
        until(lambda: bool(pids(tmp_path)))
        cost.send_signal(signal.SIGINT)
        out, err = cost.communicate(timeout=PATIENCE_SECONDS)

    answer = json.loads((only_run(tmp_path) / "answer.json").read_text())
    assert cost.returncode == 130
    assert out.decode().startswith("not measured: interrupted after ")
    assert out.decode().endswith("\n  ran       nothing\n")
    assert err.decode().startswith("\nerror: interrupted; every process was ended\n")
    assert_valid(answer)
    assert (answer["signal"], answer["ran"]) == (signal.SIGINT, ["nothing"])
