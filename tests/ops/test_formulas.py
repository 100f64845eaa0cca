"""Formulas in the place of operations: one result in every call, as right as torch's, differentiable as before."""

import pytest
import torch

from tests.ops.cases import CASES, Case, on_cpu, unnamed
from tests.standin import missing
from tests.standin.conftest import Ask

PROBES = "tests.ops.probes"
NEEDS_THE_STANDIN = pytest.mark.skipif(bool(missing()), reason=missing())
# Of cuDNN alone; and another way to call the same.
UNCALLED = {"cudnn_grid_sampler_backward", "_ctc_loss_backward.Tensor", "scatter.value_reduce", "mm"}
DIFFERENTIABLE = {name: case for name, case in CASES.items() if case.wants_gradient and name != "ctc infinite"}
TWICE = {name: case for name, case in DIFFERENTIABLE.items() if case.twice}
pytest_plugins = ("tests.standin.conftest",)


def test_every_operation_of_the_table_has_a_case() -> None:
    assert unnamed() == UNCALLED


@NEEDS_THE_STANDIN
def test_a_device_that_races_gives_one_result(ask: Ask) -> None:
    """In 50 calls, with 1, 2 and 4 threads."""
    assert ask(f"{PROBES} agrees", "races") == ""


@NEEDS_THE_STANDIN
def test_without_formulas_they_are_refused(ask: Ask) -> None:
    """So nothing is replaced for nothing, but for what races silently."""
    assert ask(f"{PROBES} refuses", "races") == ""


@NEEDS_THE_STANDIN
def test_results_are_as_right_as_torchs(ask: Ask) -> None:
    """In float32, float16 and bfloat16, against float64."""
    assert ask(f"{PROBES} errors", "races") == ""


def small(case: Case) -> list[torch.Tensor]:
    """Values among which no two are alike, so that a maximum stays where it is when one of them moves a little."""
    generator = torch.Generator().manual_seed(3)
    shapes = [tuple(min(size, 40) for size in shape) for shape in case.shapes]
    return [torch.randn(one, generator=generator, dtype=torch.float64, requires_grad=True) for one in shapes]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_those_of_the_function(name: str) -> None:
    with on_cpu():
        assert torch.autograd.gradcheck(DIFFERENTIABLE[name].call, small(DIFFERENTIABLE[name]), fast_mode=True)


@pytest.mark.parametrize("name", TWICE)
def test_gradients_are_differentiated_as_before(name: str) -> None:
    with on_cpu():
        assert torch.autograd.gradgradcheck(TWICE[name].call, small(TWICE[name]), fast_mode=True)
