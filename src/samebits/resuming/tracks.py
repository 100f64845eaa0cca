"""A resumed run laid beside the run that was not interrupted: which step is which, and what differs in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from samebits.comparison.locate import Divergence, Position, in_stream
from samebits.runfolder.notes import BatchFetched
from samebits.runfolder.spec import AVERAGED
from samebits.runfolder.steps import COMPARED, Column, Recording, Stream

Columns = Mapping[str, Column]
# What is called as models call it.
_OF_MODELS = ("init", "grad", "param", "optimizer", "buffer")
# What is called by its number within a step.
_NUMBERED = ("batch", "loss", "output", "artifact", "number")
_NUMBER = re.compile(r"^(\d+)(.*)$", re.DOTALL)
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
    """

    def __init__(self, recording: Recording) -> None:
        self.rank, self.steps, self.is_complete = recording.rank, recording.steps, recording.complete
        self._recording, self.names = recording, dict[str, str]()
        self.row = lru_cache(maxsize=4096)(self._row)
        self.parameters_after = lru_cache(maxsize=4096)(self._parameters_after)

    def _row(self, number: int) -> Columns:
        columns = self._recording.columns(number)
        if not self.names:
            return columns
        return {
            stream: Column(tuple(map(self._name, one.names)), one.digests) if stream in _OF_MODELS else one
            for stream, one in columns.items()
        }

    def _name(self, name: str) -> str:
        own = next((one for one in self.names if name == one or name.startswith(f"{one}.")), None)
        return name if own is None else self.names[own] + name.removeprefix(own)

    def call(self, names: Mapping[str, str]) -> None:
        """Give parameters other names: a script that resumes may call its models in another order."""
        self.names = dict(sorted(names.items(), key=lambda pair: -len(pair[0])))
        self.row.cache_clear()
        self.parameters_after.cache_clear()

    def column(self, row: int, stream: str) -> dict[str, int]:
        """Name → digest; empty where there is nothing."""
        found = self.row(row).get(stream) if 0 <= row < self.steps else None
        return {} if found is None else found.as_dict()

    def _parameters_after(self, done: int) -> dict[str, int]:
        """Those that are trained then, as the last step of each left them: several optimizers step in turns.

        What is not stepped again, as of a model whose training is over, is none of them.
        """
        later = [self.column(row, "param") for row in range(done, min(done + MOST_TURNS, self.steps))]
        found = self.column(done - 1, "param")
        for row in range(done - 2, max(-1, done - 1 - MOST_TURNS), -1):
            own = self.column(row, "param")
            found |= {name: own[name] for name in own if name not in found and any(name in one for one in later)}
        return found

    def saved_at_end(self) -> Column | None:
        """What was saved after the last step, by a run that came to its own end."""
        end = self._row(self.steps) if self.is_complete and len(self._recording) > self.steps else {}
        return _saved(end.get("artifact"))


def tracks_of(recordings: Iterable[Recording]) -> dict[int, Track]:
    """Rank → the recording of its first process."""
    found: dict[int, Track] = {}
    for recording in sorted(recordings, key=lambda one: (one.rank, one.sequence)):
        if recording.rank not in found and recording.steps:
            found[recording.rank] = Track(recording)
    return found


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


def _other_names(saved: Mapping[str, int], begun: Mapping[str, int]) -> dict[str, str]:
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


def _same(a: Mapping[str, int], b: Mapping[str, int]) -> bool:
    common = a.keys() & b.keys()
    return bool(common) and all(a[name] == b[name] for name in common)


@dataclass(frozen=True)
class Difference:
    """What differs first in one step.

    Attributes:
        stream: of the recording.
        name: the first that differs.
        differing, total: how many of how many.
    """

    stream: Stream
    name: str
    differing: int
    total: int


@dataclass(frozen=True)
class Side:
    """One rank of a resumed run beside the uninterrupted one.

    Attributes:
        a, b: the uninterrupted and the resumed one.
        start: where it goes on.
        counts: stream → how much of the first step had come when it was saved: that is not repeated.
        a_fetched, b_fetched: the batches of either.
        steady: what is saved beside tensors, by name, and is the same in the two runs that were not interrupted yet.
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

    def pair(self, row: int) -> tuple[dict[str, Column], dict[str, Column]]:
        """The columns of one step of either; of the first one what comes after the save."""
        a, b = self._with_saved(self.a.row(self.step(row))), self._with_saved(self.b.row(row))
        if row == 0:
            for stream in _NUMBERED:
                if stream in a:
                    # Losses as numbers are named as the losses are.
                    counted = "loss" if stream == "number" else stream
                    a[stream] = _without(a[stream], self.counts.get(counted, 0))
            for stream in ("batch", "output"):
                a, b = _tails(stream, a, b)
            # What is saved when the run begins was saved before in the other one.
            a.pop("artifact", None)
            b.pop("artifact", None)
        for stream in _OF_MODELS if self.b.names else ():
            if stream in a and stream in b:
                a[stream], b[stream] = _sorted(a[stream]), _sorted(b[stream])
                b[stream] = _sorted(_called_as(b[stream], a[stream]))
        nothing = Column((), [])
        a["buffer"], b["buffer"] = _without_lone_copies(a.get("buffer", nothing), b.get("buffer", nothing))
        return {name: one for name, one in a.items() if one.names}, {n: one for n, one in b.items() if one.names}

    def _with_saved(self, columns: Columns) -> dict[str, Column]:
        """The columns; what was saved beside tensors counts where it is no time."""
        found = dict(columns)
        other, own = found.pop("saved", Column((), [])).as_dict(), found.get("artifact", Column((), [])).as_dict()
        own |= {name: digest for name, digest in other.items() if name.lstrip("0123456789") in self.steady}
        return found | ({"artifact": Column(tuple(own), [*own.values()])} if own else {})

    def difference(self, row: int) -> Difference | None:
        """What differs first there."""
        return next(iter(self.differences(row)), None)

    def differences(self, row: int) -> list[Difference]:
        """What differs there, stream by stream."""
        a, b = self.pair(row)
        found = []
        for stream in COMPARED:
            if stream in ("init", "end"):
                continue
            left, right = (_saved(one.get(stream)) if stream == "artifact" else one.get(stream) for one in (a, b))
            difference = _difference(stream, left, right)
            if difference is not None:
                found.append(difference)
        return found

    def first(self) -> tuple[int, Difference] | None:
        """The first row in which something differs, and what; what is saved at the end counts as one more."""
        for row in range(self.rows):
            found = self.difference(row)
            if found is not None:
                return row, found
        if self.a.is_complete and self.b.is_complete and self.rows == self.b.steps == self.a.steps - self.start.step:
            last = _difference("artifact", self.a.saved_at_end(), self.b.saved_at_end())
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


def _difference(stream: Stream, left: Column | None, right: Column | None) -> Difference | None:
    said = in_stream(left, right)
    return None if said is None else Difference(stream, said["name"], said["differing"], said["total"])


def first_divergence(sides: Sequence[Side]) -> tuple[Side, int, Difference] | None:
    """The earliest place at which a resumed run differs, over all ranks."""
    found = [(side, *first) for side in sides if (first := side.first()) is not None]
    return min(found, key=lambda one: (*position(one[1], one[2]), one[0].a.rank), default=None)


def position(row: int, difference: Difference) -> Position:
    """For telling which of two differences comes first."""
    return row, COMPARED.index(difference.stream)


def as_divergence(side: Side, row: int, difference: Difference, ranks: Sequence[int]) -> Divergence:
    """The same as other commands say it; steps are those of the uninterrupted run."""
    return Divergence(
        side.step(row),
        difference.stream,
        difference.name,
        side.a.rank,
        difference.differing,
        difference.total,
        ranks=tuple(ranks) if len(ranks) > 1 else (),
    )


def count_of(column: Column | None) -> int:
    """How many numbered things a column holds."""
    if column is None:
        return 0
    return len({match[1] for name in column.names if (match := _NUMBER.match(name)) is not None})


def _without(column: Column, first: int) -> Column:
    """Without the things before number `first`, and the others counted from 0."""
    kept = []
    for name, digest in zip(column.names, column.digests, strict=True):
        match = _NUMBER.match(name)
        if match is None or int(match[1]) >= first:
            kept.append((name if match is None else f"{int(match[1]) - first}{match[2]}", digest))
    return Column(tuple(name for name, _ in kept), [digest for _, digest in kept])


def _called_as(column: Column, other: Column) -> Column:
    """With the numbers of its models as in the other one, where nothing else tells them apart.

    A script that resumes in the fourth fold makes fewer models by the fifth.
    """
    if set(column.names) == set(other.names):
        return column
    own, there = _ordinals(column.names), _ordinals(other.names)
    names = {there[name]: name for name in other.names}
    if set(own.values()) != set(names):
        return column
    return Column(tuple(names[own[name]] for name in column.names), column.digests)


def _ordinals(names: Sequence[str]) -> dict[str, tuple[str, int, str]]:
    """Name → class of its model, how many of that come before, and the rest of the name."""
    parts = {name: _MODEL.match(name) for name in names}
    found = {name: (m[1], int(m[2]), m[3]) if m else ("", 0, name) for name, m in parts.items()}
    numbers: dict[str, list[int]] = {}
    for kind, number, _ in sorted(set(found.values())):
        own = numbers.setdefault(kind, [])
        if number not in own:
            own.append(number)
    return {name: (kind, numbers[kind].index(number), rest) for name, (kind, number, rest) in found.items()}


def _sorted(column: Column) -> Column:
    """Without the numbers of optimizers: a script that resumes may have made fewer of them by then."""
    found = sorted((re.sub(r"^optimizer\d+\.(?!param)", "", name), one) for name, one in column.as_dict().items())
    return Column(tuple(name for name, _ in found), [digest for _, digest in found])


def _tails(stream: str, a: dict[str, Column], b: dict[str, Column]) -> tuple[dict[str, Column], dict[str, Column]]:
    """The last ones of each, as many as both have: a run that resumes may skip batches, and need not evaluate again."""
    most = min(count_of(a.get(stream)), count_of(b.get(stream)))
    found = []
    for columns in (a, b):
        column = columns.get(stream)
        if column is not None:
            columns = {**columns, stream: _without(column, count_of(column) - most)}
        found.append(columns)
    return found[0], found[1]


def _without_lone_copies(a: Column, b: Column) -> tuple[Column, Column]:
    """Copies are met when they are loaded, too: those that one run alone has met say nothing."""
    left, right = a.as_dict(), b.as_dict()
    lone = {name for name in left.keys() ^ right.keys() if name.startswith(AVERAGED)}
    found = [{name: digest for name, digest in one.items() if name not in lone} for one in (left, right)]
    return Column(tuple(found[0]), [*found[0].values()]), Column(tuple(found[1]), [*found[1].values()])


def _saved(column: Column | None) -> Column | None:
    """What was saved itself; the states of modules beside it are called otherwise once they were loaded."""
    if column is None:
        return None
    kept = [(n, d) for n, d in zip(column.names, column.digests, strict=True) if re.match(r"^\d+\.state\.", n) is None]
    return Column(tuple(name for name, _ in kept), [digest for _, digest in kept]) if kept else None
