"""The position of a process within its program, in words that are the same in every run."""

from __future__ import annotations

import os
import sys
from functools import cache

Words = tuple[str | int, ...]


class Lineage:
    """The position of this process within its program: every rank, worker and forked child has streams of its own."""

    def __init__(self) -> None:
        self._path: Words = ("rank", os.environ["RANK"]) if "RANK" in os.environ else ()
        self._forks = 0
        self._here: Words = ()
        self._before_fork: Words | None = None
        self._parent_pid = os.getppid()

    @property
    def parent_path(self) -> Words | None:
        """The words of the parent process; None if the program did not start this one, or the parent has ended."""
        if os.getppid() != self._parent_pid:
            return None
        if self._before_fork is not None:
            return self._before_fork
        numbers = _numbers()
        return (*self._path, *numbers[:-1]) if numbers else None

    @property
    def path(self) -> Words:
        """The words of this process."""
        return (*self._path, *_numbers())

    def _count(self) -> None:
        self._forks += 1
        self._here = self.path

    def _descend(self) -> None:
        self._before_fork, self._parent_pid = self._here, os.getppid()
        self._path, self._forks = (*self._path, "fork", self._forks), 0

    @classmethod
    @cache
    def of_process(cls) -> Lineage:
        """Return the lineage of this process, made once: Python never forgets a function that is called at a fork."""
        lineage = cls()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=lineage._count, after_in_child=lineage._descend)
        return lineage


def _numbers() -> tuple[int, ...]:
    """Return multiprocessing's numbers for this process; none in the main process, and while it is imported."""
    process = getattr(sys.modules.get("multiprocessing.process"), "_current_process", None)
    numbers: tuple[int, ...] = getattr(process, "_identity", ())
    return numbers
