"""Which checkpoint was loaded, whatever it was called, and where in its epoch something was saved."""

from __future__ import annotations

from dataclasses import replace

from samebits.resuming.training_notes import SavePlace, TrainingNotes, loaded_checkpoint
from samebits.runfolder.notes import Loaded, Saved
from tests.resuming.by_hand import fetched


def saved(path: str, steps: int, time: str) -> Saved:
    return Saved(path, steps, "torch.save", time=time)


def test_a_file_is_known_after_it_was_moved() -> None:
    """By its time, also in a copy of the folder; else by its path."""
    killed = TrainingNotes(saves=(saved("/a.new", 5, "10"), saved("/c", 15, "")))

    for load, steps in (
        (Loaded("/last", 0, "torch.load", time="10"), 5),
        (Loaded("/c", 0, "torch.load"), 15),
    ):
        found, at = loaded_checkpoint(killed, TrainingNotes(loads=(load,)))
        assert found is not None
        assert (found.steps, at) == (steps, load)


def test_of_several_files_the_newest_says_how_far_it_was() -> None:
    """Of those that are loaded first; what was saved before the first step is none. `start_of` leaves out late ones."""
    killed = TrainingNotes(saves=(saved("/data", 0, "1"), saved("/best", 5, "1"), saved("/last", 10, "1")))
    best, last = (Loaded(path, 0, "torch.load") for path in ("/best", "/last"))
    late, data = Loaded("/last", 3, "torch.load"), Loaded("/data", 0, "torch.load")

    assert loaded_checkpoint(killed, TrainingNotes(loads=(last, best))) == (killed.saves[2], last)
    assert loaded_checkpoint(killed, TrainingNotes(loads=(best, late))) == (killed.saves[1], best)
    assert loaded_checkpoint(killed, TrainingNotes(loads=(data, late))) == (killed.saves[2], late)
    assert loaded_checkpoint(killed, TrainingNotes(loads=(data,))) == (None, data)


def test_where_in_its_epoch_something_was_saved() -> None:
    """Epochs of 8: after 4 steps within the first, after 8 at its end, after 12 within the second."""
    saves = tuple(saved("/last", steps, "") for steps in (4, 8, 12))

    assert TrainingNotes(saves=saves, fetched=tuple(fetched(0, 24))).saved_in() == {
        4: SavePlace(0, is_end=False),
        8: SavePlace(0, is_end=True),
        12: SavePlace(1, is_end=False),
    }
    assert TrainingNotes(saves=saves).saved_in()[8] == SavePlace()
    half = replace(saves[0], counts={"loss": 2, "batch": 2})
    assert TrainingNotes(saves=(saves[0], half)).saved_in() == {4: SavePlace(is_within_step=True)}


def test_where_another_file_is_older_than_the_one_saved_is_known() -> None:
    """As the best checkpoint, beside the last one; not where both were saved then, and not before there are two."""
    last, best = ([saved(path, steps, "") for steps in (4, 8, 12, 16)] for path in ("/last", "/best"))

    kept = TrainingNotes(saves=(last[0], best[1], last[1], last[2], best[3], last[3])).saved_in()

    assert [step for step, place in kept.items() if place.is_mixed] == [12]
