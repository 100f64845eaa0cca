"""Copies of the working folder as it was before the check, and what no copy can go without. No process is started."""

from pathlib import Path

import pytest

from samebits.base.sites import Site
from samebits.checking.facts import Facts, Left
from samebits.checking.places import Places
from samebits.checking.plan import Request
from samebits.checking.verdict import Run
from samebits.factors.context import Setting
from samebits.launch.command import Command
from samebits.launch.process import Outcome
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.ledger import Ledger
from samebits.runfolder.plan import RunPlan

FACTOR = "files-left-behind"
COMMAND = Command(("python", "train.py"), ("train.py",))


def contents(folder: Path) -> dict[str, str]:
    """Relative path → text, for every file; folders end with a slash."""
    paths = [path for path in folder.rglob("*") if ".samebits" not in path.relative_to(folder).parts]
    return {
        str(path.relative_to(folder)) + "/" * path.is_dir(): "" if path.is_dir() else path.read_text() for path in paths
    }


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """A check whose first run has changed, made and taken away files."""
    folder, home = tmp_path / "p", tmp_path / "p" / ".samebits" / "c"
    home.mkdir(parents=True)
    for name in ("changed", "gone", "same"):
        (folder / name).write_text("before")
    monkeypatch.chdir(folder)
    places = Places(Request(COMMAND), home)
    for name in ("changed", "gone", "made", "ckpt"):
        Ledger(home / "before").enter(str(folder / name), "1-control", keep=True)
    (folder / "changed").write_text("after")
    (folder / "gone").unlink()
    (folder / "made").write_text("after")
    (folder / "ckpt").mkdir()
    for name in ("a.pt", "b.pt"):
        (folder / "ckpt" / name).write_text("after")
    return places


def run_that_found(folder: Path, *found: tuple[str, str, int]) -> Run:
    left = tuple(Left(how, str(folder / name), 1, Site("/train.py", line)) for how, name, line in found)
    outcome = Outcome(RunFolder(folder), RunPlan("control again"), 0, 1.0)
    return Run(2, outcome, 1, facts=Facts(left=left))


def test_what_runs_wrote_in_the_folder_is_known(places: Places) -> None:
    """What they took away again is not there, and nobody else's file is."""
    assert places.written() == ["changed", "ckpt", "made"]


def copy_of(places: Places, setting: Setting, *runs: Run) -> dict[str, str]:
    """What a run with this setting finds."""
    with places.place_for(RunPlan("run", {FACTOR: setting}), places.home / "3-run", runs) as place:
        found = contents(Path(place.copy))
    assert not Path(place.copy).parent.exists()
    return found


BEFORE = {"changed": "before", "gone": "before", "same": "before"}


def test_a_fresh_copy_is_the_folder_before_the_check(places: Places) -> None:
    """What runs made is not there, what they changed or took away is as it was; the folder itself stays as it is."""
    folder = Path(places.folder)
    after = contents(folder)

    assert copy_of(places, Setting("pinned")) == BEFORE
    assert copy_of(places, Setting("varied")) == contents(folder) == after != BEFORE
    places.close()
    assert [path.name for path in places.home.iterdir()] == []


def test_a_copy_may_hold_what_some_lines_found(places: Places) -> None:
    """The file of the released line and what leads to it, and nothing that stands beside it."""
    folder = Path(places.folder)
    run = run_that_found(folder, ("read", "ckpt/a.pt", 3), ("read", "changed", 4), ("listed", "ckpt", 5))

    def released(line: int) -> dict[str, str]:
        return copy_of(places, Setting("pinned", released=(("/train.py", line),)), run)

    assert released(3) == BEFORE | {"ckpt/": "", "ckpt/a.pt": "after"}
    assert released(4) == BEFORE | {"changed": "after"}
    assert released(5) == BEFORE | {"ckpt/": "", "ckpt/a.pt": "after", "ckpt/b.pt": "after"}


def test_what_no_copy_can_go_without_is_told(places: Places, tmp_path: Path) -> None:
    """A file beside the folder, and one whose content nobody kept; the others are no obstacle."""
    folder = Path(places.folder)
    Ledger(places.ledger.folder).enter(str(folder / "same"), "1-control", keep=False)
    found = [
        Left("read", str(path), 1, Site("/train.py", 3)) for path in (tmp_path / "x", folder / "same", folder / "made")
    ]

    obstacles = [left.obstacle for left in places.judged(found)]
    assert obstacles == [
        "it lies outside the working folder, so no copy goes without it",
        "the file that stood there before was not kept; start with --fresh-copy",
        "",
    ]
