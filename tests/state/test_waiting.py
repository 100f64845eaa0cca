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


def test_gradients_of_another_dtype_come_back() -> None:
    """Where the parameter allows it, as for sums in float32 of a model in bfloat16; else they are refused."""

    def made(dtype: torch.dtype | None) -> torch.nn.Linear:
        one = model().bfloat16()
        for parameter in one.parameters():
            if hasattr(parameter, "grad_dtype"):
                parameter.grad_dtype = dtype
        return one

    begun, resumed = made(torch.float32), made(torch.float32)
    if not hasattr(begun.weight, "grad_dtype"):
        pytest.skip("this torch has gradients of the parameter's dtype only")
    begun.weight.grad = torch.full((1, 2), 0.1)
    state = WaitingGradients(model=begun).state_dict()
    WaitingGradients(model=resumed).load_state_dict(state)

    assert resumed.weight.grad is not None
    assert torch.equal(resumed.weight.grad, begun.weight.grad)
    WaitingGradients(model=made(None)).load_state_dict(state)
    with pytest.raises(StateError, match=r"model\.weight is float32 .*, here it has to be bfloat16 of shape"):
        WaitingGradients(model=made(torch.bfloat16)).load_state_dict(state)


def test_parameters_go_by_the_names_of_their_modules() -> None:
    """Also where an optimizer comes first, whose order may be another one in the next process."""

    def made(is_reversed: bool) -> tuple[torch.nn.Linear, WaitingGradients]:
        one = torch.nn.Linear(1, 1)
        parameters = list(one.parameters())
        optimizer = torch.optim.SGD(parameters[::-1] if is_reversed else parameters, lr=0.1)
        return one, WaitingGradients(optimizer=optimizer, model=one)

    begun, waiting = made(is_reversed=False)
    begun.bias.grad = torch.ones(1)
    resumed, other = made(is_reversed=True)
    other.load_state_dict(waiting.state_dict())

    assert resumed.weight.grad is None
    assert resumed.bias.grad is not None
    resumed.bias.grad = None
    other.load_state_dict({"world_size": 1, "ranks": {"0": {"optimizer.0": torch.ones(1)}}})
    assert resumed.bias.grad is not None


def test_gradients_of_other_ranks_are_refused() -> None:
    """They are sums of parts of a batch; where none wait, any number will do."""
    waiting = WaitingGradients(model=model())
    with pytest.raises(StateError, match="gradients of 2 ranks that wait"):
        waiting.load_state_dict({"world_size": 2, "ranks": {"0": {}, "1": {}}})
    waiting.load_state_dict({"world_size": 2, "ranks": {}})
