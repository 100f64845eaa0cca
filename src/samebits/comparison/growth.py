"""How a difference grows: the losses of two recordings, step by step."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.comparison.align import align
from samebits.comparison.timeline import STEPS_SHOWN
from samebits.recording.store import Column, Recording

_FORMATS = {"float64": ("<d", "<q"), "float32": ("<f", "<i"), "float16": ("<e", "<h")}


@dataclass(frozen=True)
class Apart:
    """The first loss of one step in two runs.

    Attributes:
        step: counts from 0.
        a, b: the losses.
        relative: |a - b| / max(|a|, |b|), 0 where they are the same; None where one is no finite number.
        ulp: representable numbers of their dtype between the two; None where nobody counts them (bfloat16, NaN).
    """

    step: int
    a: float
    b: float
    relative: float | None
    ulp: int | None


def growth(a: Sequence[Recording], b: Sequence[Recording]) -> tuple[Apart, ...]:
    """Of the first rank that both recorded; empty where there are no losses."""
    pair = next((pair for pair in align(a, b) if pair.a is not None and pair.b is not None), None)
    if pair is None or pair.a is None or pair.b is None:
        return ()
    count = min(len(pair.a), len(pair.b))
    stride = max(1, -(-count // STEPS_SHOWN))
    found = []
    for step in range(0, count, stride):
        left, right = (_first(recording.columns(step).get("number")) for recording in (pair.a, pair.b))
        if left is not None and right is not None and left[1] == right[1]:
            found.append(apart(step, left[0], right[0], left[1]))
    return tuple(found)


def apart(step: int, a: float, b: float, dtype: str) -> Apart:
    """Two losses of one dtype, measured."""
    is_finite = all(x == x and abs(x) != float("inf") for x in (a, b))
    scale = max(abs(a), abs(b))
    relative = (abs(a - b) / scale if scale else 0.0) if is_finite else None
    ulp = abs(_place(a, dtype) - _place(b, dtype)) if is_finite and dtype in _FORMATS else None
    return Apart(step, a, b, relative, ulp)


def _first(column: Column | None) -> tuple[float, str] | None:
    if column is None or not column.names:
        return None
    (value,) = struct.unpack("<d", struct.pack("<Q", column.digests[0]))
    return float(value), column.names[0].rpartition(" ")[2]


def _place(value: float, dtype: str) -> int:
    """Where a number stands among all of its dtype; neighbours are 1 apart, and the two zeros stand at one place."""
    real, whole = _FORMATS[dtype]
    (bits,) = struct.unpack(whole, struct.pack(real, value))
    return int(bits) if bits >= 0 else -(int(bits) & ~(-1 << (8 * struct.calcsize(whole) - 1)))
