"""Finds the first place at which two recorded runs differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from samebits.comparison.align import Pair, align, first_unequal, rows_until
from samebits.runfolder.steps import COMPARED, Column, Recording, Stream

RESULT_STREAMS: tuple[Stream, ...] = ("param", "artifact", "end")
Position = tuple[int, int]
Which = Literal["first", "second"]
DivergentStream = Literal[Stream, "product", "length", "outcome"]


@dataclass(frozen=True)
class Divergence:
    """The place at which two runs diverge.

    Attributes:
        step: the number of the step, from 0.
        stream: one of the recorded streams; `product` where all of them agree and only the files or the output of the
            runs differ; `length` where one run went on; `outcome` where one run failed.
        name: the first tensor that differs there.
        rank: the rank on which the runs diverge.
        differing, total: how many tensors of that stream differ, and how many there are.
        only_in: the only run that has the tensor, the stream or, with `length`, the process or the rank.
        is_reordered: the same tensors came in another order.
        lengths: how many steps each run took, where the numbers differ.
        ending: how the run that failed ended, as a clause.
        generators: those whose states already differed at the end of the step before (an explanation; not compared).
        process: which process, thread or training of that rank, in words; empty where the rank has only one.
        ranks: the ranks that diverge there; empty where the runs have only one.
    """

    step: int
    stream: DivergentStream
    name: str = ""
    rank: int = 0
    differing: int = 0
    total: int = 0
    only_in: Which | None = None
    is_reordered: bool = False
    lengths: tuple[int, int] | None = None
    ending: str = ""
    generators: tuple[str, ...] = ()
    process: str = ""
    ranks: tuple[int, ...] = ()

    @property
    def position(self) -> Position:
        """A sort key: the earlier of two divergences has the smaller one."""
        return self.step, COMPARED.index(self.stream) if self.stream in COMPARED else len(COMPARED)


def first_divergence(
    a: Sequence[Recording],
    b: Sequence[Recording],
    until: int | None = None,
    streams: Sequence[Stream] = COMPARED,
    *,
    across: bool = False,
) -> Divergence | None:
    """Return the earliest place at which two runs differ, over all ranks; None where they are the same.

    A recording whose process was killed is compared as far as it goes: what it would have held later is unknown.

    Args:
        a: the recordings of one run.
        b: the recordings of the other run.
        until: compare steps up to this one only (runs that were stopped there on purpose have nothing after it).
        streams: compare these only. Processes that recorded none of them do not count; nor, without `until`, does it
            count which thread makes which step of a training that several threads share.
        across: the runs used two versions of torch. Optimizer state that only one of them keeps is ignored: where it
            matters, it shows in the parameters.
    """
    pairs = align(a, b, until)
    # A process that only calls models records at its end what another process trained: that is compared there.
    compared = streams if streams is COMPARED else [stream for stream in streams if stream != "end"]
    counted = [pair for pair in pairs if _holds_any(pair, compared)]
    candidates = [
        (place, _trains(pair))
        for pair in counted
        for place in (_first_in(pair, until, streams, across), _alone(pair, pairs, until))
        if place is not None
    ]
    if streams is not COMPARED and until is None:
        ranks = {place.rank for place, _ in candidates}
        shared = {rank for rank in ranks if _is_shared([pair for pair in pairs if pair.rank == rank])}
        candidates = [candidate for candidate in candidates if candidate[0].rank not in shared]
    # Steps of two processes share no clock, so those that train come first: the others may only call their models.
    first, _ = min(candidates, key=lambda one: (not one[1], *one[0].position, one[0].rank), default=(None, False))
    if first is None or len({pair.rank for pair in pairs}) < 2:
        return first
    ranks = {place.rank for place, _ in candidates if place.position == first.position}
    return replace(first, ranks=tuple(sorted(ranks)))


def agreeing(runs: Mapping[int, Sequence[Recording]]) -> dict[int, list[int]]:
    """Map each run, by number, to the runs that agree with it as far as both went; a run without steps has none."""
    steps = {number: max((one.steps for one in recordings), default=0) for number, recordings in runs.items()}
    partners: dict[int, list[int]] = {number: [] for number in runs}
    for a, b in combinations(runs, 2):
        until = min(steps[a], steps[b]) - 1
        if until >= 0 and first_divergence(runs[a], runs[b], until) is None:
            partners[a].append(b)
            partners[b].append(a)
    return partners


def _holds_any(pair: Pair, streams: Sequence[Stream]) -> bool:
    return any(side is not None and not set(streams).isdisjoint(side.streams()) for side in (pair.a, pair.b))


def _trains(pair: Pair) -> bool:
    return _holds_any(pair, ("grad", "param"))


def _is_shared(pairs: Sequence[Pair]) -> bool:
    """Whether threads that train together differ only in who makes which step: taken together, they hold the same."""
    runs = [[pair.a for pair in pairs if pair.a is not None], [pair.b for pair in pairs if pair.b is not None]]
    if not all(recording.complete for run in runs for recording in run):
        return False
    if any(sum(recording.holds("param") for recording in run) < 2 for run in runs):
        return False
    a, b = ({digest for recording in run for digest in _made_in(recording)} for run in runs)
    return a == b


def _made_in(recording: Recording) -> Iterator[tuple[Stream, int]]:
    """The digests of parameters, of final states, and of what was saved, each with its stream."""
    for row in range(len(recording)):
        for stream, column in recording.columns(row).items():
            if stream in RESULT_STREAMS:
                yield from ((stream, digest) for digest in column.digests)


def _alone(pair: Pair, pairs: Sequence[Pair], until: int | None) -> Divergence | None:
    """Return a divergence where only one run has a recording; None where the other was cut short before it could."""
    if pair.both is not None:
        return None
    only_in: Which = "second" if pair.a is None else "first"
    for a, b in (other.both for other in pairs if other.both is not None):
        lacking, having = (a, b) if only_in == "second" else (b, a)
        went_further = lacking.steps < having.steps or (until is not None and having.complete)
        if went_further and not lacking.complete:
            return None
    return Divergence(0, "length", rank=pair.rank, only_in=only_in, process=pair.process)


def _first_in(pair: Pair, until: int | None, streams: Sequence[Stream], across: bool) -> Divergence | None:
    if pair.both is None:
        return None
    a, b = pair.both
    rows_a, rows_b = rows_until(a, until), rows_until(b, until)
    common = min(rows_a, rows_b)
    row = first_unequal(common, lambda number: a.root(number) == b.root(number))
    # A root digests all streams and all rows before it: to compare some streams, each row from there on is read.
    for number in range(row, common):
        divergence = _explained(a, b, number, streams, across)
        if divergence is not None:
            return replace(divergence, rank=pair.rank, process=pair.process)
    shorter, longer = (a, b) if rows_a < rows_b else (b, a)
    if rows_a == rows_b or not shorter.complete:
        return None
    counts = streams is COMPARED or a.steps != b.steps or not longer.columns(common).keys().isdisjoint(streams)
    by_length = Divergence(common, "length", rank=pair.rank, lengths=(a.steps, b.steps), process=pair.process)
    return by_length if counts else None


def _explained(a: Recording, b: Recording, row: int, streams: Sequence[Stream], across: bool) -> Divergence | None:
    for recording in (a, b):
        recording.assert_sound(row)
    if a.kind(row) != b.kind(row):
        return Divergence(row, "length", lengths=(a.steps, b.steps))
    left, right = a.columns(row), b.columns(row)
    for stream in streams:
        columns = left.get(stream), right.get(stream)
        place = divergence_in(row, stream, *(_in_common(*columns) if across and stream == "optimizer" else columns))
        if place is not None:
            return replace(place, generators=_generators(a, b, row))
    assert across or streams is not COMPARED, f"roots differ at row {row}, and no stream does"
    return None


def _in_common(*columns: Column | None) -> Iterator[Column | None]:
    """The columns, reduced to the names that both have."""
    both = [column.as_dict() if column else {} for column in columns]
    names = tuple(name for name in both[0] if name in both[1])
    return (Column(names, [digests[name] for name in names]) if names else None for digests in both)


def divergence_in(step: int, stream: Stream, a: Column | None, b: Column | None) -> Divergence | None:
    """Return where one stream diverges between two rows; None where it is the same in both."""
    if a is not None and b is not None and a.names == b.names:
        differing = [name for name, x, y in zip(a.names, a.digests, b.digests, strict=True) if x != y]
        return Divergence(step, stream, differing[0], 0, len(differing), len(a.names)) if differing else None
    left, right = ({} if column is None else column.as_dict() for column in (a, b))
    names = list(dict.fromkeys([*left, *right]))
    differing = [name for name in names if left.get(name) != right.get(name)]
    only = next((name for name in differing if name not in left or name not in right), None)
    if only is not None:
        return Divergence(step, stream, only, 0, len(differing), len(names), "first" if only in left else "second")
    moved = [name for name, other in zip(left, right, strict=True) if name != other]
    return Divergence(step, stream, moved[0], 0, len(moved), len(names), is_reordered=True) if moved else None


def _generators(a: Recording, b: Recording, row: int) -> tuple[str, ...]:
    left, right = (recording.columns(row - 1).get("rng") if row else None for recording in (a, b))
    if left is None or right is None:
        return ()
    states = right.as_dict()
    return tuple(name for name, digest in left.as_dict().items() if states.get(name) != digest)
