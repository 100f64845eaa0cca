"""What a lockfile holds, typed; and every table of it as TOML and back.

There is one way only to write it, so that the same content is the same text, byte for byte: tables hold texts, whole
numbers and lists of texts; keys are sorted. Python reads TOML and writes none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar, get_type_hints

from samebits.base.errors import UsageError
from samebits.base.records import from_data, to_data
from samebits.base.version import __version__
from samebits.runfolder.environment import Environment

END = "end"
# How it is known that what was locked repeats: by a check, by a quick one, or not at all.
Repeats = Literal["checked", "looked", "unchecked"]
T = TypeVar("T")
Value: TypeAlias = "str | int | Sequence[str]"
Table: TypeAlias = Mapping[str, Value]
# A list that fits into so many columns stands in one line.
WIDTH = 100
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NAMED = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPED = str.maketrans({chr(code): f"\\u{code:04X}" for code in (*range(32), 127)} | _NAMED)
_LARGEST = 2**63


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
        """`8 root=… batch=… value=0x1.8p+0`."""
        streams = (f"{name}={digest}" for name, digest in self.streams.items())
        return " ".join([self.at, f"root={self.root}", *streams, *(f"value={loss}" for loss in self.losses)])

    @classmethod
    def from_line(cls, line: str) -> Row:
        """What `as_line` made; ValueError where it names no step."""
        at, root, *words = line.split(" ")
        if at != END and not (at.isdecimal() and len(at) < 19):
            raise ValueError(f"{line!r} is no step")
        pairs = [(name, value) for name, _, value in (word.partition("=") for word in words)]
        streams = {name: value for name, value in pairs if name != "value"}
        return cls(at, root.removeprefix("root="), streams, tuple(value for name, value in pairs if name == "value"))


@dataclass(frozen=True)
class Locked:
    """What a run of a command gave in one environment.

    Attributes:
        digest: the definition by which tensors were digested; digests of two definitions are never compared.
        steps: it took.
        streams: that were recorded.
        recordings: rank, rows and last root of each training, as text; empty where there are very many.
        root: of everything that was recorded.
        rows: the steps 0, 1, 2, 4, 8 … and the last one, and the end.
        stride: of the trace, in steps.
        trace: 16 bits, in hex, of the root at every so many steps: between two rows they say where runs part.
        samebits: the version that recorded it.
        repeats: how it is known that this repeats.
        artifacts: path → digest of the file.
        commit: that was checked out; empty without git.
        uncommitted: files of the code that were not as committed.
        code: path → git's name of its content, of the user's files that were imported, or read as text before training.
        variables: of the environment that the user's lines asked for: name → digest of the value.
    """

    digest: str
    steps: int
    root: str
    rows: tuple[Row, ...]
    streams: tuple[str, ...] = ()
    recordings: tuple[str, ...] = ()
    stride: int = 1
    trace: str = ""
    samebits: str = __version__
    repeats: Repeats = "unchecked"
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


def to_table(record: RunEntry | Locked | LockedTensors | Environment) -> dict[str, Value]:
    """Its fields, each as a text, a number or lines; without what a command gave in environments."""
    return {name: _plain(value) for name, value in vars(record).items() if name != "on"}


def _plain(value: Mapping[str, str] | tuple[str | Row, ...] | str | int) -> Value:
    if isinstance(value, Mapping):
        # A line for each, by name, so that two branches that add one each can be merged.
        return [f"{digest} {name}" for name, digest in sorted(value.items())]
    if isinstance(value, tuple):
        return [one.as_line() if isinstance(one, Row) else one for one in value]
    return value


def from_table(kind: type[T], table: Mapping[str, Any]) -> T:
    """What `to_table` made, without what a command gave in environments.

    What more there is, is passed over: that a table has another text than what is read shows in its text.

    Raises:
        ValueError, TypeError or AttributeError: it is something else.
    """
    hints = get_type_hints(kind)
    return from_data(kind, {name: _data(hints.get(name), value) for name, value in table.items() if name != "on"})


def _data(hint: object, value: Any) -> object:
    if hint == Mapping[str, str]:
        return {name: digest for digest, _, name in (line.partition(" ") for line in value)}
    return [to_data(Row.from_line(line)) for line in value] if hint == tuple[Row, ...] else value


# ---- as TOML ---------------------------------------------------------------------------------------------------------


def block(path: Sequence[str], table: Table) -> str:
    """A table with its head, ending with a newline; without a path, the keys before the first table.

    Raises:
        UsageError: something in it cannot be written as TOML.
    """
    head = f"[{'.'.join(map(_key, path))}]\n" if path else ""
    return head + "".join(f"{_line(name, table[name])}\n" for name in sorted(table))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _line(name: str, value: Value) -> str:
    if isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise UsageError(f"{name} = {value} does not fit into the 64 bits of a TOML number")
        return f"{_key(name)} = {value}"
    if isinstance(value, str):
        return f"{_key(name)} = {_text(value)}"
    items = [_text(item) for item in value]
    line = f"{_key(name)} = [{', '.join(items)}]"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{_key(name)} = [", *(f"  {item}," for item in items), "]"])


def _text(value: str) -> str:
    half = next((one for one in value if "\ud800" <= one <= "\udfff"), None)
    if half is not None:
        raise UsageError(f"{half!r} is no character, so it cannot stand in a lockfile", "is it part of a file's name?")
    return f'"{value.translate(_ESCAPED)}"'
