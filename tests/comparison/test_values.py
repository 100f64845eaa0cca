"""Distances between kept tensors: counted in elements and in units in the last place."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from samebits.comparison.values import Distance, distance, distance_of_results
from samebits.report.places import distance_words
from samebits.runfolder.tensors import KeptTensor, keep, read_kept, write_tensors

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def kept(tensor: torch.Tensor) -> KeptTensor:
    raw = tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return KeptTensor(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), raw)


def apart(a: torch.Tensor, b: torch.Tensor) -> Distance:
    """How far apart two tensors are, which can be compared."""
    found = distance(kept(a), kept(b))
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_next_float_is_one_unit_away(dtype: torch.dtype) -> None:
    """One element moved to its neighbour: 1 of 4, 1 ULP; the unmoved twin: nothing."""
    a = torch.tensor([1.0, -2.0, 0.5, 3.0]).to(dtype)
    b = a.clone()
    assert apart(a, b).elements == 0
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    b.view(integers)[1] += 1

    found = apart(a, b)

    assert (found.elements, found.total, found.max_ulp) == (1, 4, 1)
    x, y = float(a[1]), float(b[1])
    assert found.max_relative == abs(x - y) / max(abs(x), abs(y))


def test_units_are_counted_across_zero() -> None:
    """-0.0 and 0.0 differ in bits: one unit; the smallest floats on both sides are three apart."""
    tiny = torch.tensor([torch.finfo(torch.float32).smallest_normal * 0 + 1.4e-45])
    zero = apart(torch.tensor([0.0]), torch.tensor([-0.0]))

    assert (zero.elements, zero.max_ulp) == (1, 1)
    assert apart(tiny, -tiny).max_ulp == 3


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_finite_number_has_no_units(number: float, dtype: torch.dtype) -> None:
    """Nothing is claimed where the question makes no sense; against itself it is the same bits."""
    strange = torch.tensor([1.0, number]).to(dtype)

    assert apart(strange, torch.tensor([1.0, 2.0]).to(dtype)) == Distance(1, 2)
    assert apart(strange, strange) == Distance(0, 2, 0, 0.0)


@pytest.mark.parametrize(
    ("dtype", "units", "told"),
    [
        (torch.float32, 1 << 16, 1 << 16),
        (torch.float32, 1 << 17, None),
        # With few digits neighbours are far apart.
        (torch.bfloat16, 4, 4),
        (torch.bfloat16, 5, None),
    ],
)
def test_units_are_told_where_they_mean_something(dtype: torch.dtype, units: int, told: int | None) -> None:
    """Between unrelated values they only count how many floats there are."""
    a = torch.ones(1, dtype=dtype)
    b = (a.view(torch.int32 if dtype.itemsize == 4 else torch.int16) + units).view(dtype)

    assert apart(a, b).max_ulp == told


def test_unrelated_tensors_have_no_units() -> None:
    """Neither as text nor as data; the twin, one rounding apart, has."""
    a = torch.tensor([1.0, 2.0])
    other, near = apart(a, torch.tensor([-1.0, 2.0])), apart(a, torch.tensor([1.0 + 2**-23, 2.0]))

    assert (other, near) == (Distance(1, 2, None, 2.0), Distance(1, 2, 1, 2**-23 / (1 + 2**-23)))
    assert "ULP" not in distance_words(other)
    assert "by at most 1 ULP" in distance_words(near)


def test_the_largest_numbers_stay_finite() -> None:
    """Their difference overflows, their relative difference does not."""
    large = torch.tensor([1.7e308], dtype=torch.float64)
    found = apart(large, -large)

    assert found == Distance(1, 1, None, 2.0)
    assert json.dumps(asdict(found), allow_nan=False)


@pytest.mark.parametrize("dtype", ["int64", "complex64", "uint16", "uint64", "float8_e4m3fn"])
def test_elements_are_counted_and_not_bytes(dtype: str) -> None:
    """Of types that have no units, too."""
    width = getattr(torch, dtype).itemsize
    a, b = (KeptTensor(dtype, (3,), bytes([first] * width + [0] * 2 * width)) for first in (0, 7))

    assert distance(a, b) == Distance(1, 3)


def test_other_shapes_are_not_measured() -> None:
    """Two shapes cannot be compared element by element."""
    assert distance(kept(torch.zeros(3)), kept(torch.zeros(4))) is None


def test_the_farthest_element_is_measured_exactly() -> None:
    """Among many differences the largest counts, exactly, also for doubles whose bits exceed 2**53."""
    a = torch.linspace(1, 2, 1000, dtype=torch.float64)
    b = a.clone()
    b.view(torch.int64)[::2] += 1
    b.view(torch.int64)[10] += 12344

    found = apart(a, b)

    assert (found.elements, found.max_ulp) == (500, 12345)


def test_kept_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    """Any layout in memory, any dtype, several times in one step."""
    strided = torch.arange(12.0).reshape(3, 4).t()
    nan = torch.tensor([float("nan"), -0.0], dtype=torch.bfloat16)
    keep(tmp_path / "values", 0, 5, "grad", [("w", strided), ("empty", torch.zeros(0, 3))])
    keep(tmp_path / "values", 0, 5, "grad", [("n", nan)])

    found = read_kept(tmp_path, 0, 5, "grad")

    assert set(found) == {"w", "empty", "n"}
    assert np.array_equal(np.frombuffer(found["w"].raw, "<f4").reshape(4, 3), strided.numpy())
    assert found["n"].raw == nan.view(torch.uint8).numpy().tobytes()
    assert read_kept(tmp_path, 0, 4, "grad") == {}


def test_the_first_result_that_differs_is_measured(tmp_path: Path) -> None:
    """A call with two results, of which the first is the same."""
    for name, by in (("a", 1.0), ("b", 2.0)):
        results = [("in.0", torch.tensor([by])), ("out.0", torch.ones(3)), ("out.1", torch.tensor([1.0, by]))]
        write_tensors(tmp_path / f"{name}.safetensors", results)

    found = distance_of_results(tmp_path / "a.json", tmp_path / "b.json")
    assert found is not None
    assert (found.elements, found.total) == (1, 2)
