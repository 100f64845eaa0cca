"""Every run in a place of its own: what it finds there, what it can reach, and what stays afterwards."""

import os
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from samebits.base.errors import StorageError
from samebits.runfolder.notes import Carried, Files, Outside, Reached, Variable, Witnessed, read_notes
from samebits.runfolder.spec import RunSpec
from samebits.workspace import trees, workspace
from samebits.workspace.place import Isolation
from samebits.workspace.trees import shown_bytes
from samebits.workspace.workspace import Workspace, clear, clear_others, temporary_of
from tests.launch.conftest import write
from tests.running import busy_folder
from tests.workspace.conftest import Runs, state_of

pytestmark = pytest.mark.usefixtures("mode")


def test_a_run_finds_the_folder_and_changes_nothing_of_it(folder: Path) -> None:
    """It writes, appends, renames, removes and makes folders; the next one finds none of that."""
    write(folder, {"a.txt": "1", "sub/b.txt": "2", "c.txt": "3"})
    runs = Runs(folder)
    before = state_of(folder.parent)
    code = (
        "before = sorted(os.listdir())\n"
        "open('a.txt', 'a').write('x'); open('new', 'w').write('y'); os.remove('c.txt')\n"
        "os.rename('sub', 'moved'); os.mkdir('made')\n"
        "print(json.dumps([before, open('a.txt').read(), sorted(os.listdir())]))"
    )
    first, second = runs.run(code), runs.run(code)

    assert first == second == [["a.txt", "c.txt", "sub"], "1x", ["a.txt", "made", "moved", "new"]]
    assert state_of(folder.parent) == before
    runs.space.close()
    assert sorted(path.name for path in runs.home.iterdir()) == ["1-run", "2-run"]
    assert not any(path.exists() for path in temporary_of(runs.home))


def test_whatever_way_a_path_is_written_it_leads_where_it_should(folder: Path, mode: str) -> None:
    """Absolute and relative ones into the folder lead into the copy; beside it, and at home, is the user's own."""
    write(folder, {"in.txt": "in", "pkg/__init__.py": "", "pkg/mod.py": "where = __file__"})
    write(folder.parent, {"data/x.txt": "beside", "outputs/old": "kept"})
    runs = Runs(folder)
    code = (
        "import sys, pkg.mod\n"
        "print(json.dumps([open('../data/x.txt').read(), open('../../home/data/x.txt').read(), os.getcwd(), "
        "pkg.mod.where, open(sys.argv[1]).read()]))\n"
        "open('../outputs/last.pt', 'w').write('its own')"
    )
    beside, further, here, module, named = runs.run(code, words=[str(folder / "in.txt")])

    assert (beside, further, named) == ("beside", "beside", "in")
    assert (folder.parent / "outputs/last.pt").read_text() == "its own"
    if mode == "mounts":
        assert (here, module) == (str(folder), str(folder / "pkg/mod.py"))
    else:
        assert here.endswith(str(folder))
        assert module == f"{here}/pkg/mod.py"
    (note,) = read_notes(runs.home / "1-run", Reached)
    assert note.what == f"file {folder.parent / 'outputs/last.pt'}"


def test_places_in_code_are_told_as_those_of_the_folder(folder: Path) -> None:
    """Whatever the run calls them."""
    write(folder, {"pkg/__init__.py": "", "pkg/draw.py": "import random\nrandom.random()"})
    runs = Runs(folder)
    runs.run("import pkg.draw", spec=RunSpec(witness=True))

    (witness,) = [note for note in read_notes(runs.home / "1-run", Witnessed) if note.factor == "python-rng"]
    assert witness.site is not None
    assert (witness.site.path, witness.site.line) == (str(folder / "pkg/draw.py"), 2)


def test_large_files_are_linked_and_never_written_to(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Whichever way a run writes to one, it writes to a copy of its own; without mounts, the first copy holds all."""
    monkeypatch.setattr(trees, "MOST_BYTES", 10)
    for name in ("append", "patch", "over", "renamed", "touched", "read", "db", "sub/deep"):
        write(folder, {name: f"content of {name}"})
    (folder / "db").unlink()
    (folder / "db").write_bytes(b"")
    runs = Runs(folder)
    before = state_of(folder)
    code = (
        "open('append', 'a').write('!')\n"
        "with open('patch', 'r+') as f: f.write('C')\n"
        "open('over', 'w').write('new')\n"
        "os.rename('renamed', 'other'); open('other', 'a').write('?')\n"
        "os.utime('touched', (0, 0)); os.chmod('touched', 0o600)\n"
        "open('sub/deep', 'ab').write(b'.')\n"
        "os.symlink('read', 'alias'); open('alias', 'a').write('+')\n"
        "print(json.dumps([open(n).read() for n in ('append', 'patch', 'over', 'other', 'sub/deep', 'read')]))"
    )

    assert runs.space.survey.files == (1 if mode == "mounts" else 8)
    assert len(runs.space.survey.linked) == (7 if mode == "mounts" else 0)
    assert runs.run(code) == [
        *("content of append!", "Content of patch", "new", "content of renamed?", "content of sub/deep."),
        "content of read+",
    ]
    assert state_of(folder) == before


# How torch writes files in C++, each by a line that writes to `at`; the model was made before.
IN_C = (
    "torch.save(model.state_dict(), at)",
    "torch.jit.script(model).save(at)",
    "torch.jit.save(torch.jit.script(model), at)",
    "torch.export.save(torch.export.export(model, (torch.ones(1),)), at)",
)


def test_what_torch_writes_in_c_is_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside the folder, and onto a file that was not copied, by its full path."""
    monkeypatch.setattr(trees, "MOST_BYTES", 10)
    write(folder, {f"last{number}.pt2": "a checkpoint of last month" for number in range(len(IN_C))} | {"small": "1"})
    runs = Runs(folder)
    before = state_of(folder)
    ways = (
        f"for at in (os.path.abspath('last{number}.pt2'), '../own{number}.pt2'): {line}\n"
        for number, line in enumerate(IN_C)
    )
    runs.run(f"import torch\nmodel = torch.nn.Linear(1, 1); model(torch.ones(1)).backward()\n{''.join(ways)}")

    assert state_of(folder) == before
    own = [(f"{folder}/last{number}.pt2", f"{folder.parent}/own{number}.pt2") for number in range(len(IN_C))]
    assert runs.made == {path for both in own for path in both}


def test_a_checkpoint_that_torch_writes_is_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.save` opens its file in C++; also by a full path, onto a file that was not copied."""
    monkeypatch.setattr(trees, "MOST_BYTES", 10)
    write(folder, {"last.pt": "a checkpoint of last month", "best.pt": "the best one of last month"})
    runs = Runs(folder)
    before = state_of(folder)
    code = (
        "import torch\n"
        "if os.path.exists('last.pt'): torch.save([1], 'last.pt')\n"
        "torch.save([2], os.path.abspath('best.pt'))\n"
        "model = torch.nn.Linear(1, 1); model(torch.ones(1)).backward()\n"
        "print(json.dumps([torch.load(name) for name in ('last.pt', 'best.pt')]))"
    )

    assert runs.run(code) == [[1], [2]]
    assert state_of(folder) == before
    carried = {Path(note.path).name for note in read_notes(runs.home / "1-run", Carried) if note.wrote is not None}
    assert carried == {"last.pt"}


def test_what_no_copy_holds_still_is_noted(folder: Path, tmp_path: Path, mode: str) -> None:
    """The first file that a line finds elsewhere; programs but Python, which is seen; timers."""
    write(folder, {"own.txt": "words"})
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, {"drawn.npy": "x", "other.npy": "x", "listed/a": "x", "module.py": "import os"})
    runs = Runs(folder)
    code = (
        "import json, os, subprocess, sys, numpy\n"
        f"there = {str(elsewhere)!r}\n"
        f"open('own.txt').close(); open({str(folder)!r} + '/own.txt').close(); os.path.isdir(there)\n"
        "os.path.exists('/usr/bin/env')\n"
        "os.path.exists(there + '/missing.npy'); open(there + '/module.py').close()\n"
        "for name in ('drawn', 'other'): os.path.exists(f'{there}/{name}.npy')\n"
        "os.listdir(there + '/listed')\n"
        "subprocess.run(['sort', '-R', 'own.txt'], capture_output=True)\n"
        "os.system('true')\n"
        "subprocess.run([sys.executable, '-c', ''])\n"
        "subprocess.run('sort -u own.txt | wc', shell=True, capture_output=True)\n"
        "import signal; signal.setitimer(signal.ITIMER_REAL, 900)\n"
        "import threading; threading.Timer(900, print)\n"
        "print(json.dumps(1))"
    )
    assert runs.run(code) == 1

    notes = [(note.kind, note.what, note.site.line) for note in read_notes(runs.home / "1-run", Outside)]
    assert [(kind, what) for kind, what, _ in notes] == [
        ("file", f"{elsewhere}/drawn.npy"),
        ("file", f"{elsewhere}/listed"),
        ("program", "sort -R own.txt"),
        ("program", "true"),
        ("program", "sort -u own.txt | wc"),
        ("timer", "signal.setitimer"),
        ("timer", "threading.Timer"),
    ]
    assert [line for _, _, line in notes] == sorted({line for _, _, line in notes})


def test_what_is_written_unseen_cannot_reach_what_is_linked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Programs that the script starts have no hooks: with mounts they cannot write, and without the command ends."""
    monkeypatch.setattr(trees, "MOST_BYTES", 10)
    write(folder, {"large": "content of large"})
    runs = Runs(folder)
    code = "print(json.dumps(os.system('echo more >> large')))"
    if mode == "mounts":
        assert runs.run(code) != 0
    else:
        with pytest.raises(StorageError, match=r"wrote to .*large, of which all runs share one copy"):
            runs.run(code)
    assert (folder / "large").read_text() == "content of large"


FULL_PATHS = """
import shutil, sqlite3
folder, beside, kept = {names}

def appended(path):
    with open(path, "a") as file:
        file.write("more")

ways = {{
    "append": lambda: appended(folder + "/train.log"),
    "by a link": lambda: appended(beside + "/train.log"),
    "by a link in the copy": lambda: appended("beside/train.log"),
    "by a link of its own": lambda: (os.symlink(folder, "own"), appended("own/train.log")),
    "emptied": lambda: os.close(os.open(folder + "/train.log", os.O_RDONLY | os.O_TRUNC)),
    "there already": lambda: open(folder + "/train.log", "x"),
    "make": lambda: appended(folder + "/new.log"),
    "folder": lambda: os.makedirs(folder + "/runs/1"),
    "rename": lambda: os.rename("other.log", folder + "/other.log"),
    "take": lambda: os.rename(folder + "/last.pt", "last.pt"),
    "truncate": lambda: os.truncate(folder + "/train.log", 0),
    "mode": lambda: os.chmod(folder + "/train.log", 0),
    "symlink": lambda: os.symlink("train.log", folder + "/newest.log"),
    "database": lambda: sqlite3.connect(folder + "/runs.db").execute("create table losses (x)"),
    "database by a URI": lambda: sqlite3.connect(f"file://localhost{{folder}}/runs%2Edb", uri=True),
    "bytecode": lambda: appended(folder + "/model.pyc"),
    "a cache's name": lambda: os.mkdir(folder + "/torchinductor_me"),
    "by a descriptor": lambda: os.chmod("train.log", 0, dir_fd=os.open(folder, os.O_RDONLY)),
    "remove": lambda: os.remove(folder + "/train.log"),
    "all": lambda: shutil.rmtree(folder + "/notes"),
    "shared": lambda: appended(kept),
    "its own link": lambda: (os.symlink(folder, "mine"), os.replace("mine", "ours"), os.remove("ours")),
    "by the process": lambda: appended("/proc/self/cwd/train.log"),
    "relative": lambda: appended("train.log"),
    "variable": lambda: appended(os.environ["LOGS"] + "/train.log"),
}}
done = {{}}
for name, way in ways.items():
    try:
        way()
        done[name] = ""
    except OSError as error:
        done[name] = f"{{type(error).__name__}} {{error}}"
print(json.dumps(done))
"""


def test_full_paths_do_not_lead_to_the_users_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """With mounts they lead into the copy; without, what would change the folder is refused, with a way out."""
    write(folder, {"train.log": "1", "last.pt": "2", "other.log": "3", "notes/a": "4", "results/kept.log": "5"})
    (tmp_path / "beside").symlink_to(folder)
    (folder / "beside").symlink_to("../../beside")
    monkeypatch.setenv("LOGS", str(folder))
    before = state_of(folder)
    kept = folder / "results" / "kept.log"
    runs = Runs(folder, share=["results"])

    done = runs.run(FULL_PATHS.format(names=(str(folder), str(tmp_path / "beside"), str(kept))))

    after = state_of(folder)
    assert kept.read_text() == "5more"
    assert {path for path in after if after[path] != before.get(path)} == {str(kept)}
    assert set(before) == set(after)
    assert done.pop("there already").startswith("FileExistsError")
    if mode == "mounts":
        assert not any(done.values())
        return
    refused = {name: words for name, words in done.items() if words}
    assert set(done) - set(refused) == {"its own link", "by the process", "shared", "relative", "variable"}
    own = [words for name, words in refused.items() if not name.startswith("by a link")]
    assert all(words.startswith("PermissionError [Errno 13] kept as it is by samebits: ") for words in own)
    assert refused["append"].endswith(f"--share PATH: {str(folder / 'train.log')!r}")


LISTED = """
import glob, pathlib
folder = {folder!r}
walked = [len(names) for _, _, names in os.walk(folder)]
python = list(pathlib.Path(folder).rglob("*.py"))
plain = glob.glob(folder + "/**", recursive=True)
print(json.dumps([sum(walked), len(python), len(plain), os.path.isdir(folder + "/.samebits")]))
"""


@pytest.mark.parametrize("isolation", ["copy", "none"])
def test_runs_do_not_come_upon_each_other_in_a_listing(folder: Path, isolation: Isolation, mode: str) -> None:
    """Of the folder by its full path: every run finds what is the user's, and nothing that another run has left."""
    write(folder, {"train.py": "", "data/1.py": "", ".samebits/.gitignore": "*"})
    runs = Runs(folder, isolation=isolation)

    (folder.parent / "other name").symlink_to(folder)

    names = [str(folder), str(folder.parent / "other name")]
    found = [runs.run(LISTED.format(folder=name)) for name in names for _ in range(2)]

    is_seen = mode == "no mounts" or isolation == "none"
    assert found == [[2 + is_seen, 2, 4, is_seen]] * 4


def test_what_has_no_room_is_not_copied(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Without mounts all of a folder is copied once: before that, the disk is asked."""
    monkeypatch.setattr(trees.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    write(folder, {"large": "content of large"})
    if mode == "mounts":
        assert Runs(folder).run("print(os.stat('large').st_size)") == 16
    else:
        with pytest.raises(StorageError, match="16 bytes are more than the disk has left"):
            Runs(folder)


def test_copying_much_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """What is copied once, before that begins, and what every run gets; a small folder needs no word."""
    write(folder, {"large": "content of large", "larger": "content of larger"})
    told: list[str] = []
    home = folder / ".samebits" / "20260131-120000-1"
    home.mkdir(parents=True)
    Workspace(home, announce=told.append).close()
    assert told == []

    monkeypatch.setattr(workspace, "LARGE_BYTES", 10)
    for module in (trees, workspace):
        monkeypatch.setattr(module, "MOST_BYTES", 20)
    Workspace(home, announce=told.append).close()

    share = "leave data where it is with --share PATH"
    assert told == (
        [f"note: every run gets a copy of 16 bytes, and links to 1 file; {share}"]
        if mode == "mounts"
        else [f"note: copying the folder, 33 bytes; {share}", f"note: every run gets a copy of 20 bytes; {share}"]
    )


def test_folders_of_many_entries_are_shown_as_they_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """They are folders to whoever walks through them; the copy takes no time for them."""
    monkeypatch.setattr(trees, "MOST_ENTRIES", 10)
    write(folder, {"a/x": "1", "b/x": "1", "c/d/x": "1"} | {f"c/d/e/{n}": "2" for n in range(20)})
    runs = Runs(folder)
    code = "print(json.dumps(sum(len(names) for _, _, names in os.walk('.'))))"

    assert runs.run(code) == 23
    assert len(runs.space.survey.whole) == (1 if mode == "mounts" else 0)


def test_what_is_shared_in_a_large_folder_can_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is shown as it is, to be read; this path in it was named."""
    monkeypatch.setattr(trees, "MOST_ENTRIES", 10)
    write(folder, {"data/out/x": "1"} | {f"data/{n}": "2" for n in range(20)})
    Runs(folder, share=["data/out"]).run("open('data/out/x', 'a').write('3')")

    assert (folder / "data/out/x").read_text() == "13"


def test_what_changes_while_runs_read_it_is_known(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """A file too large to be copied, and one in a folder of too many; without mounts, all were copied."""
    monkeypatch.setattr(trees, "MOST_ENTRIES", 10)
    monkeypatch.setattr(trees, "MOST_BYTES", 3)
    write(folder, {"small": "1", "large": "1234"} | {f"data/{n}": "2" for n in range(20)})
    space = Runs(folder).space
    told = []
    for name in ("small", "data/7", "large"):
        time.sleep(0.02)
        (folder / name).write_text("another")
        told.append(space.changed_meanwhile())

    assert told == ([None, f"{folder}/data/7", f"{folder}/large"] if mode == "mounts" else [None] * 3)


def test_environments_and_what_is_shared_stay_where_they_are(folder: Path) -> None:
    """A virtual environment knows its own path, and is only read; what somebody shares, runs may write to."""
    write(folder, {"v/pyvenv.cfg": "", "v/bin/x": "1", "data/y": "2", "logs.txt": "3"})
    runs = Runs(folder, share=["data", "logs.txt"])
    code = (
        "open('data/z', 'w').write('4'); open('logs.txt', 'a').write('5')\n"
        "try:\n    open('v/bin/x', 'w')\nexcept OSError:\n    os.remove('data/y')\n"
        "print(json.dumps([os.stat('v/bin/x').st_ino, os.listdir('v')]))"
    )
    inode, names = runs.run(code)

    # What runs make in what is shared is theirs all the same.
    assert runs.made == {f"{folder}/data/z", f"{folder}/logs.txt"}
    assert (inode, sorted(names)) == ((folder / "v/bin/x").stat().st_ino, ["bin", "pyvenv.cfg"])
    assert ((folder / "data/z").read_text(), (folder / "logs.txt").read_text()) == ("4", "35")
    assert (folder / "v/bin/x").read_text() == "1"
    assert not (folder / "data/y").exists()


def test_a_file_that_vanishes_while_the_folder_is_copied_is_not_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program works there, too: an editor, a training that removes its old checkpoints."""
    write(folder, {"a": "1", "b": "2"})
    can_clone = trees._can_clone

    def after_listing(source: str, target: str) -> bool:
        (folder / "b").unlink(missing_ok=True)
        return can_clone(source, target)

    monkeypatch.setattr(trees, "_can_clone", after_listing)
    runs = Runs(folder)

    assert runs.run("print(json.dumps(os.listdir()))") == ["a"]
    assert runs.space.survey.lost == []


def test_the_root_folder_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container without a working folder: that is said, and without copies runs begin there."""
    write(tmp_path, {"copies/x": "", "runs/x": ""})
    monkeypatch.chdir("/")

    with pytest.raises(StorageError, match="/ is not a folder that can be copied"):
        Workspace(tmp_path / "copies", "copy")
    space = Workspace(tmp_path / "runs", "none")
    assert space.folder == "/"
    assert not str(space.temporary).startswith(str(tmp_path))


def test_what_is_shared_has_to_be_there(folder: Path) -> None:
    """Its name is in the error."""
    with pytest.raises(StorageError, match=r"--share .*/dta: there is no such file"):
        Workspace(folder, share=["dta"])


def test_odd_things_are_left_out_and_said(folder: Path) -> None:
    """Sockets and pipes; links lead where they led, dangling and circular ones, too; times and modes stay."""
    write(folder, {"a/b.txt": "1"})
    write(folder.parent, {"beside/y": "3"})
    os.utime(folder / "a/b.txt", ns=(1, 2))
    (folder / "a/b.txt").chmod(0o750)
    links = {"in": "a/b.txt", "full": str(folder / "a"), "out": "../beside/y", "none": "nowhere", "round": "round"}
    for name, to in links.items():
        (folder / name).symlink_to(to)
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as own:
        own.bind("s")  # relative: such names are short
        runs = Runs(folder)
    code = (
        "open('full/b.txt', 'a').write('2')\n"
        "s = os.stat('a/b.txt')\n"
        "print(json.dumps([sorted(os.listdir()), open('in').read(), open('out').read(), oct(s.st_mode)]))"
    )
    names, inside, outside, mode_ = runs.run(code)

    assert names == ["a", "full", "in", "none", "out", "round"]
    assert (inside, outside, mode_[-3:]) == ("12", "3", "750")
    assert (folder / "a/b.txt").read_text() == "1"
    assert {Path(one.partition(": ")[0]).name for one in runs.space.survey.lost} == {"s", "pipe"}


def test_a_run_begins_in_what_another_one_left(folder: Path) -> None:
    """All of it, or only some paths; `{run}` with it; and no later run changes what was kept."""
    write(folder, {"a": "1", "gone": "2"})
    runs = Runs(folder)
    runs.run(
        "import sys\nopen('a', 'w').write('9'); open('b', 'w').write('8'); os.remove('gone')\n"
        "open(sys.argv[1] + '/c', 'w').write('7')",
        keep=True,
        words=["{run}"],
    )
    code = (
        "import sys\n"
        "print(json.dumps([sorted(os.listdir()), open('a').read(), os.listdir(sys.argv[1])]))\n"
        "open('a', 'a').write('more')"
    )

    found = [runs.run(code, spec=RunSpec(begins="left"), words=["{run}"]) for _ in range(2)]
    some = runs.run(code, spec=RunSpec(begins="left", brought=(str(folder / "b"),)), words=["{run}"])
    none = runs.run(code, words=["{run}"])
    assert found == [[["a", "b"], "9", ["c"]]] * 2
    assert some[:2] == [["a", "b", "gone"], "1"]
    assert none == [["a", "gone"], "1", []]
    assert runs.space.left_by == 1


def test_what_a_run_has_made_is_found_whoever_wrote_it(folder: Path, mode: str) -> None:
    """By another program or in C, where Python hears nothing of it; what it has only read is not among it."""
    write(folder, {"read": "1", "changed": "2"})
    runs = Runs(folder)
    runs.run(
        "import sys\nopen('read').read()\n"
        "os.system(f'mkdir d; echo 3 > d/new; echo 4 >> changed; echo 5 > {sys.argv[1]}/own')",
        words=["{run}"],
    )

    assert runs.made == {f"{folder}/d/new", f"{folder}/changed", "{run}/own"}


# Every way in which a script asks for what it writes later; the others are harmless.
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
tried(lambda: os.makedirs("kept"))  # made kept
os.listdir("listed")  # listed listed
open("listed/x", "w").close()
os.path.exists("never")
open("before").read()
open("changed").read()  # read changed
open("changed", "a").write("1")
tried(lambda: open("only", "x"))  # made only
sqlite3.connect("db").execute("create table if not exists t (x)")  # read db
"""


def test_what_is_asked_for_and_written_later_is_noted_with_its_line(folder: Path) -> None:
    """Read, listed, asked for or made; not what is written first, only read, or only asked for."""
    write(folder, {"ways.py": WAYS, "before": "0", "changed": "0", "listed/y": ""})
    runs = Runs(folder)
    runs.run("import runpy; runpy.run_path('ways.py')")

    notes = [note for note in read_notes(runs.home / "1-run", Carried) if note.wrote is not None]
    marks = {
        (*line.partition("# ")[2].split(), number)
        for number, line in enumerate(WAYS.splitlines(), start=1)
        if "  # " in line
    }
    assert {(note.how, Path(note.path).name, note.asked.line) for note in notes} == marks
    assert {note.asked.path for note in notes} == {str(folder / "ways.py")}


def test_what_a_script_asks_of_its_environment_is_noted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of variables without values, and texts, such as code; not data, what it writes, or all variables."""
    code = (
        "import os\nos.environ.get('LR'), os.getenv('NONE'), {**os.environ}\n"
        "exec(open('c.py').read()); open('data', 'rb').read(); open('own', 'w').write('1'); open('own').read()"
    )
    write(folder, {"it.py": code, "c.py": "lr = 1", "data": "\0"})
    monkeypatch.setenv("LR", "0.123")
    runs = Runs(folder)
    runs.run("import runpy; runpy.run_path('it.py')")
    run = runs.home / "1-run"

    assert {note.name for note in read_notes(run, Variable)} == {"LR", "NONE"}
    assert [note.texts for note in read_notes(run, Files)] == [(f"{folder}/it.py", f"{folder}/c.py")]
    assert not any("0.123" in path.read_text() for path in run.glob("journal*"))


def test_what_no_copy_keeps_apart_is_noted(folder: Path) -> None:
    """Ports and files elsewhere; not temporary ones, ports that the system chooses, or what lies in the folder."""
    code = (
        "import socket, tempfile\n"
        "for port in (0, 39517):\n    s = socket.socket(); s.bind(('127.0.0.1', port))\n"
        "tempfile.NamedTemporaryFile().write(b'1'); open('own', 'w').write('1')\n"
        f"open({str(folder.parent / 'log')!r}, 'a').write('1')"
    )
    runs = Runs(folder)
    runs.run(code)

    assert {note.what for note in read_notes(runs.home / "1-run", Reached)} == {
        *("port 39517", f"file {folder.parent / 'log'}"),
    }


def test_what_a_killed_command_left_is_taken_away_by_the_next(folder: Path) -> None:
    """Copies and temporary files; recordings stay, and so does what a command that lives is working on."""
    runs = Runs(folder)
    (runs.home / "work-1/copy").mkdir(parents=True)
    (runs.home / "1-run").mkdir()
    busy = runs.home.with_name("20260131-120000-2")
    (busy / "work-1").mkdir(parents=True)
    with busy_folder(busy):
        clear_others(runs.home.parent)

    assert sorted(path.name for path in runs.home.iterdir()) == ["1-run"]
    assert (busy / "work-1").exists()
    clear(busy)
    assert not (busy / "work-1").exists()


def test_sizes_are_told_as_one_would() -> None:
    """Three digits or so."""
    assert [shown_bytes(size) for size in (0, 999, 1_000, 12_345_678, 12_300_000_000)] == [
        *("0 bytes", "999 bytes", "1 kB", "12.3 MB", "12.3 GB"),
    ]
