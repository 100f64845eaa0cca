"""Two run folders compared in all that both recorded: the one answer of `samebits diff` and `samebits.compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from samebits.base.errors import RecordingError
from samebits.base.printable import listed
from samebits.base.records import published
from samebits.comparison.align import align
from samebits.comparison.locate import Divergence, first_divergence
from samebits.comparison.ops import OpDivergence, first_op_divergence
from samebits.comparison.streams import not_seen, streams_of, trained_in
from samebits.comparison.values import Distance, distance
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.ops import Ops
from samebits.runfolder.steps import Column, Recording
from samebits.runfolder.tensors import read_kept


@dataclass(frozen=True)
class RunComparison:
    """What two runs have in common.

    Attributes:
        divergence: the first step and stream at which they differ; None if none does.
        trained: the same in what was trained.
        op: the first operation at which they differ, where both recorded operations; None if none does.
        streams: those that were compared.
        compares_ops: whether operations were compared, too.
        not_seen: what was expected and not recorded, or could not be.
        steps: how many the first run took.
    """

    divergence: Divergence | None
    op: OpDivergence | None
    streams: tuple[str, ...] = ()
    compares_ops: bool = False
    steps: int = 0
    not_seen: tuple[str, ...] = ()
    trained: Divergence | None = None

    @property
    def same(self) -> bool:
        """Whether all that was recorded has the same bits."""
        return self.divergence is None and self.op is None

    @property
    @published()
    def same_training(self) -> bool:
        """Whether what was trained has the same bits; what else happened may differ."""
        return self.same or (self.divergence is not None and self.trained is None)

    @property
    def is_op_first(self) -> bool:
        """Whether the operation is the place to name: no stream differs in a step before it."""
        return self.op is not None and (self.divergence is None or self.op.step <= self.divergence.step)


@dataclass(frozen=True)
class Incomplete:
    """A recording whose process did not end by itself.

    Attributes:
        path: its file.
        steps: that could be read.
    """

    path: Path
    steps: int


@dataclass(frozen=True)
class Diff:
    """The answer of `samebits diff`.

    Attributes:
        a, b: the run folders.
        comparison: where they differ.
        distance: how far the first tensor that differs lies apart; None where it was not kept.
        incomplete: recordings that say nothing of what they lack.
        strict: what else happened counts as much as what was trained.
    """

    a: Path
    b: Path
    comparison: RunComparison
    distance: Distance | None = None
    incomplete: tuple[Incomplete, ...] = ()
    strict: bool = False

    @property
    def same(self) -> bool:
        """Whether all that counts has the same bits."""
        return self.comparison.same if self.strict else self.comparison.same_training

    @property
    @published("verdict")
    def kind(self) -> Literal["same", "different", "undecided"]:
        """Whether all that counts has the same bits; undecided where a run could not be read."""
        return "same" if self.same else "different"


def diff_runs(a: RunFolder, b: RunFolder, *, strict: bool = False) -> Diff:
    """Two runs compared, and by how much they differ where that was kept.

    Raises:
        RecordingError: as `compare_runs`.
    """
    found = compare_runs(a, b)
    apart = None if found.divergence is None else distance_at(a.path, b.path, found.divergence)
    return Diff(a.path, b.path, found, apart, (*_incomplete(a), *_incomplete(b)), strict)


def distance_at(a: Path, b: Path, place: Divergence) -> Distance | None:
    """How far apart the first tensor that differs lies, where both runs kept it."""
    left, right = (read_kept(path, place.rank, place.step, place.stream).get(place.name) for path in (a, b))
    return None if left is None or right is None else distance(left, right)


def _incomplete(folder: RunFolder) -> list[Incomplete]:
    if folder.manifest().get("status") == "stopped":
        return []
    return [Incomplete(one.path, one.steps) for one in recordings_of(folder) if not one.complete]


def compare_runs(a: RunFolder, b: RunFolder) -> RunComparison:
    """The first places at which two recorded runs differ; of a run that was stopped on purpose, up to there.

    Raises:
        RecordingError: one of them is no run folder, or holds no recording, or nothing that could be compared.
    """
    left, right = recordings_of(a), recordings_of(b)
    found = compare_recordings(left, right, _stopped_at(a, b))
    if not found.streams and not found.compares_ops:
        raise RecordingError(f"{a.path} and {b.path} hold nothing that could be compared", "no stream was recorded")
    saved = sorted(name.strip(".") or "a number" for name, agrees in saved_beside(left, right).items() if not agrees)
    beside = []
    if saved:
        beside = [f"whether it matters that {listed(saved)} was saved with another value: it may be a time"]
    return replace(found, not_seen=(*beside, *not_seen((a.path, b.path), found.streams, found.steps)))


def compare_recordings(
    left: Sequence[Recording], right: Sequence[Recording], until: int | None = None
) -> RunComparison:
    """The first places at which what two runs recorded differs, in steps up to `until`."""
    pairs = [pair.both for pair in align(left, right) if pair.both is not None and _comparable_ops(*pair.both)]
    ops = [op for pair in pairs if (op := _op_in(*pair, until)) is not None]
    return RunComparison(
        first_divergence(left, right, until),
        min(ops, key=lambda op: (op.step, op.index, op.rank), default=None),
        streams_of((left, right)),
        bool(pairs),
        max((recording.steps for recording in left), default=0),
        trained=first_divergence(left, right, until, trained_in((left, right))),
    )


def saved_beside(left: Sequence[Recording], right: Sequence[Recording]) -> dict[str, bool]:
    """What two runs have saved beside tensors, by its name without the number of the save: whether it always agrees."""
    found: dict[str, bool] = {}
    for pair in align(left, right):
        if pair.both is None or not pair.both[0].holds("saved"):
            continue
        for row in range(min(map(len, pair.both))):
            a, b = (one.columns(row).get("saved", Column((), [])).as_dict() for one in pair.both)
            for name in a.keys() & b.keys():
                own = name.lstrip("0123456789")
                found[own] = found.get(own, True) and a[name] == b[name]
    return found


def recordings_of(folder: RunFolder) -> list[Recording]:
    """All of a run's recordings, of which there is at least one."""
    folder.manifest()
    found = folder.recordings()
    if not found:
        raise RecordingError(f"{folder.path} holds no recording", "the run took no step, or was ended before its first")
    return found


def _stopped_at(a: RunFolder, b: RunFolder) -> int | None:
    stops = [folder.manifest().get("plan", {}).get("stop_after") for folder in (a, b)]
    return min((stop for stop in stops if isinstance(stop, int)), default=None)


def _comparable_ops(a: Recording, b: Recording) -> bool:
    """Whether both recorded operations, from the same step on."""
    first = [next(Ops(recording).rows(), None) for recording in (a, b)]
    return first[0] is not None and first[1] is not None and first[0].step == first[1].step


def _op_in(a: Recording, b: Recording, until: int | None) -> OpDivergence | None:
    found = first_op_divergence(a, b)
    if found is None or (until is not None and found.step > until):
        return None
    # A recording whose process was killed says nothing of what it lacks; one that was stopped ends with a whole step.
    is_cut = (found.a is None and not a.complete) or (found.b is None and not b.complete)
    return None if is_cut and until is None else found
