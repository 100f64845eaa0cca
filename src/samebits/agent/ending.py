"""Where a run ends before its script does: decided at the end of every step, by all ranks alike.

A run ends after the last step that was asked for; a first look, once enough steps have fitted into its time, and where
checkpoints are watched, some steps after the first one; and a run that reads along in another one's recording, soon
after the two diverged. A rank that would stop alone leaves the others waiting for it in a collective. So the first one
to decide writes down a step that no other one can have finished yet, and all end after that one.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from samebits.base.errors import SamebitsError
from samebits.base.ranks import rank_and_world_size
from samebits.bits.digest import DIGEST
from samebits.runfolder.spec import RecordSpec
from samebits.runfolder.steps import Recording, file_name

MARKER = "last-step"
# A rank that has ended step s may find another one in step s + 1, but, where they wait for each other, in none later.
AHEAD = 2
_ROOTS_AT_ONCE = 512


class Ending:
    """The end of one process's run.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path, spec: RecordSpec) -> None:
        self._marker, self._spec = folder / MARKER, spec
        self._followed = None if spec.follow is None else _Followed(Path(spec.follow))
        self._has_diverged = False
        self._first_ended: float | None = None
        self._last: int | None = None
        # Steps that were done when something was saved.
        self._saves: list[int] = []

    def saved(self, steps: int) -> None:
        """Something was saved when so many steps were done."""
        self._saves.append(steps)

    def wrote(self, path: Path, step: int, root: bytes) -> None:
        """A row is on disk: compare it with the other run's."""
        if self._followed is not None and not self._has_diverged:
            self._has_diverged = not self._followed.agrees(path, step, root)

    def is_last(self, step: int) -> bool:
        """Whether the run ends after this step."""
        asked = self._spec.stop_after
        if asked is not None and step >= asked:
            return True
        if self._followed is None and self._spec.look_seconds is None:
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
    """Another run, read along: only where it has exactly one recording of this rank, made by the same definition."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recording: Recording | None = None
        self._is_open = False
        self._first, self._roots = 0, list[bytes]()

    def agrees(self, own: Path, step: int, root: bytes) -> bool:
        """Whether it has the same root there; also where it says nothing."""
        if not self._is_open:
            self._recording, self._is_open = self._opened(own), True
        if self._recording is None:
            return True
        number = step - self._first
        if not 0 <= number < len(self._roots):
            self._first, number = step, 0
            last = step + _ROOTS_AT_ONCE - 1
            rows = self._recording.query(
                "SELECT root FROM steps WHERE kind='step' AND step BETWEEN ? AND ? ORDER BY step", step, last
            )
            self._roots = [found for (found,) in rows]
        return number >= len(self._roots) or self._roots[number] == root

    def _opened(self, own: Path) -> Recording | None:
        name = own.name
        rank = rank_and_world_size()[0]
        if name != file_name(rank, 0) or (self._folder / file_name(rank, 1)).exists():
            return None
        try:
            found = Recording(self._folder / name)
        except SamebitsError:
            return None
        return found if found.digest == DIGEST else None
