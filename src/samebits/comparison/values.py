"""Measures how far two tensors are apart: in how many elements, and by how many units in the last place (ULP)."""

from __future__ import annotations

import importlib
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from samebits.runfolder.tensors import KeptTensor, read_tensors

# Values with a larger relative distance are unrelated: how many floats lie between them means nothing.
ROUNDING = 0.01
# So few units are rounding at any relative distance: near zero and in bfloat16, neighbouring floats lie far apart.
FEW = 4
_BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16}


@dataclass(frozen=True)
class Distance:
    """The difference between two tensors of one dtype and shape.

    Attributes:
        elements: how many elements differ in any bit.
        total: how many elements there are.
        max_ulp: the largest distance in units in the last place; None where that means nothing (integers, NaN or
            infinity among the values that differ, values that have nothing to do with each other).
        max_relative: the largest |a - b| / max(|a|, |b|); None where there is none (integers, NaN, infinity).
    """

    elements: int
    total: int
    max_ulp: int | None = None
    max_relative: float | None = None

    @property
    def is_rounding(self) -> bool:
        """Whether the values are close enough to be the same numbers, rounded in another order."""
        return self.max_ulp is not None


def distance(a: KeptTensor, b: KeptTensor) -> Distance | None:
    """Measure how far two tensors are apart; None where NumPy is not installed, or dtype or shape differ."""
    if importlib.util.find_spec("numpy") is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return None
    np: ModuleType = importlib.import_module("numpy")
    if a.dtype not in _BITS:
        return _counted(np, a, b)
    kind = f"<u{_BITS[a.dtype] // 8}"
    left, right = np.frombuffer(a.raw, kind), np.frombuffer(b.raw, kind)
    unequal = left != right
    count, total = int(unequal.sum()), int(unequal.size)
    if not count:
        return Distance(0, total, 0, 0.0)
    left, right = left[unequal], right[unequal]
    x, y = _numbers(np, left, a.dtype), _numbers(np, right, a.dtype)
    if not (np.isfinite(x) & np.isfinite(y)).all():
        return Distance(count, total)
    relative = float(_relative(np, x, y).max())
    ulp = _units(np, left, right, _BITS[a.dtype])
    return Distance(count, total, ulp if relative < ROUNDING or ulp <= FEW else None, relative)


def distance_of_results(a: Path, b: Path) -> Distance | None:
    """Measure how far apart the first differing results of two kept calls are, read from their operand files."""
    left, right = (read_tensors(path.with_suffix(".safetensors")) for path in (a, b))
    pairs = ((left[name], right[name]) for name in left if name.startswith("out.") and name in right)
    distances = (distance(x, y) for x, y in pairs if x.raw != y.raw)
    return next((measured for measured in distances if measured is not None), None)


def _counted(np: ModuleType, a: KeptTensor, b: KeptTensor) -> Distance:
    """Count the elements that differ, whatever their dtype is."""
    total = math.prod(a.shape)
    if not total:
        return Distance(0, 0)
    left, right = (np.frombuffer(kept.raw, "u1").reshape(total, -1) for kept in (a, b))
    return Distance(int((left != right).any(axis=1).sum()), total)


def _relative(np: ModuleType, x: object, y: Any) -> Any:
    """Return |x - y| / max(|x|, |y|), elementwise; 0 where they are equal."""
    scale = np.maximum(np.abs(x), np.abs(y))
    scale = np.where(scale > 0, scale, 1.0)
    with np.errstate(over="ignore"):
        difference = np.abs(x - y)
    return np.where(np.isfinite(difference), difference / scale, np.abs(x / scale - y / scale))


def _numbers(np: ModuleType, raw: Any, dtype: str) -> object:
    if dtype == "bfloat16":
        return (raw.astype("<u4") << 16).view("<f4").astype("<f8")
    return raw.view({"float64": "<f8", "float32": "<f4", "float16": "<f2"}[dtype]).astype("<f8")


def _units(np: ModuleType, left: object, right: object, bits: int) -> int:
    """Return how many floats apart two values are, for the two that are farthest apart.

    Floats are numbered in order, with -0.0 just below 0.0 because their bits differ: so only equal bits are 0 units
    apart. (Where the two zeros count as one number, numbers of opposite sign are one unit closer.)
    """

    def place(raw: Any) -> Any:
        whole = raw.view(f"<i{bits // 8}").astype("<i8")
        return np.where(whole < 0, -1 - (whole & ((1 << bits - 1) - 1)), whole)

    x, y = place(left), place(right)
    # Two doubles may be farther apart than a signed 64-bit integer can hold.
    return int((np.maximum(x, y).view("<u8") - np.minimum(x, y).view("<u8")).max())
