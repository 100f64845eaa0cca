"""One run of a test in a process of its own: pytest is started for it alone, under a plan like any run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits.base.errors import RecordingError, ScriptFailedError
from samebits.base.records import from_data, to_data
from samebits.factors.context import Setting
from samebits.launch.command import Command
from samebits.launch.process import run_in
from samebits.runfolder.spec import RunSpec
from samebits.testing.repeats import RecordedCall, is_complete, read_call
from samebits.testing.seeding import is_generator
from samebits.workspace.workspace import Workspace

# What pytest itself, or a plugin that distributes tests, sets for the processes it starts.
_NOT_PASSED_ON = ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_")
# In the folder of a call: how generators are treated, where it is recorded, and what pytest made of it.
_SETTINGS, CALL, _REPORTS = "settings.json", "call", "reports.jsonl"
_MOST_PRINTED = 4000
# This file belongs to a plugin, and it is loaded before pytest, which would like to rewrite its asserts.
_LOADED_BEFORE = "ignore:Module already imported so cannot be rewritten; samebits:pytest.PytestAssertRewriteWarning"


@dataclass(frozen=True)
class IsolatedCall:
    """One run of a test in a process of its own.

    Attributes:
        call: what it did; None where it failed or was skipped.
        has_failed: as pytest there saw it; a failure that was expected is none.
        reports: of its setup, call and teardown, as pytest writes them for other processes.
        printed: by pytest there.
    """

    call: RecordedCall | None
    has_failed: bool
    reports: list[dict[str, Any]]
    printed: str


def isolated_call(folder: Path, test: str, args: Sequence[str], settings: Mapping[str, Setting]) -> IsolatedCall:
    """Run one test once, in a fresh process, with these arguments for pytest; ScriptFailedError if it did not run."""
    folder.mkdir()
    # Generators are treated there for each test, other factors when the process starts.
    generators = {name: setting for name, setting in settings.items() if is_generator(name)}
    (folder / _SETTINGS).write_text(json.dumps(to_data(generators)), encoding="utf-8")
    others = {name: setting for name, setting in settings.items() if name not in generators}
    own = ("-W", _LOADED_BEFORE, "--samebits-call", str(folder))
    words = (sys.executable, "-m", "samebits.testing.isolation", *args, *own)
    plan = RunSpec("test", others, record=False)
    # The test is one of the user's, and belongs where it stands.
    outcome = run_in(Workspace(folder, "none"), Command(words, words), plan, folder / "process")
    printed = outcome.folder.stdout.read_text(errors="replace")
    lines = (folder / _REPORTS).read_text(encoding="utf-8").splitlines() if (folder / _REPORTS).exists() else []
    reports = [json.loads(line) for line in lines]
    if outcome.exit_code == 1 or (outcome.exit_code == 0 and any(one["outcome"] == "skipped" for one in reports)):
        return IsolatedCall(None, outcome.exit_code == 1, reports, printed)
    if outcome.exit_code != 0 or not is_complete(folder / CALL):
        errors = outcome.folder.stderr.read_text(errors="replace")
        said = f"{printed}\n{errors}".strip()[-_MOST_PRINTED:]
        raise ScriptFailedError(f"{test} did not run in a process of its own: pytest {outcome.described}", said)
    return IsolatedCall(read_call(folder / CALL), False, reports, printed)


# ---- in that process -------------------------------------------------------------------------------------------------


def read_settings(folder: Path) -> Mapping[str, Setting]:
    """How this process is to treat generators; RecordingError where the folder holds no such file."""
    hint = "--samebits-call is what samebits itself starts pytest with; do not use it"
    try:
        content = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
        return {name: from_data(Setting, one) for name, one in content.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise RecordingError(f"{folder} holds no task: {error}", hint) from error


def keep(folder: Path, report: Mapping[str, Any]) -> None:
    """Keep what pytest made of the test, or of its setup or teardown."""
    with open(folder / _REPORTS, "a", encoding="utf-8") as file:
        file.write(f"{json.dumps(report)}\n")


def main() -> int:
    """Start pytest without what the outer one was told for itself."""
    for name in [name for name in os.environ if name.startswith(_NOT_PASSED_ON)]:
        del os.environ[name]
    # As with `python -m pytest`: the current folder comes first, and not this file's.
    import pytest

    return int(pytest.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
