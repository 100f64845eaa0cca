"""`samebits.resume/1`."""

from __future__ import annotations

from typing import Literal, TypedDict

from samebits.checking.verdict import VerdictKind
from samebits.report.documents.shared import ErrorDocument, LocationDocument, PlaceDocument, RunDocument
from samebits.resuming.verdict import State


class MissingDocument(TypedDict):
    """A state that was not saved, or not restored.

    Attributes:
        confirmed: with that state given back, the resumed run has the same bits where it had not before
        location: the line that saved the checkpoint; null where nothing was seen to be saved
        rank: of the process that lacks it
        remedy: what to change, in words
    """

    state: State
    confirmed: bool
    location: LocationDocument | None
    evidence: str
    rank: int
    remedy: str


class TrialDocument(TypedDict):
    """One training that was stopped and started again.

    Attributes:
        signal: that stopped it
        killed_after: the last step that it did; -1 before the first
        torn: it was killed in a save, and half of this file was left; empty otherwise
        saved_step: steps that were done when the checkpoint was saved that it went on from
        resumed_step: the first step that was done again
        steps_compared: with those of the uninterrupted run
        checkpoint: path of what it went on from
        runs: ids of the killed and the resumed run, and of those that confirmed a cause
        error: why it could not be judged
    """

    signal: str
    killed_after: int
    torn: str
    saved_step: int | None
    resumed_step: int | None
    steps_compared: int
    first_divergence: PlaceDocument | None
    missing: list[MissingDocument]
    checkpoint: str
    runs: list[int]
    error: ErrorDocument | None


class ResumeDocument(TypedDict):
    """What `samebits resume --format json` prints. Keys are only ever added.

    What is not in `trials` is of the first of them that differs, or else of the first.

    Attributes:
        headline: the answer in one sentence
        command: as it was typed
        resumed_with: what was started after the kill
        folder: holds a run folder for every run
        steps: that the uninterrupted run took
        saved_step: steps that were done when the checkpoint was saved that it went on from
        resumed_step: the first step that was done again
        missing: the first cause first
        saved_at: the line that saved the checkpoint
        loaded_at: the line that loaded it; null where nothing was seen to be loaded
        rests_on: where it was killed, what was loaded then, and how much was compared, in words
        seed: of the steps that were chosen at random; null where none were
        interrupted: the signal that ended it before it was done
    """

    schema: Literal["samebits.resume/1"]
    verdict: VerdictKind
    headline: str
    command: str | None
    resumed_with: str | None
    folder: str | None
    runs: list[RunDocument]
    steps: int
    saved_step: int | None
    resumed_step: int | None
    first_divergence: PlaceDocument | None
    missing: list[MissingDocument]
    saved_at: LocationDocument | None
    loaded_at: LocationDocument | None
    rests_on: str
    trials: list[TrialDocument]
    seed: int | None
    not_observed: list[str]
    interrupted: str | None
    error: ErrorDocument | None
