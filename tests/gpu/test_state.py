"""On a device: its generator is part of a training's state, and comes back."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from samebits.state import Training, preserved
from tests.gpu import DEVICE, ON_A_DEVICE, own
from tests.state.trainings import bits

pytestmark = ON_A_DEVICE


def made(seed: int) -> tuple[nn.Module, torch.optim.Optimizer, Training]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.3), nn.Linear(64, 8)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return model, optimizer, Training(model=model, optimizer=optimizer)


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int) -> None:
    for _ in range(count):
        model(torch.ones(32, 64, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def weights(model: nn.Module) -> list[str]:
    return [bits(one.detach().cpu()) for one in model.parameters()]


def test_dropout_on_the_device_goes_on(tmp_path: Path) -> None:
    """From a file, into a process whose device was seeded otherwise."""
    whole, optimizer, training = made(0)
    steps(whole, optimizer, 3)
    training.save(tmp_path, 3)
    steps(whole, optimizer, 3)
    resumed, optimizer, training = made(1)

    assert training.resume(tmp_path) == 3
    steps(resumed, optimizer, 3)
    assert weights(resumed) == weights(whole)


def test_the_device_is_brought_back() -> None:
    before = own().get_rng_state()
    with preserved():
        torch.rand(8, device=DEVICE)
        assert not torch.equal(own().get_rng_state(), before)

    assert torch.equal(own().get_rng_state(), before)


def test_a_state_without_the_device_is_refused() -> None:
    """By the device's name; with it, it is taken."""
    _, _, training = made(0)
    state = copy.deepcopy(training.state_dict())
    training.load_state_dict(state)
    generators = state["ranks"]["0"]["generators"]
    generators["state"].pop(f"torch {DEVICE}:0")
    generators["contents"].remove(f"torch {DEVICE}:0")

    with pytest.raises(ValueError, match=f"lacks torch {DEVICE}:0, which is here"):
        training.load_state_dict(state)
