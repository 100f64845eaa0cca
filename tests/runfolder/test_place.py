"""Where a run happens: `{run}`, copies of the working folder, and what one run leaves for the next."""

import os
import socket
from pathlib import Path

import pytest

from samebits.base.errors import StorageError
from samebits.factors.context import Setting
from samebits.launch.command import parse_command
from samebits.launch.copies import Folder, copy_folder, remove, shared_paths, volume
from samebits.launch.process import run_recorded
from samebits.runfolder.ledger import Ledger
from samebits.runfolder.notes import LeftBehind, Witnessed, read_notes
from samebits.runfolder.place import Place, asks_for_run_folder
from samebits.runfolder.spec import RunSpec
from tests.launch.conftest import PYTHON, _standing_in, only_run, samebits, under_run, write


def copied(folder: Path, target: Path, *, share: tuple[str, ...] = ()) -> list[str]:
    """Copy a folder as it is; what could not be copied."""
    source = Folder(str(folder), shared_paths(str(folder), share))
    return copy_folder(source, str(target), lambda _: False, lambda _: None).lost


def test_the_word_run_is_a_folder_of_the_runs_own(tmp_path: Path) -> None:
    """It is there when the command starts, anywhere in a word; other braces stay as they are."""
    code = "import os, sys; print(*sys.argv[1:]); open(os.path.join(sys.argv[1], 'a'), 'w')"
    seen = under_run([PYTHON, "-c", code, "{run}", "--out={run}/last.pt", "{}", "{x}", "${run}", "{{run}}"], tmp_path)

    files = only_run(tmp_path) / "files"
    assert seen.out.split() == [str(files), f"--out={files}/last.pt", "{}", "{x}", "${run}", "{run}"]
    assert [path.name for path in files.iterdir()] == ["a"]
    assert not asks_for_run_folder(["{}", "${run}", "{{run}}"])


def test_paths_into_the_folder_lead_into_the_copy() -> None:
    """Of words, values of options, PYTHONPATH and PWD; what only looks alike does not."""
    place = Place("/home/me/p", "/runs/1/files", copy="/home/me/p/.samebits/copy-1/p")
    there = place.copy

    words = ["python", "/home/me/p/train.py", "--data=/home/me/p/data", "/home/me/pictures", "p/x", f"{there}/y"]
    assert place.words(words) == [
        *("python", f"{there}/train.py", f"--data={there}/data", "/home/me/pictures", "p/x", f"{there}/y"),
    ]
    environment = place.environment({"PYTHONPATH": "/lib:/home/me/p/src", "PWD": "/home/me/p", "HOME": "/home/me/p"})
    assert environment == {"PYTHONPATH": f"/lib:{there}/src", "PWD": there, "HOME": "/home/me/p"}


def test_the_runs_own_folder_leads_into_no_copy() -> None:
    """It lies in the working folder as a rule, and is one folder whether the run has a copy or not."""
    files = "/home/me/p/.samebits/1/run-1/files"
    place = Place("/home/me/p", files, copy="/home/me/p/.samebits/1/copy-1/p")

    assert place.words(["python", "--out={run}", "{run}/a", "/home/me/p/b"]) == [
        "python",
        f"--out={files}",
        f"{files}/a",
        "/home/me/p/.samebits/1/copy-1/p/b",
    ]


def test_a_copy_has_everything_but_what_is_made_again(tmp_path: Path) -> None:
    """Times, modes and links as they were; environments and what is shared are links; sockets are told."""
    write(tmp_path / "p", {"a/b.txt": "1", "data/x": "2", ".git/HEAD": "", "__pycache__/c.pyc": "", "v/pyvenv.cfg": ""})
    write(tmp_path, {"beside/y": "3"})
    folder, target = tmp_path / "p", tmp_path / "home" / "copy-1" / "p"
    os.utime(folder / "a/b.txt", ns=(1, 2))
    (folder / "a/b.txt").chmod(0o750)
    for name, to in {"in": "a/b.txt", "full": str(folder / "a"), "out": "../beside/y"}.items():
        (folder / name).symlink_to(to)
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(folder / "s"))
        lost = copied(folder, target, share=("data",))

    assert sorted(path.name for path in target.iterdir()) == ["a", "data", "full", "in", "out", "v"]
    assert (target / "data").readlink() == folder / "data"
    assert (target / "v").readlink() == folder / "v"
    assert (target / "in").resolve() == target / "a/b.txt"
    assert (target / "full").resolve() == target / "a"
    assert (target / "out").read_text() == (target / "../beside/y").read_text() == "3"
    assert ((target / "a/b.txt").stat().st_mtime_ns, (target / "a/b.txt").stat().st_mode & 0o777) == (2, 0o750)
    assert lost == [f"{folder / 's'}: neither a file nor a folder"]

    (target / "a/b.txt").write_text("other")
    remove(str(target.parent))
    assert (folder / "a/b.txt").read_text() == "1"
    assert (folder / "data/x").read_text() == "2"
    assert not target.parent.exists()


def test_what_is_shared_has_to_be_there(tmp_path: Path) -> None:
    """Its name is in the error."""
    with pytest.raises(StorageError, match=r"--share .*/dta: there is no such file"):
        copied(tmp_path, tmp_path / "c", share=("dta",))


def test_sizes_are_told_as_one_would() -> None:
    """Three digits or so."""
    assert [volume(size) for size in (0, 999, 1_000, 12_345_678, 12_300_000_000)] == [
        *("0 bytes", "999 bytes", "1 kB", "12.3 MB", "12.3 GB"),
    ]


# Every way in which a second run may come upon what the first one left; most lines are harmless by themselves.
WAYS = """
import os, sqlite3
from pathlib import Path

def tried(action, *args):
    try:
        return action(*args)
    except OSError:
        return None

tried(lambda: open("cache").read())  # read cache
open("cache", "w").write("1")
Path("appended").open("a").write("1")
open("fresh", "w").write("1")
open("fresh").read()
os.path.exists("flag")  # tested flag
open("flag", "w").close()
tried(lambda: os.makedirs("made"))  # made made
os.makedirs("kept", exist_ok=True)  # made kept
os.listdir("kept")  # listed kept
open("kept/x", "w").close()
open("kept/x.tmp", "w").close()
os.replace("kept/x.tmp", "kept/y")
os.path.exists("kept/never")
open("before").read()
open("changed").read()  # read changed
open("changed", "a").write("1")
tried(lambda: open("only", "x"))  # made only
sqlite3.connect("db").execute("create table if not exists t (x)")  # read db
open("gone", "w").close()
os.remove("gone")
os.path.exists("gone")
"""


def test_what_an_earlier_run_left_is_noticed_with_its_line(tmp_path: Path) -> None:
    """Read, listed, asked for or made; not what a run made anew before it looked, and not what was there unchanged."""
    write(tmp_path, {"ways.py": WAYS, "before": "0", "changed": "0"})
    home = tmp_path / ".samebits"
    ledger = Ledger(home / "before")
    found = [notes_of(tmp_path, home / name, ledger) for name in ("1-control", "2-control-again")]

    assert found[0] == set()
    assert found[1] == marked(WAYS)
    entries = {Path(path).name: entry for path, entry in ledger.read().items()}
    assert {name for name, entry in entries.items() if entry.was_there} == {"changed"}
    assert Path(entries["changed"].kept).read_text() == "0"
    assert "x" not in entries, "what lies in a folder that a run made needs no entry of its own"


def marked(source: str) -> set[tuple[str, str, int]]:
    """How, what and where, as the comments of a script have it."""
    marks = [(number, line.partition("# ")[2]) for number, line in enumerate(source.splitlines(), start=1)]
    return {(*mark.split(), number) for number, mark in marks if mark}  # type: ignore[misc]


def notes_of(folder: Path, run: Path, ledger: Ledger) -> set[tuple[str, str, int]]:
    """What one run in a folder noticed: how, the file's name, the line; the way that says most for each file."""
    place = Place(str(folder), str(run / "files"), ledger=str(ledger.folder))
    with _standing_in(folder, {}):
        outcome = run_recorded(parse_command([PYTHON, "ways.py"]), RunSpec(), run, 60, place=place)
    assert outcome.succeeded, outcome.folder.stderr.read_text()
    order = ("read", "listed", "made", "tested")
    best: dict[tuple[str, int], str] = {}
    for note in read_notes(run, LeftBehind):
        key = Path(note.path).name, note.site.line
        best[key] = min(best.get(key, note.how), note.how, key=order.index)
    return {(how, name, line) for (name, line), how in best.items()}


def test_code_in_a_copy_is_told_as_that_of_the_folder(tmp_path: Path) -> None:
    """Imports come from the copy, places are those of the user's own files, and the folder stays as it is."""
    write(
        tmp_path / "p",
        {
            "pkg/__init__.py": "",
            "pkg/main.py": "import random, os, sys\nrandom.random()\nopen('new', 'w')\nprint(os.getcwd(), __file__)",
        },
    )
    folder, run = tmp_path / "p", tmp_path / "home" / "1-control"
    place = Place(str(folder), str(run / "files"), copy=str(tmp_path / "home" / "copy-1" / "p"))
    copied(folder, Path(place.copy))
    with _standing_in(folder, {}):
        plan = RunSpec("control", {"python-rng": Setting("natural")}, witness=True)
        outcome = run_recorded(parse_command([PYTHON, "-m", "pkg.main"]), plan, run, 60, place=place)

    assert outcome.folder.stdout.read_text().split() == [place.copy, f"{place.copy}/pkg/main.py"]
    (witness,) = [note for note in read_notes(run, Witnessed) if note.factor == "python-rng"]
    assert witness.site is not None
    assert (witness.site.path, witness.site.line) == (str(folder / "pkg/main.py"), 2)
    assert not (folder / "new").exists()


def test_a_dry_run_says_that_runs_share_the_folder(tmp_path: Path) -> None:
    """And that they do not, with --fresh-copy or --jobs."""
    write(tmp_path, {"train.py": "", "data/x": ""})
    seen = samebits("check", "--dry-run", "train.py", cwd=tmp_path)
    fresh = samebits("check", "--dry-run", "--jobs", "2", "--share", "data", "train.py", cwd=tmp_path)

    assert "all runs share this one; --fresh-copy gives each a copy of its own" in seen.out
    assert "every run starts in its own copy of this one, which share data" in fresh.out
