"""An evaluation that draws leaves no trace, whatever happens in it."""

import gc
import random
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import samebits
from samebits.state import preserved
from tests.state.trainings import Gated, Loop, Noisy


def evaluate(loop: Loop) -> float:
    """Draws from everything there is, in eval mode, and never goes back to train mode."""
    loop.model.eval()
    x = torch.randn(4, 6) + random.random() + np.random.rand()
    torch.rand(1, generator=loop.model[3].rng)
    return loop.model(x).sum().item()


def run(evaluating: Any) -> str:
    loop = Loop()
    for _ in range(3):
        loop.step()
        evaluating(loop)
    return loop.digest()


def guarded(loop: Loop) -> None:
    with preserved(loop.model):
        evaluate(loop)


def test_an_evaluation_does_not_move_the_training() -> None:
    """Within, the same; without, another training: the planted failure."""
    plain = run(lambda loop: None)

    assert run(guarded) == plain
    assert run(evaluate) != plain


def test_exceptions_bring_everything_back_as_well() -> None:
    def failing(loop: Loop) -> None:
        with preserved(loop.model):
            evaluate(loop)
            raise ZeroDivisionError

    def survived(loop: Loop) -> None:
        with pytest.raises(ZeroDivisionError):
            failing(loop)

    assert run(survived) == run(lambda loop: None)


def test_within_one_another() -> None:
    """Each brings back what was there when it began."""
    torch.manual_seed(0)
    with preserved():
        first = torch.rand(2)
        with preserved():
            second = torch.rand(2)
        third = torch.rand(2)

    assert torch.equal(second, third)
    assert torch.equal(torch.rand(2), first)
    assert not torch.equal(first, second)


def test_as_a_decorator() -> None:
    """Once for every call."""

    @preserved()
    def drawn() -> float:
        return random.random()

    assert drawn() == drawn() == random.random()


def test_only_what_is_given_is_looked_into() -> None:
    """Generators and modes of what is not given are its own affair."""
    model, other, data = nn.Sequential(Gated()), nn.Sequential(Gated()), Noisy()
    with preserved([model], {"data": data}):
        for one in (model, other):
            one.eval()
            torch.rand(1, generator=one[0].rng)
        data.rng.random()

    assert model.training
    assert model[0].training
    assert not other.training
    fresh = Gated().rng.get_state()
    assert torch.equal(model[0].rng.get_state(), fresh)
    assert not torch.equal(other[0].rng.get_state(), fresh)
    assert data.rng.random() == Noisy().rng.random()


def test_nothing_is_kept_alive() -> None:
    """Neither by taking a state nor by preserving."""
    loop = Loop()
    loop.training.state_dict()
    with preserved(loop.model, loop.loader):
        pass
    gone = weakref.ref(loop.model)
    loop.batches = None
    del loop
    gc.collect()

    assert gone() is None


def test_a_loader_may_be_given() -> None:
    """Also one that is in the middle of an epoch; its position is where it was read to."""
    loader = samebits.data.DataLoader(Noisy(), batch_size=5, seed=0)
    iterator = iter(loader)
    next(iterator)
    with preserved(loader):
        next(iterator)

    assert loader.state_dict()["samples"] == 10
