"""How far two tensors are apart: how many elements, and by how many units in the last place."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any

from samebits.recording.values import Kept

# Values farther apart than this are other values; counting the floats between them tells nobody anything.
ROUNDING = 0.01

_FLOATS = {"float64": ("<u8", 64), "float32": ("<u4", 32), "float16": ("<u2", 16), "bfloat16": ("<u2", 16)}
_OTHERS = {"int64": "<i8", "int32": "<i4", "int16": "<i2", "int8": "i1", "uint8": "u1", "bool": "u1"}


@dataclass(frozen=True)
class Distance:
    """How two tensors of one dtype and shape differ.

    Attributes:
        elements: how many differ in any bit.
        total: how many there are.
        max_ulp: the largest distance in units in the last place (representable numbers between the two); None where
            that means nothing (integers, NaN against a number).
        max_relative: the largest |a - b| / max(|a|, |b|); None likewise.
    """

    elements: int
    total: int
    max_ulp: int | None = None
    max_relative: float | None = None

    @property
    def is_rounding(self) -> bool:
        """Whether the values are close enough to be the same numbers, rounded in another order."""
        return self.max_relative is not None and self.max_relative < ROUNDING

    def __str__(self) -> str:
        parts = [f"{self.elements} of {self.total} elements differ"]
        if self.max_ulp is not None and self.is_rounding:
            parts.append(f"by at most {self.max_ulp} ULP")
        if self.max_relative is not None:
            parts.append(f"relative {self.max_relative:.2g}")
        return ", ".join(parts)


def distance(a: Kept, b: Kept) -> Distance | None:
    """How far apart; None where NumPy is not installed, or dtype or shape differ."""
    if importlib.util.find_spec("numpy") is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return None
    np: Any = importlib.import_module("numpy")
    if a.dtype not in _FLOATS:
        kind = _OTHERS.get(a.dtype, "u1")
        left, right = np.frombuffer(a.raw, kind), np.frombuffer(b.raw, kind)
        return Distance(int((left != right).sum()), int(left.size))
    kind, bits = _FLOATS[a.dtype]
    left, right = np.frombuffer(a.raw, kind), np.frombuffer(b.raw, kind)
    unequal = left != right
    if not unequal.any():
        return Distance(0, int(left.size), 0, 0.0)
    left, right = left[unequal], right[unequal]
    x, y = _numbers(np, left, a.dtype), _numbers(np, right, a.dtype)
    finite = np.isfinite(x) & np.isfinite(y)
    count, total = int(unequal.sum()), int(unequal.size)
    if not finite.all():
        return Distance(count, total)
    steps = [
        abs(_place(int(p), bits) - _place(int(q), bits)) for p, q in zip(*_extremes(np, left, right, bits), strict=True)
    ]
    scale = np.maximum(np.abs(x), np.abs(y))
    relative = np.divide(np.abs(x - y), scale, out=np.zeros_like(x), where=scale > 0)
    return Distance(count, total, max(steps), float(relative.max()))


def _numbers(np: Any, raw: Any, dtype: str) -> Any:
    if dtype == "bfloat16":
        return (raw.astype("<u4") << 16).view("<f4").astype("<f8")
    return raw.view({"float64": "<f8", "float32": "<f4", "float16": "<f2"}[dtype]).astype("<f8")


def _extremes(np: Any, left: Any, right: Any, bits: int) -> tuple[Any, Any]:
    """The pair that is farthest apart, found in floating point and measured exactly afterwards."""
    sign = np.uint64(1 << (bits - 1))
    mask = np.uint64((1 << (bits - 1)) - 1)

    def place(raw: Any) -> Any:
        wide = raw.astype("<u8")
        size = (wide & mask).astype("<f8")
        return np.where(wide & sign != 0, -size, size)

    at = int(np.abs(place(left) - place(right)).argmax())
    return left[at : at + 1], right[at : at + 1]


def _place(raw: int, bits: int) -> int:
    """The position of a float among all floats: neighbours are one apart, and -0.0 lies one below 0.0."""
    sign = 1 << (bits - 1)
    return -1 - (raw & (sign - 1)) if raw & sign else raw
