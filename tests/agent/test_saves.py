"""What is looked at in what a program saves."""

import errno
import threading
from pathlib import Path

import pytest
import torch

from samebits.agent.taps import saving
from samebits.agent.trees import saved
from samebits.resuming.training_notes import read_training_notes
from tests.agent.recording import WATCHED, record_in


def names(thing: object) -> list[str]:
    return [path for path, _ in saved(thing, "0")]


def test_a_key_that_is_a_path_is_known_by_its_file() -> None:
    """Lightning's checkpoints hold the paths of the best ones, whose folder is numbered anew in every run."""
    score = torch.tensor(0.5)

    first = names({"best": {"/home/me/lightning_logs/version_0/checkpoints/epoch=0-step=6.ckpt": score}})
    second = names({"best": {"/copy/lightning_logs/version_1/checkpoints/epoch=0-step=6-v1.ckpt": score}})
    other = names({"best": {"/home/me/lightning_logs/version_0/checkpoints/epoch=1-step=12.ckpt": score}})

    assert first == second == ["0.best.epoch=0-step=6.ckpt"]
    assert other != first


def test_a_name_with_slashes_stays() -> None:
    """Weights are called so, too."""
    assert names({"bert/layer_0/kernel": 1.0}) == ["0.bert/layer_0/kernel"]


def test_what_another_thread_saves_is_known(tmp_path: Path) -> None:
    """The training may go on meanwhile, and write to what is saved."""

    def work() -> None:
        torch.save(torch.ones(1), tmp_path / "here.pt")
        aside = threading.Thread(target=torch.save, args=(torch.ones(1), tmp_path / "aside.pt"))
        aside.start()
        aside.join()

    record_in(tmp_path, work, WATCHED)

    assert [(Path(one.path).name, one.is_aside) for one in read_training_notes(tmp_path).saves] == [
        ("here.pt", False),
        ("aside.pt", True),
    ]


def test_after_a_save_that_had_no_room_the_next_one_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may go on where the user's own file would have been written over, and the disk holds no copy of it."""
    looked = [OSError(errno.ENOSPC, "no room"), False]

    def look_into(path: str, is_opened: bool) -> bool:
        match looked.pop(0):
            case OSError() as error:
                raise error
            case is_preparation:
                return is_preparation

    def work() -> None:
        with pytest.raises(OSError, match="no room"):
            torch.save(torch.ones(1), tmp_path / "first.pt")
        torch.save(torch.ones(1), tmp_path / "second.pt")

    monkeypatch.setattr(saving, "look_into", look_into)
    record_in(tmp_path / "run", work, WATCHED)

    assert [Path(one.path).name for one in read_training_notes(tmp_path / "run").saves] == ["second.pt"]
