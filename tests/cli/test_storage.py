"""Run folders: where they cannot be written, whom that may disturb, and which of them are dropped."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from samebits.runfolder.folder import RunFolder
from tests.cli.typed import typed
from tests.launch.conftest import PYTHON, TRAIN, only_run, plain, samebits, write
from tests.running import busy_folder

FAILURE = {"run": 125, "check": 2}
each_command = pytest.mark.parametrize("command", FAILURE)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with next to no room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@each_command
@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("file", "cannot write --out file: File exists"),
        ("file/below", "cannot write --out file/below: Not a directory"),
        ("full", "--out full is not empty"),
        ("/proc/nowhere", "cannot write --out /proc/nowhere: No such file or directory"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused(command: str, out: str, message: str, tmp_path: Path) -> None:
    """Before anything runs, and without touching what lies there."""
    write(tmp_path, {"it.py": "open('trace', 'w')", "file": "mine", "full/mine": "mine"})

    done = typed(command, "--out", out, "it.py", cwd=tmp_path)

    assert (done.status, done.out) == (FAILURE[command], "")
    assert done.err.startswith(f"error: {message}\n\nhint: ")
    assert (tmp_path / "full" / "mine").read_text() == (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "trace").exists()


@each_command
def test_a_file_called_samebits_is_left_alone(command: str, tmp_path: Path) -> None:
    """`.samebits` may be somebody's file."""
    write(tmp_path, {"it.py": "", ".samebits": "mine"})

    done = typed(command, "it.py", cwd=tmp_path)

    assert done.status == FAILURE[command]
    assert (
        done.err == f"error: cannot write {tmp_path}/.samebits: File exists\n\nhint: choose another place with --out\n"
    )


def test_a_link_to_nowhere_is_told(tmp_path: Path) -> None:
    """`.samebits` may point to a disk that is not there today."""
    write(tmp_path, {"it.py": ""})
    (tmp_path / ".samebits").symlink_to("/nowhere")

    done = typed("check", "it.py", cwd=tmp_path)

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: .samebits is a link to /nowhere, which does not exist\n\nhint: make that folder")


@each_command
def test_a_full_disk_is_an_error_before_anything_runs(command: str, small_disk: Path) -> None:
    """There is no room for the run folder itself."""
    write(small_disk, {"it.py": "open('/tmp/trace', 'w')"})
    _fill(small_disk)

    done = typed(command, "it.py", cwd=small_disk)

    assert done.status == FAILURE[command]
    assert "No space left on device\n\nhint: choose another place with --out" in done.err
    assert "Traceback" not in done.err


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


FILLS = """
import os
try:
    with open(os.environ["DISK"] + "/filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
except OSError:
    print("full")
"""


def test_a_disk_that_fills_up_does_not_disturb_the_command(tmp_path: Path, small_disk: Path) -> None:
    """Under `run` its output and status are its own, and what was lost is said; `check` cannot decide."""
    write(tmp_path, {"it.py": f"{FILLS}raise SystemExit(3 * (len(os.sys.argv) - 1))"})
    env = {"DISK": str(small_disk)}

    run = samebits("run", "--out", "disk/run", "it.py", "x", cwd=tmp_path, env=env)
    (small_disk / "filler").unlink()
    check = samebits("check", "--out", "disk/check", "it.py", cwd=tmp_path, env=env)

    assert (run.status, run.out) == (3, "full\n")
    assert f"samebits: cannot write {small_disk}/run/manifest.json: No space left on device\n" in run.err
    assert (check.status, check.out) == (2, "")
    assert check.err.startswith(f"error: cannot write {small_disk}/check/1-control/manifest.json: No space left")
    assert "Traceback" not in run.err + check.err


LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"


def test_a_recording_that_cannot_grow_is_no_verdict(tmp_path: Path) -> None:
    """Where only the recording fails, the command goes on, and `check` says what failed instead of judging the rest."""
    write(tmp_path, {"it.py": LIMITED + TRAIN + "print('trained')"})

    run = samebits("run", "it.py", cwd=tmp_path)
    check = json.loads(samebits("check", "--format", "json", "it.py", cwd=tmp_path).out)

    assert (run.status, run.out) == (0, "trained\n")
    assert run.err.startswith("samebits: cannot write the recording ")
    assert check["error"]["kind"] == "storage"


def test_a_command_that_deletes_its_run_folder_keeps_its_status(tmp_path: Path) -> None:
    """`git clean` in a script is none of our business."""
    write(tmp_path, {"it.py": "import shutil; shutil.rmtree('.samebits'); raise SystemExit(5)"})

    run = samebits("run", "it.py", cwd=tmp_path)
    check = samebits("check", "it.py", cwd=tmp_path)

    assert (run.status, run.out) == (5, "")
    assert "manifest.json: No such file or directory" in run.err
    assert (check.status, check.out) == (2, "")
    assert "Traceback" not in run.err + check.err


def test_an_answer_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """Not a verdict of 1; but a reader that left early changes nothing."""
    write(tmp_path, {"it.py": ""})

    full = plain(["sh", "-c", 'exec "$@" > /dev/full', "-", *_samebits("check", "--dry-run", "it.py")], tmp_path)
    left = plain(
        ["bash", "-c", '"$@" | true; echo ${PIPESTATUS[0]}', "-", *_samebits("check", "--dry-run", "it.py")], tmp_path
    )

    assert (full.status, full.err) == (2, "error: cannot write the answer: No space left on device\n")
    assert (left.out, left.err) == ("0\n", "")


@pytest.mark.parametrize("words", [("verify",), ("check", "nowhere.py"), ("clear",)])
def test_an_error_that_nobody_reads_keeps_its_status(words: tuple[str, ...], tmp_path: Path) -> None:
    """1 would be a verdict."""
    assert plain(["sh", "-c", 'exec "$@" 2> /dev/full', "-", *_samebits(*words)], tmp_path).status == 2


def _samebits(*words: str) -> list[str]:
    return [str(Path(PYTHON).with_name("samebits")), *words]


def test_only_the_newest_folders_stay(tmp_path: Path) -> None:
    """`keep` counts checks and runs; busy ones, what has a name of its own, and git are left in peace.

    What a process that died was busy with may go, whatever its number was, and wherever.
    """
    write(tmp_path, {"it.py": "", "pyproject.toml": "[tool.samebits]\nkeep = 3\n"})
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    home = tmp_path / ".samebits"
    for number in range(1, 6):
        folder = home / f"2020010{number}-000000-1"
        write(folder, {".busy": "1 elsewhere"} if number == 2 else {"1-a/file": ""})
        os.utime(folder, (number * 86_400.0,) * 2)
    write(home / "mine", {"file": ""})

    with busy_folder(home / "20200101-000000-1"), busy_folder(home / "20200103-000000-1"):
        samebits("run", "--no-pin", "it.py", cwd=tmp_path)
    status = subprocess.run(["git", "status", "--short"], cwd=tmp_path, capture_output=True, text=True)

    left = sorted(path.name for path in home.iterdir() if path.is_dir())
    assert [name.partition("-")[0] for name in left[:4]] == ["20200101", "20200103", "20200104", "20200105"]
    assert (len(left), left[-1]) == (6, "mine")
    assert (home / ".gitignore").read_text() == "*\n"
    assert status.stdout == "?? it.py\n?? pyproject.toml\n"


def test_two_at_once_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    """Each has a folder of its own, also when both begin in the same second and only one may stay."""
    text = "import os, time; print(os.environ['SAMEBITS_PLAN'], flush=True); time.sleep(1)"
    write(tmp_path, {"it.py": text, "pyproject.toml": "[tool.samebits]\nkeep = 1\n"})

    pair = [subprocess.Popen(_samebits("run", "it.py"), cwd=tmp_path, stdout=subprocess.PIPE) for _ in range(2)]
    plans = [Path(process.communicate()[0].decode().strip()) for process in pair]

    assert [process.returncode for process in pair] == [0, 0]
    assert len(set(plans)) == 2
    assert [RunFolder(plan.parent).manifest()["status"] for plan in plans] == ["ended", "ended"]


def test_newer_recordings_are_refused(tmp_path: Path) -> None:
    """The error says which schema, and what to do."""
    write(tmp_path, {"it.py": ""})
    samebits("run", "--no-pin", "it.py", cwd=tmp_path)
    manifest = only_run(tmp_path) / "manifest.json"
    manifest.write_text(manifest.read_text().replace("samebits.run/1", "samebits.run/99"))

    done = typed("diff", str(only_run(tmp_path)), str(only_run(tmp_path)), cwd=tmp_path)

    assert done.status == 2
    assert done.err.startswith(f"error: {only_run(tmp_path)} has schema 99, and this samebits reads schemas up to 1\n")
    assert "hint: upgrade samebits" in done.err


def test_clean_removes_the_oldest_and_says_how_much(tmp_path: Path) -> None:
    """Not what is busy, or was put there by name; with --dry-run nothing at all."""
    for number in range(1, 6):
        folder = tmp_path / ".samebits" / f"2020010{number}-000000-1"
        write(folder, {"1-control/big": "x" * 500_000})
        os.utime(folder, (number * 86_400.0,) * 2)
    write(tmp_path / ".samebits" / "mine", {"file": ""})
    home = tmp_path / ".samebits"
    with busy_folder(home / "20200102-000000-1"):
        dry = typed("clean", "--keep", "2", "--dry-run", cwd=tmp_path)
        before = len(list(home.iterdir()))
        done = typed("clean", "--keep", "2", cwd=tmp_path)
        young = typed("clean", "--older-than", "100000", cwd=tmp_path)

    assert dry.out.startswith("2 folders would be removed, 1.0 MiB would be freed\n.samebits/20200101-000000-1\n")
    assert before == 6
    assert done.out.splitlines()[0] == "2 folders removed, 1.0 MiB freed"
    assert young.out == "0 folders removed, 0.0 MiB freed\n"
    assert sorted(path.name for path in home.iterdir()) == [
        *(f"2020010{number}-000000-1" for number in (2, 4, 5)),
        "mine",
    ]


def test_clean_without_anything_to_clean_says_so(tmp_path: Path) -> None:
    """And a number below zero is refused."""
    nothing, wrong = typed("clean", cwd=tmp_path), typed("clean", "--keep", "-1", cwd=tmp_path)

    assert (nothing.status, wrong.status) == (2, 2)
    assert nothing.err.startswith("error: there is no .samebits/ here\n")
    assert wrong.err.startswith("error: --keep must be at least 0, got -1\n")
