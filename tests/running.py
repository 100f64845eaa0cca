"""Processes of their own: one run as the commands make them, and modules that print what came of them."""

import fcntl
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from samebits.launch.command import Command
from samebits.launch.process import Limit, Outcome, run_in
from samebits.runfolder.folder import BUSY
from samebits.runfolder.spec import RunSpec
from samebits.workspace.place import Isolation
from samebits.workspace.workspace import Workspace

ROOT = Path(__file__).parents[1]


@contextmanager
def busy_folder(folder: Path) -> Iterator[None]:
    """While a command has this folder; its time stays."""
    before = folder.stat().st_mtime_ns
    with open(folder / BUSY, "ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        os.utime(folder, ns=(before, before))
        yield


def run_recorded(
    command: Command,
    spec: RunSpec,
    path: Path,
    limit: Limit | None = None,
    waiting: Callable[[], None] | None = None,
    isolation: Isolation = "none",
) -> Outcome:
    """The run, in a run folder that is made."""
    path.mkdir(parents=True, exist_ok=True)
    workspace = Workspace(path.absolute(), isolation)
    try:
        return run_in(workspace, command, spec, path, limit, waiting)
    finally:
        workspace.close()


def printed_by(*words: object, timeout: float = 300) -> str:
    """What `python -m WORDS` prints, with one thread, where tests can be imported; it has to succeed."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr}"
    return done.stdout


def forked(work: Callable[[], object]) -> int:
    """The number of a process that does the work; its status is 0, that of a SystemExit, or 1 after a traceback."""
    pid = os.fork()
    if pid == 0:
        status = 0
        try:
            work()
        except SystemExit as end:
            status = int(str(end.code))
        except BaseException:
            traceback.print_exc()
            status = 1
        os._exit(status)
    return pid
