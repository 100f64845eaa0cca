"""The processes of one run: none outlives the run or samebits, and those without samebits inside are noted."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from samebits.base.processes import PROC, stack_of
from samebits.launch import supervisor
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Journal, Started, Unseen, read_notes
from samebits.runfolder.spec import VARIABLE

EVERY_SECONDS = 0.2
# The library that `import torch` loads; torch's helper programs that are not Python do not load it.
_LIBRARY = b"/libtorch_python"


@contextmanager
def supervised(argv: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a command in a session of its own; all of its processes end with the block, or when this process dies.

    Yields the process of the supervisor, which ends as the command does.
    """
    # The writing end is not inherited, so no child holds it open.
    reading, writing = os.pipe()
    try:
        words = [sys.executable, "-I", "-S", supervisor.__file__, str(reading), *argv]
        process = subprocess.Popen(words, pass_fds=(reading,), start_new_session=True, **options)
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    try:
        yield process
    finally:
        os.close(writing)
        process.wait()


class UnenteredProcesses:
    """Looks at the processes of one run from time to time, and notes those that loaded torch without samebits.

    Only where /proc shows processes. A process that ends within `EVERY_SECONDS` after it loaded torch may be missed.

    Args:
        folder: the run folder.
        plan: path of the run's plan, as the run sees it: another samebits among its processes has plans of its own.
        parent: number of the process from which all of them descend.
    """

    def __init__(self, folder: RunFolder, plan: Path, parent: int) -> None:
        self._folder, self._parent = folder, parent
        self._plan = f"{VARIABLE}={plan}".encode()
        # pid → where its stack began when it was examined: a process that was forked may become another program.
        self._settled: dict[int, int] = {}
        self._next = 0.0

    def look(self) -> None:
        """Note processes that were not entered; do nothing if the last look was less than `EVERY_SECONDS` ago."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY_SECONDS
        for pid in supervisor.descendants(self._parent):
            stack = stack_of(pid)
            with contextlib.suppress(OSError):  # it has ended meanwhile, or belongs to somebody else
                if self._settled.get(pid) != stack and _LIBRARY in (PROC / str(pid) / "maps").read_bytes():
                    self._settled[pid] = stack
                    self._settle(pid, stack)

    def _settle(self, pid: int, stack: int) -> None:
        variables = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        plans = [variable for variable in variables if variable.startswith(f"{VARIABLE}=".encode())]
        is_of_another = bool(plans) and self._plan not in plans
        # In it, or in the process it was forked from; where samebits failed at its start, there is no such note.
        has_started = any(note.stack in (stack, 0) for note in read_notes(self._folder.path, Started))
        if not is_of_another and not has_started:
            words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            program, *rest = words or [str(pid)]
            description = f"a process that could not be entered: {shlex.join([os.path.basename(program), *rest])}"
            Journal(self._folder.path).note(Unseen(description, entered=False))


def unentered(folder: RunFolder) -> list[str]:
    """Return the notes about processes of a run that were not entered, in words; empty if all were."""
    return [note.what for note in read_notes(folder.path, Unseen) if not note.entered]
