"""The operation at which runs differ, and what calling it again showed."""

from __future__ import annotations

from typing import Literal, TypedDict

from samebits.checking.verdict import VerdictKind
from samebits.comparison.ops import OpFinding
from samebits.report.documents.shared import DistanceDocument, ErrorDocument, LocationDocument, WithPass


class OpDocument(TypedDict):
    """An operation and its line."""

    op: str
    location: LocationDocument | None


class ProducerDocument(TypedDict):
    """The recorded operation that wrote an input last.

    Attributes:
        index: counts the operations of the step
        uninitialized: it made the memory, and wrote nothing to it
    """

    step: int
    index: int
    op: str
    module: str
    path: str
    line: int
    function: str
    uninitialized: bool


class OpPlaceDocument(WithPass):
    """Where the operations of one rank diverge first.

    Attributes:
        finding: op: inputs equal, results differ; input: something arrived different that no recorded operation made;
            argument: a number or shape from Python differs; generator: a random operation about to draw from another
            state; control flow: another operation altogether
        index: counts the operations of the step
        op: aten::add_.Tensor
        module: dotted path, empty outside of modules
        names: inputs or results that differ
        received: the difference came from another rank
        uninitialized: memory was read that had never been written
        producer: the recorded operation that wrote the input last
    """

    finding: OpFinding
    rank: int
    step: int
    index: int
    op: str
    backward_of: str | None
    module: str
    location: LocationDocument | None
    names: list[str]
    extra_in: Literal["first", "second", "both"] | None
    extra: list[OpDocument]
    received: bool
    uninitialized: bool
    producer: ProducerDocument | None


class RowDocument(TypedDict):
    """A line of what the terminal says."""

    label: str
    text: str


class ConditionDocument(TypedDict):
    """One way in which an operation was called again.

    Attributes:
        which: numbers that tell results apart, also between conditions
    """

    name: str
    calls: int
    results: int
    which: list[int]


class CalledAgainDocument(TypedDict):
    """What calling an operation again showed.

    Attributes:
        racy: calls under the same conditions differ
        script: the reproducer; null for a custom operation, which was called again inside the program
    """

    confirmed: bool
    racy: bool
    distinct: int
    gives_recorded: bool
    conditions: list[ConditionDocument]
    script: str | None
    failure: str | None


class OriginDocument(OpPlaceDocument):
    """An operation at which two runs diverge.

    Attributes:
        pairs: how many pairs of runs it took until one diverged
        message: the finding as a clause, in the words of the terminal and the page
        summary: place, operation, line and finding in one line
        rows: what the terminal says of it; a row without a label goes on with the one above
        is_accused: the operation itself made the difference, as far as was measured
        unobserved_write: inputs changed past the dispatcher
        changed_meanwhile: inputs that another process or thread changed while the operation ran
        shared: operands in memory that other processes may write to
        operands: file with the call
    """

    runs: list[int]
    pairs: int
    message: str
    summary: str
    rows: list[RowDocument]
    is_accused: bool
    distance: DistanceDocument | None
    unobserved_write: list[str]
    changed_meanwhile: list[str]
    shared: list[str]
    replay: CalledAgainDocument | None
    operands: str | None
    ranks: list[OpPlaceDocument]


class ReplayDocument(CalledAgainDocument):
    """What `samebits replay --format json` prints. Keys are only ever added.

    Attributes:
        operands: the file that holds the call
        error: set when nothing could be decided
    """

    schema: Literal["samebits.replay/1"]
    verdict: VerdictKind
    operands: str | None
    error: ErrorDocument | None
