"""Compares two run folders in everything that both recorded: the answer of `samebits diff` and `samebits.compare`."""

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
    """The comparison of two runs.

    Attributes:
        divergence: the first step and stream at which they differ; None if none does.
        trained: the first step and stream at which they differ in what was trained; None if none does.
        op: the first operation at which they differ, where both recorded operations; None if none does.
        streams: the streams that were compared.
        compares_ops: whether operations were compared, too.
        not_seen: what was expected and was not recorded, or could not be.
        steps: how many steps the first run took.
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
        """Whether the answer names the operation: no stream differs in an earlier step."""
        return self.op is not None and (self.divergence is None or self.op.step <= self.divergence.step)


@dataclass(frozen=True)
class Incomplete:
    """A recording whose process did not end by itself.

    Attributes:
        path: its file.
        steps: how many steps could be read.
    """

    path: Path
    steps: int


@dataclass(frozen=True)
class Diff:
    """The answer of `samebits diff`.

    Attributes:
        a, b: the run folders.
        comparison: where they differ.
        distance: how far apart the first differing tensor is in the two runs; None where it was not kept.
        incomplete: recordings that were cut off: what they lack is unknown.
        strict: whether what else happened counts as much as what was trained.
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
    """Compare two runs, and measure how far apart they are where the tensors were kept.

    Raises:
        RecordingError: where `compare_runs` raises it.
    """
    comparison = compare_runs(a, b)
    apart = None if comparison.divergence is None else distance_at(a.path, b.path, comparison.divergence)
    return Diff(a.path, b.path, comparison, apart, (*_incomplete(a), *_incomplete(b)), strict)


def distance_at(a: Path, b: Path, place: Divergence) -> Distance | None:
    """Return how far apart the first differing tensor is; None where not both runs kept it."""
    left, right = (read_kept(path, place.rank, place.step, place.stream).get(place.name) for path in (a, b))
    return None if left is None or right is None else distance(left, right)


def _incomplete(folder: RunFolder) -> list[Incomplete]:
    if folder.manifest().get("status") == "stopped":
        return []
    return [Incomplete(cut.path, cut.steps) for cut in recordings_of(folder) if not cut.complete]


def compare_runs(a: RunFolder, b: RunFolder) -> RunComparison:
    """Return the first places at which two recorded runs differ, up to the step at which one was stopped on purpose.

    Raises:
        RecordingError: one folder is no run folder or holds no recording, or nothing in them could be compared.
    """
    left, right = recordings_of(a), recordings_of(b)
    comparison = compare_recordings(left, right, _stopped_at(a, b))
    if not comparison.streams and not comparison.compares_ops:
        raise RecordingError(f"{a.path} and {b.path} hold nothing that could be compared", "no stream was recorded")
    unseen = not_seen((a.path, b.path), comparison.streams, comparison.steps)
    agreement = saved_values_agree(left, right)
    if changed := sorted(name.strip(".") or "a number" for name, agrees in agreement.items() if not agrees):
        doubt = f"whether it matters that {listed(changed)} was saved with another value: it may be a time"
        unseen = (doubt, *unseen)
    return replace(comparison, not_seen=unseen)


def compare_recordings(
    left: Sequence[Recording], right: Sequence[Recording], until: int | None = None
) -> RunComparison:
    """Return the first places at which the recordings of two runs differ, in steps up to `until`."""
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


def saved_values_agree(left: Sequence[Recording], right: Sequence[Recording]) -> dict[str, bool]:
    """Map each value saved next to tensors, named without the number of the save, to whether it always agrees."""
    agreement: dict[str, bool] = {}
    for pair in align(left, right):
        if pair.both is None or not pair.both[0].holds("saved"):
            continue
        for row in range(min(map(len, pair.both))):
            a, b = (side.columns(row).get("saved", Column((), [])).as_dict() for side in pair.both)
            for name in a.keys() & b.keys():
                bare_name = name.lstrip("0123456789")
                agreement[bare_name] = agreement.get(bare_name, True) and a[name] == b[name]
    return agreement


def recordings_of(folder: RunFolder) -> list[Recording]:
    """Return all recordings of a run; RecordingError where there is none."""
    folder.manifest()
    recordings = folder.recordings()
    if not recordings:
        raise RecordingError(f"{folder.path} holds no recording", "the run took no step, or was ended before its first")
    return recordings


def _stopped_at(a: RunFolder, b: RunFolder) -> int | None:
    stops = [folder.manifest().get("plan", {}).get("stop_after") for folder in (a, b)]
    return min((stop for stop in stops if isinstance(stop, int)), default=None)


def _comparable_ops(a: Recording, b: Recording) -> bool:
    """Whether both recorded operations, from the same step on."""
    first = [next(Ops(recording).rows(), None) for recording in (a, b)]
    return first[0] is not None and first[1] is not None and first[0].step == first[1].step


def _op_in(a: Recording, b: Recording, until: int | None) -> OpDivergence | None:
    divergence = first_op_divergence(a, b)
    if divergence is None or (until is not None and divergence.step > until):
        return None
    # What a killed process would have recorded is unknown; a run that was stopped on purpose ends with a whole step.
    is_cut = (divergence.a is None and not a.complete) or (divergence.b is None and not b.complete)
    return None if is_cut and until is None else divergence
