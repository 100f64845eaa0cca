"""One run as the commands make them, in the current folder itself."""

from collections.abc import Callable
from pathlib import Path

from samebits.launch.command import Command
from samebits.launch.process import Limit, Outcome, Runner
from samebits.runfolder.spec import RunSpec
from samebits.workspace.workspace import Isolation, Workspace


def run_recorded(
    command: Command,
    spec: RunSpec,
    path: Path,
    limit: Limit | None = None,
    waiting: Callable[[], None] | None = None,
    isolation: Isolation = "none",
) -> Outcome:
    """The run, in a run folder that is made."""
    path.mkdir(parents=True, exist_ok=True)
    workspace = Workspace(path.absolute(), isolation)
    try:
        return Runner(command, workspace).run(spec, path, limit, waiting)
    finally:
        workspace.close()
