"""Gradients that wait for their step, as a part that a framework saves."""

import io

import pytest
import torch

from samebits.state import StateError, WaitingGradients


def model() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(2, 1)


def test_gradients_come_back_from_a_file() -> None:
    """Those that are there, and none where none were."""
    begun, resumed = model(), model()
    begun(torch.ones(1, 2)).sum().backward()
    begun.bias.grad = None
    resumed.bias.grad = torch.ones(1)
    file = io.BytesIO()
    torch.save(WaitingGradients(model=begun).state_dict(), file)
    file.seek(0)
    WaitingGradients(model=resumed).load_state_dict(torch.load(file, weights_only=True))

    assert resumed.weight.grad is not None
    assert begun.weight.grad is not None
    assert torch.equal(resumed.weight.grad, begun.weight.grad)
    assert resumed.bias.grad is None


def test_gradients_of_other_ranks_are_refused() -> None:
    """They are sums of parts of a batch; where none wait, any number will do."""
    waiting = WaitingGradients(model=model())
    with pytest.raises(StateError, match="gradients of 2 ranks that wait"):
        waiting.load_state_dict({"world_size": 2, "ranks": {"0": {}, "1": {}}})
    waiting.load_state_dict({"world_size": 2, "ranks": {}})
