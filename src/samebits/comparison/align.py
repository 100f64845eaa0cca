"""Pairs the recordings of two runs: rank by rank and, within a rank, by content and not by order of arrival."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from samebits.base.errors import DigestError
from samebits.runfolder.steps import Recording

# Where more pairs than this are possible, how far each agrees is not measured: they are paired in order of creation.
_MOST_LOOKED_AT = 4_096


@dataclass(frozen=True)
class Pair:
    """Two recordings of the same rank; one of them is None where a run has no counterpart.

    Attributes:
        rank: the rank of both.
        process: which process, thread or training, in words; empty where the rank has only one.

    Raises:
        DigestError: the two were digested by different definitions, so equal bits have different digests.
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
    """Return pairs that hold every recording of both runs exactly once, by rank and then in the order given: creation.

    Processes without a rank, threads, and the trainings of a worker arrive in any order. So within a rank, recordings
    that agree completely are paired first, wherever they stand. Of the rest, those are paired that agree longest, then
    those with equal beginnings, equal names, and the closest places in the order. Steps after `until` are ignored.
    """
    ranks = sorted({recording.rank for recording in (*a, *b)})
    return [pair for rank in ranks for pair in _of_rank(rank, a, b, until)]


def _of_rank(rank: int, run_a: Sequence[Recording], run_b: Sequence[Recording], until: int | None) -> list[Pair]:
    a, b = ([recording for recording in run if recording.rank == rank] for run in (run_a, run_b))
    if max(len(a), len(b)) == 1:
        return [Pair(rank, a[0] if a else None, b[0] if b else None)]
    matches = _equal(a, b, until)
    rest_a = [number for number in range(len(a)) if number not in matches]
    rest_b = [number for number in range(len(b)) if number not in matches.values()]
    matches |= _alike(a, b, rest_a, rest_b, until)
    pairs = [Pair(rank, a[x], b[matches[x]] if x in matches else None, a[x].lane_id.name) for x in range(len(a))]
    return pairs + [Pair(rank, None, b[y], b[y].lane_id.name) for y in rest_b if y not in matches.values()]


def _equal(a: list[Recording], b: list[Recording], until: int | None) -> dict[int, int]:
    """Match recordings, by number, with equally many rows and the same last root: they agree in all that they hold."""
    unmatched = defaultdict(list)
    for y, recording in enumerate(b):
        unmatched[_content(recording, until)].append(y)
    matches = {}
    for x, recording in enumerate(a):
        candidates = unmatched[_content(recording, until)]
        if candidates:
            matches[x] = candidates.pop(0)
    return matches


def _content(recording: Recording, until: int | None) -> tuple[int, bytes | None]:
    rows = rows_until(recording, until)
    return rows, recording.root(rows - 1)


def rows_until(recording: Recording, until: int | None) -> int:
    """Return how many rows to compare, the row of step `until` being the last one."""
    return len(recording) if until is None else min(len(recording), until + 1)


def _alike(
    a: list[Recording], b: list[Recording], rest_a: list[int], rest_b: list[int], until: int | None
) -> dict[int, int]:
    """Match recordings, by number, that are not equal, the most similar ones first."""
    if len(rest_a) * len(rest_b) > _MOST_LOOKED_AT:
        return dict(zip(rest_a, rest_b, strict=False))
    ranked = sorted((_unlike(a[x], b[y], until), abs(x - y), x, y) for x, y in product(rest_a, rest_b))
    matches: dict[int, int] = {}
    for *_, x, y in ranked:
        if x not in matches and y not in matches.values():
            matches[x] = y
    return matches


def _unlike(a: Recording, b: Recording, until: int | None) -> tuple[int, bool, bool]:
    """Return a sort key: pairs that agree longest come first, then pairs that began alike, then pairs of one name."""
    common_rows = min(rows_until(a, until), rows_until(b, until))
    agreed_rows = first_unequal(common_rows, lambda row: a.root(row) == b.root(row))
    began_differently = not agreed_rows and common_rows > 0 and _beginnings(a) != _beginnings(b)
    return -agreed_rows, began_differently, a.lane_id.name != b.lane_id.name


def _beginnings(recording: Recording) -> dict[str, int]:
    column = recording.columns(0).get("init")
    return {} if column is None else column.as_dict()


def first_unequal(count: int, is_same: Callable[[int], bool]) -> int:
    """Return the number of the first of `count` entries that is not the same in both; `count` if all are.

    Bisection works because entries are compared by their roots, each of which digests everything before it.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if is_same(middle):
            low = middle + 1
        else:
            high = middle
    return low
