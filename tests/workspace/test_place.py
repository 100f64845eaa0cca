"""What a path is called in a run, and in the user's own folder."""

from dataclasses import replace
from pathlib import Path

from samebits.workspace.place import Place, asks_for_run_folder, read_place
from tests.launch.conftest import PYTHON, only_run, under_run

ROOT = "/tmp/s/work-1/root"
LED = Place("/home/me/p", "/runs/files", f"{ROOT}/home/me/p", ROOT, "/home/me/p/.samebits/1", "", "/tmp/s/tmp-1")
MOUNTED = Place("/home/me/p", "/tmp/s/files", "/x/copy", "", "/home/me/p/.samebits/1", "/tmp/s/home", "/tmp/s/tmp")


def test_the_word_run_is_a_folder_of_the_runs_own(tmp_path: Path) -> None:
    """It is there when the command starts, anywhere in a word; other braces stay as they are."""
    code = "import os, sys; print(*sys.argv[1:]); open(os.path.join(sys.argv[1], 'a'), 'w')"
    seen = under_run([PYTHON, "-c", code, "{run}", "--out={run}/last.pt", "{}", "{x}", "${run}", "{{run}}"], tmp_path)

    files = only_run(tmp_path) / "files"
    assert seen.out.split() == [str(files), f"--out={files}/last.pt", "{}", "{x}", "${run}", "{run}"]
    assert [path.name for path in files.iterdir()] == ["a"]
    assert not asks_for_run_folder(["{}", "${run}", "{{run}}"])


def test_without_mounts_paths_into_the_folder_lead_into_the_copy() -> None:
    """Of words, values of options, and variables; what only looks alike does not, nor what is the run's own."""
    words = ["python", "/home/me/p/train.py", "--data=/home/me/p/data", "/home/me/pictures", "p/x", "--out={run}/a"]
    variables = {
        "PYTHONPATH": "/lib:/home/me/p/src",
        "DATA": "/home/me/p/data",
        "HOME": "/home/me",
        "SITE": "me@x:/home/me/p",
    }
    environment = LED.environment(variables)

    there = f"{ROOT}/home/me/p"
    assert LED.words(words) == [
        *("python", f"{there}/train.py", f"--data={there}/data", "/home/me/pictures", "p/x", "--out=/runs/files/a"),
    ]
    assert environment == {
        "PYTHONPATH": f"/lib:{there}/src",
        "DATA": f"{there}/data",
        "HOME": "/home/me",
        "SITE": "me@x:/home/me/p",
        "TMPDIR": "/tmp/s/tmp-1",
    }
    assert {name: LED.user_value(environment[name]) for name in variables} == variables
    assert LED.start == there


def test_with_mounts_paths_stay_as_they_are() -> None:
    """But for temporary files, and the word run."""
    words = ["python", "/home/me/p/train.py", "--out={run}"]

    assert MOUNTED.words(words) == ["python", "/home/me/p/train.py", "--out=/tmp/s/files"]
    assert MOUNTED.environment({"PWD": "/home/me/p"}) == {"PWD": "/home/me/p", "TMPDIR": "/tmp/s/tmp"}
    assert MOUNTED.start == "/home/me/p"


def test_paths_are_told_as_the_users() -> None:
    """Those of the copy, of what stands beside it, of what is only linked, and of the recordings."""
    assert [LED.user_path(path) for path in (f"{ROOT}/home/me/p/a", f"{ROOT}/home/me/data", "/etc")] == [
        *("/home/me/p/a", "/home/me/data", "/etc"),
    ]
    linked = Place(*("/p", "", "/c", "", "/h", "/s/home", ""), {"/s/origin": "/p"})
    assert [linked.user_path(path) for path in ("/s/origin/big", "/s/home/1-control/x", "/s/originals")] == [
        *("/p/big", "/h/1-control/x", "/s/originals"),
    ]
    assert [linked.path_inside(path) for path in ("/h/1-control", "/home")] == ["/s/home/1-control", "/home"]


def test_what_is_shared_lies_at_one_place_only() -> None:
    """Runs write to the user's own path, of which a copy has no more than a place to show it at."""
    shared = replace(MOUNTED, shared=("/home/me/p/out",))

    assert shared.path_outside("/home/me/p/out/last.pt") == "/home/me/p/out/last.pt"
    assert shared.path_outside("/home/me/p/last.pt") == "/x/copy/last.pt"


def test_a_place_survives_its_file(tmp_path: Path) -> None:
    """And what is no place is none, whoever wrote it."""
    MOUNTED.write(tmp_path)
    assert read_place(tmp_path) == MOUNTED

    (tmp_path / "place.json").write_text('{"folder": 3}')
    assert read_place(tmp_path) is None
