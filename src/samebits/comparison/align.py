"""Pairing what two runs recorded: the same rank with the same rank, the first process with the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from samebits.errors import DigestError
from samebits.recording.store import Recording


@dataclass(frozen=True)
class Pair:
    """Two recordings of the same rank; one of them is None where a run has no counterpart.

    Raises:
        DigestError: tensors were digested by two definitions, so equal bits have different digests.
    """

    rank: int
    sequence: int
    a: Recording | None
    b: Recording | None

    def __post_init__(self) -> None:
        if self.a is not None and self.b is not None and self.a.digest != self.b.digest:
            raise DigestError(
                f"{self.a.path} and {self.b.path} cannot be compared: their digests are {self.a.digest!r} and "
                f"{self.b.digest!r}",
                "record both again with one version of samebits, in environments that both have xxhash, or both do not",
            )


def align(a: Sequence[Recording], b: Sequence[Recording]) -> list[Pair]:
    """Every recording of either run exactly once, by rank and then by process."""
    left = {(recording.rank, recording.sequence): recording for recording in a}
    right = {(recording.rank, recording.sequence): recording for recording in b}
    return [Pair(*key, left.get(key), right.get(key)) for key in sorted(left | right)]


def first_unequal(count: int, is_same: Callable[[int], bool]) -> int:
    """The first of `count` entries that is not the same in both; `count` if all are.

    Halving works because entries are told apart by roots, which digest everything before them.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if is_same(middle):
            low = middle + 1
        else:
            high = middle
    return low
