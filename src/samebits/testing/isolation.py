"""One run of a test in a process of its own: pytest is started for it alone, under a plan like any run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samebits.base.errors import RecordingError, ScriptFailedError
from samebits.factors.context import Setting
from samebits.launch.command import Command
from samebits.launch.process import Outcome, run_recorded
from samebits.runfolder.plan import RunPlan
from samebits.testing.expected import Named, named_from
from samebits.testing.repeats import Call, is_complete, read_call
from samebits.testing.seeding import is_generator

# What pytest itself, or a plugin that distributes tests, sets for the processes it starts.
_NOT_PASSED_ON = ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_")
_TASK, _CALL, _NAMED = "task.json", "call", "named.json"
_MOST_PRINTED = 4000


@dataclass(frozen=True)
class Task:
    """What such a process is to do.

    Attributes:
        test: id of the test.
        settings: how its generators are treated; other factors are treated when it starts.
    """

    test: str
    settings: Mapping[str, Setting]


class TestFailedError(Exception):
    """The test itself failed in a process of its own; the message is what pytest printed there."""

    __test__ = False


class TestSkippedError(Exception):
    """The test was skipped in a process of its own; the message says why."""

    __test__ = False


def isolated_call(
    folder: Path, test: str, args: Sequence[str], settings: Mapping[str, Setting]
) -> tuple[Call, Named | None]:
    """Run one test once, in a fresh process.

    Args:
        folder: a new one, for what is known of the run.
        test: its id.
        args: for pytest.
        settings: how factors are treated.

    Returns:
        What its call did, and what it named.

    Raises:
        TestFailedError: the test failed there.
        TestSkippedError: it was skipped there.
        ScriptFailedError: pytest did not come to it.
    """
    folder.mkdir()
    generators = {name: setting for name, setting in settings.items() if is_generator(name)}
    task = {"test": test, "settings": {name: vars(one) for name, one in generators.items()}}
    (folder / _TASK).write_text(json.dumps(task), encoding="utf-8")
    others = {name: setting for name, setting in settings.items() if name not in generators}
    words = (sys.executable, "-m", "samebits.testing.isolation", *args, "--samebits-call", str(folder))
    plan = RunPlan("test", others, record=False)
    outcome = run_recorded(Command(words, words, None), plan, folder / "process")
    _raise_for(outcome, folder, test)
    named = folder / _NAMED
    return read_call(folder / _CALL), named_from(json.loads(named.read_text())) if named.exists() else None


def _raise_for(outcome: Outcome, folder: Path, test: str) -> None:
    printed = outcome.folder.stdout.read_text(errors="replace")
    skipped = folder / "skipped"
    if skipped.exists():
        raise TestSkippedError(skipped.read_text(encoding="utf-8"))
    if outcome.exit_code == 1:
        raise TestFailedError(printed)
    if outcome.exit_code != 0 or not is_complete(folder / _CALL):
        errors = outcome.folder.stderr.read_text(errors="replace")
        said = f"{printed}\n{errors}".strip()[-_MOST_PRINTED:]
        raise ScriptFailedError(f"{test} did not run in a process of its own: pytest {outcome.described}", said)


# ---- in that process -------------------------------------------------------------------------------------------------


def read_task(folder: Path) -> Task:
    """What this process is to do.

    Raises:
        RecordingError: the folder holds no task.
    """
    try:
        task = json.loads((folder / _TASK).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        hint = "--samebits-call is what samebits starts pytest with, and for nobody else"
        raise RecordingError(f"{folder} holds no task: {error}", hint) from error
    return Task(task["test"], {name: _setting(one) for name, one in task["settings"].items()})


def call_folder(folder: Path) -> Path:
    """Where the call is recorded."""
    path = folder / _CALL
    path.mkdir()
    return path


def keep_named(folder: Path, named: Named | None) -> None:
    """Keep what the test named."""
    if named is not None:
        (folder / _NAMED).write_text(json.dumps(vars(named)), encoding="utf-8")


def keep_skipped(folder: Path, reason: str) -> None:
    """Keep why the test was skipped."""
    (folder / "skipped").write_text(reason, encoding="utf-8")


def _setting(given: dict[str, Any]) -> Setting:
    return replace(Setting(**given), released=())


def main() -> int:
    """Start pytest without what the outer one was told for itself."""
    for name in [name for name in os.environ if name.startswith(_NOT_PASSED_ON)]:
        del os.environ[name]
    # As with `python -m pytest`: the current folder comes first, and not this file's.
    import pytest

    return int(pytest.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
