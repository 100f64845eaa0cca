"""Units in the last place: one definition for kept tensors and for losses."""

import itertools
import json
import math
from dataclasses import asdict

import pytest
import torch

from samebits.bits.ulp import raw_of, ulp_between, ulp_worth_reporting
from samebits.comparison.values import Distance, distance
from samebits.report.places import distance_words
from samebits.runfolder.tensors import Kept

INTEGERS = {"float64": torch.int64, "float32": torch.int32, "float16": torch.int16, "bfloat16": torch.int16}
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0**-126, 0.333251953125, 3.0e4)


def kept(values: list[float], dtype: str) -> Kept:
    tensor = torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype))
    return Kept(dtype, tuple(tensor.shape), bytes(tensor.view(torch.uint8).tolist()))


def relative_between(a: float, b: float) -> float | None:
    """|a - b| / max(|a|, |b|), 0 where they are equal; None where one is no finite number."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return None
    scale = max(abs(a), abs(b))
    if scale == 0:
        return 0.0
    difference = abs(a - b)
    # Two large numbers of opposite sign are farther apart than any double.
    return difference / scale if math.isfinite(difference) else abs(a / scale - b / scale)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_losses_and_tensors_are_measured_alike(dtype: str) -> None:
    """The same two numbers give the same units, whoever counts."""
    for x, y in itertools.product(NUMBERS, repeat=2):
        a, b = (float(torch.tensor(number, dtype=getattr(torch, dtype))) for number in (x, y))
        found, relative = distance(kept([a], dtype), kept([b], dtype)), relative_between(a, b)
        ulp = ulp_worth_reporting(ulp_between(raw_of(a, dtype), raw_of(b, dtype), dtype), relative)

        assert found is not None
        assert (found.max_ulp, found.max_relative) == (ulp, relative), (a, b)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_zero_units_are_the_same_bits(dtype: str) -> None:
    """-0.0 lies one below 0.0: other bits are never 0 apart; neighbours on either side of both are one apart."""
    kind = getattr(torch, dtype)
    tiny = torch.ones(1, dtype=INTEGERS[dtype]).view(kind)
    row = [-float(tiny), -0.0, 0.0, float(tiny)]
    ulps = [ulp_between(raw_of(a, dtype), raw_of(b, dtype), dtype) for a, b in itertools.pairwise(row)]

    assert ulps == [1, 1, 1]
    assert ulp_between(raw_of(0.0, dtype), raw_of(0.0, dtype), dtype) == 0


@pytest.mark.parametrize("dtype", INTEGERS)
def test_what_is_no_finite_number_has_no_units(dtype: str) -> None:
    """NaN and infinity against anything else; with themselves they are the same bits."""
    nan, inf = (raw_of(number, dtype) for number in (float("nan"), float("inf")))
    one = raw_of(1.0, dtype)

    assert ulp_between(nan, one, dtype) is ulp_between(inf, one, dtype) is ulp_between(nan, inf, dtype) is None
    assert ulp_between(nan, nan, dtype) == ulp_between(inf, inf, dtype) == 0
    assert relative_between(float("nan"), 1.0) is relative_between(1.0, float("inf")) is None


@pytest.mark.parametrize(
    ("ulp", "relative", "told"),
    [
        (3, 1e-7, 3),
        (1 << 20, 0.0099, 1 << 20),
        (2_100_000_000, 1.7, None),
        (1 << 23, 0.5, None),
        # Next to zero, and with few digits, neighbours are far apart.
        (1, 1.0, 1),
        (4, 0.03, 4),
        (5, 0.03, None),
        (None, None, None),
    ],
)
def test_units_are_told_where_they_mean_something(ulp: int | None, relative: float | None, told: int | None) -> None:
    """Between unrelated values they only count how many floats there are."""
    assert ulp_worth_reporting(ulp, relative) == told


def test_unrelated_tensors_have_no_units() -> None:
    """Neither as text nor as data; the twin, one rounding apart, has."""
    other = distance(kept([1.0, 2.0], "float32"), kept([-1.0, 2.0], "float32"))
    near = distance(kept([1.0, 2.0], "float32"), kept([1.0 + 2**-23, 2.0], "float32"))

    assert (other, near) == (Distance(1, 2, None, 2.0), Distance(1, 2, 1, 2**-23 / (1 + 2**-23)))
    assert "ULP" not in distance_words(other)
    assert "by at most 1 ULP" in distance_words(near)


def test_the_largest_numbers_stay_finite() -> None:
    """Their difference overflows, their relative difference does not."""
    found = distance(kept([1.7e308], "float64"), kept([-1.7e308], "float64"))

    assert found == Distance(1, 1, None, 2.0)
    assert json.dumps(asdict(found), allow_nan=False)
    assert relative_between(1.7e308, -1.7e308) == 2.0


@pytest.mark.parametrize("dtype", ["complex64", "uint16", "uint64", "float8_e4m3fn"])
def test_elements_are_counted_and_not_bytes(dtype: str) -> None:
    kind = getattr(torch, dtype)
    a, b = torch.zeros(3 * kind.itemsize, dtype=torch.uint8), torch.zeros(3 * kind.itemsize, dtype=torch.uint8)
    b[: kind.itemsize] = 7

    assert distance(Kept(dtype, (3,), bytes(a.tolist())), Kept(dtype, (3,), bytes(b.tolist()))) == Distance(1, 3)
