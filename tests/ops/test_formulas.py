"""Formulas in the place of operations: one result in every call, as right as torch's, differentiable as before."""

from dataclasses import replace

import pytest
import torch

from tests.ops.cases import CASES, Case, on_cpu, results, unnamed
from tests.standin import missing
from tests.standin.conftest import Ask

PROBES = "tests.ops.probes"
NEEDS_THE_STANDIN = pytest.mark.skipif(bool(missing()), reason=missing())
# Of cuDNN alone; and another way to call the same.
UNCALLED = {"cudnn_grid_sampler_backward", "_ctc_loss_backward.Tensor", "scatter.value_reduce", "mm"}
DIFFERENTIABLE = {name: case for name, case in CASES.items() if case.wants_gradient and name != "ctc infinite"}
TWICE = {name: case for name, case in DIFFERENTIABLE.items() if case.twice}


def test_every_operation_of_the_table_has_a_case() -> None:
    assert unnamed() == UNCALLED


@NEEDS_THE_STANDIN
@pytest.mark.parametrize("calls", ["6", pytest.param("50", marks=pytest.mark.slow)])
def test_a_device_that_races_gives_one_result_as_right_as_torchs(calls: str, ask: Ask) -> None:
    """In so many calls, with 1, 2 and 4 threads; in float32, float16 and bfloat16, against float64.

    Without formulas they are refused, so nothing is replaced for nothing, but for what races silently.
    """
    assert ask(f"{PROBES} agrees refuses errors", "races", CALLS=calls) == ""


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


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("nll mean", [(0, 5, 3, 3)]),
        ("bilinear", [(0, 3, 20, 9)]),
        ("grid bicubic border True", [(0, 3, 6, 7), (0, 9, 10, 2)]),
        ("avg 3d", [(0, 3, 5, 6, 7)]),
        ("avg 3d", [(3, 5, 6, 7)]),
        ("max 2d", [(3, 17, 21)]),
        ("replicate 2d", [(3, 9, 4)]),
        ("cumprod", [(1024,)]),
        ("logcumsumexp", [(1, 1025)]),
        ("index mean False", [(3, 6, 4), (3, 0, 4)]),
    ],
)
def test_there_may_be_nothing_or_no_batch(name: str, shapes: list[tuple[int, ...]]) -> None:
    """The same shapes, and values as near as torch's own, where a case has other shapes."""
    case = replace(CASES[name], shapes=tuple(shapes))
    expected = results(case, torch.float64, "cpu")
    with on_cpu() as heard:
        found = results(case, torch.float64, "cpu")

    assert heard
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert bool(((a - b).abs() <= 1e-12 * b.abs().clamp(min=1)).logical_or(a.isnan() & b.isnan()).all())
