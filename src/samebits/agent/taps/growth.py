"""The tap of growing files: which files grow while it trains, as a log does, and are not written once or anew."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from stat import S_ISREG


class GrowingFiles:
    """Watches the sizes of the files that this process writes, one of them after each step of an optimizer."""

    def __init__(self) -> None:
        self._stat = os.stat  # before it is replaced
        self._trains = False
        # Path → its size when it was last looked at; those to look at again, the one that waits longest first.
        self._sizes: dict[str, int | None] = {}
        self._due: deque[str] = deque()
        self._grown, self._anew, self._late = set[str](), set[str](), set[str]()

    def opened(self, path: str, is_anew: bool) -> None:
        """Note that a file is about to be written to; if `is_anew`, it begins empty."""
        if path not in self._sizes:
            self._sizes[path] = None
            self._due.append(path)
        elif is_anew:
            self._anew.add(path)
        if self._trains:
            self._late.add(path)

    def step_ends(self, *_: object) -> None:
        """Look at one file."""
        self._trains = True
        if not self._due:
            return
        path = self._due.popleft()
        before, now = self._sizes[path], self._size(path)
        self._sizes[path] = now
        if before is not None and now is not None and now > before:
            self._grown.add(path)
        else:
            self._due.append(path)

    def _size(self, path: str) -> int | None:
        with suppress(OSError, ValueError):
            found = self._stat(path)
            return found.st_size if S_ISREG(found.st_mode) else None
        return None

    def logs(self) -> set[str]:
        """Return the files that grew, unless the process wrote no other file after its first step."""
        logs = self._grown - self._anew
        return logs if any(self._size(path) is not None for path in self._late - logs) else set()
