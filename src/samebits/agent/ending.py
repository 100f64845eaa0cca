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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from samebits.base.errors import SamebitsError
from samebits.base.ranks import rank_and_world_size
from samebits.bits.digest import DIGEST
from samebits.runfolder.spec import RecordSpec
from samebits.runfolder.steps import ROOTS, Recording, file_name

MARKER = "last-step"
# A rank that has ended step s may find another one in step s + 1, but, where they wait for each other, in none later.
AHEAD = 2
_ROOTS_AT_ONCE = 512
# Reading along takes one hundredth of the time at most; and a run that is so far ahead of another one goes on alone.
_READING_SHARE, _MOST_AHEAD = 0.01, 65_536
_BYTES_AT_ONCE = 4096


class Ending:
    """The end of one process's run.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path, spec: RecordSpec) -> None:
        self._marker, self._spec = folder / MARKER, spec
        self._followed = None if spec.follow is None else _Followed(Path(spec.follow))
        self._along = None if spec.along is None else _Along([Path(folder) for folder in spec.along])
        self._has_diverged = False
        self._first_ended: float | None = None
        self._last: int | None = None
        # Steps that were done when something was saved.
        self._saves: list[int] = []

    def saved(self, steps: int) -> None:
        """Something was saved when so many steps were done."""
        self._saves.append(steps)

    def wrote(self, path: Path, step: int, root: bytes) -> None:
        """A row was written: compare it with those of the other runs."""
        if not self._has_diverged:
            known = [one for one in (self._along, self._followed) if one is not None]
            self._has_diverged = not all(one.agrees(path, step, root) for one in known)

    def is_last(self, step: int) -> bool:
        """Whether the run ends after this step."""
        asked = self._spec.stop_after
        if asked is not None and step >= asked:
            return True
        if self._followed is None and self._along is None and self._spec.look_seconds is None:
            return False
        if self._is_enough(step) or self._has_diverged:
            return self._agreed(step)
        return self._ranks() > 1 and self._is_past_marker(step)

    def _is_enough(self, step: int) -> bool:
        """Whether a first look has seen what it was to see; what comes before the first step is not counted."""
        if self._spec.look_seconds is None:
            return False
        if self._first_ended is None:
            self._first_ended = time.perf_counter()
        seconds = time.perf_counter() - self._first_ended
        return step + 1 >= self._spec.look_steps and seconds >= self._spec.look_seconds and self._has_saved(step + 1)

    def _has_saved(self, done: int) -> bool:
        """Whether a look at checkpoints has seen them: the first, some steps more, and the second if one comes."""
        more = None if self._spec.resume is None else self._spec.resume.end_after_save
        if more is None:
            return True
        first = next((steps for steps in self._saves if steps > 0), None)
        if first is None or done < first + more:
            return False
        # What is saved when s steps are done belongs to the row of the step after that.
        return any(first < steps < done for steps in self._saves) or done >= 2 * first + more

    def _agreed(self, step: int) -> bool:
        """This process would end here: at once where it is alone, else where all can."""
        if self._ranks() <= 1:
            return True
        if self._last is None:
            self._write(step + AHEAD)
        return self._is_past_marker(step)

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

    def _ranks(self) -> int:
        try:
            return rank_and_world_size()[1]
        except SamebitsError:
            return 1


def _is_the_only_one(path: Path, folder: Path) -> bool:
    """Whether either run has one recording of this rank: of several nobody knows in which order they were begun."""
    rank = rank_and_world_size()[0]
    second = file_name(rank, 1)
    return path.name == file_name(rank, 0) and not any((one / second).exists() for one in (folder, path.parent))


class _Followed:
    """Another run that has ended, read along: only where its recording was made by the same definition."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recording: Recording | None = None
        self._is_open = False
        self._first, self._roots = 0, list[bytes]()

    def agrees(self, path: Path, step: int, root: bytes) -> bool:
        """Whether it has the same root there; also where it says nothing."""
        if not self._is_open:
            self._recording, self._is_open = self._opened(path), True
        number = step - self._first
        if self._recording is not None and not 0 <= number < len(self._roots):
            self._first, number = step, 0
            last = step + _ROOTS_AT_ONCE - 1
            rows = self._recording.query(
                "SELECT root FROM steps WHERE kind='step' AND step BETWEEN ? AND ? ORDER BY step", step, last
            )
            self._roots = [found for (found,) in rows]
            if not rows:
                self._recording = None
        return number >= len(self._roots) or self._roots[number] == root

    def _opened(self, path: Path) -> Recording | None:
        if not _is_the_only_one(path, self._folder):
            return None
        try:
            found = Recording(self._folder / path.name)
        except SamebitsError:
            return None
        return found if found.digest == DIGEST else None


class _Along:
    """Runs that are being made, read along, and this one for them: the roots of its steps in a plain file.

    A recording that grows is not read: whoever reads it may keep its writer waiting.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._others = [_Growing(folder) for folder in folders]
        # A descriptor and no file: whoever looks for files left open at the end finds none of ours.
        self._file: int | None = None
        self._next: int | None = 0

    def agrees(self, path: Path, step: int, root: bytes) -> bool:
        """Write a root, and compare it, and those before it, with the others' as far as they are known."""
        if self._next != step:
            self._next = None
            return True
        try:
            if self._file is None:
                self._file = os.open(path.with_suffix(ROOTS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.write(self._file, root)
        except OSError:
            self._next = None
            return True
        self._next += 1
        return all(one.agrees(path, root) for one in self._others)


class _Growing:
    """What another run has written up to now; it may not have begun."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None
        # Roots that were not compared yet, of this run and of that one.
        self._own, self._others = deque[bytes](), b""
        self._is_given_up = False
        self._next_look = 0.0

    def agrees(self, path: Path, root: bytes) -> bool:
        """Whether both have the same as far as both went; also where it says nothing."""
        if self._is_given_up:
            return True
        self._own.append(root)
        if len(self._others) < len(root) and time.perf_counter() >= self._next_look:
            self._look(path)
        size = len(root)
        while self._own and len(self._others) >= size:
            if self._own.popleft() != self._others[:size]:
                return False
            self._others = self._others[size:]
        return True

    def _look(self, path: Path) -> None:
        began = time.perf_counter()
        try:
            if not _is_the_only_one(path, self._folder) or len(self._own) > _MOST_AHEAD:
                self._give_up()
            elif self._file is None:
                with suppress(FileNotFoundError):
                    self._file = os.open(self._folder / path.with_suffix(ROOTS).name, os.O_RDONLY)
            if self._file is not None:
                self._others += os.read(self._file, _BYTES_AT_ONCE)
        except OSError:
            self._give_up()
        ended = time.perf_counter()
        self._next_look = ended + (ended - began) / _READING_SHARE

    def _give_up(self) -> None:
        self._is_given_up = True
        self._own.clear()
