"""A folder of a user's, and runs in its workspace, with mounts and without."""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from samebits.launch.command import parse_command
from samebits.launch.process import Outcome, run_in
from samebits.runfolder.notes import Reached, read_notes
from samebits.runfolder.spec import RunSpec
from samebits.workspace import workspace
from samebits.workspace.place import Isolation
from samebits.workspace.workspace import Workspace
from tests.launch.conftest import PYTHON


@pytest.fixture(params=["mounts", "no mounts"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With mounts of the run's own, and as where the system allows none."""
    if request.param == "no mounts":
        monkeypatch.setenv(workspace.WITHOUT_MOUNTS, "1")
    workspace.can_mount.cache_clear()
    if request.param == "mounts" and not workspace.can_mount():
        pytest.skip("this system lets no process have mounts of its own")
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a project of somebody's."""
    own = tmp_path / "home" / "project"
    own.mkdir(parents=True)
    (tmp_path / "t").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))
    monkeypatch.chdir(own)
    return own


class Runs:
    """Runs of a script in one workspace; `print(json.dumps(...))` is its last line."""

    def __init__(self, folder: Path, share: Sequence[str] = (), isolation: Isolation = "copy") -> None:
        self.home = folder / ".samebits" / "20260131-120000-1"
        self.home.mkdir(parents=True)
        self.space = Workspace(self.home, isolation, share)
        self.count = 0
        # By the last one, as the user calls it.
        self.made: set[str] = set()

    def run(self, code: str, *, spec: RunSpec | None = None, keep: bool = False, words: Sequence[str] = ()) -> Any:
        """What the script printed."""
        self.count += 1
        number = self.count

        def finish(outcome: Outcome, place: Any) -> None:
            reached = [note.what.removeprefix("file ") for note in read_notes(path, Reached)]
            self.made = {made for made, own in self.space.products(place, reached).items() if own.is_file()}
            if keep:
                self.space.keep(place, number)

        command = parse_command([PYTHON, "-c", f"import os, json\n{code}", *words])
        path = self.home / f"{number}-run"
        outcome = run_in(self.space, command, spec or RunSpec(), path, 120, at_end=finish)
        assert outcome.succeeded, outcome.folder.stderr.read_text()
        printed = outcome.folder.stdout.read_text()
        return json.loads(printed) if printed else None


def state_of(root: Path) -> dict[str, tuple[object, ...]]:
    """What stands under a folder, but for samebits' own: kind, inode, times and content of every path."""
    found = {}
    for where, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".samebits"]
        for name in (*folders, *names):
            path = Path(where, name)
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() and status.st_size < 10**6 else b""
            found[str(path)] = (status.st_mode, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, content)
    return found
