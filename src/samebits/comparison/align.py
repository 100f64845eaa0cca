"""Pairing what two runs recorded: the same rank with the same rank, the first process with the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samebits.recording.store import Recording


@dataclass(frozen=True)
class Pair:
    """Two recordings of the same rank; one of them is None where a run has no counterpart."""

    rank: int
    sequence: int
    a: Recording | None
    b: Recording | None


def align(a: Sequence[Recording], b: Sequence[Recording]) -> list[Pair]:
    """Every recording of either run exactly once, by rank and then by process."""
    left = {(recording.rank, recording.sequence): recording for recording in a}
    right = {(recording.rank, recording.sequence): recording for recording in b}
    return [Pair(*key, left.get(key), right.get(key)) for key in sorted(left | right)]
