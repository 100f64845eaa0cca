"""What is said of a first run that does not come to a training step: every check waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from samebits.checking.pool import Watch
from samebits.launch.process import Outcome
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.spec import RunSpec


class Patience:
    """Says once that a first run has not come to a training step for long; all else it passes on.

    Args:
        announce: called with the note.
        watch: called whenever this is.
    """

    def __init__(self, announce: Callable[[str], None], watch: Watch | None = None, seconds: float = 60.0) -> None:
        self._announce, self._watch, self._seconds = announce, watch, seconds
        self._began: float | None = None
        self._is_over = False

    def watch(self, number: int, plan: RunSpec, outcome: Outcome | None, path: Path) -> None:
        if self._watch is not None:
            self._watch(number, plan, outcome, path)
        if self._is_over:
            return
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        # A recording is begun with the first step.
        self._is_over = number > 1 or outcome is not None or RunFolder(path).is_recorded
        if not self._is_over and now - self._began >= self._seconds:
            self._is_over = True
            self._announce(
                f"note: no training step after {self._seconds:.0f} s; the check waits for it, --timeout S ends a run "
                "after S seconds, and Ctrl-C ends the check"
            )
