"""The lockfile: read whole or not at all, and written whole by one process at a time.

    # comment                                 what this file is
    schema = "samebits.lockfile/1"
    [environment.NAME]                        what changes bits: versions, instruction set, threads, device
    [run.NAME]                                a command, its seed, its pins
    [run.NAME.on.ENVIRONMENT]                 what it gave there
    [test."tests/test_a.py::test_b".on.ENV]   the tensors that a test named

The types of its records define how it is read and written. A key that is missing, unknown or of another type is an
error; no run agrees with a digest that was edited. Environments come last, so that a file that was cut off lacks one.
Tables may come in any order, and each file and tensor has a line of its own, so that branches can be merged.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from samebits.base.errors import LockfileError, NewerLockfileError, StorageError
from samebits.base.records import from_data, to_data
from samebits.launch.config import toml_reader
from samebits.locking.entries import Locked, LockedTensors, RunEntry, TestEntry
from samebits.locking.toml import toml_text
from samebits.runfolder.environment import Environment
from samebits.runfolder.folder import write_whole

try:
    import fcntl
except ImportError:  # no file locks on Windows: there, the last one to write wins
    fcntl = None  # type: ignore[assignment]

NAME = "samebits.lock"
SCHEMA = 1
LONGEST_WAIT_SECONDS = 60.0
T = TypeVar("T")
_COMMENT = "# Expected bits. Written by `samebits lock`, held against later runs by `samebits verify`.\n"
_CONFLICT = re.compile(r"^(<{7}|\|{7}|={7}|>{7})( |$)")


@dataclass(frozen=True)
class Lockfile:
    """The content of a lockfile; immutable: the `with_…` methods return a changed copy.

    Attributes:
        environments: name → environment.
        runs: name → command and what it gave.
        tests: id of a test, as pytest writes it → the tensors that it named.
    """

    environments: Mapping[str, Environment] = field(default_factory=dict, metadata={"key": "environment"})
    runs: Mapping[str, RunEntry] = field(default_factory=dict, metadata={"key": "run"})
    tests: Mapping[str, TestEntry] = field(default_factory=dict, metadata={"key": "test"})

    @classmethod
    def load(cls, path: Path) -> Lockfile:
        """Read the lockfile at a path; LockfileError where there is none, or it cannot be used."""
        try:
            raw = path.read_bytes()
        except FileNotFoundError as error:
            raise LockfileError(f"there is no lockfile {path}", "first: samebits lock train.py") from error
        except OSError as error:
            raise LockfileError(f"{path} cannot be read: {error.strerror}") from error
        restore = f"take it from version control again (git checkout -- {path}), or remove it and lock again"
        try:
            return _read(raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise LockfileError(f"{path} is damaged: byte {error.start} is not UTF-8", restore) from error
        except LockfileError as error:
            raise type(error)(f"{path} {error.message}", error.hint or restore) from error

    def entry(self, name: str) -> RunEntry:
        """Return the run of that name; LockfileError where there is none."""
        if name not in self.runs:
            names = ", ".join(sorted(self.runs))
            raise LockfileError(
                f"no run is locked under the name {name!r}",
                f"locked are {names}" if names else "first: samebits lock train.py",
            )
        return self.runs[name]

    def matching_name(self, environment: Environment, among: Iterable[str]) -> str | None:
        """Return which of the names `among` is that of an environment like `environment`; None where none is."""
        similar = [name for name in sorted(among) if self.environments[name].is_like(environment)]
        return environment.name if environment.name in similar else next(iter(similar), None)

    def tensors(self, test: str, environment: Environment) -> LockedTensors | None:
        """Return what a test gave in an environment like `environment`; None where that was never locked."""
        on = self.tests.get(test, TestEntry()).on
        home = self.matching_name(environment, on)
        return None if home is None else on[home]

    def with_run(self, name: str, entry: RunEntry, environment: Environment, locked: Locked) -> Lockfile:
        """Return the lockfile with what a command gave in an environment, and what `entry` holds of others."""
        new_entry = replace(entry, on=self._with(entry.on, environment, locked))
        return replace(self, runs={**self.runs, name: new_entry}, environments=self._known(environment))

    def with_tensors(self, test: str, environment: Environment, locked: LockedTensors) -> Lockfile:
        """Return the lockfile with the tensors of a test in an environment; they replace those locked there before."""
        new_entry = TestEntry(self._with(self.tests.get(test, TestEntry()).on, environment, locked))
        return replace(self, tests={**self.tests, test: new_entry}, environments=self._known(environment))

    def without_test(self, test: str, environment: Environment | None = None) -> Lockfile:
        """Return the lockfile without that test, in every environment, or only in one like `environment`."""
        on = self.tests[test].on
        home = None if environment is None else self.matching_name(environment, on)
        left = {name: one for name, one in on.items() if environment is not None and name != home}
        tests = {**self.tests, test: TestEntry(left)}
        return replace(self, tests={name: one for name, one in tests.items() if one.on})

    def text(self) -> str:
        """Return the file's content."""
        data = self.data()
        last = {"environment": data.pop("environment")}
        schema = {"schema": f"samebits.lockfile/{SCHEMA}"}
        return _COMMENT + "\n".join(filter(None, map(toml_text, (schema, data, last))))

    def data(self) -> dict[str, Any]:
        content = cast("dict[str, Any]", to_data(self))
        # An environment's table is already named after it.
        return content | {"environment": {name: dict(vars(one)) for name, one in self.environments.items()}}

    def _known(self, environment: Environment) -> dict[str, Environment]:
        # An environment of the same name stays as it was written: what changes no bits must not change the file.
        return {environment.name: environment, **self.environments}

    def _with(self, on: Mapping[str, T], environment: Environment, locked: T) -> dict[str, T]:
        """Return what is locked in other environments, and this, in place of what was locked in the one like it."""
        # Of an environment with unknown fields several may be like it that differ from one another: one is replaced.
        like = self.matching_name(environment, on)
        return {**{home: one for home, one in on.items() if home != like}, environment.name: locked}

    def by_environment(self) -> list[tuple[str, Mapping[str, object]]]:
        """Return the name of every run and test, with what it gave in each environment."""
        return [(name, entry.on) for entries in (self.runs, self.tests) for name, entry in entries.items()]

    def _without_unused(self) -> Lockfile:
        used = {home for _, on in self.by_environment() for home in on}
        return replace(self, environments={name: one for name, one in self.environments.items() if name in used})


def update(path: Path, change: Callable[[Lockfile], Lockfile]) -> Lockfile:
    """Read, change and write a lockfile while no other process does so, and return its new content.

        update(path, lambda now: now.with_tensors(test, environment, tensors))

    Where there is none, `change` gets an empty one. Environments to which nothing refers are left out, and a file in
    which nothing changes is not touched.

    Raises:
        LockfileError: the file cannot be used; it is left as it is.
        StorageError: the file cannot be written, or another process has been writing for a minute.
    """
    path = Path(os.path.realpath(path))
    with _write_lock(path):
        before = Lockfile.load(path) if path.exists() else None
        after = change(before or Lockfile())._without_unused()
        if after != before:
            write_whole(path, after.text(), "--lockfile")
        return after


# ---- reading ---------------------------------------------------------------------------------------------------------


def _read(text: str) -> Lockfile:
    if not text.strip():
        raise LockfileError("is empty")
    for number, line in enumerate(text.splitlines(), 1):
        if _CONFLICT.match(line):
            raise LockfileError(
                f"is in the middle of a merge: line {number} is {line!r}",
                "keep the tables of both sides where they are different ones; where both have the same one, keep "
                "either, and lock it again",
            )
    try:
        content = dict(toml_reader().loads(text))
    except ValueError as error:
        raise LockfileError(f"is cut off, damaged, or was edited: {error}") from error
    schema, _, number_of = str(content.pop("schema", "")).partition("/")
    if schema != "samebits.lockfile" or not number_of.isdecimal():
        raise LockfileError("is not a samebits lockfile: it does not name its schema")
    if int(number_of) > SCHEMA:
        raise NewerLockfileError(
            f"has schema {number_of}, and this samebits reads schemas up to {SCHEMA}",
            "upgrade samebits: pip install --upgrade samebits",
        )
    try:
        lockfile = from_data(Lockfile, content)
    except ValueError as error:
        raise LockfileError(f"is damaged, or was edited: {error}") from error
    trouble = next(_contradictions(content, lockfile), "")
    if trouble:
        raise LockfileError(f"is cut off, or was edited: {trouble}")
    return lockfile


def _contradictions(content: Mapping[str, object], found: Lockfile) -> Iterator[str]:
    """Yield what does not fit together: keys that would not be written again, and references to nothing."""
    yield from (f"{name} means nothing here" for name in _unknown(content, found.data()))
    for name, on in found.by_environment():
        if not on:
            yield f"of {name} nothing is locked"
        yield from (f"the environment {home} is missing" for home in sorted(on) if home not in found.environments)


def _unknown(content: Mapping[str, object], known: Mapping[str, Any]) -> Iterator[str]:
    for name, value in content.items():
        if name not in known:
            yield name
        elif isinstance(value, dict):
            yield from (f"{name}.{one}" for one in _unknown(value, known[name]))


# ---- writing ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _write_lock(path: Path) -> Iterator[None]:
    """Hold the lock for writing a file; other processes that ask for it have to wait."""
    lock_path, until = path.with_name(f".{path.name}.writing"), time.monotonic() + LONGEST_WAIT_SECONDS
    try:
        while not _is_ours(handle := os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o644), lock_path):
            os.close(handle)
            if time.monotonic() > until:
                why = f"another process has been writing next to {lock_path} for {LONGEST_WAIT_SECONDS:g} s"
                raise StorageError(why, "wait for it, or end it")
            time.sleep(0.01)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "choose another place with --lockfile") from error
    try:
        yield
    finally:
        # Remove the file while the lock is held: a process that waits for it notices, and begins anew.
        with contextlib.suppress(OSError):
            lock_path.unlink()
        os.close(handle)


def _is_ours(handle: int, beside: Path) -> bool:
    """Whether this process holds the lock, and other processes will open this same file."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), os.stat(beside))
    except (BlockingIOError, FileNotFoundError):
        return False
