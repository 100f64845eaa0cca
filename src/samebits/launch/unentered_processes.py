"""Processes of a run that loaded torch, and that samebits did not enter: found from outside, while the run goes on.

Only where /proc shows processes. What is ended within `EVERY_SECONDS` after it loaded torch may be missed.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from pathlib import Path

from samebits.base.processes import PROC, SESSION, stack_of, stat_of
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Journal, Started, Unseen, read_notes
from samebits.runfolder.spec import VARIABLE

EVERY_SECONDS = 0.2
# What `import torch` loads; helpers of torch's own that are no Python do without it.
_LIBRARY = b"/libtorch_python"


class UnenteredProcesses:
    """Looks now and then at the processes of one run, and notes those that could not be entered.

    They are known by its plan, as the run sees it, and by the session that its command was started in.
    """

    def __init__(self, folder: RunFolder, plan: Path, session: int) -> None:
        self._folder, self._session = folder, session
        self._mark = f"{VARIABLE}={plan}".encode()
        self._others: set[int] = set()
        # Ours, and where the stack began when that was settled: a process that was forked may become another program.
        self._settled: dict[int, int] = {}
        self._next = 0.0

    def look(self) -> None:
        """Note who is there and should not be; does nothing when called too soon after the last time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY_SECONDS
        with contextlib.suppress(OSError):
            alive = {int(name) for name in os.listdir(PROC) if name.isdigit()}
            self._others &= alive
            self._settled = {pid: stack for pid, stack in self._settled.items() if pid in alive}
            for pid in alive - self._others:
                with contextlib.suppress(OSError):  # it has ended meanwhile, or is somebody else's
                    self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        stack = stack_of(pid)
        if self._settled.get(pid) == stack:
            return
        if not self._is_of_this_run(pid):
            self._others.add(pid)
            return
        if _LIBRARY not in (PROC / str(pid) / "maps").read_bytes():
            return
        self._settled[pid] = stack
        # It, or the process it was forked from, has said that samebits started there, or why it could not.
        failed = (self._folder.path / f"journal.failed.{pid}.jsonl").exists()
        if not failed and all(note.stack not in (stack, 0) for note in read_notes(self._folder.path, Started)):
            what = f"a process that could not be entered: {_command_of(pid)}"
            Journal(self._folder.path).note(Unseen(what, entered=False))

    def _is_of_this_run(self, pid: int) -> bool:
        """In its session, or with its plan; not so what another samebits started in there."""
        variables = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        plans = [variable for variable in variables if variable.startswith(f"{VARIABLE}=".encode())]
        if plans:
            return self._mark in plans
        fields = stat_of(pid)
        return len(fields) > SESSION and int(fields[SESSION]) == self._session


def unentered(folder: RunFolder) -> list[str]:
    """What was noted of a run, in words; empty if every process was entered."""
    return [note.what for note in read_notes(folder.path, Unseen) if not note.entered]


def _command_of(pid: int) -> str:
    words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    program, *rest = words or [str(pid)]
    return shlex.join([os.path.basename(program), *rest])
