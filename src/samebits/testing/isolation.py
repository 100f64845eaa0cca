"""One run of a test in a process of its own: pytest is started for it alone, under a plan like any run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from samebits.base.errors import RecordingError, ScriptFailedError
from samebits.base.records import from_data, to_data
from samebits.factors.context import Setting
from samebits.launch.command import Command
from samebits.launch.process import Outcome, Runner
from samebits.runfolder.spec import RunSpec
from samebits.testing.expected import NamedByTest
from samebits.testing.repeats import RecordedCall, is_complete, read_call
from samebits.testing.seeding import is_generator
from samebits.workspace.workspace import Workspace

# What pytest itself, or a plugin that distributes tests, sets for the processes it starts.
_NOT_PASSED_ON = ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_")
_TASK, _CALL, _NAMED, _ENDED = "task.json", "call", "named.json", "ended.json"
_MOST_PRINTED = 4000
T = TypeVar("T")
# This file belongs to a plugin, and it is loaded before pytest, which would like to rewrite its asserts.
_LOADED_BEFORE = "ignore:Module already imported so cannot be rewritten; samebits:pytest.PytestAssertRewriteWarning"


@dataclass(frozen=True)
class Task:
    """What such a process is to do: how generators are treated; other factors are treated when it starts."""

    settings: Mapping[str, Setting]


@dataclass(frozen=True)
class TestEnding:
    """What pytest made of a test there, where that is neither plainly passed nor failed.

    Attributes:
        outcome: `skipped`, also where it failed as expected; `passed`, or `failed` in a strict xfail, where it did not.
        reason: why a failure was expected; None where none was.
        text: what pytest shows of it.
        place: path and line of what skipped it.
    """

    outcome: Literal["passed", "failed", "skipped"]
    reason: str | None
    text: str
    place: tuple[str, int] | None = None


class TestFailedError(Exception):
    """The test itself failed in a process of its own; the message is what pytest printed there."""

    __test__ = False


class TestSkippedError(Exception):
    """The test was skipped in a process of its own, or failed there as expected; the message says why."""

    __test__ = False

    def __init__(self, ended: TestEnding) -> None:
        super().__init__(ended.text)
        self.ended = ended


def isolated_call(
    folder: Path, test: str, args: Sequence[str], settings: Mapping[str, Setting]
) -> tuple[RecordedCall, NamedByTest | None, TestEnding | None]:
    """Run one test once, in a fresh process, with these arguments for pytest.

    Returns:
        What its call did, what it named, and what pytest made of it, if that was more than that it passed.

    Raises:
        TestFailedError: the test failed there.
        TestSkippedError: it was skipped there, or failed as expected.
        ScriptFailedError: pytest did not come to it.
    """
    folder.mkdir()
    generators = {name: setting for name, setting in settings.items() if is_generator(name)}
    _write(folder / _TASK, Task(generators))
    others = {name: setting for name, setting in settings.items() if name not in generators}
    own = ("-W", _LOADED_BEFORE, "--samebits-call", str(folder))
    words = (sys.executable, "-m", "samebits.testing.isolation", *args, *own)
    plan = RunSpec("test", others, record=False)
    # The test is one of the user's, and belongs where it stands.
    outcome = Runner(Command(words, words, None), Workspace(folder, "none")).run(plan, folder / "process")
    ended = _read(TestEnding, folder / _ENDED)
    _raise_for(outcome, folder, test, ended)
    return read_call(folder / _CALL), _read(NamedByTest, folder / _NAMED), ended


def _write(path: Path, record: object) -> None:
    path.write_text(json.dumps(to_data(record)), encoding="utf-8")


def _read(kind: type[T], path: Path) -> T | None:
    return from_data(kind, json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def _raise_for(outcome: Outcome, folder: Path, test: str, ended: TestEnding | None) -> None:
    printed = outcome.folder.stdout.read_text(errors="replace")
    if outcome.exit_code == 1:
        raise TestFailedError(printed)
    if outcome.exit_code == 0 and ended is not None and ended.outcome == "skipped":
        raise TestSkippedError(ended)
    if outcome.exit_code != 0 or not is_complete(folder / _CALL):
        errors = outcome.folder.stderr.read_text(errors="replace")
        said = f"{printed}\n{errors}".strip()[-_MOST_PRINTED:]
        raise ScriptFailedError(f"{test} did not run in a process of its own: pytest {outcome.described}", said)


# ---- in that process -------------------------------------------------------------------------------------------------


def read_task(folder: Path) -> Task:
    """What this process is to do; RecordingError where the folder holds no task."""
    try:
        task = _read(Task, folder / _TASK)
    except (OSError, ValueError) as error:
        raise _no_task(folder, f": {error}") from error
    if task is None:
        raise _no_task(folder)
    return task


def _no_task(folder: Path, why: str = "") -> RecordingError:
    hint = "--samebits-call is what samebits starts pytest with, and for nobody else"
    return RecordingError(f"{folder} holds no task{why}", hint)


def call_folder(folder: Path) -> Path:
    """Where the call is recorded."""
    path = folder / _CALL
    path.mkdir()
    return path


def keep_named(folder: Path, named: NamedByTest | None) -> None:
    """Keep what the test named."""
    if named is not None:
        _write(folder / _NAMED, named)


def keep_ended(folder: Path, ended: TestEnding) -> None:
    """Keep what pytest makes of the test; what it made of an earlier phase stays."""
    if not (folder / _ENDED).exists():
        _write(folder / _ENDED, ended)


def main() -> int:
    """Start pytest without what the outer one was told for itself."""
    for name in [name for name in os.environ if name.startswith(_NOT_PASSED_ON)]:
        del os.environ[name]
    # As with `python -m pytest`: the current folder comes first, and not this file's.
    import pytest

    return int(pytest.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
