"""uninitialized-memory: zeros when pinned, a pattern when varied, for every kind of tensor that has memory."""

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import samebits
from tests.factors.contexts import here, lines, treated, watched

pytestmark = pytest.mark.filterwarnings(
    "ignore:ComplexHalf", "ignore:torch.quantize_per_tensor", "ignore:The PyTorch API of nested"
)

X = torch.ones(5)
MAKERS: list[Callable[[], torch.Tensor]] = [
    lambda: torch.empty(5),
    lambda: torch.empty((2, 3), dtype=torch.int64),
    lambda: torch.empty(size=(2, 3)),
    lambda: torch.empty_like(X),
    lambda: torch.empty_strided((2, 3), (1, 2)),
    lambda: torch.empty_permuted((2, 3), (1, 0)),
    lambda: X.new_empty(4),
    lambda: X.new_empty_strided((2, 2), (2, 1)),
    lambda: torch.empty(4, requires_grad=True),
    lambda: torch.empty(4, out=torch.ones(4)),
    lambda: torch.empty(2, 3, memory_format=torch.contiguous_format),
    lambda: nn.Parameter(torch.empty(3)).detach(),
]


@pytest.mark.parametrize("make", MAKERS)
def test_memory_holds_what_the_factor_says(make: Callable[[], torch.Tensor]) -> None:
    """Zero, or the pattern of the variant; shape, type and gradient flag are those that were asked for."""
    natural = make()
    with watched("uninitialized-memory", "pinned") as seen:
        pinned = make()
    varied = []
    for variant in (1, 2, 1000):
        with treated("uninitialized-memory", "varied", variant=variant):
            varied.append(make())

    assert (pinned == 0).all()
    assert [tensor.flatten()[0].item() for tensor in varied] == [78, 79, 127]
    assert all((tensor == tensor.flatten()[0]).all() for tensor in varied)
    for tensor in (pinned, *varied):
        assert (tensor.shape, tensor.stride(), tensor.dtype) == (natural.shape, natural.stride(), natural.dtype)
        assert (tensor.requires_grad, tensor.is_leaf) == (natural.requires_grad, natural.is_leaf)
    assert lines(seen) == [make.__code__.co_firstlineno]


def all_dtypes() -> list[torch.dtype]:
    return [value for value in vars(torch).values() if isinstance(value, torch.dtype)]


@pytest.mark.parametrize("mode", ["pinned", "varied"])
def test_every_type_that_torch_can_make_can_be_filled(mode: Any) -> None:
    """float8, complex, bool, the types below one byte; what torch refuses, it refuses as ever."""
    filled, refused = [], []
    for dtype in dict.fromkeys(all_dtypes()):
        try:
            torch.empty(4, dtype=dtype)
        except RuntimeError:
            refused.append(dtype)
            continue
        with treated("uninitialized-memory", mode):
            memory = torch.empty(4, dtype=dtype)
        if not memory.is_quantized:
            raw = memory.view(torch.uint8)
            assert bool(raw.any()) == (mode == "varied"), dtype
            filled.append(dtype)

    assert {torch.float8_e4m3fn, torch.complex64, torch.bool, torch.bfloat16, torch.int8} <= set(filled)
    assert len(filled) > 20


def test_tensors_without_memory_of_their_own_are_untouched() -> None:
    """meta, sparse, quantized, nested and fake tensors come out as torch makes them."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for mode in ("pinned", "varied"):
        with watched("uninitialized-memory", mode) as seen:  # type: ignore[arg-type]
            assert torch.empty(3, device="meta").is_meta
            assert torch.empty(3, layout=torch.sparse_coo)._nnz() == 0
            assert torch.empty_like(quantized).is_quantized
            assert torch.empty_like(nested).is_nested
        assert seen == []
        with FakeTensorMode(), treated("uninitialized-memory", mode):  # type: ignore[arg-type]
            assert torch.empty(3).shape == (3,)


@pytest.mark.parametrize("mode", ["pinned", "varied"])
def test_a_device_chosen_around_is_obeyed(mode: Any) -> None:
    """`with torch.device("meta")` looks the function up in a table; nn.Linear must not land on the CPU."""
    import torch.utils._device

    for when_made in ("before", "inside"):
        torch.utils._device._device_constructors.cache_clear()
        if when_made == "before":
            torch.utils._device._device_constructors()
        with treated("uninitialized-memory", mode), torch.device("meta"):
            assert torch.empty(3).is_meta
            assert nn.Linear(2, 2).weight.is_meta
        with torch.device("meta"):
            assert torch.empty(3).is_meta, "afterwards"
    torch.utils._device._device_constructors.cache_clear()


def test_scripted_and_compiled_code_is_what_it_was() -> None:
    """torch.jit and torch.compile know functions by identity: before a pin, inside, nested and afterwards."""
    # With torch's compiler as everybody imports it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, str(Path(__file__).with_name("compile_probe.py"))], env=environment, check=True)


def test_functions_are_the_same_objects_in_every_pin() -> None:
    """The compiler of torch keeps their addresses: the next object there would be taken for numpy's function."""
    seen = []
    for _ in range(2):
        with samebits.pinned(factors=["uninitialized-memory"]):
            outer = torch.empty, np.empty
            with samebits.pinned(factors=["uninitialized-memory"]):
                seen.append([*map(id, outer), id(torch.empty), id(np.empty)])
                assert outer[0](1).item() == outer[1](1).item() == 0
        assert outer[0](2).shape == (2,)

    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 4


def test_traced_graphs_are_what_they_were() -> None:
    """torch.fx sees the calls of the program and none of ours."""

    def make(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x) + x.new_empty(3)

    expected = torch.fx.symbolic_trace(make).code
    with samebits.pinned(factors=["uninitialized-memory"]):
        traced = torch.fx.symbolic_trace(make)

    assert traced.code == expected
    assert traced(torch.ones(3)).shape == (3,)


@pytest.mark.parametrize("transform", ["vmap", "grad", "inference", "no_grad"])
def test_transforms_work_as_ever(transform: str) -> None:
    """Filling happens where the tensor is made, whatever is being done around it."""

    def double(x: torch.Tensor) -> torch.Tensor:
        return (torch.empty_like(x).copy_(x) + torch.empty(()).fill_(1)).sum()

    with samebits.pinned(factors=["uninitialized-memory"]):
        if transform == "vmap":
            assert torch.vmap(double)(torch.ones(2, 3)).tolist() == [6, 6]
        elif transform == "grad":
            assert torch.func.grad(double)(torch.ones(3)).tolist() == [1, 1, 1]
        else:
            with torch.inference_mode() if transform == "inference" else torch.no_grad():
                assert double(torch.ones(3)).item() == 6


def test_a_program_that_writes_before_it_reads_sees_nothing() -> None:
    """Layers initialise what they allocate; so does every program that is right."""

    def program() -> list[Any]:
        torch.manual_seed(0)
        return [nn.Linear(3, 3).weight.tolist(), nn.LSTM(2, 2)(torch.ones(1, 2))[0].tolist(), np.full(3, 2.0).tolist()]

    state = torch.get_rng_state()
    expected = program()
    with treated("uninitialized-memory", "varied"):
        found = program()
    torch.set_rng_state(state)

    assert found == expected


def test_numpy_arrays_too() -> None:
    """np.empty and np.empty_like, of numbers; objects and records are left alone."""
    with watched("uninitialized-memory", "varied") as seen:
        start = here()
        filled = np.empty(3)
        small = np.empty_like(filled, dtype=np.int8)
        flags, letters = np.empty(2, dtype=bool), np.empty(2, dtype=object)
        ordered = np.empty((2, 3), order="F")
        np.zeros(3), np.full(3, 1)
    with samebits.pinned(factors=["uninitialized-memory"]):
        zeros = np.empty(3)

    assert filled.tolist() == small.tolist() == [78, 78, 78]
    assert flags.all()
    assert letters.tolist() == [None, None]
    assert ordered.flags.f_contiguous
    assert zeros.tolist() == [0, 0, 0]
    assert lines(seen) == [start + 1, start + 2, start + 3, start + 4]


def test_the_functions_stay_what_torch_takes_them_for() -> None:
    """Copied, pickled, overridden by a subclass, looked up in torch's own tables."""

    class Mine(torch.Tensor):
        calls: list[Any] = []  # noqa: RUF012

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.calls.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    plain = torch.empty_like
    with samebits.pinned(factors=["uninitialized-memory"]):
        assert pickle.loads(pickle.dumps(torch.empty)) is copy.deepcopy(torch.empty) is torch.empty
        made = torch.empty_like(torch.ones(2).as_subclass(Mine))
        assert type(made) is Mine
        assert torch.empty_like in Mine.calls
        assert plain in Mine.calls
        assert torch.Tensor.new_empty.__name__ == "new_empty"
    assert made.tolist() == [0, 0]
