"""How a difference grows: the losses of two recordings, step by step."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.bits.ulp import BITS, raw_of, relative_between, ulp_between, ulp_worth_reporting
from samebits.comparison.align import align
from samebits.comparison.timeline import STEPS_SHOWN
from samebits.runfolder.steps import Column, Recording


@dataclass(frozen=True)
class LossDifference:
    """The first loss of one step in two runs.

    Attributes:
        step: counts from 0.
        a, b: the losses.
        relative: |a - b| / max(|a|, |b|), 0 where they are the same; None where one is no finite number.
        ulp: units in the last place between the two (`comparison.ulp`); None where they mean nothing.
    """

    step: int
    a: float
    b: float
    relative: float | None
    ulp: int | None


def growth(a: Sequence[Recording], b: Sequence[Recording]) -> tuple[LossDifference, ...]:
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
            found.append(loss_difference(step, left[0], right[0], left[1]))
    return tuple(found)


def loss_difference(step: int, a: float, b: float, dtype: str) -> LossDifference:
    """Two losses of one dtype, measured."""
    relative = relative_between(a, b)
    ulp = ulp_between(raw_of(a, dtype), raw_of(b, dtype), dtype) if dtype in BITS else None
    return LossDifference(step, a, b, relative, ulp_worth_reporting(ulp, relative))


def _first(column: Column | None) -> tuple[float, str] | None:
    if column is None or not column.names:
        return None
    (value,) = struct.unpack("<d", struct.pack("<Q", column.digests[0]))
    return float(value), column.names[0].rpartition(" ")[2]
