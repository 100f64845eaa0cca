"""Which checkpoint was loaded, whatever it was called, and where in its epoch something was saved."""

from __future__ import annotations

from dataclasses import replace

from samebits.resuming.seen import SavedIn, Seen, what_was_loaded
from samebits.runfolder.notes import Loaded, Saved
from tests.resuming.by_hand import fetched


def saved(path: str, steps: int, time: str) -> Saved:
    return Saved(path, steps, "torch.save", time=time)


def test_a_file_is_known_after_it_was_moved() -> None:
    """By its time, also in a copy of the folder; else by its path."""
    killed = Seen(saves=(saved("/a.new", 5, "10"), saved("/c", 15, "")))

    for load, steps in (
        (Loaded("/last", 0, "torch.load", time="10"), 5),
        (Loaded("/c", 0, "torch.load"), 15),
    ):
        found, at = what_was_loaded(killed, Seen(loads=(load,)))
        assert found is not None
        assert (found.steps, at) == (steps, load)


def test_of_several_files_the_newest_says_how_far_it_was() -> None:
    """What is loaded later in the training, or was saved before its first step, is no resume."""
    killed = Seen(saves=(saved("/data", 0, "1"), saved("/best", 5, "1"), saved("/last", 10, "1")))
    best, last = (Loaded(path, 0, "torch.load") for path in ("/best", "/last"))
    late, data = Loaded("/last", 3, "torch.load"), Loaded("/data", 0, "torch.load")

    assert what_was_loaded(killed, Seen(loads=(last, best))) == (killed.saves[2], last)
    assert what_was_loaded(killed, Seen(loads=(late, data))) == (None, data)
    assert what_was_loaded(killed, Seen(loads=(late,))) == (None, None)


def test_where_in_its_epoch_something_was_saved() -> None:
    """Epochs of 8: after 4 steps within the first, after 8 at its end, after 12 within the second."""
    saves = tuple(saved("/last", steps, "") for steps in (4, 8, 12))

    assert Seen(saves=saves, fetched=tuple(fetched(0, 24))).saved_in() == {
        4: SavedIn(0, is_end=False),
        8: SavedIn(0, is_end=True),
        12: SavedIn(1, is_end=False),
    }
    assert Seen(saves=saves).saved_in()[8] == SavedIn()
    half = replace(saves[0], counts={"loss": 2, "batch": 2})
    assert Seen(saves=(saves[0], half)).saved_in() == {4: SavedIn(is_within_step=True)}
