"""Decides at the end of every step whether the run ends before its script does, on all ranks alike.

A run ends after the last step that was asked for. A first look ends when its time is over and it has enough steps and,
where checkpoints are watched, some steps after the first save. A run that reads along in other runs, complete or
growing, ends soon after it diverged from one of them. A rank that stops alone leaves the others waiting for it in a
collective, so the first rank to decide writes down a step that no other rank can have finished yet, and all ranks end
after that step.
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
# When a rank has ended step s, another may be in step s + 1, but in no later one where they wait for each other.
AHEAD = 2

_ROOTS_AT_ONCE = 512
_ROOTS_BETWEEN = "SELECT root FROM steps WHERE kind='step' AND step BETWEEN ? AND ? ORDER BY step"
# Reading along takes at most this share of the time; a run that is so many steps ahead of another one goes on alone.
_READING_SHARE, _MOST_AHEAD = 0.01, 65_536
_BYTES_AT_ONCE = 4096


class Leash:
    """Decides where the run of one process ends."""

    def __init__(self, folder: Path, spec: RunSpec) -> None:
        self._marker, self._spec = folder / MARKER, spec
        self._others = [OtherRun(Path(other), is_growing=True) for other in spec.along or ()]
        if spec.follow is not None:
            self._others.append(OtherRun(Path(spec.follow), is_growing=False))
        # The file of this run's roots, for runs that are made at the same time; a descriptor and no file object, so
        # that whoever looks for files left open at the end finds none of ours.
        self._roots: int | None = None
        self._writes_roots = spec.along is not None
        self._has_diverged = False
        self._first_ended: float | None = None
        self._last: int | None = None
        # The number of steps that were done at each save.
        self.saves: list[int] = []

    def wrote(self, path: Path, root: bytes) -> None:
        """Compare the root of the row that was just written to the recording `path` with those of other runs."""
        if self._has_diverged:
            return
        if self._writes_roots:
            try:
                if self._roots is None:
                    self._roots = os.open(path.with_suffix(ROOTS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
                os.write(self._roots, root)
            except OSError:
                self._writes_roots = False
                self._others = [other for other in self._others if not other.is_growing]
        self._has_diverged = not all(other.agrees(path, root) for other in self._others)

    def is_asked_for(self, step: int) -> bool:
        """Whether this is the last step that was asked for, or a later step."""
        return self._spec.stop_after is not None and step >= self._spec.stop_after

    def is_last(self, step: int) -> bool:
        """Whether the run ends after this step."""
        if self.is_asked_for(step):
            return True
        if all(limit is None for limit in (self._spec.follow, self._spec.along, self._spec.look_seconds)):
            return False
        is_enough = self._is_enough(step) or self._has_diverged
        with suppress(SamebitsError):
            if current_world().size > 1:
                if is_enough and self._last is None:
                    self._write(step + AHEAD)
                return self._is_past_marker(step)
        return is_enough

    def _is_enough(self, step: int) -> bool:
        """Whether a first look has seen enough; its time begins when the first step has ended."""
        now, spec = time.perf_counter(), self._spec
        self._first_ended = self._first_ended or now
        is_over = spec.look_seconds is not None and now - self._first_ended >= spec.look_seconds
        return is_over and step + 1 >= spec.look_steps and self._has_saved(step + 1)

    def _has_saved(self, done: int) -> bool:
        """Whether a first look has seen checkpoints: the first, some steps more, and the second if one comes."""
        more = None if self._spec.resume is None else self._spec.resume.end_after_save
        if more is None:
            return True
        first = next((steps for steps in self.saves if steps > 0), None)
        if first is None or done < first + more:
            return False
        # A checkpoint that is saved when s steps are done belongs to the row of the next step.
        return any(first < steps < done for steps in self.saves) or done >= 2 * first + more

    def _write(self, last: int) -> None:
        """Write the last step into the marker, unless another rank has: only a complete file gets its name."""
        temporary = self._marker.with_name(f"{MARKER}.{os.getpid()}")
        with suppress(OSError):
            temporary.write_text(str(last))
            with suppress(FileExistsError):
                os.link(temporary, self._marker)
            temporary.unlink()

    def _is_past_marker(self, step: int) -> bool:
        if self._last is None:
            with suppress(OSError, ValueError):
                self._last = int(self._marker.read_text())
        return self._last is not None and step >= self._last


class OtherRun:
    """Another run that is read along, as far as it has come.

    A run that `is_growing` is made at the same time, may not have begun, and writes its roots to a plain file, because
    reading a growing recording may keep its writer waiting. Any other run has ended, and its recording is read, if the
    definition of its digests is ours.
    """

    def __init__(self, folder: Path, is_growing: bool) -> None:
        self._folder, self.is_growing = folder, is_growing
        self._file: int | None = None
        # Roots that were not compared yet, of this run and of the other one; and how many of the other's were read.
        self._own, self._theirs, self._read = deque[bytes](), b"", 0
        self._is_given_up = False
        self._next_look = 0.0

    def agrees(self, path: Path, root: bytes) -> bool:
        """Whether both runs have the same roots as far as both went, `root` being our next; True if unknown."""
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
            is_readable = _is_the_only_one(path, self._folder) and len(self._own) <= _MOST_AHEAD
            if is_readable and self.is_growing:
                self._theirs += self._grown(path)
                ended = time.perf_counter()
                self._next_look = ended + (ended - began) / _READING_SHARE
            elif is_readable:
                self._theirs = self._complete(path)
                is_readable = bool(self._theirs)
        except (OSError, SamebitsError):
            is_readable = False
        if not is_readable:
            self._is_given_up = True
            self._own.clear()

    def _grown(self, path: Path) -> bytes:
        if self._file is None:
            with suppress(FileNotFoundError):
                self._file = os.open(self._folder / path.with_suffix(ROOTS).name, os.O_RDONLY)
        return b"" if self._file is None else os.read(self._file, _BYTES_AT_ONCE)

    def _complete(self, path: Path) -> bytes:
        """Return the next roots. The file is closed again, since the process is the program's."""
        with closing(Recording(self._folder / path.name)) as recording:
            rows = recording.query(_ROOTS_BETWEEN, self._read, self._read + _ROOTS_AT_ONCE - 1)
            self._read += len(rows)
            return b"".join(root for (root,) in rows) if recording.digest == DIGEST else b""


def _is_the_only_one(path: Path, folder: Path) -> bool:
    """Whether both runs have only one recording of this rank: of several, the order in which they began is unknown."""
    rank = current_world().rank
    second = file_name(rank, 1)
    return path.name == file_name(rank, 0) and not any((run / second).exists() for run in (folder, path.parent))
