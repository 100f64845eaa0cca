"""Reading along in another run's operations while this one makes its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from samebits.runfolder.ops import OpKind, OpRow, Ops
from samebits.runfolder.steps import Recording, file_name


class Follower:
    """The other run's operations, one by one.

    Args:
        folder: the other run's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rank = -1
        self._rows: Iterator[OpRow] = iter(())
        self._followed = 0
        self._same: set[tuple[int, int]] = set()

    def agrees(self, row: OpRow, rank: int) -> bool:
        """Whether the other run's next operation is this one, with the same evidence."""
        if rank != self._rank:
            self._turn_to(rank)
        self._followed += 1
        other = next(self._rows, None)
        if other is None or other.evidence != row.evidence or (other.step, other.index) != (row.step, row.index):
            return False
        return self._is_same(other.kind, row.kind)

    def _turn_to(self, rank: int) -> None:
        # The rank may become known only after some operations; by then all ranks have done the same ones.
        self._rank = rank
        self._rows = Ops(Recording(self.folder / file_name(rank, 0))).rows()
        for _ in range(self._followed):
            next(self._rows, None)

    def _is_same(self, a: OpKind, b: OpKind) -> bool:
        pair = (id(a), id(b))
        if pair in self._same:
            return True
        if a != b:
            return False
        self._same.add(pair)
        return True
