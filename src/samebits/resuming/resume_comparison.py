"""A resumed run compared with the uninterrupted one, rank by rank: where they diverge, and what could fix it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from samebits.checking.verdict import Run
from samebits.comparison.locate import Divergence
from samebits.comparison.runs import saved_values_agree
from samebits.resuming.missing import wrong_generators
from samebits.resuming.tracks import First, RankPair, RankTrack, Start, earliest_difference, start_of, tracks_of
from samebits.resuming.training_notes import (
    DECLARED_SAVE,
    TrainingNotes,
    loaded_checkpoint,
    read_lacks,
    read_training_notes,
)
from samebits.resuming.verdict import Missing, SavedCheckpoint
from samebits.runfolder.notes import Lacks, Loaded, Saved
from samebits.runfolder.spec import Moment, Restoration


@dataclass(frozen=True)
class Recorded:
    """A run with its notes about checkpoints and batches, and with the recording of each rank."""

    run: Run

    @cached_property
    def seen(self) -> TrainingNotes:
        return read_training_notes(self.run.path)

    @cached_property
    def tracks(self) -> dict[int, RankTrack]:
        return tracks_of(self.run.folder.recordings())

    @property
    def steps(self) -> int:
        """The number of steps that every rank took."""
        return min(track.steps for track in self.tracks.values())

    @property
    def is_whole(self) -> bool:
        """Whether the run was not stopped by samebits."""
        return self.run.stopped_after is None


@dataclass(frozen=True)
class ResumeComparison:
    """A resumed run compared with the uninterrupted one, rank by rank, and the checkpoint that it resumed from.

    Attributes:
        given: the states that the resumed run was given back.
        is_loaded: the checkpoint was seen to be loaded.
        lacks: what differs between the resumed run and the killed one.
        is_aside: the checkpoint was saved in another thread.
    """

    sides: Sequence[RankPair]
    given: Restoration
    checkpoint: SavedCheckpoint
    is_loaded: bool
    lacks: list[Lacks]
    is_aside: bool = False

    @cached_property
    def first(self) -> First | None:
        """The first difference."""
        return earliest_difference(self.sides)

    def divergence(self, first: First) -> Divergence:
        """Return the divergence of a first difference, with all ranks that differ in the same stream and row."""
        _, row, first_divergence = first
        divergences = (next(side.differences(row), None) for side in self.sides if row < side.rows)
        ranks = tuple(one.rank for one in divergences if one is not None and one.stream == first_divergence.stream)
        return replace(first_divergence, ranks=ranks if len(ranks) > 1 else ())

    def to_give_back(self, first: First, suspect: Missing) -> Restoration | None:
        """Return what to give back, and when, to test whether a state is missing; None where that cannot be tested."""
        given, (side, row, _) = self.given, first
        a, b = side.fetched(row)
        if row > 0 and suspect.state == "generators":
            a, b = side.fetched(0)
        if not a or not b or given.moment is not None:
            return None
        batch = side.b_fetched.index(b[0])
        if suspect.state in ("position", "look-ahead"):
            # The place of that batch in the epoch of the uninterrupted run.
            positions = (one.position for one in side.a_fetched if one.indices and one.indices == b[0].indices)
            skip = a[0].position - next(positions, b[0].position)
            return replace(given, moment="batch", batch=batch, skip=skip) if skip > 0 else None
        if suspect.state not in ("order", "epoch", "sample-generators", "generators"):
            return None
        # Generators that the script has already restored stay as they are; where none differs, all are given back.
        names = tuple(one.path for one in self.lacks if one.state == "generators")
        if suspect.state == "generators":
            recorded = side.a.column(0, "rng")
            names = (*wrong_generators(side, row), *(one for one in names if one not in recorded))
        moment: Moment = "iter" if a[0].position == 0 or suspect.state in ("order", "epoch") else "batch"
        return replace(given, moment=moment, batch=batch, names=names)


def compare_resumed(
    whole: Recorded, killed: Recorded, resumed: Recorded, given: Restoration
) -> ResumeComparison | None:
    """Compare a resumed run with the uninterrupted one; None where the resumed run took no step."""
    if not resumed.tracks:
        return None
    stopped = killed.seen
    saved, loaded = loaded_checkpoint(stopped, resumed.seen)
    late = 0 if loaded is None else loaded.steps
    is_known = loaded is not None or any(save.what == DECLARED_SAVE for save in stopped.saves)
    done = saved.steps if saved is not None else (stopped.last_save or None) if is_known else None
    agreement = saved_values_agree(*(one.run.folder.recordings() for one in (whole, killed)))
    steady = frozenset(name for name, agrees in agreement.items() if agrees)
    sides = []
    for rank in sorted(whole.tracks.keys() & resumed.tracks.keys()):
        a, b = whole.tracks[rank], resumed.tracks[rank]
        start = start_of(a, b, done, stopped.most_done, late)
        b_fetched = [replace(one, step=one.step - start.row) for one in resumed.seen.of_rank(rank)]
        fetched = whole.seen.of_rank(rank), b_fetched
        side = RankPair(a, RankTrack(b.recording, start.row), start, stopped.counts_at(start.step), *fetched, steady)
        if done is not None and done != start.step and not start.is_from_the_start and side.has_other_data:
            # The parameters come from one file, the rest from another, newer one: the data decide the step.
            other = replace(side, start=Start(done, start.row, has_parameters=False), counts=stopped.counts_at(done))
            side = side if other.has_other_data else other
        sides.append(side)
    if sides[0].start.row < late:
        # It was loaded later in the training, and not to resume.
        saved = loaded = None
    if saved is None or saved.steps != sides[0].start.step:
        saved = next((one for one in reversed(stopped.saves) if one.steps == sides[0].start.step), saved)
    is_aside, lacks = saved is not None and saved.is_aside, read_lacks(resumed.run.path)
    return ResumeComparison(sides, given, checkpoint_of(stopped, saved, loaded), loaded is not None, lacks, is_aside)


def checkpoint_of(killed: TrainingNotes, saved: Saved | None, loaded: Loaded | None) -> SavedCheckpoint:
    """Return the checkpoint with the lines that saved and loaded it; an unknown save: the killed run's last one."""
    if saved is None:
        saved = next((one for one in reversed(killed.saves) if one.steps > 0), None)
    path = loaded.path if loaded is not None and loaded.path else "" if saved is None else saved.path
    return SavedCheckpoint(path, None if saved is None else saved.site, None if loaded is None else loaded.site)
