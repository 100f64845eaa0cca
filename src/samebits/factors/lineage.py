"""The position of a process within its program, in words that are the same in every run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

from samebits.base.processes import PROC
from samebits.base.ranks import rank_path
from samebits.base.seeds import derive

Words = tuple[str | int, ...]


class Lineage:
    """The position of this process within a run: every rank, worker, forked child and program has streams of its own.

    A program that another one starts is known by its command, by the variables that its parent was started without, and
    by how many like it came before. Programs that are alike in this and begin at once may change places.
    """

    def __init__(self) -> None:
        self._path: Words = rank_path()
        self._rank = self._path
        self._programs, self._own = Path(), tuple[str, ...]()
        # The words of a program that is not the first one of its rank; None until they are asked for.
        self._program: Words | None = ()
        self._forks = 0
        self._here: Words = ()
        self._before_fork: Words | None = None
        self._parent_pid = os.getppid()

    def enter_run(self, programs: Path, own: Iterable[str]) -> None:
        """Note in a folder that this program is there; `own` are paths that are other ones in every run."""
        self._programs, self._own = programs, tuple(filter(None, own))
        first = programs / ".".join(map(str, ("first", *self._rank)))
        with suppress(OSError):
            programs.mkdir(exist_ok=True)
            # A program that replaces itself by `exec` is still the first.
            if not self._is_new(first.name) and first.read_bytes() != _own_id():
                self._program = None

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
        return (*self._path, *self.program, *_numbers())

    @property
    def program(self) -> Words:
        """The words of this program; none if it is the first one."""
        return (self._program or ()) if _numbers() else self._program_words()

    def _program_words(self) -> Words:
        if self._program is None:
            if getattr(_current_process(), "_inheriting", False):
                return ()  # a worker of multiprocessing that is not set up yet, and will have a number
            name = f"{derive(0, *self._rank, *map(self._as_in_every_run, _told(bool(self._rank)))):x}"
            number = next(number for number in count() if self._is_new(f"{name}.{number}"))
            self._program = (name, number)
        return self._program

    def _is_new(self, name: str) -> bool:
        try:
            with (self._programs / name).open("xb") as file:
                return bool(file.write(_own_id()))
        except FileExistsError:
            return False
        except OSError:
            return True

    def _as_in_every_run(self, word: str) -> str:
        for path in self._own:
            word = word.replace(path, "")
        return word

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


def _current_process() -> object:
    """Return multiprocessing's object for this process; None where it is not imported, or being imported."""
    return getattr(sys.modules.get("multiprocessing.process"), "_current_process", None)


def _numbers() -> tuple[int, ...]:
    """Return multiprocessing's numbers for this process; none in the main process, and while it is imported."""
    numbers: tuple[int, ...] = getattr(_current_process(), "_identity", ())
    return numbers


def _own_id() -> bytes:
    return b"%d" % os.getpid()


def _told(is_rank: bool) -> list[str]:
    """Return the command of this program, and the variables that its parent was started without.

    A rank's variables are left out: which port it was given is another one in every run.
    """
    own, parent = _variables("self"), _variables(os.getppid())
    return [*sys.orig_argv, *(() if is_rank else sorted(own - parent))]


def _variables(pid: int | str) -> set[str]:
    try:
        return {os.fsdecode(variable) for variable in (PROC / str(pid) / "environ").read_bytes().split(b"\0")}
    except OSError:
        return set()
