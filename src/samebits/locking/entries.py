"""The records that a lockfile holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from samebits.base.version import __version__

END = "end"
# How it is known that what was locked repeats: by a check, by a quick check, or not at all.
Repeats = Literal["checked", "looked", "unchecked"]


@dataclass(frozen=True)
class Row:
    """The digests that are expected at one step, or at the end.

    Attributes:
        at: the step, counted from 0, or `end` for what comes after the last one.
        root: the digest (64 bits, in hex) of everything that was recorded up to here.
        streams: stream → its digest in this step (32 bits, in hex); these say where runs diverge, and decide nothing.
        losses: the losses of the first rank, as hex floats.
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
    """The bits that a run of a command gave in one environment, as digests.

    Attributes:
        digest: the definition by which tensors were digested; digests of two definitions are never compared.
        steps: how many steps the run took.
        streams: the streams that were recorded.
        recordings: rank, rows and last root of each training, as text; empty where there are very many.
        root: the digest of everything that was recorded.
        rows: the steps 0, 1, 2, 4, 8 … and the last one, and the end.
        stride: how many steps lie between two values of the trace.
        trace: 16 bits of the root, in hex, at evenly spaced steps: between two rows they say where runs diverge.
        samebits: the version of samebits that recorded the run.
        repeats: how it is known that the command repeats.
        artifacts: path → digest of the file.
        commit: the commit that was checked out; empty without git.
        uncommitted: files of the code that differed from the commit.
        code: path → git's name of its content, for the user's files that were imported or read as text before training.
        variables: name → digest of the value, for the environment variables that the user's lines asked for.
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
        command: the words of the command, as typed.
        seed: the root of all pinned streams.
        pins: the pinned factors, each `NAME` or `NAME=VALUE`.
        max_steps: how many first steps were locked; 0 means all.
        data: path → digest, for files and folders that must be unchanged.
        artifacts: the files that the run makes and that are compared; `{run}` stands for a folder of the run's own.
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
    """The tensors that a test gave in one environment.

    Attributes:
        digest: the definition by which tensors were digested.
        tensors: name → digest, 16 hex digits.
        seed: the root of the streams of all tests.
    """

    digest: str
    tensors: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True)
class TestEntry:
    """A test, and the tensors that it named in every environment that was locked: environment → tensors."""

    __test__ = False  # pytest collects classes by their names

    on: Mapping[str, LockedTensors] = field(default_factory=dict)
