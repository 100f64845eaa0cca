"""One run of a test in a process of its own: pytest is started for this test alone, under a plan like every run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from samebits.factors.context import Setting
from samebits.launch.command import Command
from samebits.launch.process import Outcome, run_in
from samebits.runfolder.spec import RunSpec
from samebits.workspace.workspace import Workspace

# Variables that pytest itself, or a plugin that distributes tests, sets for the processes it starts.
_NOT_PASSED_ON = ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_")
# In that process samebits is loaded before pytest, which warns that it cannot rewrite the asserts of the plugin.
_LOADED_BEFORE = "ignore:Module already imported so cannot be rewritten; samebits:pytest.PytestAssertRewriteWarning"


def isolated_run(folder: Path, args: Sequence[str], settings: Mapping[str, Setting]) -> Outcome:
    """Run pytest with these arguments in a fresh process, with factors treated from its start; makes the folder."""
    folder.mkdir()
    # These variables are meant for the outer pytest alone.
    dropped = [f"-u{name}" for name in os.environ if name.startswith(_NOT_PASSED_ON)]
    words = ("env", *dropped, sys.executable, "-m", "pytest", *args, "-W", _LOADED_BEFORE)
    # The test is one of the user's, and runs in the user's own folder, not in a copy.
    workspace, plan = Workspace(folder, "none"), RunSpec("test", settings, record=False)
    return run_in(workspace, Command(words, words), plan, folder / "process")
