"""Distances between kept tensors: counted in elements and in units in the last place."""

from pathlib import Path

import numpy as np
import pytest
import torch

from samebits.comparison.values import distance, distance_of_results
from samebits.runfolder.tensors import Kept, keep, read_kept, write_tensors


def kept(tensor: torch.Tensor) -> Kept:
    raw = tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return Kept(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), raw)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_next_float_is_one_unit_away(dtype: torch.dtype) -> None:
    """One element moved to its neighbour: 1 of 4, 1 ULP; the unmoved twin: nothing."""
    a = torch.tensor([1.0, -2.0, 0.5, 3.0]).to(dtype)
    b = a.clone()
    assert distance(kept(a), kept(b)).elements == 0
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    b.view(integers)[1] += 1

    found = distance(kept(a), kept(b))

    assert found is not None
    assert (found.elements, found.total, found.max_ulp) == (1, 4, 1)
    x, y = float(a[1]), float(b[1])
    assert found.max_relative == abs(x - y) / max(abs(x), abs(y))


def test_units_are_counted_across_zero() -> None:
    """-0.0 and 0.0 differ in bits: one unit; the smallest floats on both sides are three apart."""
    tiny = torch.tensor([torch.finfo(torch.float32).smallest_normal * 0 + 1.4e-45])
    zero = distance(kept(torch.tensor([0.0])), kept(torch.tensor([-0.0])))
    across = distance(kept(tiny), kept(-tiny))

    assert zero is not None
    assert (zero.elements, zero.max_ulp) == (1, 1)
    assert across is not None
    assert across.max_ulp == 3


def test_nan_against_a_number_has_no_units() -> None:
    """Nothing is claimed where the question makes no sense."""
    found = distance(kept(torch.tensor([1.0, float("nan")])), kept(torch.tensor([1.0, 2.0])))

    assert found is not None
    assert (found.elements, found.max_ulp, found.max_relative) == (1, None, None)


def test_integers_are_counted() -> None:
    """Labels that changed: how many, no units."""
    found = distance(kept(torch.tensor([1, 2, 3])), kept(torch.tensor([1, 5, 6])))

    assert found is not None
    assert (found.elements, found.total, found.max_ulp) == (2, 3, None)


def test_other_shapes_are_not_measured() -> None:
    """Two shapes cannot be compared element by element."""
    assert distance(kept(torch.zeros(3)), kept(torch.zeros(4))) is None


def test_the_farthest_element_is_measured_exactly() -> None:
    """Among many differences the largest counts, exactly, also for doubles whose bits exceed 2**53."""
    a = torch.linspace(1, 2, 1000, dtype=torch.float64)
    b = a.clone()
    b.view(torch.int64)[::2] += 1
    b.view(torch.int64)[10] += 12344

    found = distance(kept(a), kept(b))

    assert found is not None
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
