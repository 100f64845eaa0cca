"""The lockfile: read whole or not at all, whatever happened to it; and written by one process at a time."""

import errno
import fcntl
import os
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.base.errors import LockfileError, NewerLockfileError, StorageError
from samebits.locking.entries import LockedTensors
from samebits.locking.lockfile import Lockfile, update
from samebits.locking.making import with_locked_entry
from samebits.locking.verdict import EntryLocked
from samebits.runfolder.environment import Environment
from tests.locking.entries import ELSEWHERE, HERE, locked, lockfile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "samebits.lock"
    path.write_text(lockfile().text())
    return path


def test_what_is_written_is_read(path: Path) -> None:
    """All of it, and written again it is the same text."""
    found = Lockfile.load(path)

    assert found == lockfile()
    assert found.text() == path.read_text()


def test_line_ends_of_another_system_do_not_count(path: Path) -> None:
    """Git turns them around when it checks out on Windows."""
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

    assert Lockfile.load(path) == lockfile()


def test_what_is_cut_off_is_never_a_shorter_lockfile(path: Path) -> None:
    """Between two tables, too: it is refused, or nothing is lost but what is known of the last environment."""
    whole = path.read_bytes()
    last = whole.rindex(b"[environment.")
    rng = random.Random(0)
    head, *between = [at.start() + 1 for at in re.finditer(b"\n\n", whole)]
    for length in [0, 1, *between, *(rng.randrange(head + 2, last) for _ in range(200))]:
        path.write_bytes(whole[:length])
        with pytest.raises(LockfileError, match=r"is empty|is cut off|is not a samebits lockfile|is damaged"):
            Lockfile.load(path)
    path.write_bytes(whole[:head])
    assert Lockfile.load(path) == Lockfile()
    path.write_bytes(whole[: whole.index(b"\n", last + 40) + 1])
    assert (Lockfile.load(path).runs, Lockfile.load(path).tests) == (lockfile().runs, lockfile().tests)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('repeats = "checked"', 'repeats = "perhaps"', "'perhaps' is no"),
        ("[run.train]", "[run.other]", "no RunEntry"),
        ("seed = 7", "seed = true", "True is not a valid int"),
        ("steps = 9", 'steps = "9"', "'9' is not a valid int"),
        ('at = "8"', 'at = "eight"', "is not a step"),
        ("pins = [", "pin = [", r"run\.train\.pin means nothing here"),
        (".artifacts]", ".artifact]", r"\.artifact means nothing here"),
        ("[environment.cpu-7", "[environment.cpu-8", "the environment cpu-7e748606 is missing"),
        ("seed = 7", "seed = 7\nseed = 7", "Cannot overwrite a value"),
    ],
)
def test_what_has_another_shape_is_refused(path: Path, before: str, after: str, why: str) -> None:
    """A type, a name, a key that nobody knows; the message says what, and how to get it back."""
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))

    with pytest.raises(LockfileError, match=rf"was edited.*{why}") as caught:
        Lockfile.load(path)
    assert "git checkout" in caught.value.hint


def test_conflict_markers_are_named(path: Path) -> None:
    """With their line; a test whose name looks like one is none."""
    lines = path.read_text().split("\n")
    path.write_text("\n".join([*lines[:5], "<<<<<<< HEAD", *lines[5:9], "=======", ">>>>>>> branch", *lines[9:]]))
    with pytest.raises(LockfileError, match="in the middle of a merge: line 6 is '<<<<<<< HEAD'"):
        Lockfile.load(path)

    named = lockfile().with_tensors("=======", HERE, LockedTensors("xxh3, sums 2", {"=======": "ab"}))
    path.write_text(named.text())
    assert Lockfile.load(path) == named


def test_two_branches_are_merged_line_by_line(path: Path) -> None:
    """Tables in another order, as git leaves them where each side added one, are as good as sorted ones."""
    head, *tables = path.read_text().rstrip("\n").split("\n\n")
    path.write_text("\n\n".join([head, *reversed(tables)]))

    assert Lockfile.load(path) == lockfile()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b'schema = "samebits.lockfile/2"\nnew = 1.5\n', "has schema 2, and this samebits reads schemas up to 1"),
        (b"[package]\nname = 'other'\n", "is not a samebits lockfile"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"\x89PNG", "byte 0 is not UTF-8"),
        (b"{}", "is cut off, damaged, or was edited"),
        (b"\xef\xbb\xbfa = 1\n", "is cut off, damaged, or was edited"),
    ],
)
def test_other_files_are_refused(path: Path, content: bytes, why: str) -> None:
    """Each with its own reason."""
    path.write_bytes(content)

    with pytest.raises(LockfileError, match=why) as caught:
        Lockfile.load(path)
    assert isinstance(caught.value, NewerLockfileError) == ("schema 2" in why)


def test_what_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LockfileError, match="there is no lockfile") as caught:
        Lockfile.load(tmp_path / "samebits.lock")

    assert caught.value.hint == "first: samebits lock train.py"


def test_a_file_that_cannot_be_used_is_left_as_it_is(path: Path) -> None:
    """Nothing is lost: not by reading it, and not by writing to it."""
    path.write_text(path.read_text().replace("seed = 7", "seeds = 7"))
    before = path.read_bytes()

    with pytest.raises(LockfileError, match="was edited"):
        update(path, lambda now: now.without_test("x"))
    assert path.read_bytes() == before


def test_environments_without_entries_go(path: Path) -> None:
    """And those with entries stay."""
    entry = lockfile().entry("train")
    kept = {home: one for home, one in entry.on.items() if home == HERE.name}
    after = update(path, lambda now: replace(now, runs={**now.runs, "train": replace(entry, on=kept)}))

    assert set(after.environments) == {HERE.name}
    assert Lockfile.load(path) == after


def test_what_changes_no_bits_changes_no_file(path: Path) -> None:
    """The same digests on a machine with more cores, or an empty change."""
    before = path.stat()
    other = replace(HERE, cores="64", system="Linux 9")
    update(path, lambda now: now.with_run("train", now.entry("train"), other, locked()))
    update(path, lambda now: now)

    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino


def test_data_are_the_same_however_their_path_is_typed() -> None:
    """What other environments gave with them stays; what was made with other data goes."""
    found = EntryLocked("train", "", Path("samebits.lock"), "locked", HERE, locked=locked("a" * 16))
    entry = replace(lockfile().entry("train"), data={"./data//x.npz": "dd"})
    other = replace(entry, data={"data/x.npz": "ee"})

    assert with_locked_entry(lockfile(), found, entry).entry("train").on.keys() == {HERE.name, ELSEWHERE.name}
    assert with_locked_entry(lockfile(), found, other).entry("train").on.keys() == {HERE.name}


def test_environments_are_told_apart_by_what_changes_bits() -> None:
    """Threads do, cores do not; what one of the two does not know is no difference. They are named by their device."""
    found = lockfile()
    accelerated = Environment(device="NVIDIA H100 80GB HBM3")

    assert HERE.is_like(replace(HERE, cores="64"))
    assert HERE.is_like(replace(HERE, numpy="2.4.0"))
    assert not HERE.is_like(ELSEWHERE)
    assert HERE.name != ELSEWHERE.name
    assert HERE.name == replace(HERE, cores="64").name
    assert HERE.name.startswith("cpu-")
    assert accelerated.name.startswith("NVIDIA-H100-80GB-HBM3-")
    assert found.matching_name(replace(HERE, threads="3"), found.environments) is None
    assert found.matching_name(ELSEWHERE, [HERE.name]) is None


def test_an_environment_that_knows_more_is_not_shared(path: Path) -> None:
    """One script without NumPy and one with it: the table of the first says nothing of NumPy, and must not be used."""
    more = replace(HERE, numpy="2.4.0")
    found = lockfile().with_run("third", lockfile().entry("a longer name"), more, locked())

    assert found.environments[more.name].numpy == "2.4.0"
    assert HERE.name in found.environments
    # Locked again with NumPy, an entry has one place for the two.
    assert set(
        found.with_run("a longer name", found.entry("a longer name"), more, locked()).entry("a longer name").on
    ) == {more.name}


WRITER = """
import sys
from pathlib import Path
from samebits.locking.entries import LockedTensors
from samebits.locking.lockfile import update
from tests.locking.entries import HERE
path, who = Path(sys.argv[1]), sys.argv[2]
for number in range(25):
    update(path, lambda now: now.with_tensors(f"{who}-{number}", HERE, LockedTensors("x", {"a": "b"})))
"""


def test_two_writers_at_once_both_survive(path: Path) -> None:
    """Four processes with 25 changes each: every one is there, nothing else is lost, and nothing is left behind."""
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, who], cwd=Path(__file__).parents[2]) for who in "abcd"]
    assert [writer.wait(100) for writer in writers] == [0] * 4

    found = Lockfile.load(path)
    assert len(found.tests) == 101
    assert found.runs == lockfile().runs
    assert [child.name for child in path.parent.iterdir()] == ["samebits.lock"]


def test_a_writer_that_was_killed_blocks_nobody(path: Path) -> None:
    """It left its mark, and held it; the system takes the lock away with the process."""
    held = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    beside = path.with_name(".samebits.lock.writing")
    command = [sys.executable, "-c", held, str(beside)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        other.kill()
    update(path, lambda now: now.without_test("tests/test_a.py::test_b[x]"))

    assert Lockfile.load(path).tests == {}


def test_a_writer_that_goes_on_for_long_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds the mark is waited for, and not for ever."""
    monkeypatch.setattr("samebits.locking.lockfile.LONGEST_WAIT_SECONDS", 0.05)
    with path.with_name(".samebits.lock.writing").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match=r"another process has been writing next to .* for 0.05 s"):
            update(path, lambda now: now)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write"):
        update(tmp_path / "nowhere" / "samebits.lock", lambda now: now)


def test_no_room_for_a_lockfile_names_the_option_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no recording, which would go elsewhere with --out."""

    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = sorted(path.parent.iterdir())
    monkeypatch.setattr(Path, "replace", is_full)
    with pytest.raises(StorageError, match="No space left on device") as caught:
        update(path, lambda now: now.without_test("tests/test_a.py::test_b[x]"))
    assert caught.value.hint == "choose another place with --lockfile"
    assert not [one for one in path.parent.iterdir() if one not in before and str(os.getpid()) in one.name]


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    """Several projects may share one file."""
    link = tmp_path / "link.lock"
    link.symlink_to(path)
    update(link, lambda now: now.without_test("tests/test_a.py::test_b[x]"))

    assert link.is_symlink()
    assert Lockfile.load(path).tests == {}


def test_an_environment_with_unknown_fields_takes_one_place(path: Path) -> None:
    """It is like several that differ from one another: what was locked in the others stays."""
    older, newer, unknown = (replace(HERE, numpy=version) for version in ("1.26.4", "2.4.0", ""))
    entry = replace(lockfile().entry("train"), on={})
    found = Lockfile()
    for environment in (older, newer, unknown):
        found = found.with_run("train", found.runs.get("train", entry), environment, locked())

    assert len(found.entry("train").on) == 2
    assert unknown.name in found.entry("train").on
