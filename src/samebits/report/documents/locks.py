"""`samebits.lock/1` and `samebits.verify/1`."""

from __future__ import annotations

from typing import Literal, TypedDict

from samebits.locking.entries import Repeats
from samebits.locking.verdict import LockKind, VerifyKind, What
from samebits.report.documents.checks import CheckDocument
from samebits.report.documents.shared import ErrorDocument


class EnvironmentDifferenceDocument(TypedDict):
    """A field in which the locked environment and this one differ.

    Attributes:
        name: of the factor where there is one (cpu-threads), else of the field
        can_change_bits: whether it can
        why: how it can, or why it cannot
    """

    name: str
    locked: str
    here: str
    can_change_bits: bool
    why: str


class LockDivergenceDocument(TypedDict):
    """Where a run parts from what is locked.

    Attributes:
        what: stream: something that is recorded; length: the number of steps; artifact, data: a file
        step: the first at which it is seen, counted from 0; null for files
        agreed: the last step that is known to agree; null where none is
        exact: the step before the first one seen is known to agree
        streams: those that differ at the next step of which streams are locked, the first one first
        seen: that step, or end
        losses: locked and found there, as hex floats; null where they agree or there are none
        lengths: steps that were locked and that were taken; null where they are as many
        path: of the file
        recordings: how many trainings of how many differ; null where there is one
        message: all of it in words
    """

    what: What
    step: int | None
    agreed: int | None
    exact: bool
    streams: list[str]
    seen: str
    losses: tuple[list[str], list[str]] | None
    lengths: tuple[int, int] | None
    path: str
    recordings: tuple[int, int] | None
    message: str


class CodeChangeDocument(TypedDict):
    """A file of the code that is not as it was when the entry was locked.

    Attributes:
        path: relative to the current folder
        line: the first line that is not as it was, counted from 1; null where that is not known
        lines: how many lines are not as they were
    """

    path: str
    how: Literal["changed", "added", "removed"]
    line: int | None
    lines: int | None


class VerifiedDocument(TypedDict):
    """What verifying one entry found.

    Attributes:
        verdict: unknown: this environment was never locked
        headline: the answer in one sentence
        command: as it was typed
        environment: what this run computed with, by field; without what is not known
        environment_name: as the lockfile calls it
        held_against: the locked environment: this one, or where it is unknown, the nearest; empty where there is none
        differences: between these two, what can change bits first
        divergences: of the data, the run and the artifacts, in this order
        steady: where bits are other ones, whether a second run gave the same as the first; null where none was made
        agrees_with: with an unknown environment, a locked one whose bits are the same all the same
        steps: that agree
        streams: that were compared
        code: what has changed in the code since it was locked
        variables: environment variables that the script reads, and that have another value than when it was locked
        commit: that was checked out when it was locked
        folder: of the run
        written: what was done to the lockfile: added, changed, or nothing
        wall_seconds: its runs took; 0 where a recording was held against it
    """

    name: str
    verdict: VerifyKind
    headline: str
    command: str
    environment: dict[str, str]
    environment_name: str
    held_against: str
    differences: list[EnvironmentDifferenceDocument]
    divergences: list[LockDivergenceDocument]
    steady: bool | None
    agrees_with: str
    steps: int
    streams: list[str]
    code: list[CodeChangeDocument]
    variables: list[str]
    commit: str
    folder: str | None
    written: str
    wall_seconds: float
    notes: list[str]
    not_observed: list[str]
    error: ErrorDocument | None


class VerifyDocument(TypedDict):
    """What `samebits verify --format json` prints. Keys are only ever added.

    Attributes:
        verdict: of all entries together
        headline: the answer in one sentence
        lockfile: its path
        entries: one for each that was verified
    """

    schema: Literal["samebits.verify/1"]
    verdict: VerifyKind
    headline: str
    lockfile: str | None
    entries: list[VerifiedDocument]
    error: ErrorDocument | None


class LockDocument(TypedDict):
    """What `samebits lock --format json` prints. Keys are only ever added.

    Attributes:
        verdict: different: the command does not repeat, so nothing was written
        headline: the answer in one sentence
        name: of the entry
        command: as it was typed
        lockfile: its path
        environment: what the run computed with, by field; without what is not known
        environment_name: as the lockfile calls it
        repeats: how it is known that it repeats: checked, looked (a quick check), unchecked
        steps: that are locked
        streams: that are locked
        is_new: nothing was locked for this environment before
        changed: where it parts from what was locked before; null where it does not
        check: what the check found; null where there was none
        folder: of the run that was locked
    """

    schema: Literal["samebits.lock/1"]
    verdict: LockKind
    headline: str
    name: str | None
    command: str | None
    lockfile: str | None
    environment: dict[str, str] | None
    environment_name: str | None
    repeats: Repeats | None
    steps: int
    streams: list[str]
    is_new: bool
    changed: LockDivergenceDocument | None
    check: CheckDocument | None
    folder: str | None
    notes: list[str]
    not_observed: list[str]
    error: ErrorDocument | None
