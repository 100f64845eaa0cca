"""A checkpoint is there whole or not at all; what was damaged is passed over, and said."""

import contextlib
import random
import resource
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from samebits.base.errors import StateError, StorageError, UsageError
from samebits.state import Training
from samebits.state.checkpoints import MANIFEST
from tests.state.trainings import Loop, digest_of


def training(value: float = 0.0) -> Training:
    """A small one."""
    return Training(weights=torch.full((64,), float(value)), many=[torch.arange(30.0) + value])


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two checkpoints: of step 1 with ones, of step 2 with twos."""
    for step in (1, 2):
        training(step).save(tmp_path / "ckpt", step)
    return tmp_path / "ckpt"


def resumed(folder: Path) -> tuple[int | None, float, list[str]]:
    """The step, the weights, and what was said."""
    live = training()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step = live.resume(folder)
    return step, float(live.objects["weights"][0]), [str(one.message) for one in caught]


def test_nothing_is_there_at_first(tmp_path: Path) -> None:
    """A folder that is not there, an empty one, and one with other files have no checkpoint, and stay as they are."""
    assert training().resume(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()
    (tmp_path / "step-3").mkdir()
    (tmp_path / "step-3" / "notes.txt").write_text("mine")
    (tmp_path / "step-x").mkdir()

    assert resumed(tmp_path) == (None, 0.0, [])


def test_the_last_few_are_kept_and_nothing_else_is_touched(tmp_path: Path) -> None:
    """Also of a run that went back, where the last are not those of the highest steps."""
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-1" / "notes.txt").write_text("mine")
    (tmp_path / "model.pt").write_text("mine")
    for step in (1, 2, 3, 30, 4):
        training(step).save(tmp_path, step, keep=3)

    assert names(tmp_path) == ["model.pt", "step-1", "step-3", "step-30", "step-4"]
    assert names(tmp_path / "step-1") == ["notes.txt"]
    assert resumed(tmp_path) == (4, 4.0, [])


def test_a_step_is_saved_again(folder: Path) -> None:
    """The newer one counts; nothing is written into the older, which is used where the newer one is damaged."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    again = training(9).save(folder, 2)

    assert resumed(folder) == (2, 9.0, [])
    assert {path: path.read_bytes() for path in before} == before
    (again / MANIFEST).unlink()
    assert resumed(folder)[:2] == (2, 2.0)
    training(7).save(folder, 2)
    assert resumed(folder)[:2] == (2, 7.0)


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"keep=0 would keep no checkpoint"):
        training().save(tmp_path, 1, keep=0)
    for options in ({"keep": 0}, {"every": 0}):
        with pytest.raises(UsageError, match=r"=0 would keep no checkpoint"):  # before the first step
            next(iter(training().steps(3, tmp_path, **options)))
    training().save(tmp_path, 1, keep=1)
    training(2).save(tmp_path, 2, keep=1)
    assert names(tmp_path) == ["step-2"]


@pytest.mark.parametrize("step", [12.0, 12.5, -1, "3", torch.tensor(1.0)])
def test_a_step_that_could_not_be_read_is_refused(tmp_path: Path, step: Any) -> None:
    """A number of steps is a whole one from 0 on, of whatever integral type; nothing else is written."""
    with pytest.raises(UsageError, match=r"step must be") as caught:
        training().save(tmp_path, step)
    assert caught.value.hint == "give int(12.0)" or step != 12.0
    unfit = training()
    unfit.steps_done = step
    with pytest.raises(UsageError, match=r"step must be"):
        unfit.state_dict()
    assert names(tmp_path) == []
    for whole in (0, np.int64(4), torch.tensor(5)):
        training().save(tmp_path, whole)  # type: ignore[arg-type]
        assert resumed(tmp_path)[0] == int(whole)


def test_a_save_is_seen_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who watches torch.save asks the file for its name."""
    seen: list[str] = []
    save = torch.save
    monkeypatch.setattr(torch, "save", lambda state, file: [seen.append(file.name), save(state, file)])
    training().save(tmp_path, 1)

    assert seen == [str(tmp_path / ".step-1.1" / "rank-0.pt")]


@contextlib.contextmanager
def changed(path: Path, data: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)


@contextlib.contextmanager
def removed(path: Path) -> Iterator[None]:
    with changed(path, b""):
        path.unlink()
        yield


def truncated(data: bytes, place: int) -> bytes:
    return data[:place]


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]


@pytest.mark.parametrize("damage", [truncated, flipped])
def test_what_is_damaged_is_passed_over(folder: Path, damage: Callable[[bytes, int], bytes]) -> None:
    """At 100 places, of the state and of the manifest: never loaded, always said, and the one before is used."""
    draw = random.Random(1)
    for number in range(100):
        path = sorted((folder / "step-2").iterdir())[number % 2]
        data = path.read_bytes()
        place = draw.randrange(len(data))
        with changed(path, damage(data, place)):
            step, value, said = resumed(folder)
        assert (step, value, len(said)) == (1, 1.0, 1), (path.name, place)
        kind = "truncated" if damage is truncated and path.name != MANIFEST else "damaged"
        assert f"step-2: {path.name} is {kind}" in said[0]
    assert resumed(folder) == (2, 2.0, [])


def test_what_is_gone_is_passed_over(folder: Path) -> None:
    """The state, or its manifest: a folder gets its name when it is whole, so one that is not was damaged later."""
    for name in ("rank-0.pt", MANIFEST):
        with removed(folder / "step-2" / name):
            step, value, said = resumed(folder)
        assert (step, value) == (1, 1.0)
        assert said == [f"checkpoint passed over in {folder}: step-2: {name} is missing"]
    assert resumed(folder) == (2, 2.0, [])


@pytest.mark.parametrize("name", ["rank-0.pt", MANIFEST])
def test_where_none_is_intact_it_is_an_error(folder: Path, name: str) -> None:
    """Beginning anew without a word would throw the training away; also where every manifest is gone."""
    live = training(5)
    before = digest_of(live.state_dict())
    for path in folder.glob(f"*/{name}"):
        path.unlink()

    with pytest.raises(StateError, match=rf"none of the 2 checkpoints .* step-2: {name} is missing; step-1: {name} is"):
        live.resume(folder)
    assert digest_of(live.state_dict()) == before


def test_what_a_killed_save_left_is_said_and_cleared_away(folder: Path, tmp_path: Path) -> None:
    """By the next save; it is a checkpoint at no time, also where it is the only thing there."""
    (folder / "step-2").rename(folder / ".step-2.2")
    step, _, said = resumed(folder)
    assert step == 1
    assert ".step-2.2: unfinished" in said[0]
    (tmp_path / "first").mkdir()
    (folder / ".step-2.2").rename(tmp_path / "first" / ".step-2.1")
    step, _, said = resumed(tmp_path / "first")
    assert (step, len(said)) == (None, 1)
    assert said[0].endswith("none is left, so the training starts from scratch")
    training(4).save(tmp_path / "first", 4)

    assert names(tmp_path / "first") == ["step-4"]


@pytest.mark.parametrize("room", [0, 1500])
def test_a_full_disk_leaves_the_former_checkpoint(folder: Path, room: int) -> None:
    """Wherever there is no more room: a clear error, nothing left behind, and the former checkpoint is used."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(StorageError) as caught:
            training(3).save(folder, 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert caught.value.message == f"the checkpoint {folder / 'step-3'} could not be written: File too large"
    assert names(folder) == ["step-1", "step-2"]
    assert resumed(folder) == (2, 2.0, [])


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match=r"could not be written: Not a directory"):
        training().save(tmp_path / "file", 1)
    assert training().save(tmp_path / "folder", 1).is_dir()


class Spread(torch.Tensor):
    """A tensor that torch.load would not build."""


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    """Named before a byte of it is written; a parameter is a tensor like any other."""
    with pytest.raises(StateError, match=r"parts\.weights\.state is a .*Spread, which torch\.load"):
        Training(weights=torch.ones(2).as_subclass(Spread)).save(tmp_path / "ckpt", 1)
    assert not (tmp_path / "ckpt").exists()
    Training(weights=torch.nn.Parameter(torch.ones(2))).save(tmp_path / "ckpt", 1)


def steps_of(folder: Path, total: int, stop: int | None = None) -> tuple[Loop, list[int]]:
    loop, seen = Loop(), []
    for step in loop.training.steps(total, folder, every=2):
        seen.append(step)
        if step == stop:
            break
        loop.step()
    return loop, seen


def test_steps_resume_save_and_end(tmp_path: Path) -> None:
    """From where the last checkpoint is to the end; once at the end, there is nothing left to do."""
    whole: Any = Loop().run(7)
    first = steps_of(tmp_path, 7, stop=3)
    second = steps_of(tmp_path, 7)
    third = steps_of(tmp_path, 7)

    assert [one[1] for one in (first, second, third)] == [[0, 1, 2, 3], [2, 3, 4, 5, 6], []]
    assert second[0].digest() == third[0].digest() == whole.digest()
    assert names(tmp_path) == ["step-4", "step-6", "step-7"]
