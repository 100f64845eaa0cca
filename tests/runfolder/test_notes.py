"""Notes of many processes, on disks that fill up and in processes that are killed."""

import json
import os
import threading
from pathlib import Path

import pytest

from samebits.base.sites import Site
from samebits.runfolder import notes
from samebits.runfolder.notes import (
    Cut,
    Ended,
    InEffect,
    Journal,
    Note,
    Seeded,
    Unseen,
    Variable,
    Witnessed,
    read_notes,
)
from tests.running import forked


def _whats(folder: Path) -> list[str]:
    return [note.what for note in read_notes(folder, Unseen)]


def test_a_variable_is_known_by_its_value_which_is_not_noted() -> None:
    """Another value has another digest, and so has the same value of another one."""
    notes = [Variable.of(*one).to_json() for one in (("A", "secret"), ("A", "other"), ("B", "secret"), ("A", None))]

    assert len({str(one) for one in notes}) == len(notes)
    assert len({str(one).replace("'A'", "").replace("'B'", "") for one in notes}) == len(notes)
    assert "secret" not in str(notes)


def test_a_note_that_cannot_be_written_waits_for_the_next(tmp_path: Path) -> None:
    """A disk that is full for a while loses nothing, and nobody hears of it."""
    folder = tmp_path / "later"
    journal = Journal(folder)

    journal.note(Unseen("first"))
    folder.mkdir()
    journal.note(Unseen("second"))
    journal.note(Unseen("third"))

    assert _whats(folder) == ["first", "second", "third"]


def test_a_forked_child_writes_for_itself(tmp_path: Path) -> None:
    """What waits in the parent is the parent's to write."""
    folder = tmp_path / "later"
    journal = Journal(folder)
    journal.note(Unseen("waits"))
    folder.mkdir()

    os.waitpid(forked(lambda: journal.note(Unseen("child"))), 0)
    in_between = _whats(folder)
    journal.note(Unseen("parent"))

    assert in_between == ["child"]
    assert len(list(folder.glob("journal.*.jsonl"))) == 2
    assert sorted(_whats(folder)) == ["child", "parent", "waits"]


def test_half_a_line_is_left_out(tmp_path: Path) -> None:
    """A process killed in the middle of a note takes only that note with it."""
    Journal(tmp_path).note(Unseen("whole"))
    (journal,) = tmp_path.iterdir()
    with journal.open("ab") as file:
        file.write(b'[1]\n{"no": "note"}\n\xff\n{"note": "unseen", "what": "ha')

    assert _whats(tmp_path) == ["whole"]


def test_what_cannot_be_read_is_unseen_and_what_is_newer_is_left_out(tmp_path: Path) -> None:
    """A known sort of another shape may hide anything, so it is said; a sort of a newer samebits is not for us."""
    lines = [{"note": "error", "kind": "storage"}, {"note": "weather", "is": "fine"}, {"note": "used", "what": "cuda"}]
    known = {"note": "seed", "what": "f", "value": 3, "site": {"path": "t.py", "line": 1, "function": "", "mood": 1}}
    (tmp_path / "journal.a.1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in (*lines, known)))

    broken, other, seed = read_notes(tmp_path, Note)

    assert isinstance(broken, Unseen)
    assert isinstance(other, Unseen)
    assert broken.what.startswith("a note 'error' of a process, which cannot be read: ")
    assert other.what == "a note 'used' of a process, which cannot be read: 'cuda' is not a valid tuple"
    assert seed == Seeded("f", 3, Site("t.py", 1))


@pytest.mark.parametrize(
    "note",
    [
        notes.Started("/bin/python", ("python", "t.py"), 3, 2**47),
        notes.Observed({"torch": "2.6", "numpy": None}, {"clock": InEffect("pinned", "0")}, 1, "/t.py"),
        Witnessed("clock", None, "time.time"),
        Witnessed("clock", Site("/t.py", 3, "f"), "time.time", ("/t.py", 4), "seed it"),
        *(Seeded("seed", value, Site("/t.py", 3)) for value in (1, 1.5, "00ff")),
        notes.Carried("read", "/a", "/a", Site("/t.py", 3), Site("/t.py", 5), 2),
        notes.Outside("program", "sort -R a.txt", Site("/t.py", 3)),
        *(Unseen("a process", False), Unseen(os.fsdecode(b"paths that are no text: /\xff/\n\r\xc3\xbc"))),
        *(notes.Files(("/t.py",), "/t.py"), notes.Overridden("clock", "it was set"), notes.Used(("cuda",))),
        *(notes.Refused("no", "t.py:3"), notes.Failed("storage", "full"), notes.OpDiverged(0, 1, 2)),
        *(notes.Replaced("put_", 3), notes.Replaced("put_", 3, Site("/t.py", 3))),
        *(Ended(), Ended(3), Cut("forward")),
    ],
    ids=lambda note: note.note,
)
def test_every_sort_of_note_goes_through_a_line_and_back(note: Note, tmp_path: Path) -> None:
    """The same record; what is as it is when left out is left out."""
    Journal(tmp_path).note(note)

    assert list(read_notes(tmp_path, Note)) == [note]
    assert None not in note.to_json().values() or isinstance(note, Witnessed)


def test_files_that_were_compared_are_not_unseen() -> None:
    """Whatever they are called; and what is no file stays as it is."""
    note = Unseen.written(["out/a.json", "/data/b.csv"])

    assert note.what == "what was written to out/a.json, /data/b.csv: compare it yourself"
    assert note.without_files({"/home/c.txt"}, "/home") is note
    assert note.without_files({"/home/out/a.json"}, "/home") == Unseen.written(["/data/b.csv"])
    assert note.without_files({"/home/out/a.json", "/data/b.csv"}, "/home") is None
    assert Unseen("a region").without_files({"/home/out/a.json"}, "/home") == Unseen("a region")


def test_threads_and_forks_lose_and_double_nothing(tmp_path: Path) -> None:
    """However many write at once: a line is one write."""
    journal = Journal(tmp_path)

    def write(first: int) -> None:
        for number in range(first, first + 2000):
            journal.note(Ended(number))

    threads = [threading.Thread(target=write, args=(first,)) for first in range(0, 8000, 2000)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        os.waitpid(forked(lambda: journal.note(Cut("forward"))), 0)
    for thread in threads:
        thread.join()

    assert sorted(note.stopped_after or 0 for note in read_notes(tmp_path, Ended)) == list(range(8000))
    assert len(list(read_notes(tmp_path, Cut))) == 3
