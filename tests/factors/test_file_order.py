"""file-order: sorted when pinned, reversed when varied, and otherwise a listing like any other."""

import glob
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import samebits
from samebits.factors import catalog
from tests.factors.contexts import here, lines, treated, watched

# Every way to list a folder, pinned and varied, is in `stdlib_probe.py`.
NAMES = [f"{name}.txt" for name in random.Random(1).sample(["a", "b", "c", "d", "e", "ü", "z10", "z9"], 8)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).write_text(name)
    return tmp_path


def test_bytes_descriptors_and_the_working_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever names a folder: text, bytes, a path, a file descriptor, nothing at all."""
    monkeypatch.chdir(folder)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with samebits.pinned(factors=["file-order"]):
            found = [os.listdir(), os.listdir("."), os.listdir(folder), os.listdir(path=folder), os.listdir(descriptor)]
            as_bytes = os.listdir(os.fsencode(folder))
            scanned = [[entry.name for entry in os.scandir(what)] for what in (None, ".", folder, descriptor)]
            scanned_bytes = [entry.name for entry in os.scandir(os.fsencode(folder))]
        still_open = os.fstat(descriptor).st_ino == folder.stat().st_ino
    finally:
        os.close(descriptor)

    assert found == [sorted(NAMES)] * 5
    assert scanned == [sorted(NAMES)] * 4
    assert as_bytes == scanned_bytes == sorted(os.fsencode(name) for name in NAMES)
    assert still_open


def test_varied_it_is_neither_what_the_file_system_gives_nor_what_is_pinned(folder: Path) -> None:
    """Turned around in one variant, from the end of the alphabet in the other; all of it in both."""
    given = os.listdir(folder)
    with treated("file-order", "varied", variant=1):
        first = os.listdir(folder)
    with treated("file-order", "varied", variant=2):
        second = [entry.name for entry in os.scandir(folder)]

    assert first == given[::-1]
    assert second == sorted(NAMES, reverse=True)


def test_scandir_gives_real_entries_and_can_be_closed(folder: Path) -> None:
    """As a context manager, as an iterator, closed early, used up."""
    with samebits.pinned(factors=["file-order"]):
        with os.scandir(folder) as entries:
            first = next(entries)
        assert list(entries) == []
        others = os.scandir(folder)
        assert iter(others) is others
        others.close()
        assert list(others) == []
        others.close()
        used_up = os.scandir(folder)
        assert len(list(used_up)) == len(NAMES)
        with pytest.raises(StopIteration):
            next(used_up)

    assert isinstance(first, os.DirEntry)
    assert (first.name, first.path) == ("a.txt", str(folder / "a.txt"))
    assert first.is_file()
    assert not first.is_symlink()
    assert first.stat().st_size == 5


LISTINGS: list[Callable[[Any], Any]] = [
    lambda path: os.listdir(path),
    lambda path: os.scandir(path),
    lambda path: list(Path(path).iterdir()),
]


@pytest.mark.parametrize("call", LISTINGS)
def test_what_cannot_be_listed_fails_as_ever(call: Callable[[Any], Any], folder: Path) -> None:
    """A folder that is missing, a file, something that is no path; at the call, not at the first entry."""
    with samebits.pinned(factors=["file-order"]):
        for wrong, error in (("missing", FileNotFoundError), ("a.txt", NotADirectoryError)):
            with pytest.raises(error, match=wrong):
                call(folder / wrong)
        with pytest.raises(TypeError):
            call(1.5)


def test_a_walk_can_still_be_pruned(folder: Path) -> None:
    """os.walk lets the caller take folders out while it walks; sorted at every level."""
    for name in ("x", "m", "skip"):
        (folder / name / "deep").mkdir(parents=True)
    with samebits.pinned(factors=["file-order"]):
        seen = []
        for path, folders, _ in os.walk(folder):
            seen.append(os.path.relpath(path, folder))
            if "skip" in folders:
                folders.remove("skip")
        upwards = [os.path.relpath(path, folder) for path, _, _ in os.walk(folder, topdown=False)]

    assert seen == [".", "m", "m/deep", "x", "x/deep"]
    assert upwards == ["m/deep", "m", "skip/deep", "skip", "x/deep", "x", "."]


def test_witness_is_the_users_line(folder: Path) -> None:
    """Through glob, pathlib and a comprehension; a file that is opened lists nothing."""
    with watched("file-order") as seen:
        start = here()
        glob.glob(str(folder / "*"))
        list(folder.rglob("*.txt"))
        [name.upper() for name in os.listdir(folder)]
        (folder / "a.txt").read_text()
        os.path.exists(folder)

    assert lines(seen) == [start + 1, start + 2, start + 3]
    # Python 3.10 does not know a function's class, and in 3.13 rglob has left before anything is listed.
    searched = "pathlib.rglob" if sys.version_info < (3, 11) else "pathlib.Path.rglob"
    searched = "pathlib.Path.glob" if sys.version_info >= (3, 13) else searched
    assert [w.what for w in seen] == ["glob.glob", searched, "os.listdir"]


def library(name: str, text: str) -> Any:
    """A function of an installed package, which lists a folder for its caller."""
    scope: dict[str, Any] = {"__name__": name}
    exec(compile(text, os.path.join(os.path.dirname(os.__file__), "site-packages", "x.py"), "exec"), scope)
    return scope


def test_a_listing_is_named_by_what_the_line_called(folder: Path) -> None:
    """Lazily, privately, or by a class of a library: the name is the one in the user's line, without private parts."""
    text = "import os\nclass Images:\n    def __init__(self, path): self.names = os.listdir(path)"
    images = library("vision._datasets.folder", text)["Images"]
    with watched("file-order") as seen:
        next(glob.iglob(str(folder / "*")))
        next(iter(os.walk(folder)))
        next(folder.iterdir())
        images(str(folder))
        os.scandir(folder)
    described = catalog.find("file-order").explanation.format(what=seen[0].what)

    method = "Path." if sys.version_info >= (3, 11) else ""
    of_library = "vision.folder.Images" if sys.version_info >= (3, 11) else "vision.folder"
    assert [w.what for w in seen[:3]] == ["glob.iglob", "os.walk", f"pathlib.{method}iterdir"]
    assert [w.what for w in seen[3:]] == [of_library, "os.scandir"]
    assert described == "glob.iglob() lists in file-system order"


def test_a_class_that_only_shares_the_name_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.14's glob has a scandir of another kind in the same place, and asks os.scandir itself."""

    class Globber:
        @staticmethod
        def scandir(path: str) -> str:
            return f"mine {path}"

    monkeypatch.setattr(glob, "_StringGlobber", Globber, raising=False)
    with samebits.pinned(factors=["file-order"]):
        assert Globber.scandir("x") == "mine x"
