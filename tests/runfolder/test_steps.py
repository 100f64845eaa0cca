"""The recording on disk: what was written is read back, whatever happened to the writer."""

import itertools
import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from samebits.base.errors import NewerSchemaError, RecordingError, StorageError
from samebits.comparison.locate import Divergence, first_divergence
from samebits.runfolder.folder import RunFolder, new_home, open_run
from samebits.runfolder.steps import Column, Recording, Writer, file_name


def columns(*digests: int) -> dict[str, Column]:
    return {"loss": Column(("0",), digests[:1]), "param": Column(("w", "b"), digests[1:3])}


def written(folder: Path, rows: list[tuple[int, int, int]], rank: int = 0) -> Recording:
    writer = Writer(folder, rank, digest="sums 1")
    for step, digests in enumerate(rows):
        writer.write(step, "step", columns(*digests))
    writer.close()
    return Recording(writer.path)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Names, digests up to 2**64 - 1, and their order survive."""
    recording = written(tmp_path, [(1, 2, 3), (2**64 - 1, 0, 5)])

    assert len(recording) == recording.steps == 2
    assert (recording.complete, recording.digest) == (True, "sums 1")
    assert recording.columns(1)["loss"].as_dict() == {"0": 2**64 - 1}
    assert recording.columns(1)["param"].as_dict() == {"w": 0, "b": 5}


def test_roots_are_a_chain(tmp_path: Path) -> None:
    """Two recordings have the same root at a step exactly when everything up to it was the same."""
    for name in "ab":
        (tmp_path / name).mkdir()
    a = written(tmp_path / "a", [(1, 1, 1), (2, 2, 2), (3, 3, 3)])
    b = written(tmp_path / "b", [(1, 1, 1), (9, 2, 2), (3, 3, 3)])

    assert a.root(0) == b.root(0)
    assert a.root(1) != b.root(1)
    assert a.root(2) != b.root(2)
    assert a.root(3) is None


def test_the_state_of_generators_explains_and_is_not_compared(tmp_path: Path) -> None:
    """Runs whose generators stand elsewhere, with the same bits, are the same."""
    roots = []
    for name, state in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        writer = Writer(tmp_path / name, 0)
        writer.write(0, "step", {**columns(1, 2, 3), "rng": Column(("python",), [state])})
        writer.close()
        roots.append(Recording(writer.path).root(0))

    assert roots[0] == roots[1]


def test_every_process_of_a_rank_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Nothing is overwritten: a second process of the same rank counts on."""
    first, second, other = (Writer(tmp_path, rank) for rank in (0, 0, 3))

    names = [writer.path.name for writer in (first, second, other)]
    assert names == ["recording.sqlite", "recording.process1.sqlite", "recording.rank3.sqlite"]


WRITE_FOREVER = """
import sys
from pathlib import Path
from samebits.runfolder.steps import Column, Writer
writer = Writer(Path(sys.argv[1]), 0)
step = 0
while True:
    writer.write(step, "step", {"param": Column(("w",), [step])})
    step += 1
"""


@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.35])
def test_a_killed_writer_leaves_a_readable_recording(tmp_path: Path, seconds: float) -> None:
    """SIGKILL at any moment: every row that is there is whole, and the reader says that the end is missing."""
    process = subprocess.Popen([sys.executable, "-c", WRITE_FOREVER, str(tmp_path)])
    path = tmp_path / file_name(0, 0)
    while not path.exists() or path.stat().st_size < 20_000:
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()

    recording = Recording(path)
    assert not recording.complete
    assert recording.steps > 0
    steps = range(recording.steps)
    assert [recording.columns(step)["param"].digests[0] for step in steps] == list(steps)


def test_one_slow_commit_holds_no_row_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stood still for a second while a row was committed: a kill loses none of the slow steps after."""
    clock = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    writer = Writer(tmp_path, 0, digest="sums 1")

    for step in range(3):
        writer.write(step, "step", columns(step, step, step))

    assert Recording(writer.path).steps == 3


@pytest.mark.parametrize(("schema", "hint"), [(99, "upgrade samebits"), (1, "an older samebits made it")])
def test_another_schema_is_refused(tmp_path: Path, schema: int, hint: str) -> None:
    """A recording of tomorrow's samebits, or of yesterday's, is named as such, not misread."""
    recording = written(tmp_path, [(1, 2, 3)])
    with sqlite3.connect(recording.path) as db:
        db.execute("UPDATE meta SET value=? WHERE key='schema'", (str(schema),))

    with pytest.raises(RecordingError, match=f"has schema {schema},") as caught:
        Recording(recording.path)
    assert caught.value.hint.startswith(hint)
    assert isinstance(caught.value, NewerSchemaError) == (schema == 99)


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    """An empty file and a text file are not recordings; the twin above is."""
    for content in (b"", b"hello" * 1000):
        path = tmp_path / "recording.sqlite"
        path.write_bytes(content)

        with pytest.raises(RecordingError, match=r"is not a recording|is damaged: file is not"):
            Recording(path)


def compared_or_refused(whole: Recording, folder: Path) -> tuple[Divergence | None, str]:
    """Where a recording and those in a folder differ, and why that cannot be told."""
    try:
        return first_divergence([whole], RunFolder(folder).recordings()), ""
    except RecordingError as error:
        return None, error.message


def test_a_damaged_recording_accuses_nobody(tmp_path: Path) -> None:
    """Bytes that changed on disk are told as that, and never as a difference between two runs; whole ones compare."""
    luck = random.Random(0)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    rows = [(step, step * 7, step * 9) for step in range(200)]
    whole, other = written(tmp_path / "a", rows), written(tmp_path / "b", rows)
    content, told = other.path.read_bytes(), 0

    for number in range(60):
        damaged = bytearray(content)
        start = luck.randrange(len(content))
        for at in range(start, min(len(content), start + (1, 30, 4096)[number % 3])):
            damaged[at] = luck.randrange(256)
        other.path.write_bytes(damaged[: start if number % 4 == 0 else None])
        place, why = compared_or_refused(whole, tmp_path / "b")
        assert why.startswith(f"{other.path} is damaged: ") or (not why and (place is None or place.stream == "length"))
        told += bool(why)
    other.path.write_bytes(content)

    assert told > 10
    assert first_divergence([whole], [Recording(other.path)]) is None


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """Writing fails like on a full disk (the file may not grow): StorageError, and what was there stays readable."""
    script = (
        "import resource, sys; from pathlib import Path; from samebits.runfolder.steps import Column, Writer\n"
        "from samebits.base.errors import StorageError\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
        "writer = Writer(Path(sys.argv[1]), 0)\n"
        "try:\n"
        "    for step in range(100_000): writer.write(step, 'step', {'param': Column(('w',), [step])})\n"
        "except StorageError as error: print(error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)

    assert "cannot write the recording" in done.stdout
    assert str(tmp_path) in done.stdout
    assert Recording(tmp_path / "recording.sqlite").steps > 0


def test_old_folders_are_dropped_and_busy_ones_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the number to keep, the oldest go; one that a living process writes to stays."""
    monkeypatch.chdir(tmp_path)
    others = list[Path]()
    with new_home(kept=3) as first:
        for _ in range(5):
            with new_home(kept=3) as home:
                others.append(home)
                (home / "manifest.json").touch()
        (first / "manifest.json").touch()

    left = {path.resolve() for path in (tmp_path / ".samebits").iterdir() if path.is_dir()}
    assert first in left
    assert others[-1] in left
    assert len(left) <= 4
    assert (tmp_path / ".samebits" / ".gitignore").read_text() == "*\n"


def test_a_folder_in_which_nothing_is_kept_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that fails before its first run leaves no empty folder, which `samebits report` would take."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match="no room"), new_home() as home:
        raise StorageError("no room")

    assert not home.exists()


def test_a_given_folder_has_to_be_empty(tmp_path: Path) -> None:
    """--out never mixes two runs; an empty or new folder is fine."""
    with new_home(tmp_path / "new" / "deep") as home:
        assert home.is_dir()
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()

    with pytest.raises(StorageError, match="is not empty"), new_home(tmp_path / "used"):
        pass


def test_run_folders_say_what_they_are(tmp_path: Path) -> None:
    """A missing folder, a folder without a manifest, and a manifest of a newer schema each have their own sentence."""
    with pytest.raises(RecordingError, match="there is no run folder"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(RecordingError, match=r"holds no manifest\.json"):
        open_run(tmp_path)
    run = RunFolder(tmp_path / "1-control")
    run.path.mkdir()
    run.write_manifest({"status": "ended"})
    assert open_run(tmp_path) == run
    content = json.loads((run.path / "manifest.json").read_text()) | {"schema": "samebits.run/9"}
    (run.path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(NewerSchemaError):
        open_run(tmp_path).manifest()
