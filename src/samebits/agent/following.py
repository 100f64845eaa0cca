"""Other runs, read along while this one goes on: one that has ended, and those that are made at the same time."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from samebits.base.errors import SamebitsError
from samebits.base.ranks import current_world
from samebits.bits.digest import DIGEST
from samebits.runfolder.steps import ROOTS, Recording, file_name

_ROOTS_AT_ONCE = 512
_ROOTS_BETWEEN = "SELECT root FROM steps WHERE kind='step' AND step BETWEEN ? AND ? ORDER BY step"
# Reading along takes one hundredth of the time at most; and a run that is so far ahead of another one goes on alone.
_READING_SHARE, _MOST_AHEAD = 0.01, 65_536
_BYTES_AT_ONCE = 4096


class Followed:
    """Another run that has ended, read along: only where its recording was made by the same definition."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_over = False
        self._first, self._roots = 0, list[bytes]()

    def agrees(self, path: Path, step: int, root: bytes) -> bool:
        """Whether it has the same root there; also where it says nothing."""
        number = step - self._first
        if not self._is_over and not 0 <= number < len(self._roots):
            self._first, number = step, 0
            self._roots = self._read(path, step)
            self._is_over = not self._roots
        return number >= len(self._roots) or self._roots[number] == root

    def _read(self, path: Path, step: int) -> list[bytes]:
        """The next roots; none where nothing can be said. The file is closed again: the process is the program's."""
        if not _is_the_only_one(path, self._folder):
            return []
        try:
            with closing(Recording(self._folder / path.name)) as found:
                rows = found.query(_ROOTS_BETWEEN, step, step + _ROOTS_AT_ONCE - 1) if found.digest == DIGEST else []
        except SamebitsError:
            return []
        return [root for (root,) in rows]


class Along:
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


def _is_the_only_one(path: Path, folder: Path) -> bool:
    """Whether either run has one recording of this rank: of several nobody knows in which order they were begun."""
    rank = current_world().rank
    second = file_name(rank, 1)
    return path.name == file_name(rank, 0) and not any((one / second).exists() for one in (folder, path.parent))
