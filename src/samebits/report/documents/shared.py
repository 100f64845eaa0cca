"""What documents of several commands hold."""

from __future__ import annotations

from typing import TypedDict

from samebits.checking.verdict import VerdictKind
from samebits.comparison.locate import DivergentStream
from samebits.runfolder.ops import Pass


class LocationDocument(TypedDict):
    """A line of code.

    Attributes:
        path: absolute path
        line: counts from 1
        source: the stripped line, empty when the file cannot be read
    """

    path: str
    line: int
    function: str
    source: str


class DistanceDocument(TypedDict):
    """How far two tensors lie apart.

    Attributes:
        elements: elements that differ in any bit
        max_ulp: largest distance in units in the last place (-0.0 is one below 0.0); null where it means nothing:
            integers, NaN, unrelated values
        max_relative: largest |a-b| / max(|a|, |b|)
    """

    elements: int
    total: int
    max_ulp: int | None
    max_relative: float | None


class ErrorDocument(TypedDict):
    """Why nothing could be decided."""

    kind: str
    message: str
    hint: str


class TensorsDocument(TypedDict):
    """How many tensors of a stream differ."""

    differing: int
    total: int


# `pass` is a word of Python's, so it can be no name in a class.
_AnyPass = TypedDict("_AnyPass", {"pass": "str | None"})


NamedPass = TypedDict("NamedPass", {"pass": "str"})


WithPass = TypedDict("WithPass", {"pass": "Pass"})


class _DivergenceProcess(TypedDict, total=False):
    process: str


class DivergenceDocument(_AnyPass, _DivergenceProcess):
    """The first place at which two runs differ.

    Attributes:
        step: counts from 0
        stream: length: one run went on; outcome: one run failed
        name: the first tensor that differs
        process: which process, thread or training of that rank, in words; empty where the rank has only one
        op: filled at level op
        generators: generators that stood elsewhere at the end of the step before
        ranks: those that diverge there; empty where the runs have only one
    """

    step: int
    stream: DivergentStream
    name: str
    rank: int
    ranks: list[int]
    op: str | None
    location: LocationDocument | None
    tensors: TensorsDocument
    distance: DistanceDocument | None
    generators: list[str]
    detail: str


class RunDocument(TypedDict):
    """One run of a check.

    Attributes:
        id: counts from 1
        stopped: ended on purpose after the step it was asked for
        ranks: how many processes of a distributed training were recorded; 1 without one
    """

    id: int
    role: str
    pinned: list[str]
    varied: list[str]
    exit_code: int
    steps: int
    ranks: int
    wall_seconds: float
    timed_out: bool
    stopped: bool
    folder: str


class PlaceDocument(TypedDict):
    """The first place at which two runs differ.

    Attributes:
        step: counted from 0; of a resumed run, that of the uninterrupted one
        name: of the first tensor that differs
        differing: tensors of that stream that differ
    """

    step: int
    stream: DivergentStream
    name: str
    rank: int
    differing: int
    total: int


class TrainedDocument(TypedDict):
    """Whether what was trained agrees: losses, gradients, parameters, states, and what was saved.

    Attributes:
        verdict: undecided where runs that differ in something else were not compared to their end
        first_divergence: the first place at which it does not
    """

    verdict: VerdictKind
    first_divergence: PlaceDocument | None
