"""The steps of a resumed run matched with those of the uninterrupted run, and what differs in each."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from samebits.comparison.locate import Divergence, divergence_in
from samebits.runfolder.notes import BatchFetched
from samebits.runfolder.spec import AVERAGED
from samebits.runfolder.steps import COMPARED, KINDS_OF_STREAMS, Column, Recording, Stream

# Name → digest, of one stream of one step.
Digests = dict[str, int]
_OF_MODELS = tuple(name for name, kind in KINDS_OF_STREAMS.items() if kind.is_of_models)
# What was saved is aligned by itself.
_NUMBERED = tuple(name for name, kind in KINDS_OF_STREAMS.items() if kind.is_numbered and name != "artifact")
_NUMBER = re.compile(r"^(\d+)(.*)$", re.DOTALL)
# Module states among the saved things: they have other names after they were loaded.
_STATE = re.compile(r"^\d+\.state\.")
# Every optimizer of a script steps at least once in this many steps.
MOST_TURNS = 64


class RankTrack:
    """The recording of one rank from a row on; complete if the rank's process ended by itself."""

    def __init__(self, recording: Recording, first: int = 0) -> None:
        self.rank, self.steps, self.is_complete = recording.rank, recording.steps - first, recording.complete
        self.recording, self._first = recording, first
        # Arrays are cached: dictionaries of thousands of rows of a large model would fill the memory.
        self.columns = lru_cache(maxsize=4096)(lambda number: recording.columns(first + number))
        self.parameters_before = lru_cache(maxsize=4096)(self._parameters_before)

    def undone(self, until: int) -> int:
        """Return the last of the first rows that begins with the initial parameters: those before it were undone."""
        begun = self.parameters_before
        return max((row for row in range(min(until, self.steps)) if _same(begun(row), begun(0))), default=0)

    def row(self, number: int) -> dict[str, Digests]:
        """Return the digests of each stream of one row."""
        return {stream: column.as_dict() for stream, column in self.columns(number).items()}

    def column(self, row: int, stream: str) -> Digests:
        """Return the digests of one stream of one row; empty where there are none."""
        column = self.columns(row).get(stream) if 0 <= row < self.steps else None
        return {} if column is None else column.as_dict()

    def saved_at_end(self) -> Digests:
        """Return what was saved after the last step; empty if the run did not end by itself."""
        is_there = self.is_complete and len(self.recording) > self._first + self.steps
        return self.row(self.steps).get("artifact", {}) if is_there else {}

    def _parameters_before(self, row: int) -> Digests:
        """Return the parameters before a row, each as its next step found it: several optimizers step in turns.

        Models that are trained only later are left out. In CUDA graphs and at the end, only what a step left is known.
        """
        begun = self.column(row, "init") | self.column(row, "begun")
        known = {name for earlier in range(max(0, row - MOST_TURNS), row) for name in self.column(earlier, "param")}
        for later in range(row + 1, min(row + MOST_TURNS, self.steps)):
            own = self.column(later, "begun")
            begun = {name: own[name] for name in own if row == 0 or name in known} | begun
        return begun or self.column(row - 1, "param")


def tracks_of(recordings: Iterable[Recording]) -> dict[int, RankTrack]:
    """Return each rank's track: the first recording that has a step."""
    last_first = sorted(recordings, key=lambda one: (one.rank, one.sequence), reverse=True)
    recordings_by_rank = {one.rank: one for one in last_first if one.steps}
    return {rank: RankTrack(recordings_by_rank[rank]) for rank in sorted(recordings_by_rank)}


@dataclass(frozen=True)
class Start:
    """The step at which a resumed run starts.

    Attributes:
        step: the step of the uninterrupted run with which the first row of the resumed run is compared.
        row: that row; the rows before it were undone, as a step that only makes memory or buckets.
        is_from_the_start: the resumed run begins with the initial parameters.
        has_parameters: the resumed run begins with the parameters that the uninterrupted run had there.
        is_renamed: the parameters have other names, as where a resuming script calls its models in another order:
            they are recognized by their bits.
    """

    step: int
    row: int = 0
    is_from_the_start: bool = False
    has_parameters: bool = True
    is_renamed: bool = False


def start_of(a: RankTrack, b: RankTrack, saved: int | None, last: int, loaded: int = 0) -> Start:
    """Find the step, at most `last`, at which the resumed run `b` starts: there `a`, uninterrupted, has its parameters.

    `saved`, the number of steps done when the loaded checkpoint was saved, decides where several steps fit, or none;
    `loaded` is the number of rows before that load. A run that begins as at first, and goes on so, was not resumed.
    """
    row = loaded if loaded < b.steps and _same(a.parameters_before(0), b.parameters_before(0)) else 0
    begun = b.parameters_before(row)
    if saved is not None and _is_renamed(a.parameters_before(saved), begun):
        return Start(saved, row, is_renamed=True)
    steps = [step for step in range(min(last, a.steps) + 1) if _same(a.parameters_before(step), begun)]
    if _same(a.parameters_before(row), begun) and (row or saved not in steps):
        return Start(0, is_from_the_start=True)
    if not steps:
        return Start(saved or 0, row, has_parameters=False)
    step = saved if saved in steps else steps[-1]
    again = [one for one in range(row, b.steps) if _same(b.parameters_before(one), begun)]
    # What begins once more was undone. With a learning rate of zero it only seems so: then the next step fits, too.
    fits = (one for one in again if _same(a.parameters_before(step + 1), b.parameters_before(one + 1)))
    return Start(step, next(fits, again[-1]))


def _is_renamed(saved: Digests, begun: Digests) -> bool:
    """Whether all saved parameters are there, but not all under the same names."""
    if not saved or all(begun.get(name) == digest for name, digest in saved.items()):
        return False
    return saved.items() <= named_as(begun, saved).items()


def named_as(own: Digests, other: Digests) -> Digests:
    """Return `own` with the names of `other`: matched by equal bits first, then by the last part of the name.

    Optimizers, and models of one class, are numbered in the order in which they are made: a script that resumes in the
    fourth fold has made fewer of them by the fifth.
    """
    names = dict[str, str]()
    for is_exact in (True, False):
        taken, alike = set(names.values()), defaultdict[object, list[str]](list)
        for name in own:
            if name not in taken:
                alike[_end_of(name), own[name] if is_exact else None].append(name)
        for name in other:
            candidates = alike[_end_of(name), other[name] if is_exact else None]
            if name not in names and candidates:
                names[name] = candidates.pop(0)
    # What already had one of the new names is something else.
    taken = set(names.values())
    rest = {f"{name} (other)" if name in names else name: one for name, one in own.items() if name not in taken}
    return {name: own[names[name]] for name in other if name in names} | rest


def _end_of(name: str) -> str:
    return name.rpartition(".")[2]


def _same(a: Digests, b: Digests) -> bool:
    common = a.keys() & b.keys()
    return bool(common) and all(a[name] == b[name] for name in common)


@dataclass(frozen=True)
class RankPair:
    """One rank of the uninterrupted run `a` and of the resumed run `b`, each with its batches.

    Attributes:
        counts: stream → how many things of the first step had come before the save: they are not repeated.
        steady: the names of values saved next to tensors that were equal before any interruption: they are no times.
    """

    a: RankTrack
    b: RankTrack
    start: Start
    counts: Mapping[str, int] = field(default_factory=dict)
    a_fetched: Sequence[BatchFetched] = ()
    b_fetched: Sequence[BatchFetched] = ()
    steady: frozenset[str] = frozenset()

    @property
    def rows(self) -> int:
        """The number of steps that both runs took."""
        return max(0, min(self.b.steps, self.a.steps - self.start.step))

    def step(self, row: int) -> int:
        """Return the step of the uninterrupted run that a row of the resumed run is compared with."""
        return self.start.step + row

    def comparable_streams(self, row: int) -> tuple[dict[str, Digests], dict[str, Digests]]:
        """Return what is compared of one step of each run; of the first step, only what comes after the save."""
        a, b = both = self.a.row(self.step(row)), self.b.row(row)
        for one in both:
            steady = {n: d for n, d in one.pop("saved", {}).items() if n.lstrip("0123456789") in self.steady}
            one["artifact"] = one.get("artifact", {}) | steady
        if row == 0:
            self._align_first(a, b)
        # Optimizers that are made anew are numbered: a resuming script has made fewer of them.
        is_renumbered = a.get("optimizer", {}).keys() != b.get("optimizer", {}).keys()
        renamed = _OF_MODELS if self.start.is_renamed else ("optimizer",) if is_renumbered else ()
        b |= {stream: named_as(b[stream], a[stream]) for stream in renamed if stream in a and stream in b}
        # Averaged copies are also recorded when they are loaded, so one that only one run has says nothing.
        for name in a.get("buffer", {}).keys() ^ b.get("buffer", {}).keys():
            if name.startswith(AVERAGED):
                for one in both:
                    one.get("buffer", {}).pop(name, None)
        return {stream: one for stream, one in a.items() if one}, {stream: one for stream, one in b.items() if one}

    def _align_first(self, a: dict[str, Digests], b: dict[str, Digests]) -> None:
        for stream in a.keys() & set(_NUMBERED):
            # Losses as numbers are numbered like the losses.
            a[stream] = _from(a[stream], self.counts.get("loss" if stream == "number" else stream, 0))
        for stream in ("batch", "output"):
            # Compare the last ones that both have: a resuming run may skip batches, and need not evaluate again.
            most = min(count_of(a.get(stream, {})), count_of(b.get(stream, {})))
            for one in (a, b):
                if stream in one:
                    one[stream] = _from(one[stream], count_of(one[stream]) - most)
        # The uninterrupted run saved earlier what the resumed run saves at its beginning.
        del a["artifact"], b["artifact"]

    def differences(self, row: int) -> Iterator[Divergence]:
        """Return the differences in a row, stream by stream; their steps are those of the uninterrupted run."""
        raw = self.a.columns(self.step(row)), self.b.columns(row)
        is_plain = row > 0 and not self.start.is_renamed
        if is_plain and all(raw[0].get(stream) == raw[1].get(stream) for stream in (*COMPARED, "saved")):
            return iter(())
        a, b = self.comparable_streams(row)
        streams = (stream for stream in COMPARED if stream not in ("init", "end"))
        divergences = (self._difference(row, stream, a.get(stream, {}), b.get(stream, {})) for stream in streams)
        return (one for one in divergences if one is not None)

    def _difference(self, row: int, stream: Stream, *both: Digests) -> Divergence | None:
        if stream == "artifact":
            both = tuple({name: one for name, one in own.items() if not _STATE.match(name)} for own in both)
        columns = (Column(tuple(own), [*own.values()]) if own else None for own in both)
        found = divergence_in(self.step(row), stream, *columns)
        # That only one of the two runs has something (`only_in`) is no finding of its own here.
        return found and Divergence(found.step, stream, found.name, self.a.rank, found.differing, found.total)

    def first(self) -> tuple[int, Divergence] | None:
        """Return the first row that differs, with the difference; what is saved at the end counts as one more row."""
        for row in range(self.rows):
            divergence = next(self.differences(row), None)
            if divergence is not None:
                return row, divergence
        if self.a.is_complete and self.b.is_complete and self.rows == self.b.steps == self.a.steps - self.start.step:
            last = self._difference(self.rows, "artifact", self.a.saved_at_end(), self.b.saved_at_end())
            return None if last is None else (self.rows, last)
        return None

    @property
    def has_other_data(self) -> bool:
        """Whether the batch of the first row differs."""
        return any(one.stream == "batch" for one in self.differences(0))

    def first_trained(self) -> int | None:
        """Return the first row in which something other than a saved file's content differs."""
        rows = range(self.rows)
        return next((row for row in rows if any(one.stream != "artifact" for one in self.differences(row))), None)

    def fetched(self, row: int) -> tuple[list[BatchFetched], list[BatchFetched]]:
        """Return the batches of a step that are compared, of each run."""
        a = [one for one in self.a_fetched if one.step == self.step(row)]
        b = [one for one in self.b_fetched if one.step == row]
        if row == 0:
            a = [one for one in a if one.number >= self.counts.get("batch", 0)]
            most = min(len(a), len(b))
            a, b = a[len(a) - most :], b[len(b) - most :]
        return a, b


First = tuple[RankPair, int, Divergence]


def earliest_difference(sides: Sequence[RankPair]) -> First | None:
    """Return the earliest difference of all ranks."""
    differences = [(side, *first) for side in sides if (first := side.first()) is not None]
    return min(differences, key=lambda one: (*position(one), one[2].rank), default=None)


def position(first: First | None) -> tuple[float, int]:
    """Return a sort key: the row, and the place within it. No difference sorts after every difference."""
    return (math.inf, 0) if first is None else (first[1], first[2].position[1])


def count_of(numbered: Digests) -> int:
    """Return how many numbered things there are; one thing may have several names."""
    return len({match[1] for name in numbered if (match := _NUMBER.match(name)) is not None})


def _from(numbered: Digests, first: int) -> Digests:
    """Return the things from number `first` on, counted from 0."""
    kept = {}
    for name, digest in numbered.items():
        match = _NUMBER.match(name)
        if match is None or int(match[1]) >= first:
            kept[name if match is None else f"{int(match[1]) - first}{match[2]}"] = digest
    return kept
