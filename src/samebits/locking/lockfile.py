"""The lockfile: read whole or not at all, and written whole by one process at a time.

    # comment                                 what this file is
    schema = "samebits.lockfile/1"
    [environment.NAME]                        what changes bits: versions, instruction set, threads, device
    [run.NAME]                                a command, its seed, its pins
    [run.NAME.on.ENVIRONMENT]                 what it gave there
    [test."tests/test_a.py::test_b".on.ENV]   the tensors that a test named
    [end]

Every table carries a seal, which is a digest of its own text, and the file is read only if it is written as samebits
writes it: what was edited, cut off or damaged is refused, never half used. Tables may stand in any order, so that what
two branches added can be merged line by line. A seal says that nothing happened by accident; it is no signature.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from samebits.base.errors import LockfileError, NewerLockfileError, StorageError
from samebits.launch.config import toml_reader
from samebits.locking.entries import (
    Locked,
    LockedTensors,
    RunEntry,
    Table,
    TestEntry,
    block,
    from_table,
    to_table,
)
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
_END = "[end]\n"
_CONFLICT = re.compile(r"^(<{7}|\|{7}|={7}|>{7})( |$)")


@dataclass(frozen=True)
class Lockfile:
    """The content of a lockfile; nothing in it is ever changed, `with_…` gives another one.

    Attributes:
        environments: name → environment.
        runs: name → command and what it gave.
        tests: id of a test, as pytest writes it → the tensors that it named.
    """

    environments: Mapping[str, Environment] = field(default_factory=dict)
    runs: Mapping[str, RunEntry] = field(default_factory=dict)
    tests: Mapping[str, TestEntry] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Lockfile:
        """The lockfile at a path.

        Raises:
            LockfileError: there is none, or it cannot be used; the message says why.
            NewerLockfileError: a newer samebits wrote it.
        """
        try:
            raw = path.read_bytes()
        except FileNotFoundError as error:
            raise LockfileError(f"there is no lockfile {path}", "first: samebits lock train.py") from error
        except OSError as error:
            raise LockfileError(f"{path} cannot be read: {error.strerror}") from error
        restore = f"take it from version control again (git checkout -- {path}), or remove it and lock again"
        try:
            return _read(raw.decode("utf-8").replace("\r\n", "\n"))
        except NewerLockfileError as error:
            raise NewerLockfileError(f"{path} {error.message}", error.hint) from error
        except UnicodeDecodeError as error:
            raise LockfileError(f"{path} is damaged: byte {error.start} is no UTF-8", restore) from error
        except LockfileError as error:
            raise LockfileError(f"{path} {error.message}", error.hint or restore) from error

    def entry(self, name: str) -> RunEntry:
        """The run of that name.

        Raises:
            LockfileError: there is none.
        """
        if name not in self.runs:
            known = ", ".join(sorted(self.runs))
            raise LockfileError(
                f"no run is locked under the name {name!r}",
                f"locked are {known}" if known else "first: samebits lock train.py",
            )
        return self.runs[name]

    def home_of(self, environment: Environment, among: Iterable[str]) -> str | None:
        """Which of these names stands for an environment like that one; None where none does."""
        own = [name for name in sorted(among) if self.environments[name].is_like(environment)]
        return environment.name if environment.name in own else next(iter(own), None)

    def tensors(self, test: str, environment: Environment) -> LockedTensors | None:
        """What a test gave in an environment like that one; None where that was never locked."""
        on = self.tests.get(test, TestEntry()).on
        home = self.home_of(environment, on)
        return None if home is None else on[home]

    def with_entry(self, name: str, entry: RunEntry) -> Lockfile:
        """With that run, in the place of one of the same name."""
        return replace(self, runs={**self.runs, name: entry})

    def with_run(self, name: str, entry: RunEntry, environment: Environment, locked: Locked) -> Lockfile:
        """With what a command gave in an environment, besides what `entry` holds of others."""
        others = self._others(entry.on, environment)
        own = replace(entry, on={**others, environment.name: locked})
        return self._with_environment(environment).with_entry(name, own)

    def with_tensors(self, test: str, environment: Environment, locked: LockedTensors) -> Lockfile:
        """With the tensors of a test in an environment, in the place of those that were locked there."""
        others = self._others(self.tests.get(test, TestEntry()).on, environment)
        own = TestEntry({**others, environment.name: locked})
        return replace(self._with_environment(environment), tests={**self.tests, test: own})

    def without_test(self, test: str) -> Lockfile:
        """Without that test, in every environment."""
        return replace(self, tests={name: one for name, one in self.tests.items() if name != test})

    def text(self) -> str:
        """As it stands in the file."""
        return "\n".join([_HEAD, *(_sealed(path, table) for path, table in sorted(self._tables())), _END])

    def _with_environment(self, environment: Environment) -> Lockfile:
        # One of the same name stays as it was written: what changes no bits must not change the file.
        return replace(self, environments={environment.name: environment, **self.environments})

    def _others(self, on: Mapping[str, T], environment: Environment) -> dict[str, T]:
        """What is locked of other environments; those that are like this one are replaced."""
        return {home: one for home, one in on.items() if not self.environments[home].is_like(environment)}

    def _without_unused(self) -> Lockfile:
        used = {home for on in self._used() for home in on}
        return replace(self, environments={name: one for name, one in self.environments.items() if name in used})

    def _used(self) -> list[Mapping[str, object]]:
        """For every entry, what it has by environment."""
        return [entry.on for entry in self.runs.values()] + [entry.on for entry in self.tests.values()]

    def _tables(self) -> Iterator[tuple[tuple[str, ...], Table]]:
        for name, environment in self.environments.items():
            yield ("environment", name), {key: value for key, value in to_table(environment).items() if value}
        for name, entry in self.runs.items():
            table = to_table(entry)
            yield ("run", name), {key: table[key] for key in table if key != "max_steps" or entry.max_steps}
            for home, locked in entry.on.items():
                yield ("run", name, "on", home), to_table(locked)
        for test, named in self.tests.items():
            for home, tensors in named.on.items():
                yield ("test", test, "on", home), to_table(tensors)


_HEAD = _COMMENT + block((), {"schema": f"samebits.lockfile/{SCHEMA}"})


def update(path: Path, change: Callable[[Lockfile], Lockfile]) -> Lockfile:
    """Change a lockfile: what is in it now is read, changed and written while no other process does so.

        update(path, lambda now: now.with_tensors(test, environment, tensors))

    Args:
        path: of the file; where there is none, `change` gets an empty lockfile.
        change: from what is there to what is to be there. Environments to which nothing refers are left out.

    Returns:
        What is in the file now. It is not touched where nothing changes.

    Raises:
        LockfileError: what is there cannot be used; it is left as it is.
        StorageError: it cannot be written, or another process has been writing for a minute.
    """
    path = Path(os.path.realpath(path))
    with _alone(path):
        before = Lockfile.load(path) if path.exists() else None
        after = change(before or Lockfile())._without_unused()
        if after != before:
            write_whole(path, after.text())
        return after


# ---- reading ---------------------------------------------------------------------------------------------------------


def _read(text: str) -> Lockfile:
    if not text.strip():
        raise LockfileError("is empty")
    if text.startswith("\ufeff"):
        raise LockfileError("begins with a byte order mark", "save it as UTF-8 without one")
    for number, line in enumerate(text.split("\n"), 1):
        if _CONFLICT.match(line):
            raise LockfileError(
                f"is in the midst of a merge: line {number} is {line!r}",
                "keep the tables of both sides where they are different ones; where both have the same one, keep "
                "either, and lock it again",
            )
    try:
        toml = toml_reader()
    except ValueError as error:
        raise LockfileError(f"cannot be read: {error}", "pip install tomli") from error
    try:
        content = toml.loads(text)
    except ValueError as error:
        why = "is cut off, or damaged" if not text.endswith(_END) else "is damaged, or was edited"
        raise LockfileError(f"{why}: {error}") from error
    schema, _, number_of = str(content.get("schema", "")).partition("/")
    if schema != "samebits.lockfile" or not number_of.isdecimal():
        raise LockfileError("is no lockfile of samebits: it does not name its schema")
    if int(number_of) > SCHEMA:
        raise NewerLockfileError(
            f"has schema {number_of}, and this samebits reads schemas up to {SCHEMA}",
            "upgrade samebits: pip install --upgrade samebits",
        )
    if not text.endswith(f"\n{_END}"):
        later = "was edited: something comes after [end], be it an empty line"
        raise LockfileError(later if f"\n{_END}" in text else "is cut off: it does not end with [end]")
    try:
        found = _from_tables(content)
    except (ValueError, AttributeError, TypeError, LookupError) as error:
        raise LockfileError(f"is damaged, or was edited: {error}") from error
    _need_as_written(text, found.text())
    return found


def _from_tables(content: Mapping[str, Any]) -> Lockfile:
    """What `Lockfile._tables` made; whether there is anything more shows when it is written again."""
    found = Lockfile(
        {name: from_table(Environment, one) for name, one in content.get("environment", {}).items()},
        {name: replace(from_table(RunEntry, one), on=_on(Locked, one)) for name, one in content.get("run", {}).items()},
        {name: TestEntry(_on(LockedTensors, one)) for name, one in content.get("test", {}).items()},
    )
    missing = {home for on in found._used() for home in on} - set(found.environments)
    if missing:
        raise ValueError(f"the environment {min(missing)} is missing")
    return found


def _on(kind: type[T], table: Mapping[str, Any]) -> dict[str, T]:
    return {home: from_table(kind, one) for home, one in table.get("on", {}).items()}


def _need_as_written(text: str, expected: str) -> None:
    """Refuse what samebits would have written otherwise: seals that do not fit, comments, another way to write."""
    left, right = text.removesuffix(_END).split("\n\n"), set(expected.removesuffix(_END).split("\n\n"))
    odd = next((part for part in left if part not in right), None)
    if odd is None and left[0] + "\n" == _HEAD and len(left) == len(right):
        return
    line = text[: text.index(odd)].count("\n") + 1 if odd else 1
    head = (odd or text).split("\n", 1)[0]
    raise LockfileError(f"was edited, or is damaged: the table that begins in line {line}, {head!r}, is not as written")


# ---- writing ---------------------------------------------------------------------------------------------------------


def _sealed(path: tuple[str, ...], table: Table) -> str:
    own = block(path, table)
    digest = hashlib.blake2b(own.encode("utf-8"), digest_size=8).hexdigest()
    # Sorted among the other keys, like any of them: the text has one form.
    return block(path, {**table, "seal": digest})


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Until this is left, no other process that asks for the same does so."""
    beside, until = path.with_name(f".{path.name}.writing"), time.monotonic() + LONGEST_WAIT_SECONDS
    try:
        while not _is_ours(handle := os.open(beside, os.O_RDWR | os.O_CREAT, 0o644), beside):
            os.close(handle)
            if time.monotonic() > until:
                why = f"another process has been writing beside {beside} for {LONGEST_WAIT_SECONDS:g} s"
                raise StorageError(why, "wait for it, or end it")
            time.sleep(0.01)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "choose another place with --lockfile") from error
    try:
        yield
    finally:
        # While it is still held: who waits for it finds out that it is gone, and begins anew.
        with contextlib.suppress(OSError):
            beside.unlink()
        os.close(handle)


def _is_ours(handle: int, beside: Path) -> bool:
    """Whether nobody else holds the file, and it is still the one that others will open."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), os.stat(beside))
    except (BlockingIOError, FileNotFoundError):
        return False
