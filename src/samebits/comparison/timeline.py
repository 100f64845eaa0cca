"""Two recordings side by side, step by step: how many tensors of each stream differ, and how far losses are apart."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from samebits.bits.ulp import BITS, raw_of, relative_between, ulp_between, ulp_worth_reporting
from samebits.comparison.align import first_pair
from samebits.runfolder.steps import COMPARED, Column, Recording

# So many steps are looked at one by one; of more, every so-manieth.
STEPS_SHOWN = 400


@dataclass(frozen=True)
class StreamShares:
    """One stream over the steps.

    Attributes:
        stream: its name.
        shares: for each step that is shown, the share of its tensors that differ, 0 to 1; None where there are none.
    """

    stream: str
    shares: tuple[float | None, ...]

    @property
    def first(self) -> int | None:
        """Where in `shares` it diverges; None where it never does."""
        return next((number for number, share in enumerate(self.shares) if share), None)


@dataclass(frozen=True)
class Timeline:
    """Where two runs agree and where they do not.

    Attributes:
        steps: the steps that are shown.
        lanes: every stream that was recorded.
        rank: of which rank.
    """

    steps: tuple[int, ...]
    lanes: tuple[StreamShares, ...]
    rank: int = 0


@dataclass(frozen=True)
class LossDifference:
    """The first loss of one step in two runs.

    Attributes:
        step: counts from 0.
        a, b: the losses.
        relative: |a - b| / max(|a|, |b|), 0 where they are the same; None where one is no finite number.
        ulp: units in the last place between the two (`bits.ulp`); None where they mean nothing.
    """

    step: int
    a: float
    b: float
    relative: float | None
    ulp: int | None


def timeline(a: Sequence[Recording], b: Sequence[Recording]) -> Timeline | None:
    """Of the first rank that both recorded; None where there is none."""
    pair = first_pair(a, b)
    if pair is None:
        return None
    rank, left, right = pair
    steps = steps_shown(left, right)
    shares = [_shares(left.columns(step), right.columns(step)) for step in steps]
    recorded = {stream for share in shares for stream in share}
    lanes = [StreamShares(name, tuple(share.get(name) for share in shares)) for name in COMPARED if name in recorded]
    return Timeline(steps, tuple(lanes), rank)


def steps_shown(a: Recording, b: Recording) -> tuple[int, ...]:
    """Steps that both took: all of them, or every so-manieth."""
    count = min(len(a), len(b))
    return tuple(range(0, count, max(1, -(-count // STEPS_SHOWN))))


def _shares(left: Mapping[str, Column], right: Mapping[str, Column]) -> dict[str, float]:
    found: dict[str, float] = {}
    for stream in COMPARED:
        if stream in left or stream in right:
            a, b = (column.as_dict() if column else {} for column in (left.get(stream), right.get(stream)))
            names = a.keys() | b.keys()
            found[stream] = sum(a.get(name) != b.get(name) for name in names) / len(names) if names else 0.0
    return found


def growth(a: Sequence[Recording], b: Sequence[Recording]) -> tuple[LossDifference, ...]:
    """Of the first rank that both recorded; empty where there are no losses."""
    pair = first_pair(a, b)
    if pair is None:
        return ()
    found = []
    for step in steps_shown(*pair[1:]):
        left, right = (_first(recording.columns(step).get("number")) for recording in pair[1:])
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
