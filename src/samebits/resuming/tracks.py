"""A resumed run laid beside the run that was not interrupted: which step is which, and what differs in it."""

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
from samebits.runfolder.steps import COMPARED, Column, Recording, Stream

# Name → digest, of one stream of one step.
Digests = dict[str, int]
# What is called as models call it.
_OF_MODELS = ("init", "grad", "param", "optimizer", "buffer")
# What is called by its number within a step.
_NUMBERED = ("batch", "loss", "output", "number")
_NUMBER = re.compile(r"^(\d+)(.*)$", re.DOTALL)
# The states of modules beside what was saved itself: they are called otherwise once they were loaded.
_STATE = re.compile(r"^\d+\.state\.")
# Every optimizer of a script steps at least once in this many steps.
MOST_TURNS = 64


class Track:
    """What one rank recorded; it is complete where the rank came to its own end."""

    def __init__(self, recording: Recording) -> None:
        self.rank, self.steps, self.is_complete = recording.rank, recording.steps, recording.complete
        self._recording = recording
        # As arrays: as dictionaries, thousands of rows of a large model would fill the memory.
        self.columns = lru_cache(maxsize=4096)(recording.columns)
        self.parameters_after = lru_cache(maxsize=4096)(self._parameters_after)

    def row(self, number: int) -> dict[str, Digests]:
        """Stream → what it holds."""
        return {stream: column.as_dict() for stream, column in self.columns(number).items()}

    def column(self, row: int, stream: str) -> Digests:
        """Empty where there is nothing."""
        found = self.columns(row).get(stream) if 0 <= row < self.steps else None
        return {} if found is None else found.as_dict()

    def saved_at_end(self) -> Digests:
        """What was saved after the last step, by a run that came to its own end."""
        is_there = self.is_complete and len(self._recording) > self.steps
        return self.row(self.steps).get("artifact", {}) if is_there else {}

    def _parameters_after(self, done: int) -> Digests:
        """Those that are trained then, as the last step of each left them: several optimizers step in turns.

        What is not stepped again, as of a model whose training is over, is none of them.
        """
        later = [self.column(row, "param") for row in range(done, min(done + MOST_TURNS, self.steps))]
        found = self.column(done - 1, "param")
        for row in range(done - 2, max(-1, done - 1 - MOST_TURNS), -1):
            own = self.column(row, "param")
            found |= {name: own[name] for name in own if name not in found and any(name in one for one in later)}
        return found


def tracks_of(recordings: Iterable[Recording]) -> dict[int, Track]:
    """Rank → the recording of its first process."""
    last_first = sorted(recordings, key=lambda one: (one.rank, one.sequence), reverse=True)
    found = {one.rank: one for one in last_first if one.steps}
    return {rank: Track(found[rank]) for rank in sorted(found)}


@dataclass(frozen=True)
class Start:
    """Where a resumed run starts.

    Attributes:
        step: of the uninterrupted run, with which its first row is compared.
        is_from_the_start: its parameters are the initial ones.
        has_parameters: its parameters are those that the uninterrupted run had there.
        is_renamed: its parameters are called otherwise, as where a script that resumes calls its models in another
            order: they are known by their bits.
    """

    step: int
    is_from_the_start: bool = False
    has_parameters: bool = True
    is_renamed: bool = False


def start_of(a: Track, b: Track, loaded: int | None, last: int) -> Start:
    """Where the parameters say that the resumed run `b` starts, after `last` steps of the uninterrupted `a` at most.

    The steps after which what was loaded was saved decide between several, or if none fits.
    """
    begun = b.column(0, "init")
    if loaded is not None and _is_renamed(a.parameters_after(loaded), begun):
        return Start(loaded, is_renamed=True)
    steps = [done for done in range(1, min(last, a.steps) + 1) if _same(a.parameters_after(done), begun)]
    if steps:
        return Start(loaded if loaded in steps else steps[-1])
    trained = a.parameters_after(min(MOST_TURNS, a.steps))
    initial = {name: digest for name, digest in a.column(0, "init").items() if name in trained}
    if _same(initial, begun):
        return Start(0, is_from_the_start=True)
    return Start(loaded if loaded is not None else 0, has_parameters=False)


def _is_renamed(saved: Digests, begun: Digests) -> bool:
    """Whether the parameters that were saved are all there, and not all under the same names."""
    if not saved or all(begun.get(name) == digest for name, digest in saved.items()):
        return False
    return saved.items() <= named_as(begun, saved).items()


def named_as(own: Digests, other: Digests) -> Digests:
    """The same under the other's names: first of what has the same bits, then of what is called alike at the end.

    Optimizers are numbered as they are made, and models of one class, too: a script that resumes in the fourth fold has
    made fewer by the fifth.
    """
    names = dict[str, str]()
    for is_exact in (True, False):
        taken, alike = set(names.values()), defaultdict[object, list[str]](list)
        for name in own:
            if name not in taken:
                alike[_end_of(name), own[name] if is_exact else None].append(name)
        for name in other:
            same = alike[_end_of(name), other[name] if is_exact else None]
            if name not in names and same:
                names[name] = same.pop(0)
    # What had such a name before is something else.
    taken = set(names.values())
    rest = {f"{name} (other)" if name in names else name: one for name, one in own.items() if name not in taken}
    return {name: own[names[name]] for name in other if name in names} | rest


def _end_of(name: str) -> str:
    return name.rpartition(".")[2]


def _same(a: Digests, b: Digests) -> bool:
    common = a.keys() & b.keys()
    return bool(common) and all(a[name] == b[name] for name in common)


@dataclass(frozen=True)
class Side:
    """One rank of the uninterrupted run `a`, and of the resumed one `b`, each with its batches.

    Attributes:
        counts: stream → how much of the first step had come when it was saved: that is not repeated.
        steady: what is saved beside tensors, by name, and is the same in the two runs that were not interrupted yet:
            it is no time.
    """

    a: Track
    b: Track
    start: Start
    counts: Mapping[str, int] = field(default_factory=dict)
    a_fetched: Sequence[BatchFetched] = ()
    b_fetched: Sequence[BatchFetched] = ()
    steady: frozenset[str] = frozenset()

    @property
    def rows(self) -> int:
        """Steps that both took."""
        return max(0, min(self.b.steps, self.a.steps - self.start.step))

    def step(self, row: int) -> int:
        """The step of the uninterrupted run that a row is compared with."""
        return self.start.step + row

    def pair(self, row: int) -> tuple[dict[str, Digests], dict[str, Digests]]:
        """What is compared of one step of either; of the first one what comes after the save."""
        a, b = both = self.a.row(self.step(row)), self.b.row(row)
        for one in both:
            beside = {n: d for n, d in one.pop("saved", {}).items() if n.lstrip("0123456789") in self.steady}
            one["artifact"] = one.get("artifact", {}) | beside
        if row == 0:
            self._align_first(a, b)
        if self.start.is_renamed:
            b |= {stream: named_as(b[stream], a[stream]) for stream in _OF_MODELS if stream in a and stream in b}
        # Copies are met when they are loaded, too: those that one run alone has met say nothing.
        for name in a.get("buffer", {}).keys() ^ b.get("buffer", {}).keys():
            if name.startswith(AVERAGED):
                for one in both:
                    one.get("buffer", {}).pop(name, None)
        return {stream: one for stream, one in a.items() if one}, {stream: one for stream, one in b.items() if one}

    def _align_first(self, a: dict[str, Digests], b: dict[str, Digests]) -> None:
        for stream in a.keys() & set(_NUMBERED):
            # Losses as numbers are named as the losses are.
            a[stream] = _from(a[stream], self.counts.get("loss" if stream == "number" else stream, 0))
        for stream in ("batch", "output"):
            # The last ones, as many as both have: a run that resumes may skip batches, and need not evaluate again.
            most = min(count_of(a.get(stream, {})), count_of(b.get(stream, {})))
            for one in (a, b):
                if stream in one:
                    one[stream] = _from(one[stream], count_of(one[stream]) - most)
        # What is saved when the run begins was saved before in the other one.
        del a["artifact"], b["artifact"]

    def differences(self, row: int) -> Iterator[Divergence]:
        """What differs there, stream by stream; steps are those of the uninterrupted run."""
        raw = self.a.columns(self.step(row)), self.b.columns(row)
        is_plain = row > 0 and not self.start.is_renamed
        if is_plain and all(raw[0].get(stream) == raw[1].get(stream) for stream in (*COMPARED, "saved")):
            return iter(())
        a, b = self.pair(row)
        streams = (stream for stream in COMPARED if stream not in ("init", "end"))
        found = (self._difference(row, stream, a.get(stream, {}), b.get(stream, {})) for stream in streams)
        return (one for one in found if one is not None)

    def _difference(self, row: int, stream: Stream, *both: Digests) -> Divergence | None:
        if stream == "artifact":
            both = tuple({name: one for name, one in own.items() if not _STATE.match(name)} for own in both)
        columns = (Column(tuple(own), [*own.values()]) if own else None for own in both)
        found = divergence_in(self.step(row), stream, *columns)
        # What one of the two alone has is no finding of its own here.
        return found and Divergence(found.step, stream, found.name, self.a.rank, found.differing, found.total)

    def first(self) -> tuple[int, Divergence] | None:
        """The first row in which something differs, and what; what is saved at the end counts as one more."""
        for row in range(self.rows):
            found = next(self.differences(row), None)
            if found is not None:
                return row, found
        if self.a.is_complete and self.b.is_complete and self.rows == self.b.steps == self.a.steps - self.start.step:
            last = self._difference(self.rows, "artifact", self.a.saved_at_end(), self.b.saved_at_end())
            return None if last is None else (self.rows, last)
        return None

    @property
    def has_other_data(self) -> bool:
        """Whether the batch of the first row is another one."""
        return any(one.stream == "batch" for one in self.differences(0))

    def first_trained(self) -> int | None:
        """The first row in which something else differs than what is saved."""
        rows = range(self.rows)
        return next((row for row in rows if any(one.stream != "artifact" for one in self.differences(row))), None)

    def fetched(self, row: int) -> tuple[list[BatchFetched], list[BatchFetched]]:
        """The batches of a step of either that are compared."""
        a = [one for one in self.a_fetched if one.step == self.step(row)]
        b = [one for one in self.b_fetched if one.step == row]
        if row == 0:
            a = [one for one in a if one.number >= self.counts.get("batch", 0)]
            most = min(len(a), len(b))
            a, b = a[len(a) - most :], b[len(b) - most :]
        return a, b


First = tuple[Side, int, Divergence]


def earliest_difference(sides: Sequence[Side]) -> First | None:
    """The earliest place at which a resumed run differs, over all ranks."""
    found = [(side, *first) for side in sides if (first := side.first()) is not None]
    return min(found, key=lambda one: (*position(one), one[2].rank), default=None)


def position(first: First | None) -> tuple[float, int]:
    """For telling which of two places comes first; where there is none, it lies behind all."""
    return (math.inf, 0) if first is None else (first[1], first[2].position[1])


def count_of(numbered: Digests) -> int:
    """How many numbered things there are."""
    return len({match[1] for name in numbered if (match := _NUMBER.match(name)) is not None})


def _from(numbered: Digests, first: int) -> Digests:
    """Without the things before number `first`, and the others counted from 0."""
    kept = {}
    for name, digest in numbered.items():
        match = _NUMBER.match(name)
        if match is None or int(match[1]) >= first:
            kept[name if match is None else f"{int(match[1]) - first}{match[2]}"] = digest
    return kept
