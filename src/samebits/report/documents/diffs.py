"""`samebits.diff/1`."""

from __future__ import annotations

from typing import Literal, TypedDict

from samebits.checking.verdict import VerdictKind
from samebits.comparison.ops import OpFinding
from samebits.report.documents.shared import (
    DivergenceDocument,
    ErrorDocument,
    LocationDocument,
    NamedPass,
    TrainedDocument,
)


class FirstOpDocument(NamedPass):
    """The first operation that differs between two recordings.

    Attributes:
        finding: op: inputs equal, results differ; input: something arrived different
        message: in one line
    """

    step: int
    index: int
    rank: int
    finding: OpFinding
    op: str
    module: str
    location: LocationDocument | None
    names: list[str]
    message: str


class DiffDocument(TypedDict):
    """What `samebits diff --format json` prints. Keys are only ever added.

    Attributes:
        trained: whether what was trained agrees; what else happened may differ all the same
        first_op: the first operation that differs, where both runs recorded operations
        streams: what was recorded and compared, in the order in which one thing follows from another
        compares_ops: operations were compared, too
        not_observed: what the recordings cannot see
        error: set when nothing could be decided
    """

    schema: Literal["samebits.diff/1"]
    verdict: VerdictKind
    trained: TrainedDocument | None
    runs: list[str]
    first_divergence: DivergenceDocument | None
    first_op: FirstOpDocument | None
    streams: list[str]
    compares_ops: bool
    not_observed: list[str]
    notes: list[str]
    error: ErrorDocument | None
