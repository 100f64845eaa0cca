"""A resumed run laid beside the run that was not interrupted: which step is which, and what differs in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from samebits.comparison.locate import Divergence, Position, divergence_in
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
# A model after the first one of its class.
_MODEL = re.compile(r"^([A-Z]\w*?)(\d+)(\..*)$", re.DOTALL)
# Every optimizer of a script steps at least once in so many steps.
MOST_TURNS = 64


class Track:
    """What one rank recorded.

    Attributes:
        rank: whose.
        steps: it took.
        is_complete: it came to its own end.
        names: of parameters → those that they are given.
    """

    def __init__(self, recording: Recording) -> None:
        self.rank, self.steps, self.is_complete = recording.rank, recording.steps, recording.complete
        self.names: dict[str, str] = {}
        self._recording = recording
        # As arrays: as dictionaries, thousands of rows of a large model would fill the memory.
        self._row = lru_cache(maxsize=4096)(recording.columns)
        self.parameters_after = lru_cache(maxsize=4096)(self._parameters_after)

    def row(self, number: int) -> dict[str, Digests]:
        """Stream → what it holds."""
        return {stream: self._called(stream, column) for stream, column in self._row(number).items()}

    def column(self, row: int, stream: str) -> Digests:
        """Empty where there is nothing."""
        found = self._row(row).get(stream) if 0 <= row < self.steps else None
        return {} if found is None else self._called(stream, found)

    def call(self, names: Mapping[str, str]) -> None:
        """Give parameters other names: a script that resumes may call its models in another order."""
        self.names = dict(sorted(names.items(), key=lambda pair: -len(pair[0])))
        self.parameters_after.cache_clear()

    def saved_at_end(self) -> Digests:
        """What was saved after the last step, by a run that came to its own end."""
        is_there = self.is_complete and len(self._recording) > self.steps
        return self.row(self.steps).get("artifact", {}) if is_there else {}

    def _called(self, stream: str, column: Column) -> Digests:
        if not self.names or stream not in _OF_MODELS:
            return column.as_dict()
        return dict(zip(map(self._name, column.names), column.digests, strict=True))

    def _name(self, name: str) -> str:
        own = next((one for one in self.names if name == one or name.startswith(f"{one}.")), None)
        return name if own is None else self.names[own] + name.removeprefix(own)

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
    """Where a resumed run goes on.

    Attributes:
        step: of the uninterrupted run, with which its first row is compared.
        is_from_the_start: its parameters are the initial ones.
        has_parameters: its parameters are those that the uninterrupted run had there.
    """

    step: int
    is_from_the_start: bool = False
    has_parameters: bool = True


def start_of(a: Track, b: Track, loaded: int | None, last: int) -> Start:
    """Where the parameters say that a resumed run goes on; what was loaded decides between several, or if none fits.

    Args:
        a: the uninterrupted run.
        b: the resumed one.
        loaded: steps that were done when the checkpoint was saved that it loaded.
        last: the most steps that can be done by then.
    """
    begun = b.column(0, "init")
    names = {} if loaded is None else _other_names(a.parameters_after(loaded), begun)
    if names and loaded is not None:
        b.call(names)
        return Start(loaded)
    steps = [done for done in range(1, min(last, a.steps) + 1) if _same(a.parameters_after(done), begun)]
    if steps:
        return Start(loaded if loaded in steps else steps[-1])
    trained = a.parameters_after(min(MOST_TURNS, a.steps))
    initial = {name: digest for name, digest in a.column(0, "init").items() if name in trained}
    if _same(initial, begun):
        return Start(0, is_from_the_start=True)
    return Start(loaded if loaded is not None else 0, has_parameters=False)


def _other_names(saved: Digests, begun: Digests) -> dict[str, str]:
    """Names of parameters as a resumed run began → those of the ones that were saved, which are the same tensors.

    Nothing where they are called alike, or are not all there.
    """
    if not saved or all(begun.get(name) == digest for name, digest in saved.items()):
        return {}
    found: dict[str, str] = {}
    for name, digest in saved.items():
        alike = [one for one, own in begun.items() if own == digest and one not in found]
        same = [one for one in alike if one.rpartition(".")[2] == name.rpartition(".")[2]]
        if not same:
            return {}
        found[same[0]] = name
    # What had such a name before is something else.
    return found | {name: f"{name} (other)" for name in found.values() if name not in found}


def _same(a: Digests, b: Digests) -> bool:
    common = a.keys() & b.keys()
    return bool(common) and all(a[name] == b[name] for name in common)


@dataclass(frozen=True)
class Side:
    """One rank of a resumed run beside the uninterrupted one.

    Attributes:
        a, b: the uninterrupted and the resumed one.
        start: where it goes on.
        counts: stream → how much of the first step had come when it was saved: that is not repeated.
        a_fetched, b_fetched: the batches of either.
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
        """Of the uninterrupted run."""
        return self.start.step + row

    def pair(self, row: int) -> tuple[dict[str, Digests], dict[str, Digests]]:
        """What is compared of one step of either; of the first one what comes after the save."""
        both = self.a.row(self.step(row)), self.b.row(row)
        for one in both:
            beside = {n: d for n, d in one.pop("saved", {}).items() if n.lstrip("0123456789") in self.steady}
            one["artifact"] = one.get("artifact", {}) | beside
        if row == 0:
            self._align_first(*both)
        for stream in _OF_MODELS if self.b.names else ():
            if all(stream in one for one in both):
                here, there = (_without_optimizers(one[stream]) for one in both)
                both[0][stream], both[1][stream] = here, _without_optimizers(_called_as(there, here))
        # Copies are met when they are loaded, too: those that one run alone has met say nothing.
        buffers = [one.get("buffer", {}) for one in both]
        for name in buffers[0].keys() ^ buffers[1].keys():
            if name.startswith(AVERAGED):
                for copies in buffers:
                    copies.pop(name, None)
        a, b = both
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


def first_divergence(sides: Sequence[Side]) -> First | None:
    """The earliest place at which a resumed run differs, over all ranks."""
    found = [(side, *first) for side in sides if (first := side.first()) is not None]
    return min(found, key=lambda one: (*position(one), one[2].rank), default=None)


def position(first: First) -> Position:
    """For telling which of two places comes first."""
    _, row, divergence = first
    return row, divergence.position[1]


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


def _called_as(own: Digests, other: Digests) -> Digests:
    """With the numbers of its models as in the other one, where nothing else tells them apart.

    A script that resumes in the fourth fold makes fewer models by the fifth.
    """
    if own.keys() == other.keys():
        return own
    here, there = _ordinals(own), _ordinals(other)
    names = {place: name for name, place in there.items()}
    return {names[here[name]]: own[name] for name in own} if set(here.values()) == set(names) else own


def _ordinals(names: Iterable[str]) -> dict[str, tuple[str, int, str]]:
    """Name → class of its model, how many of that come before, and the rest of the name."""
    parts = {name: (m[1], int(m[2]), m[3]) if (m := _MODEL.match(name)) else ("", 0, name) for name in names}
    models = sorted({(kind, number) for kind, number, _ in parts.values()})
    before = {
        model: at - next(n for n, one in enumerate(models) if one[0] == model[0]) for at, model in enumerate(models)
    }
    return {name: (kind, before[kind, number], rest) for name, (kind, number, rest) in parts.items()}


def _without_optimizers(own: Digests) -> Digests:
    """Without the numbers of optimizers: a script that resumes may have made fewer of them by then."""
    found: Digests = {}
    for name, digest in sorted((re.sub(r"^optimizer\d+\.(?!param)", "", name), one) for name, one in own.items()):
        # Two optimizers may hold the same.
        found[name if name not in found else f"{name} ({len(found)})"] = digest
    return found
