"""Which process of a program this is, said in words that are the same in every run."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any


class Lineage:
    """Which process of the program this is: every rank, worker and forked child goes on with streams of its own."""

    def __init__(self) -> None:
        self._path: tuple[str | int, ...] = ("rank", os.environ["RANK"]) if "RANK" in os.environ else ()
        self._forks = 0
        self._here: tuple[str | int, ...] = ()
        self._before_fork: tuple[str | int, ...] | None = None
        self._parent_pid = os.getppid()

    @property
    def parent_path(self) -> tuple[str | int, ...] | None:
        """The words of the process that started this one; None for one that the program did not start, or has lost."""
        if os.getppid() != self._parent_pid:
            return None
        if self._before_fork is not None:
            return self._before_fork
        identity = getattr(
            getattr(sys.modules.get("multiprocessing.process"), "_current_process", None), "_identity", ()
        )
        return (*self._path, *identity[:-1]) if identity else None

    @property
    def path(self) -> tuple[str | int, ...]:
        """Words for this process; multiprocessing numbers its own, also those that it spawns."""
        # While that module is being imported it asks for entropy itself, before it knows of any process.
        process: Any = getattr(sys.modules.get("multiprocessing.process"), "_current_process", None)
        return self._path if process is None else (*self._path, *process._identity)

    def _count(self) -> None:
        self._forks += 1
        self._here = self.path

    def _descend(self) -> None:
        self._before_fork, self._parent_pid = self._here, os.getppid()
        self._path, self._forks = (*self._path, "fork", self._forks), 0

    @classmethod
    @cache
    def of_process(cls) -> Lineage:
        """The one of this process; registered once, for Python never forgets a function that is called at a fork."""
        lineage = cls()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=lineage._count, after_in_child=lineage._descend)
        return lineage
