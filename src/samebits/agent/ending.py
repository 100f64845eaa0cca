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
from contextlib import suppress
from pathlib import Path

from samebits.agent.following import Along, Followed
from samebits.base.errors import SamebitsError
from samebits.base.ranks import current_world
from samebits.runfolder.spec import RunSpec

MARKER = "last-step"
# A rank that has ended step s may find another one in step s + 1, but, where they wait for each other, in none later.
AHEAD = 2


class Ending:
    """The end of one process's run.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path, spec: RunSpec) -> None:
        self._marker, self._spec = folder / MARKER, spec
        self._followed = None if spec.follow is None else Followed(Path(spec.follow))
        self._along = None if spec.along is None else Along([Path(folder) for folder in spec.along])
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
            return current_world().size
        except SamebitsError:
            return 1
