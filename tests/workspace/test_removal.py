"""Nothing is taken away but what samebits has made."""

from pathlib import Path

import pytest

import samebits
from samebits.base.errors import StorageError
from samebits.runfolder.removal import MARK, remove


def test_only_what_is_ours_is_removed(tmp_path: Path) -> None:
    """A folder of a check, what is in it, and what is in a folder that was named with --out."""
    own, named = tmp_path / ".samebits" / "20260131-120000-1", tmp_path / "out"
    for path in (own / "work-1/a", named / "work-1", tmp_path / "data"):
        path.mkdir(parents=True)
    (named / MARK).touch()
    (own / "work-1/a/locked").touch()
    (own / "work-1/a").chmod(0o500)

    remove(own / "work-1")
    remove(named / "work-1")
    remove(own)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".samebits", "data", "out"]
    assert list((tmp_path / ".samebits").iterdir()) == []
    assert sorted(path.name for path in named.iterdir()) == [MARK]


@pytest.mark.parametrize("path", ["data", "data/x", ".samebits", ".samebits/20260131-120000-1/../../data", "link/x"])
def test_whatever_else_is_refused(path: str, tmp_path: Path) -> None:
    """Also by a detour, and through a link that stands where ours would."""
    (tmp_path / "data/x").mkdir(parents=True)
    (tmp_path / ".samebits/20260131-120000-1").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    with pytest.raises(StorageError, match="was not made by samebits"):
        remove(tmp_path / path)

    assert (tmp_path / "data/x").exists()


def test_links_are_taken_away_and_not_what_they_lead_to(tmp_path: Path) -> None:
    """A copy is full of links to the user's files; a link in the way of what is ours is not followed."""
    own = tmp_path / ".samebits" / "20260131-120000-1"
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_text("precious")
    (own / "work-1").mkdir(parents=True)
    (own / "work-1/data").symlink_to(tmp_path / "data")
    (own / "elsewhere").symlink_to(tmp_path)
    named, longer = tmp_path / "out", tmp_path / "out-of-mine"
    for folder in (named, longer):
        folder.mkdir()
    (named / MARK).touch()
    (named / "elsewhere").symlink_to(longer)
    (longer / "x").write_text("precious")
    remove(own / "work-1")
    for path in (own / "elsewhere" / "data", named / "elsewhere" / "x"):
        with pytest.raises(StorageError):
            remove(path)

    assert (tmp_path / "data/x").read_text() == (longer / "x").read_text() == "precious"
    assert not (own / "work-1").exists()


def test_folders_are_taken_away_in_one_place_only() -> None:
    """`samebits.state` removes checkpoints that the program asked it to keep no longer; nobody else removes folders."""
    source = Path(samebits.__file__).parent
    removing = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in ("rmtree", "shutil.move", "os.removedirs"))
    }

    assert {path for path in removing if not path.startswith("state/")} == {"runfolder/removal.py"}
