"""What a lockfile holds, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from samebits.base.version import __version__

END = "end"
# How it is known that what was locked repeats: by a check, by a quick one, or not at all.
Repeats = Literal["checked", "looked", "unchecked"]


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

    def __post_init__(self) -> None:
        if self.at != END and not (self.at.isdecimal() and len(self.at) < 19):
            raise ValueError(f"{self.at!r} is not a step")


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
        trace: 16 bits, in hex, of the root at evenly spaced steps: between two rows they say where runs part.
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
    rows: tuple[Row, ...] = ()
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
        max_steps: how many first steps were locked; 0 is all.
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
