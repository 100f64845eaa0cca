"""What a lockfile holds, typed; and every table of it as plain TOML and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar, cast, get_args

from samebits.locking.toml import Table, Value
from samebits.runfolder.environment import Environment

# How it is known that what was locked repeats: by a check, by a quick one, or not at all.
Repeats = Literal["checked", "looked", "unchecked"]
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """What is expected at one step, or at the end.

    Attributes:
        at: the step, counted from 0, or `end` for what comes after the last one.
        root: 64 bits, in hex, of everything that was recorded up to here.
        streams: stream → 32 bits, in hex, of what it held in this step; they say where runs part, and decide nothing.
        losses: of the first rank, as hex floats.
    """

    at: str
    root: str
    streams: Mapping[str, str] = field(default_factory=dict)
    losses: tuple[str, ...] = ()

    def as_line(self) -> str:
        """`8 root=… batch=… loss=0x1.8p+0`."""
        known = [f"root={self.root}", *(f"{name}={digest}" for name, digest in self.streams.items())]
        return " ".join([self.at, *known, *(f"value={loss}" for loss in self.losses)])

    @classmethod
    def from_line(cls, line: str) -> Row:
        """What `as_line` made; ValueError where it is something else."""
        at, *words = line.split(" ")
        pairs = [cast("tuple[str, str]", tuple(word.split("=", 1))) for word in words]
        is_step = at.isdecimal() and len(at) < 19
        if not (at == "end" or is_step) or any(len(pair) != 2 for pair in pairs) or pairs[0][0] != "root":
            raise ValueError(f"{line!r} is no step")
        streams = {name: value for name, value in pairs[1:] if name != "value"}
        return cls(at, pairs[0][1], streams, tuple(value for name, value in pairs if name == "value"))


@dataclass(frozen=True)
class Locked:
    """What a run of a command gave in one environment.

    Attributes:
        digest: the definition by which tensors were digested; digests of two definitions are never compared.
        samebits: the version that recorded it.
        repeats: how it is known that this repeats.
        steps: it took.
        streams: that were recorded.
        recordings: rank, rows and last root of each training, as text; empty where there are very many.
        root: of everything that was recorded.
        rows: the steps 0, 1, 2, 4, 8 … and the last one, and the end.
        stride: of the trace, in steps.
        trace: 16 bits, in hex, of the root at every so many steps: between two rows they say where runs part.
        artifacts: path → digest of the file.
        commit: that was checked out; empty without git.
        uncommitted: files of the code that were not as committed.
        code: path → git's name of its content, of the user's files that were imported, or read as text before training.
        variables: of the environment that the user's lines asked for: name → digest of the value.
    """

    digest: str
    samebits: str
    repeats: Repeats
    steps: int
    root: str
    rows: tuple[Row, ...]
    streams: tuple[str, ...] = ()
    recordings: tuple[str, ...] = ()
    stride: int = 1
    trace: str = ""
    artifacts: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    uncommitted: tuple[str, ...] = ()
    code: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunEntry:
    """A command, and what it gave in every environment that was locked.

    Attributes:
        command: as it was typed.
        seed: root of all pinned streams.
        pins: factors held still, each `NAME` or `NAME=VALUE`.
        max_steps: only so many steps were locked; 0 is all.
        data: path → digest of a file or a folder that has to be as it was.
        artifacts: the files that the run makes and that are compared; `{run}` stands for a folder of its own.
        on: environment → what the command gave there.
    """

    command: tuple[str, ...]
    seed: int = 0
    pins: tuple[str, ...] = ()
    max_steps: int = 0
    data: Mapping[str, str] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()
    on: Mapping[str, Locked] = field(default_factory=dict)


@dataclass(frozen=True)
class LockedTensors:
    """What a test gave in one environment.

    Attributes:
        digest: the definition by which tensors were digested.
        tensors: name → digest, 16 hex digits.
        seed: root of the streams of all tests.
    """

    digest: str
    tensors: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True)
class TestEntry:
    """A test, and the tensors that it named in every environment that was locked: environment → tensors."""

    __test__ = False  # pytest collects classes by their names

    on: Mapping[str, LockedTensors] = field(default_factory=dict)


# ---- as tables -------------------------------------------------------------------------------------------------------


def environment_table(environment: Environment) -> Table:
    """Without what is empty."""
    return {one.name: value for one in fields(environment) if (value := getattr(environment, one.name))}


def environment_from(table: Mapping[str, object]) -> Environment:
    """What `environment_table` made; ValueError where it is something else."""
    known = {one.name: _taken(dict(table), one.name, _text, "") for one in fields(Environment)}
    _need_no_more(set(table) - set(known))
    return Environment(**known)


def run_table(entry: RunEntry) -> Table:
    """Without what belongs to an environment."""
    table: dict[str, Value] = {"command": entry.command, "seed": entry.seed, "pins": entry.pins}
    table |= {"data": _lines(entry.data), "artifacts": entry.artifacts}
    return table | ({"max_steps": entry.max_steps} if entry.max_steps else {})


def run_from(table: Mapping[str, object], on: Mapping[str, Locked]) -> RunEntry:
    """What `run_table` made; ValueError where it is something else."""
    rest = dict(table)
    entry = RunEntry(
        _taken(rest, "command", _texts),
        _taken(rest, "seed", _number),
        _taken(rest, "pins", _texts),
        _taken(rest, "max_steps", _number, 0),
        _taken(rest, "data", _pairs),
        _taken(rest, "artifacts", _texts),
        on,
    )
    _need_no_more(rest)
    return entry


def locked_table(locked: Locked) -> Table:
    """Everything."""
    return {
        "digest": locked.digest,
        "samebits": locked.samebits,
        "repeats": locked.repeats,
        "steps": locked.steps,
        "streams": locked.streams,
        "recordings": locked.recordings,
        "root": locked.root,
        "rows": [row.as_line() for row in locked.rows],
        "stride": locked.stride,
        "trace": locked.trace,
        "artifacts": _lines(locked.artifacts),
        "commit": locked.commit,
        "uncommitted": locked.uncommitted,
        "code": _lines(locked.code),
        "variables": _lines(locked.variables),
    }


def locked_from(table: Mapping[str, object]) -> Locked:
    """What `locked_table` made; ValueError where it is something else."""
    rest = dict(table)
    repeats = _taken(rest, "repeats", _text)
    if repeats not in get_args(Repeats):
        raise ValueError(f"repeats = {repeats!r} is none of {', '.join(get_args(Repeats))}")
    locked = Locked(
        _taken(rest, "digest", _text),
        _taken(rest, "samebits", _text),
        cast("Repeats", repeats),
        _taken(rest, "steps", _number),
        _taken(rest, "root", _text),
        tuple(Row.from_line(line) for line in _taken(rest, "rows", _texts)),
        _taken(rest, "streams", _texts),
        _taken(rest, "recordings", _texts),
        _taken(rest, "stride", _number),
        _taken(rest, "trace", _text),
        _taken(rest, "artifacts", _pairs),
        _taken(rest, "commit", _text),
        _taken(rest, "uncommitted", _texts),
        _taken(rest, "code", _pairs),
        _taken(rest, "variables", _pairs, {}),
    )
    _need_no_more(rest)
    return locked


def tensors_table(locked: LockedTensors) -> Table:
    """Everything."""
    return {"digest": locked.digest, "seed": locked.seed, "tensors": _lines(locked.tensors)}


def tensors_from(table: Mapping[str, object]) -> LockedTensors:
    """What `tensors_table` made; ValueError where it is something else."""
    rest = dict(table)
    locked = LockedTensors(
        _taken(rest, "digest", _text), _taken(rest, "tensors", _pairs), _taken(rest, "seed", _number)
    )
    _need_no_more(rest)
    return locked


def _lines(pairs: Mapping[str, str]) -> tuple[str, ...]:
    """`DIGEST NAME`, by name: a line for each, so that two branches that add one each can be merged."""
    return tuple(f"{digest} {name}" for name, digest in sorted(pairs.items()))


def _pairs(value: object) -> Mapping[str, str]:
    parted = [line.partition(" ") for line in _texts(value)]
    if not all(digest and space for digest, space, _ in parted):
        raise ValueError(f"{value!r} is no list of digests and names")
    return {name: digest for digest, _, name in parted}


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError(f"{value!r} is no list")
    return tuple(_text(one) for one in value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no whole number")
    return value


_MISSING: Any = object()


def _taken(rest: dict[str, object], name: str, read: Callable[[object], T], default: T = _MISSING) -> T:
    """The value of a key, which is then done with."""
    if name not in rest:
        if default is _MISSING:
            raise ValueError(f"{name} is missing")
        return default
    try:
        return read(rest.pop(name))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _need_no_more(rest: set[str] | dict[str, object]) -> None:
    if rest:
        raise ValueError(f"{min(rest)} is no key that belongs there")
