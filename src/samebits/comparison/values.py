"""How far two tensors are apart: how many elements, and by how many units in the last place."""

from __future__ import annotations

import importlib
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from samebits.bits.ulp import BITS, ulp_between, ulp_worth_reporting
from samebits.runfolder.tensors import Kept, read_tensors


@dataclass(frozen=True)
class Distance:
    """How two tensors of one dtype and shape differ.

    Attributes:
        elements: how many differ in any bit.
        total: how many there are.
        max_ulp: the largest distance in units in the last place (`bits.ulp`); None where that means nothing
            (integers, NaN against a number, values that have nothing to do with each other).
        max_relative: the largest |a - b| / max(|a|, |b|); None where there is none (integers, NaN).
    """

    elements: int
    total: int
    max_ulp: int | None = None
    max_relative: float | None = None

    @property
    def is_rounding(self) -> bool:
        """Whether the values are close enough to be the same numbers, rounded in another order."""
        return self.max_ulp is not None


def distance(a: Kept, b: Kept) -> Distance | None:
    """How far apart; None where NumPy is not installed, or dtype or shape differ."""
    if importlib.util.find_spec("numpy") is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return None
    np: ModuleType = importlib.import_module("numpy")
    if a.dtype not in BITS:
        return _counted(np, a, b)
    kind = f"<u{BITS[a.dtype] // 8}"
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
    at = _farthest(np, left, right, BITS[a.dtype])
    ulp = ulp_between(int(left[at]), int(right[at]), a.dtype)
    return Distance(count, total, ulp_worth_reporting(ulp, relative), relative)


def distance_of_results(a: Path, b: Path) -> Distance | None:
    """How far apart the first results of two kept calls that differ are, by the files of their operands."""
    left, right = (read_tensors(path.with_suffix(".safetensors")) for path in (a, b))
    pairs = ((left[name], right[name]) for name in left if name.startswith("out.") and name in right)
    found = (distance(x, y) for x, y in pairs if x.raw != y.raw)
    return next((one for one in found if one is not None), None)


def _counted(np: ModuleType, a: Kept, b: Kept) -> Distance:
    """How many elements differ, of whatever they are made."""
    total = math.prod(a.shape)
    if not total:
        return Distance(0, 0)
    left, right = (np.frombuffer(kept.raw, "u1").reshape(total, -1) for kept in (a, b))
    return Distance(int((left != right).any(axis=1).sum()), total)


def _relative(np: ModuleType, x: object, y: Any) -> Any:
    """|x - y| / max(|x|, |y|), elementwise; 0 where they are equal."""
    scale = np.maximum(np.abs(x), np.abs(y))
    scale = np.where(scale > 0, scale, 1.0)
    with np.errstate(over="ignore"):
        difference = np.abs(x - y)
    return np.where(np.isfinite(difference), difference / scale, np.abs(x / scale - y / scale))


def _numbers(np: ModuleType, raw: Any, dtype: str) -> object:
    if dtype == "bfloat16":
        return (raw.astype("<u4") << 16).view("<f4").astype("<f8")
    return raw.view({"float64": "<f8", "float32": "<f4", "float16": "<f2"}[dtype]).astype("<f8")


def _farthest(np: ModuleType, left: object, right: object, bits: int) -> int:
    """Which pair is farthest apart, found in floating point; it is measured exactly afterwards."""
    sign = np.uint64(1 << (bits - 1))
    mask = np.uint64((1 << (bits - 1)) - 1)

    def place(raw: Any) -> Any:
        wide = raw.astype("<u8")
        size = (wide & mask).astype("<f8")
        return np.where(wide & sign != 0, -1 - size, size)

    return int(np.abs(place(left) - place(right)).argmax())
