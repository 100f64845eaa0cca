"""Digests of data and artifacts: what counts as theirs, and what lay there before."""

import errno
import os
import time
from pathlib import Path

import pytest

from samebits.base.errors import LockfileError
from samebits.locking.files import digest_of_path, is_written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data" / "inner").mkdir(parents=True)
    (tmp_path / "data" / "inner" / "a.bin").write_bytes(b"a")
    return tmp_path / "data"


def test_links_are_followed(folder: Path, tmp_path: Path) -> None:
    """A data set is often a folder of links; one that leads back has no end, and is left out."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.csv").write_text("1")
    (folder / "train").symlink_to(tmp_path / "elsewhere")
    (folder / "inner" / "again").symlink_to(folder)
    before = digest_of_path(folder)
    (tmp_path / "elsewhere" / "x.csv").write_text("2")

    assert digest_of_path(folder) != before


def test_a_plain_folder_has_the_digest_that_it_always_had(folder: Path) -> None:
    """What was locked stays comparable; another name or another content is another digest."""
    assert digest_of_path(folder) == "dfebc6dbd2223769"
    (folder / "inner" / "a.bin").rename(folder / "inner" / "b.bin")
    renamed = digest_of_path(folder)
    (folder / "inner" / "b.bin").write_bytes(b"b")

    assert len({"dfebc6dbd2223769", renamed, digest_of_path(folder)}) == 3


def test_what_cannot_be_digested_is_named(folder: Path) -> None:
    """A link to nothing by its own name, and a pipe, which would be waited for."""
    (folder / "inner" / "lost").symlink_to("nowhere")
    with pytest.raises(LockfileError, match=r"inner/lost cannot be read: No such file") as lost:
        digest_of_path(folder)
    (folder / "inner" / "lost").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(LockfileError, match=r"pipe is not a regular file"):
        digest_of_path(folder)

    assert lost.value.hint == "it is a link to nowhere"


def test_a_folder_that_cannot_be_listed_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files would count as unchanged, whatever happens to them."""
    scan = os.scandir

    def refusing(path: str) -> object:
        if os.path.basename(path) == "inner":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(LockfileError, match=r"inner cannot be read: Permission denied"):
        digest_of_path(folder)


def test_only_what_was_written_since_counts(folder: Path) -> None:
    """A file that lay there is no work of a run, whatever it holds; one that is written anew with the same bytes is."""
    old, new = folder / "inner" / "a.bin", folder / "b.bin"
    time.sleep(0.02)
    began = time.time()
    assert not any(is_written(path, began) for path in (old, new, folder))

    time.sleep(0.02)  # the clock of a file system ticks every few ms
    new.write_bytes(b"b")
    assert [is_written(path, began) for path in (old, new, folder)] == [False, True, False]
    old.write_bytes(b"a")
    os.utime(old, (0, 0))  # whatever time it is given

    assert all(is_written(path, began) for path in (old, new, folder))
