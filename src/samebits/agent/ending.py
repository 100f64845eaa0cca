"""Where a run ends before its script does: decided at the end of every step, by all ranks alike.

A run ends after the last step that was asked for; a first look, once enough steps have fitted into its time, and where
checkpoints are watched, some steps after the first one; and a run that reads along in recordings of others, complete or
growing, soon after it diverged from one of them. A rank that would stop alone leaves the others waiting for it in a
collective. So the first one to decide writes down a step that no other one can have finished yet, and all end after
that one.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from samebits.base.errors import SamebitsError, UnbegunError
from samebits.base.ranks import rank_and_world_size
from samebits.bits.digest import DIGEST
from samebits.runfolder.spec import RecordSpec
from samebits.runfolder.steps import Recording, file_name

MARKER = "last-step"
# A rank that has ended step s may find another one in step s + 1, but, where they wait for each other, in none later.
AHEAD = 2
_ROOTS_AT_ONCE = 512
# Reading along takes one hundredth of the time at most; and a run that is so far ahead of another one goes on alone.
_READING_SHARE, _MOST_AHEAD = 0.01, 65_536


class Ending:
    """The end of one process's run.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path, spec: RecordSpec) -> None:
        self._marker, self._spec = folder / MARKER, spec
        self._followed = [_Followed(Path(folder)) for folder in spec.follow]
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
            self._has_diverged = not all(one.agrees(path, step, root) for one in self._followed)

    def is_last(self, step: int) -> bool:
        """Whether the run ends after this step."""
        asked = self._spec.stop_after
        if asked is not None and step >= asked:
            return True
        if not self._followed and self._spec.look_seconds is None:
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


class _Followed:
    """Another run, read along, also while it is made: only where it has exactly one recording of this rank.

    Args:
        folder: of that run; it may not be there yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recording: Recording | None = None
        # From the first step on that was not compared yet: of this run (step, root), of the other one roots alone.
        self._own, self._others = deque[tuple[int, bytes]](), deque[bytes]()
        self._is_given_up = False
        self._asked = self._asking_seconds = 0.0

    def agrees(self, path: Path, step: int, root: bytes) -> bool:
        """Whether it has the same roots as far as both went; also where it says nothing."""
        if self._is_given_up:
            return True
        self._own.append((step, root))
        if not self._others and self._is_due():
            self._read(path)
        while self._own and self._others:
            if self._own.popleft()[1] != self._others.popleft():
                return False
        if len(self._own) > _MOST_AHEAD:
            self._give_up()
        return True

    def _is_due(self) -> bool:
        return time.perf_counter() - self._asked >= self._asking_seconds / _READING_SHARE

    def _read(self, path: Path) -> None:
        """Further roots of that run, as far as there are any."""
        began = time.perf_counter()
        try:
            if self._recording is None:
                self._open(path)
            if self._recording is not None:
                self._fetch(self._recording, path)
        except UnbegunError:
            self._recording = None
        except SamebitsError:
            self._give_up()
        self._asked = time.perf_counter()
        self._asking_seconds = self._asked - began

    def _fetch(self, recording: Recording, path: Path) -> None:
        first = self._own[0][0]
        rows = recording.query(
            "SELECT step, root FROM steps WHERE kind='step' AND step BETWEEN ? AND ? ORDER BY step",
            first,
            first + _ROOTS_AT_ONCE - 1,
        )
        if not self._is_the_only_one(path) or any(step != first + number for number, (step, _) in enumerate(rows)):
            self._give_up()
            return
        self._others.extend(root for _, root in rows)

    def _open(self, path: Path) -> None:
        """Of the other run, what has the name of this one's recording."""
        if not self._is_the_only_one(path):
            self._give_up()
        elif (self._folder / path.name).exists():
            self._recording = Recording(self._folder / path.name)
            if self._recording.digest != DIGEST:
                self._give_up()

    def _is_the_only_one(self, path: Path) -> bool:
        """Of several recordings of a rank nobody knows in which order they were begun."""
        rank = rank_and_world_size()[0]
        second = file_name(rank, 1)
        return path.name == file_name(rank, 0) and not any(
            (folder / second).exists() for folder in (self._folder, path.parent)
        )

    def _give_up(self) -> None:
        self._is_given_up = True
        self._own.clear()
        self._others.clear()
