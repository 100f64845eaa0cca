"""Notes of many processes, on disks that fill up and in processes that are killed."""

import os
from pathlib import Path

from samebits.runfolder.notes import Journal, read_notes


def _whats(folder: Path) -> list[str]:
    return [note["what"] for note in read_notes(folder, "unseen")]


def test_a_note_that_cannot_be_written_waits_for_the_next(tmp_path: Path) -> None:
    """A disk that is full for a while loses nothing, and nobody hears of it."""
    folder = tmp_path / "later"
    journal = Journal(folder)

    journal.note("unseen", what="first")
    folder.mkdir()
    journal.note("unseen", what="second")
    journal.note("unseen", what="third")

    assert _whats(folder) == ["first", "second", "third"]


def test_a_forked_child_writes_for_itself(tmp_path: Path) -> None:
    """What waits in the parent is the parent's to write."""
    folder = tmp_path / "later"
    journal = Journal(folder)
    journal.note("unseen", what="waits")
    folder.mkdir()

    child = os.fork()
    if child == 0:
        journal.note("unseen", what="child")
        os._exit(0)
    os.waitpid(child, 0)
    in_between = _whats(folder)
    journal.note("unseen", what="parent")

    assert in_between == ["child"]
    assert sorted(_whats(folder)) == ["child", "parent", "waits"]


def test_half_a_line_is_left_out(tmp_path: Path) -> None:
    """A process killed in the middle of a note takes only that note with it."""
    Journal(tmp_path).note("unseen", what="whole")
    (journal,) = tmp_path.iterdir()
    with journal.open("ab") as file:
        file.write(b'[1]\n{"no": "note"}\n\xff\n{"note": "unseen", "what": "ha')

    assert _whats(tmp_path) == ["whole"]


def test_any_text_can_be_noted(tmp_path: Path) -> None:
    """Paths that are no text, line ends, other alphabets."""
    odd = os.fsdecode(b"/\xff/\n\r\xc3\xbc")

    Journal(tmp_path).note("unseen", what=odd)

    assert _whats(tmp_path) == [odd]
