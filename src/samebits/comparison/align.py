"""Pairing what two runs recorded: the same rank with the same rank, and within one by content, not by arrival."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from samebits.base.errors import DigestError
from samebits.runfolder.steps import Recording

# Of more pairs than this it is not looked at how far each agrees; they are paired in the order of their creation.
_MOST_LOOKED_AT = 4_096


@dataclass(frozen=True)
class Pair:
    """Two recordings of the same rank; one of them is None where a run has no counterpart.

    Attributes:
        rank: whose.
        process: which process, thread or training, in words; empty where the rank has only one.

    Raises:
        DigestError: tensors were digested by two definitions, so equal bits have different digests.
    """

    rank: int
    a: Recording | None
    b: Recording | None
    process: str = ""

    def __post_init__(self) -> None:
        both = self.both
        if both is not None and both[0].digest != both[1].digest:
            a, b = both
            raise DigestError(
                f"{a.path} and {b.path} cannot be compared: their digests are {a.digest!r} and {b.digest!r}",
                "record both again with one version of samebits, in environments that both have xxhash, or both do not",
            )

    @property
    def both(self) -> tuple[Recording, Recording] | None:
        return None if self.a is None or self.b is None else (self.a, self.b)


def align(a: Sequence[Recording], b: Sequence[Recording], until: int | None = None) -> list[Pair]:
    """Every recording of either run exactly once, by rank and then in the order of creation, in which they are given.

    Processes that have no rank, threads, and the trainings of a worker come in any order, so within a rank those that
    agree are pairs, in whatever order they arrived. Of the rest those are that agree longest, then those with the same
    beginnings, the same name, and the same place in the order of creation. Steps after `until` are not looked at.
    """
    ranks = sorted({recording.rank for recording in (*a, *b)})
    return [pair for rank in ranks for pair in _of_rank(rank, a, b, until)]


def _of_rank(rank: int, run_a: Sequence[Recording], run_b: Sequence[Recording], until: int | None) -> list[Pair]:
    a, b = ([one for one in run if one.rank == rank] for run in (run_a, run_b))
    if max(len(a), len(b)) == 1:
        return [Pair(rank, a[0] if a else None, b[0] if b else None)]
    found = _equal(a, b, until)
    rest_a = [number for number in range(len(a)) if number not in found]
    rest_b = [number for number in range(len(b)) if number not in found.values()]
    found |= _alike(a, b, rest_a, rest_b, until)
    pairs = [Pair(rank, a[x], b[found[x]] if x in found else None, a[x].lane_id.name) for x in range(len(a))]
    return pairs + [Pair(rank, None, b[y], b[y].lane_id.name) for y in rest_b if y not in found.values()]


def _equal(a: list[Recording], b: list[Recording], until: int | None) -> dict[int, int]:
    """Numbers of recordings with the same number of rows and the same last root: the same in all that was recorded."""
    waiting = defaultdict(list)
    for y, recording in enumerate(b):
        waiting[_content(recording, until)].append(y)
    found = {}
    for x, recording in enumerate(a):
        equal = waiting[_content(recording, until)]
        if equal:
            found[x] = equal.pop(0)
    return found


def _content(recording: Recording, until: int | None) -> tuple[int, bytes | None]:
    rows = rows_until(recording, until)
    return rows, recording.root(rows - 1)


def rows_until(recording: Recording, until: int | None) -> int:
    """How many rows there are to compare, the one of step `until` being the last."""
    return len(recording) if until is None else min(len(recording), until + 1)


def _alike(
    a: list[Recording], b: list[Recording], rest_a: list[int], rest_b: list[int], until: int | None
) -> dict[int, int]:
    """Numbers of recordings that are not equal, the likest first."""
    if len(rest_a) * len(rest_b) > _MOST_LOOKED_AT:
        return dict(zip(rest_a, rest_b, strict=False))
    ranked = sorted((_unlike(a[x], b[y], until), abs(x - y), x, y) for x, y in product(rest_a, rest_b))
    found: dict[int, int] = {}
    for *_, x, y in ranked:
        if x not in found and y not in found.values():
            found[x] = y
    return found


def _unlike(a: Recording, b: Recording, until: int | None) -> tuple[int, bool, bool]:
    """Sorts those first that agree longest, then those that began alike, then those of the same name."""
    common = min(rows_until(a, until), rows_until(b, until))
    agreed = first_unequal(common, lambda row: a.root(row) == b.root(row))
    begun = not agreed and common > 0 and _beginnings(a) != _beginnings(b)
    return -agreed, begun, a.lane_id.name != b.lane_id.name


def _beginnings(recording: Recording) -> dict[str, int]:
    column = recording.columns(0).get("init")
    return {} if column is None else column.as_dict()


def first_unequal(count: int, is_same: Callable[[int], bool]) -> int:
    """The first of `count` entries that is not the same in both; `count` if all are.

    Halving works because entries are distinguished by roots, which digest everything before them.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if is_same(middle):
            low = middle + 1
        else:
            high = middle
    return low
