"""accelerate: every resume point is exact, and what cannot be is refused."""

import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("accelerate", exc_type=ImportError)

from accelerate import Accelerator, skip_first_batches

from samebits.base.errors import StateError, StateWarning, UsageError
from samebits.data import DataLoader
from samebits.integrations.accelerate import Loader
from tests.integrations import accelerate_training as training
from tests.integrations.small import Noisy, inexact, samples_of
from tests.integrations.together import run_ranks


@pytest.mark.parametrize(
    ("workers", "accumulated"),
    [(2, 2), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((0, 1), (0, 2), (2, 1)))],
)
def test_every_point(tmp_path: Path, workers: int, accumulated: int) -> None:
    """16 batches and 2 epoch ends, with draws of an evaluation in between: order, draws and weights."""
    options: dict[str, Any] = {"accumulated": accumulated, "evaluates": workers == 2}
    whole = training.train(tmp_path, **options)

    assert len(whole.rows) == 16
    assert len(list(tmp_path.iterdir())) == 18
    assert inexact(training.train, whole, tmp_path, workers=workers, **options) == []


def test_gradients_that_wait_are_missed(tmp_path: Path) -> None:
    """Without its third line, the training goes on otherwise from the middle of an accumulation; the test can fail."""
    whole = training.train(tmp_path, accumulated=2, loads_gradients=False)
    differing = inexact(training.train, whole, tmp_path, accumulated=2, loads_gradients=False)

    assert "03-batch" in differing
    assert "04-batch" not in differing


def test_ranks(tmp_path: Path) -> None:
    """Two ranks see what one sees, resume exactly, and one goes on with what two began."""
    ranks = run_ranks("tests.integrations.accelerate_training", tmp_path)
    alone = training.train(accumulated=2)

    assert samples_of(*ranks) == samples_of(alone)
    rest = training.train(None, tmp_path / "04-batch", accumulated=2)
    assert samples_of(rest) == samples_of(alone)[4:]
    with pytest.raises(StateError, match="gradients of 2 ranks that wait"):
        training.train(None, tmp_path / "03-batch", accumulated=2)


def test_skipping_by_hand_is_refused() -> None:
    """What accelerate makes of it would be a plain loader; of one of torch's it may be."""
    with pytest.raises(UsageError, match=r"skip_first_batches\(\) would make a plain loader"):
        skip_first_batches(Loader(Noisy(8), batch_size=4, seed=0), 1)

    assert len(list(skip_first_batches(torch.utils.data.DataLoader(Noisy(8), batch_size=4), 1))) == 1


def saved(loader: Loader) -> dict[str, Any]:
    """Its state, without any word about an epoch that was left."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", StateWarning)
        return loader.state_dict()


def first_of_the_rest(state: dict[str, Any]) -> list[int]:
    """The first batch that another loader gives after it was loaded."""
    loader = Loader(range(20), 4, shuffle=True, seed=0)
    loader.load_state_dict(state)
    batch: Any = next(iter(loader))
    return list(batch.tolist())


@pytest.mark.parametrize("wrap", [iter, enumerate, zip, lambda loader: itertools.islice(loader, 2)])
def test_an_epoch_that_is_left(wrap: Callable[[Any], Iterator[object]]) -> None:
    """Saved before the break it goes on, saved after it the next epoch begins; each as in the process that saved."""
    Accelerator(cpu=True)
    loader, plain = Loader(range(20), 4, shuffle=True, seed=0), DataLoader(range(20), 4, shuffle=True, seed=0)
    epochs = [[batch.tolist() for batch in plain] for _ in range(4)]
    for epoch in range(3):
        for number, _ in enumerate(wrap(loader)):
            within = saved(loader)
            if number == 1:
                break
        with pytest.warns(StateWarning, match="left early is saved as over"):
            after = loader.state_dict()

        assert first_of_the_rest(within) == epochs[epoch][2]
        assert first_of_the_rest(after) == epochs[epoch + 1][0]
        assert after["epoch"] == epoch + 1


def test_an_epoch_that_is_left_at_its_end() -> None:
    """Nothing of it is lost, and nothing is said."""
    Accelerator(cpu=True)
    loader = Loader(range(20), 4, seed=0)
    for number, _ in enumerate(loader):
        if number == 4:
            break

    assert saved(loader) == {**saved(Loader(range(20), 4, seed=0)), "epoch": 1}


def test_an_iteration_that_is_closed_late() -> None:
    """What it has to say of the place is out of date: another one has begun, or a place was given."""
    Accelerator(cpu=True)
    loader = Loader(range(20), 4, shuffle=True, seed=0)
    old: Any = iter(loader)
    next(old)
    new: Any = iter(loader)
    next(new)
    state = saved(loader)
    old.close()
    assert saved(loader) == state
    loader.set_epoch(7)
    new.close()

    assert saved(loader)["epoch"] == 7


@pytest.mark.parametrize("accumulated", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_epochs_of_some_batches(tmp_path: Path, accumulated: int) -> None:
    """A training of three batches per epoch, saved after each of them and after the epoch."""
    options: dict[str, Any] = {"accumulated": accumulated, "batches": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StateWarning)
        whole = training.train(tmp_path, **options)

    assert len(whole.rows) == 6
    assert [path.name for path in sorted(tmp_path.iterdir())][2:4] == ["03-batch", "03-epoch"]
    # Saved before the break, these go on with the fourth batch of their epoch.
    assert inexact(training.train, whole, tmp_path, **options) == ["03-batch", "06-batch"]
