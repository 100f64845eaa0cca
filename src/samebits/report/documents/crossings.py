"""`samebits.against/1`."""

from __future__ import annotations

from typing import Literal, TypedDict

from samebits.against.interpreters import Relation
from samebits.against.operations import Finding as AcrossFinding
from samebits.checking.verdict import VerdictKind
from samebits.report.documents.shared import (
    DistanceDocument,
    ErrorDocument,
    LocationDocument,
    PlaceDocument,
    RunDocument,
)


class InterpreterDocument(TypedDict):
    """One of two interpreters.

    Attributes:
        path: as it was started
        torch: its version
        runs: ids of the runs under it
    """

    path: str
    python: str
    torch: str
    runs: list[int]


class PackageDocument(TypedDict):
    """A package that is not the same in both environments.

    Attributes:
        here: its version; null where it is not installed
        there: its version; null where it is not installed
        relation: `operation` where the operation is its own, `imported` by the script, `required` by the owner
    """

    name: str
    here: str | None
    there: str | None
    relation: Relation


class AcrossReplayDocument(TypedDict):
    """One call, made again in both environments.

    Attributes:
        script: calls it; plain torch, fit for a bug report
        calls: in each environment
        here_gives_recorded: the environment in which the call was recorded gave the recorded result again
        there_gives_recorded: the other one did, too
        failure: why it could not be called
    """

    script: str | None
    calls: int
    here_gives_recorded: bool
    there_gives_recorded: bool
    failure: str


class AcrossDocument(TypedDict):
    """The first operation that differs between the environments.

    Attributes:
        finding: `op`, inputs equal and results not; `argument`, called with other arguments; `otherwise`, other
            operations were done in its place; `generator`; `input`, something arrived different that none of them made
        op: its name here
        index: of its step, counted from 0, here
        index_there: the same in the other environment
        instead_here: operations that were done here, and not there
        instead_there: operations that were done there, and not here
        paired: operations that both did, in the same order
        only_here: operations left over
        only_there: operations left over
        confirmed: called again on its recorded inputs, it gives the recorded result here and never there
        message: the finding in words
    """

    finding: AcrossFinding
    step: int
    index: int | None
    index_there: int | None
    op: str
    pass_: str
    module: str
    location: LocationDocument | None
    names: list[str]
    instead_here: list[str]
    instead_there: list[str]
    paired: int
    only_here: int
    only_there: int
    distance: DistanceDocument | None
    replay: AcrossReplayDocument | None
    confirmed: bool
    message: str


class AgainstDocument(TypedDict):
    """What `samebits check --against PYTHON --format json` prints. Keys are only ever added.

    Attributes:
        headline: the answer in one sentence
        command: as it was typed
        folder: holds a run folder for every run
        here: the interpreter of the command
        there: the one given with --against
        operation: the first that differs; null without --level op
        packages: that differ, the first suspects first
        pinned: factors held still on both sides
        steps: that were compared
        interrupted: the signal that ended it before it was done
    """

    schema: Literal["samebits.against/1"]
    verdict: VerdictKind
    headline: str
    command: str | None
    folder: str | None
    here: InterpreterDocument | None
    there: InterpreterDocument | None
    runs: list[RunDocument]
    first_divergence: PlaceDocument | None
    operation: AcrossDocument | None
    packages: list[PackageDocument]
    pinned: list[str]
    steps: int
    streams: list[str]
    notes: list[str]
    not_observed: list[str]
    interrupted: str | None
    error: ErrorDocument | None
