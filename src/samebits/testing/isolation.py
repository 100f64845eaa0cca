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
from samebits.launch.process import Runner
from samebits.runfolder.spec import RunSpec
from samebits.testing.expected import NamedByTest
from samebits.testing.repeats import RecordedCall, is_complete, read_call
from samebits.testing.seeding import is_generator
from samebits.workspace.workspace import Workspace

# What pytest itself, or a plugin that distributes tests, sets for the processes it starts.
_NOT_PASSED_ON = ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_")
_SETTINGS, _CALL, _NAMED, _ENDED = "settings.json", "call", "named.json", "ended.json"
_MOST_PRINTED = 4000
T = TypeVar("T")
# This file belongs to a plugin, and it is loaded before pytest, which would like to rewrite its asserts.
_LOADED_BEFORE = "ignore:Module already imported so cannot be rewritten; samebits:pytest.PytestAssertRewriteWarning"


@dataclass(frozen=True)
class TestEnding:
    """What pytest made of a test there, where that is neither plainly passed nor failed.

    Attributes:
        outcome: `skipped`, also where it failed as expected; `passed`, or `failed` in a strict xfail, where it did not.
        reason: why a failure was expected; None where none was.
        text: what pytest shows of it.
        place: path and line of what skipped it.
    """

    __test__ = False  # pytest collects classes by their names

    outcome: Literal["passed", "failed", "skipped"]
    reason: str | None
    text: str
    place: tuple[str, int] | None = None


@dataclass(frozen=True)
class IsolatedCall:
    """One run of a test in a process of its own.

    Attributes:
        call: what it did; None where it failed or was skipped.
        named: what it named.
        ended: what pytest made of it, if that was more than that it passed or failed.
        printed: by pytest there.
    """

    call: RecordedCall | None
    named: NamedByTest | None
    ended: TestEnding | None
    printed: str


def isolated_call(folder: Path, test: str, args: Sequence[str], settings: Mapping[str, Setting]) -> IsolatedCall:
    """Run one test once, in a fresh process, with these arguments for pytest; ScriptFailedError if it did not run."""
    folder.mkdir()
    # Generators are treated there for each test, other factors when the process starts.
    generators = {name: setting for name, setting in settings.items() if is_generator(name)}
    _write(folder / _SETTINGS, generators)
    others = {name: setting for name, setting in settings.items() if name not in generators}
    own = ("-W", _LOADED_BEFORE, "--samebits-call", str(folder))
    words = (sys.executable, "-m", "samebits.testing.isolation", *args, *own)
    plan = RunSpec("test", others, record=False)
    # The test is one of the user's, and belongs where it stands.
    outcome = Runner(Command(words, words, None), Workspace(folder, "none")).run(plan, folder / "process")
    printed = outcome.folder.stdout.read_text(errors="replace")
    named, ended = _read(NamedByTest, folder / _NAMED), _read(TestEnding, folder / _ENDED)
    if outcome.exit_code == 1 or (outcome.exit_code == 0 and ended is not None and ended.outcome == "skipped"):
        return IsolatedCall(None, named, None if outcome.exit_code else ended, printed)
    if outcome.exit_code != 0 or not is_complete(folder / _CALL):
        errors = outcome.folder.stderr.read_text(errors="replace")
        said = f"{printed}\n{errors}".strip()[-_MOST_PRINTED:]
        raise ScriptFailedError(f"{test} did not run in a process of its own: pytest {outcome.described}", said)
    return IsolatedCall(read_call(folder / _CALL), named, ended, printed)


def _write(path: Path, record: object) -> None:
    path.write_text(json.dumps(to_data(record)), encoding="utf-8")


def _read(kind: type[T], path: Path) -> T | None:
    return from_data(kind, json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


# ---- in that process -------------------------------------------------------------------------------------------------


def read_settings(folder: Path) -> Mapping[str, Setting]:
    """How this process is to treat generators; RecordingError where the folder holds no such file."""
    hint = "--samebits-call is what samebits starts pytest with, and for nobody else"
    try:
        content = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
        return {name: from_data(Setting, one) for name, one in content.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise RecordingError(f"{folder} holds no task: {error}", hint) from error


def call_folder(folder: Path) -> Path:
    """Where the call is recorded."""
    path = folder / _CALL
    path.mkdir()
    return path


def keep(folder: Path, record: NamedByTest | TestEnding | None) -> None:
    """Keep what the test named, or what pytest makes of it; what it made of an earlier phase stays."""
    path = folder / (_ENDED if isinstance(record, TestEnding) else _NAMED)
    if record is not None and not path.exists():
        _write(path, record)


def main() -> int:
    """Start pytest without what the outer one was told for itself."""
    for name in [name for name in os.environ if name.startswith(_NOT_PASSED_ON)]:
        del os.environ[name]
    # As with `python -m pytest`: the current folder comes first, and not this file's.
    import pytest

    return int(pytest.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
