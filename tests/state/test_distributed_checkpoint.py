"""torch.distributed.checkpoint writes a training, reads it back, and what it passes over does not go unnoticed."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from samebits.base.errors import StateError
from tests.state.trainings import Loop

# It says that there is only one process, which is so.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def begun(folder: Path, loop: Any = None) -> Loop:
    loop = loop or Loop().run(3)
    dcp.save({"training": loop.training}, checkpoint_id=folder)
    return loop


def test_a_training_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    """Optimizers have to have a state that can be filled, as with every use of torch.distributed.checkpoint."""
    begun(tmp_path)
    resumed = Loop(seed=9)
    get_optimizer_state_dict(resumed.model, resumed.optimizer)
    dcp.load({"training": resumed.training}, checkpoint_id=tmp_path)

    assert resumed.digest() == Loop().run(3).digest()
    assert resumed.run(3).digest() == Loop().run(6).digest()


def test_a_plain_state_dict_goes_through_it_as_well(tmp_path: Path) -> None:
    """Filled in place, and then loaded."""
    dcp.save(Loop().run(3).training.state_dict(), checkpoint_id=tmp_path)
    resumed = Loop(seed=9).run(1)
    resumed.batches = None
    state = resumed.training.state_dict()
    dcp.load(state, checkpoint_id=tmp_path)
    resumed.training.load_state_dict(state)

    assert resumed.digest() == Loop().run(3).digest()


def test_moments_that_it_passes_over_are_missed(tmp_path: Path) -> None:
    """A fresh optimizer has no place for them, and torch says nothing."""
    begun(tmp_path)

    with pytest.raises(StateError, match=r"optimizer was not loaded whole: .*exp_avg.* which was not loaded") as caught:
        dcp.load({"training": Loop().training}, checkpoint_id=tmp_path)
    assert "get_optimizer_state_dict" in caught.value.hint


def test_gradients_that_it_passes_over_are_missed(tmp_path: Path) -> None:
    loop = Loop().run(1)
    loop.micro_step()
    begun(tmp_path, loop)
    resumed = Loop().run(1)
    resumed.batches = None

    with pytest.raises(StateError, match=r"gradients was not loaded whole"):
        dcp.load({"training": resumed.training}, checkpoint_id=tmp_path)
    assert all(one.grad is None for one in resumed.model.parameters())
    assert torch.is_tensor(resumed.model[0].weight)
