"""Where a run ends before its script does: decided at the end of every step, by all ranks alike.

A run ends after the last step that was asked for; a first look, once enough steps have fitted into its time, and where
checkpoints are watched, some steps after the first one; and a run that reads along in other ones, complete or growing,
soon after it diverged from one of them. A rank that would stop alone leaves the others waiting for it in a
collective. So the first one to decide writes down a step that no other one can have finished yet, and all end after
that one.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import closing, suppress
from pathlib import Path

from samebits.base.errors import SamebitsError
from samebits.base.ranks import current_world
from samebits.bits.digest import DIGEST
from samebits.runfolder.spec import RunSpec
from samebits.runfolder.steps import ROOTS, Recording, file_name

MARKER = "last-step"
# A rank that has ended step s may find another one in step s + 1, but, where they wait for each other, in none later.
AHEAD = 2

_ROOTS_AT_ONCE = 512
_ROOTS_BETWEEN = "SELECT root FROM steps WHERE kind='step' AND step BETWEEN ? AND ? ORDER BY step"
# Reading along takes one hundredth of the time at most; and a run that is so far ahead of another one goes on alone.
_READING_SHARE, _MOST_AHEAD = 0.01, 65_536
_BYTES_AT_ONCE = 4096


class Leash:
    """The end of one process's run."""

    def __init__(self, folder: Path, spec: RunSpec) -> None:
        self._marker, self._spec = folder / MARKER, spec
        self._others = [OtherRun(Path(one), is_growing=True) for one in spec.along or ()]
        if spec.follow is not None:
            self._others.append(OtherRun(Path(spec.follow), is_growing=False))
        # The roots of this run's steps for those that are made at the same time; a descriptor and no file: whoever
        # looks for files left open at the end finds none of ours.
        self._roots: int | None = None
        self._writes_roots = spec.along is not None
        self._has_diverged = False
        self._first_ended: float | None = None
        self._last: int | None = None
        # Steps that were done when something was saved.
        self.saves: list[int] = []

    def wrote(self, path: Path, root: bytes) -> None:
        """The row of the next step was written to the recording `path`: compare its root with those of other runs."""
        if self._has_diverged:
            return
        if self._writes_roots:
            try:
                if self._roots is None:
                    self._roots = os.open(path.with_suffix(ROOTS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
                os.write(self._roots, root)
            except OSError:
                self._writes_roots = False
                self._others = [one for one in self._others if not one.is_growing]
        self._has_diverged = not all(one.agrees(path, root) for one in self._others)

    def is_asked_for(self, step: int) -> bool:
        """Whether this is the last step that was asked for, or one after it."""
        return self._spec.stop_after is not None and step >= self._spec.stop_after

    def is_last(self, step: int) -> bool:
        """Whether the run ends after this step."""
        if self.is_asked_for(step):
            return True
        if all(one is None for one in (self._spec.follow, self._spec.along, self._spec.look_seconds)):
            return False
        is_enough = self._is_enough(step) or self._has_diverged
        with suppress(SamebitsError):
            if current_world().size > 1:
                if is_enough and self._last is None:
                    self._write(step + AHEAD)
                return self._is_past_marker(step)
        return is_enough

    def _is_enough(self, step: int) -> bool:
        """Whether a first look has seen what it was to see; what comes before the first step is not counted."""
        now, spec = time.perf_counter(), self._spec
        self._first_ended = self._first_ended or now
        is_over = spec.look_seconds is not None and now - self._first_ended >= spec.look_seconds
        return is_over and step + 1 >= spec.look_steps and self._has_saved(step + 1)

    def _has_saved(self, done: int) -> bool:
        """Whether a look at checkpoints has seen them: the first, some steps more, and the second if one comes."""
        more = None if self._spec.resume is None else self._spec.resume.end_after_save
        if more is None:
            return True
        first = next((steps for steps in self.saves if steps > 0), None)
        if first is None or done < first + more:
            return False
        # What is saved when s steps are done belongs to the row of the step after that.
        return any(first < steps < done for steps in self.saves) or done >= 2 * first + more

    def _write(self, last: int) -> None:
        """The first one counts: a name is given to a file that is complete."""
        own = self._marker.with_name(f"{MARKER}.{os.getpid()}")
        with suppress(OSError):
            own.write_text(str(last))
            with suppress(FileExistsError):
                os.link(own, self._marker)
            own.unlink()

    def _is_past_marker(self, step: int) -> bool:
        if self._last is None:
            with suppress(OSError, ValueError):
                self._last = int(self._marker.read_text())
        return self._last is not None and step >= self._last


class OtherRun:
    """A run that is read along, as far as it has come.

    One that `is_growing` is made at the same time, may not have begun, and writes its roots to a plain file: whoever
    reads a recording that grows may keep its writer waiting. Else it has ended, and its recording is read, where that
    was made by the same definition.
    """

    def __init__(self, folder: Path, is_growing: bool) -> None:
        self._folder, self.is_growing = folder, is_growing
        self._file: int | None = None
        # Roots that were not compared yet, of this run and of that one; and how many of that one's were read.
        self._own, self._theirs, self._read = deque[bytes](), b"", 0
        self._is_given_up = False
        self._next_look = 0.0

    def agrees(self, path: Path, root: bytes) -> bool:
        """Whether both have the same as far as both went, with `root` the next one here; also if it says nothing."""
        if self._is_given_up:
            return True
        self._own.append(root)
        size = len(root)
        if len(self._theirs) < size and time.perf_counter() >= self._next_look:
            self._look(path)
        while self._own and len(self._theirs) >= size:
            if self._own.popleft() != self._theirs[:size]:
                return False
            self._theirs = self._theirs[size:]
        return True

    def _look(self, path: Path) -> None:
        began = time.perf_counter()
        try:
            is_known = _is_the_only_one(path, self._folder) and len(self._own) <= _MOST_AHEAD
            if is_known and self.is_growing:
                self._theirs += self._grown(path)
                ended = time.perf_counter()
                self._next_look = ended + (ended - began) / _READING_SHARE
            elif is_known:
                self._theirs = self._complete(path)
                is_known = bool(self._theirs)
        except (OSError, SamebitsError):
            is_known = False
        if not is_known:
            self._is_given_up = True
            self._own.clear()

    def _grown(self, path: Path) -> bytes:
        if self._file is None:
            with suppress(FileNotFoundError):
                self._file = os.open(self._folder / path.with_suffix(ROOTS).name, os.O_RDONLY)
        return b"" if self._file is None else os.read(self._file, _BYTES_AT_ONCE)

    def _complete(self, path: Path) -> bytes:
        """The next roots. The file is closed again: the process is the program's."""
        with closing(Recording(self._folder / path.name)) as found:
            rows = found.query(_ROOTS_BETWEEN, self._read, self._read + _ROOTS_AT_ONCE - 1)
            self._read += len(rows)
            return b"".join(root for (root,) in rows) if found.digest == DIGEST else b""


def _is_the_only_one(path: Path, folder: Path) -> bool:
    """Whether either run has one recording of this rank: with several, the order in which they began is unknown."""
    rank = current_world().rank
    second = file_name(rank, 1)
    return path.name == file_name(rank, 0) and not any((one / second).exists() for one in (folder, path.parent))
