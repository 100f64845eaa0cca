"""Kernels are replaced for as long as somebody asks for it, whatever way an operation is called, and put back."""

import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import samebits
from samebits.base.sites import Site
from samebits.factors.catalog import find
from samebits.factors.context import FactorContext, Setting
from samebits.ops.overrides import CannotReplaceError, forward_site, replace
from tests.ops.cases import on_cpu
from tests.standin.probes import same

REFUSED = "does not have a deterministic implementation"


def unpooled() -> Tensor:
    """What torch refuses on the CPU, too."""
    index = torch.tensor([[[[0, 3], [5, 5]]]])
    return torch.ops.aten.max_unpool2d(torch.tensor([[[[1.0, 2], [3, 4]]]]), index, [4, 4])


def test_what_was_refused_is_replaced_as_long_as_it_is_pinned() -> None:
    with samebits.pinned(factors=[], values={"torch-algorithms": "replace"}, strict=True) as status:
        found = unpooled()
    with (
        samebits.pinned(factors=[], values={"torch-algorithms": "strict"}, strict=True) as plain,
        pytest.raises(RuntimeError, match=REFUSED),
    ):
        unpooled()

    assert "formulas of samebits" in status["torch-algorithms"].observation.value
    assert plain["torch-algorithms"].observation.value == "deterministic kernels or an error"
    assert found.flatten().tolist()[:6] == [1, 0, 0, 2, 0, 4]


OUTSIDE = {
    "a place in a plane": (
        "max_unpool2d",
        lambda at: functional.max_unpool2d(torch.ones(1, 1, 1), at.view(1, 1, 1), 2),
    ),
    "a slice, averaged": ("index_reduce", lambda at: torch.ones(3, 2).index_reduce(0, at, torch.ones(1, 2), "mean")),
    "a slice, multiplied": ("index_reduce", lambda at: torch.ones(3, 2).index_reduce(0, at, torch.ones(1, 2), "prod")),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_lies_outside_is_refused_by_torch(name: str) -> None:
    """With its own words, and not written to another place; what lies inside is ours."""
    op, call = OUTSIDE[name]
    with on_cpu() as heard:
        call(torch.tensor([2]))
    for at in (-1, 4):
        with pytest.raises((RuntimeError, IndexError)) as torchs:
            call(torch.tensor([at]))
        with on_cpu(), pytest.raises(torchs.type) as ours:
            call(torch.tensor([at]))

        assert str(ours.value) == str(torchs.value)
    assert heard[op] == 1


def test_the_last_who_ends_it_puts_kernels_back() -> None:
    """Each hears of every call as long as it has not ended; ending twice is ending once."""
    torch.use_deterministic_algorithms(True)
    try:
        first: list[str] = []
        second: list[str] = []
        end_first, end_second = replace(first.append), replace(second.append)
        unpooled()
        end_first()
        end_first()
        unpooled()
        end_second()
        with pytest.raises(RuntimeError, match=REFUSED):
            unpooled()
    finally:
        torch.use_deterministic_algorithms(False)

    assert (first, second) == (["max_unpool2d"], ["max_unpool2d"] * 2)


def test_nested_pins_leave_the_flag_as_it_was() -> None:
    """Inside torch tells it as it is, to everybody but those who would avoid what is replaced."""
    asks = torch._C._get_deterministic_algorithms
    values = {"torch-algorithms": "replace"}
    with samebits.pinned(factors=[], values=values, strict=True):
        with samebits.pinned(factors=[], values=values, strict=True):
            unpooled()
            assert torch.are_deterministic_algorithms_enabled()
        unpooled()

    assert torch._C._get_deterministic_algorithms is asks


def test_the_innermost_pin_has_its_way() -> None:
    """Strict within formulas, and formulas within that; each ends with its block."""
    formulas, strict = ({"torch-algorithms": value} for value in ("replace", "strict"))
    with samebits.pinned(factors=[], values=formulas):
        with samebits.pinned(factors=[], values=strict):
            with pytest.raises(RuntimeError, match=REFUSED):
                unpooled()
            with samebits.pinned(factors=[], values=formulas):
                unpooled()
            with pytest.raises(RuntimeError, match=REFUSED):
                unpooled()
        unpooled()
    unpooled()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_unpooling_can_be_compiled(backend: str) -> None:
    """What is traced has no values, and torch refuses that by itself; an empty batch is no reason to refuse either."""
    index = torch.tensor([[[[0, 3], [5, 5]]]])

    def step(x: Tensor) -> Tensor:
        return functional.max_unpool2d(x, index.to(x.device).expand(len(x), 1, 2, 2), 2) * 2

    with samebits.pinned(factors=["torch-algorithms"], strict=True):
        compiled = torch.compile(step, backend=backend, fullgraph=True)
        assert same(compiled(torch.ones(3, 1, 2, 2)), step(torch.ones(3, 1, 2, 2)))
        assert step(torch.ones(0, 1, 2, 2)).shape == (0, 1, 4, 4)
        assert step(torch.ones(3, 1, 2, 2, device="meta")).shape == (3, 1, 4, 4)


def test_calls_are_counted_by_line() -> None:
    context = FactorContext("torch-algorithms", Setting("pinned", "replace"))
    find("torch-algorithms").apply(context)
    for _ in range(3):
        unpooled()
    context.end()
    ((op, site),) = context.replaced

    assert (op, context.replaced[op, site]) == ("max_unpool2d", 3)
    assert site is not None
    assert Path(site.path).name == Path(__file__).name


def test_lines_are_those_of_the_forward() -> None:
    """Two calls of one operation are told apart, wherever the backward is called; what has no node has no line."""
    x = torch.randn(1, 1, 9, 9, requires_grad=True)
    sites: list[Site | None] = []
    with on_cpu():
        end = replace(lambda name: sites.append(forward_site(name)))
        first = functional.adaptive_avg_pool2d(x, 5)
        second = functional.adaptive_avg_pool2d(first * 2, 2)
        thread = threading.Thread(target=second.sum().backward)
        thread.start()
        thread.join()
        torch.ops.aten._adaptive_avg_pool2d_backward(first.detach(), x.detach())
        end()
    plain = functional.adaptive_avg_pool2d(x, 5)

    assert [site and site.source for site in sites] == [
        "second = functional.adaptive_avg_pool2d(first * 2, 2)",
        "first = functional.adaptive_avg_pool2d(x, 5)",
        None,
    ]
    assert first.grad_fn is not None
    assert first.grad_fn.metadata
    assert plain.grad_fn is not None
    assert not plain.grad_fn.metadata


def test_what_is_computed_again_has_its_own_line() -> None:
    """A node that asks for a checkpointed forward is not the node of what is called in it."""
    x = torch.rand(1, 3, 9, 9, requires_grad=True)
    heard: list[tuple[str, bool]] = []

    def forward(x: Tensor) -> Tensor:
        loss = functional.nll_loss(x, torch.zeros(1, 9, 9, dtype=torch.int64))
        return functional.adaptive_max_pool2d(x * loss, 4).sum()

    with on_cpu():
        end = replace(lambda name: heard.append((name, forward_site(name) is not None)))
        checkpoint(forward, x, use_reentrant=False).backward()
        end()

    assert heard == [("nll_loss2d_forward", False)] * 2 + [("adaptive_max_pool2d_backward", True)]


def test_errors_of_a_forward_come_without_our_frames() -> None:
    """As they come when nothing is replaced."""
    x = torch.ones(1, 1, 3, 3, requires_grad=True)
    told = []
    for within in (nullcontext(), on_cpu()):
        with within, pytest.raises(RuntimeError) as caught:
            torch._C._nn.upsample_bilinear2d(x, [0, 0], False)
        told.append((str(caught.value).splitlines()[0], [entry.name for entry in caught.traceback]))

    assert told[0] == told[1]


def test_another_override_of_a_forward_is_left_alone() -> None:
    """It is called as before, and what it calls has no line."""
    library = torch.library.Library("aten", "IMPL", "AutogradCPU")
    library.impl("_adaptive_avg_pool2d", lambda self, size: self.sum(), allow_override=True)
    try:
        with on_cpu():
            found = functional.adaptive_avg_pool2d(torch.ones(1, 1, 3, 3, requires_grad=True), 2)
    finally:
        library._destroy()

    assert found.item() == 9
    assert found.grad_fn is not None
    assert not found.grad_fn.metadata


def test_another_override_is_named() -> None:
    """Two who replace one operation would not know of one another; without the other it goes."""
    library = torch.library.Library("aten", "IMPL", "CPU")
    library.impl("max_unpool2d", lambda self, indices, size: self, allow_override=True)
    try:
        with pytest.raises(
            CannotReplaceError, match=r"max_unpool2d was replaced on CPU before, by .*test_overrides.py:"
        ):
            replace(print)
    finally:
        library._destroy()

    replace(print)()


def test_an_override_after_ours_is_named() -> None:
    """As a pin that the program has undone."""
    factor, context = find("torch-algorithms"), FactorContext("torch-algorithms", Setting("pinned", "replace"))
    factor.apply(context)
    before = factor.verify(context)
    library = torch.library.Library("aten", "IMPL", "CPU")
    library.impl("max_unpool2d", lambda self, indices, size: self, allow_override=True)
    try:
        after = factor.verify(context)
    finally:
        library._destroy()
        context.end()

    assert before == ""
    assert after.startswith("max_unpool2d was replaced on CPU by ")
    assert __file__ in after


@pytest.mark.parametrize("is_there", [True, False])
def test_results_are_written_where_asked(is_there: bool) -> None:
    # Small whole numbers: however they are multiplied, the product is the same.
    x, index, src = torch.arange(12.0).view(3, 4), torch.tensor([1, 1, 0]), torch.arange(12.0).view(4, 3).t()
    expected = x.index_reduce(0, index, src, "prod")
    out = torch.empty(3, 4) if is_there else torch.empty(0)
    inplace = x.clone()
    with on_cpu() as heard:
        found = torch.index_reduce(x, 0, index, src, "prod", out=out)
        inplace.index_reduce_(0, index, src, "prod")
        values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
        both = torch.median(x, 1, out=(values, indices))

    assert found is out
    assert same(out, expected)
    assert same(inplace, expected)
    assert both.values is values
    assert same(values, x.median(1).values)
    assert heard == {"index_reduce": 1, "index_reduce_": 1, "median": 1}


def test_what_a_formula_does_not_know_is_left_to_torch() -> None:
    """Whole numbers, reductions that do not race, a row among rows; and refusals are torch's."""
    whole = torch.arange(6).view(2, 3)
    with on_cpu() as heard:
        found = whole.scatter_reduce(0, torch.zeros_like(whole), whole, "prod")
        functional.nll_loss(torch.rand(1, 2, 3, 3), torch.zeros(1, 3, 3, dtype=torch.int64), reduction="none")
        torch.rand(2, 3).cumprod(1)
        with pytest.raises(RuntimeError, match="dtype"):
            torch.index_reduce(torch.ones(2), 0, torch.tensor([0]), torch.ones(1), "prod", out=torch.empty(0).double())
        with pytest.raises(IndexError, match="same number of elements"):
            torch.zeros(3).put_(torch.tensor([0]), torch.zeros(2))

    assert found.tolist() == [[0, 4, 20], [3, 4, 5]]
    assert not heard


@pytest.mark.parametrize(
    ("index", "source", "message"),
    [
        (torch.tensor([0], dtype=torch.int32), torch.ones(1), "Expected a long tensor for index"),
        (torch.tensor([0]), torch.ones(2), "same number of elements"),
        (torch.tensor([0]), torch.ones(1).double(), "expected to have the same dtype"),
        (torch.tensor([9]), torch.ones(1), "index 9 is out of bounds"),
    ],
)
def test_a_mistake_is_named_before_a_refusal(index: Tensor, source: Tensor, message: str) -> None:
    """And nothing is written."""
    given = torch.zeros(3)
    with samebits.pinned(factors=["torch-algorithms"], strict=True):
        with pytest.raises((RuntimeError, IndexError), match=message):
            given.put_(index, source)
        assert torch.get_deterministic_debug_mode() == 2

    assert given.tolist() == [0, 0, 0]


def test_formulas_choose_their_own_precision() -> None:
    """Autocast does not reach into them."""
    x = torch.randn(1, 2, 6, 6, requires_grad=True)
    plain = torch.ops.aten.upsample_bilinear2d_backward(x.detach(), [6, 6], [1, 2, 3, 3], False)
    with on_cpu() as heard, torch.autocast("cpu", torch.bfloat16):
        found = torch.ops.aten.upsample_bilinear2d_backward(x.detach(), [6, 6], [1, 2, 3, 3], False)

    assert heard
    assert found.dtype == torch.float32
    assert (found - plain).abs().max().item() < 1e-5


def test_products_of_lower_precision_are_not_taken() -> None:
    """Where float32 may be multiplied as TF32 or bfloat16, float64 is."""
    grad = torch.randn(4, 8, 64, 64)
    exact = torch.ops.aten.upsample_bilinear2d_backward(grad.double(), [64, 64], [4, 8, 32, 32], False)
    torch.set_float32_matmul_precision("medium")
    try:
        with on_cpu():
            found = torch.ops.aten.upsample_bilinear2d_backward(grad, [64, 64], [4, 8, 32, 32], False)
    finally:
        torch.set_float32_matmul_precision("highest")

    assert (found - exact).abs().max().item() < 1e-6


def test_memory_formats_are_kept() -> None:
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
    with on_cpu():
        (found,) = torch.autograd.grad(functional.adaptive_avg_pool2d(x, 3).sum(), x)

    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.slow
def test_compiled_code_calls_them() -> None:
    """Fake tensors see torch's shapes, and what runs is ours."""
    x = torch.randn(2, 3, 9, 9, requires_grad=True)
    target = torch.arange(162).view(2, 9, 9) % 3

    def step(x: Tensor) -> Tensor:
        return functional.cross_entropy(x, target) + functional.adaptive_max_pool2d(x, 2).sum()

    with on_cpu() as heard:
        (expected,) = torch.autograd.grad(step(x), x)
        eager = dict(heard)
        (found,) = torch.autograd.grad(torch.compile(step, backend="aot_eager", fullgraph=True)(x), x)

    assert same(found, expected)
    assert heard["adaptive_max_pool2d_backward"] == 2 * eager["adaptive_max_pool2d_backward"]


def test_the_flag_can_be_asked_for_with_nobody_above() -> None:
    """By the first line of a program, to which no frame leads."""
    pins = "import torch, samebits; samebits.pin(factors=[], values={'torch-algorithms': 'replace'})"
    asks = f"{pins}; assert torch._C._get_deterministic_algorithms()"
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
