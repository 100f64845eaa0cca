"""What runs read and write: a terminal where samebits has one, files elsewhere, and the same bytes either way."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

from tests.launch.conftest import PATIENCE_SECONDS, PYTHON, TRAIN, plain, samebits, write
from tests.launch.test_ending import until

# Recorded runs, made by a process that is given other streams.
RUN = """
import sys
from pathlib import Path
from samebits.launch.command import parse_command
from samebits.launch.process import run_in
from samebits.runfolder.spec import RunSpec
from samebits.workspace.workspace import Workspace
for name in sys.argv[1:] or ["run"]:
    path = Path(name).absolute()
    path.mkdir()
    outcome = run_in(Workspace(path, "none"), parse_command(["it.py"]), RunSpec(), path, 60)
    assert outcome.exit_code == 0
"""
SEES = """
import os, subprocess, sys
print([os.isatty(number) for number in range(3)])
print(subprocess.run(["stty", "size"], capture_output=True, text=True).stdout.strip())
print(tuple(os.get_terminal_size()) if sys.stdout.isatty() else None)
try:
    input()
except EOFError:
    print("nothing to read")
print(sys.stdin.read() == "", flush=True)
sys.stdout.buffer.write(bytes(range(256)) * 4000); sys.stdout.flush()
print("\\r50 %\\r100 %\\x1b[0m", file=sys.stderr)
"""


def terminal(rows: int, columns: int) -> tuple[int, int]:
    """Both ends of a terminal of this size."""
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return near, far


def test_a_run_gets_a_terminal_where_samebits_has_one(tmp_path: Path) -> None:
    """Of the same size, on each stream that is one; what is written ends up in the logs, byte for byte."""
    write(tmp_path, {"it.py": SEES})
    near, far = terminal(33, 77)
    before = termios.tcgetattr(far)

    whole = subprocess.run([PYTHON, "-c", RUN], cwd=tmp_path, stdin=far, stdout=far, stderr=far, timeout=60)
    out, err = (tmp_path / "run/stdout.log").read_bytes(), (tmp_path / "run/stderr.log").read_bytes()
    os.rename(tmp_path / "run", tmp_path / "whole")
    part = subprocess.run([PYTHON, "-c", RUN], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=far, stderr=far)
    after = termios.tcgetattr(far)
    os.set_blocking(near, False)
    try:
        shown = os.read(near, 10)
    except BlockingIOError:
        shown = b""
    os.close(near)
    os.close(far)

    assert (whole.returncode, part.returncode, shown, after == before) == (0, 0, b"", True)
    head, _, bulk = out.partition(b"True\n")
    assert head.decode() == "[True, True, True]\n33 77\n(77, 33)\nnothing to read\n"
    assert bulk == bytes(range(256)) * 4000
    assert err == b"\r50 %\r100 %\x1b[0m\n"
    assert (tmp_path / "run/stdout.log").read_bytes().startswith(b"[False, True, True]\n\n(77, 33)\n")


def test_a_run_gets_files_where_samebits_has_no_terminal(tmp_path: Path) -> None:
    """As ever: an empty standard input, and logs."""
    write(tmp_path, {"it.py": SEES})

    done = plain([PYTHON, "-c", RUN], tmp_path)

    assert done.status == 0
    assert (
        (tmp_path / "run/stdout.log").read_bytes().startswith(b"[False, False, False]\n\nNone\nnothing to read\nTrue\n")
    )


def test_a_file_on_standard_input_is_read_by_every_run(tmp_path: Path) -> None:
    """Each from its start."""
    write(tmp_path, {"it.py": "print(input())", "words": "first\nsecond\n"})

    with (tmp_path / "words").open("rb") as words:
        done = plain([PYTHON, "-c", RUN, "one", "two"], tmp_path, stdin=words.fileno())

    assert (done.status, done.err) == (0, "")
    assert [path.read_text() for path in tmp_path.glob("*/stdout.log")] == ["first\n"] * 2


def test_a_pipe_that_is_not_passed_on_is_said_first(tmp_path: Path) -> None:
    """Where a check fails, the hint begins with what is different under it."""
    write(tmp_path, {"it.py": "print(input())", "-": ""})

    failed = samebits("check", "it.py", cwd=tmp_path, stdin=b"words\n")
    silent = samebits("check", PYTHON, "-", cwd=tmp_path, stdin=TRAIN.encode())

    assert (failed.status, silent.status) == (2, 2)
    pipe = "standard input from a pipe is not passed on to runs: give a file, samebits check ... < FILE"
    assert "the command failed in 1 of 1 runs" in failed.err
    assert f"\n\nhint: {pipe};" in failed.err
    assert "EOFError" in failed.err
    assert f"\n\nhint: {pipe}" in silent.err


def test_what_is_different_under_a_check_is_said(tmp_path: Path) -> None:
    """Without a pipe, it is the folder that runs share."""
    write(tmp_path, {"it.py": "import os; os.mkdir('new'); raise SystemExit(3)"})

    done = samebits("check", "it.py", cwd=tmp_path)

    assert "\n\nhint: does it work without samebits? Under a check nothing can be typed in" in done.err
    assert "each run has a copy of the folder" in done.err


def test_a_daemon_that_keeps_the_terminal_does_not_keep_the_run(tmp_path: Path) -> None:
    """It is ended with the run, and with it the last copy of the terminal."""
    daemon = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    open('pid.1', 'w')\n    time.sleep(600)\n"
    write(tmp_path, {"it.py": f"{daemon}while not os.path.exists('pid.1'): time.sleep(0.01)\nprint('done')"})
    near, far = terminal(24, 80)
    process = subprocess.Popen([PYTHON, "-c", RUN], cwd=tmp_path, stdin=far, stdout=far, stderr=far)
    until(lambda: process.poll() is not None)
    os.close(near)
    os.close(far)

    assert process.wait(PATIENCE_SECONDS) == 0
    assert (tmp_path / "run/stdout.log").read_bytes() == b"done\n"
