"""`samebits.check/1`."""

from __future__ import annotations

from typing import Literal, TypedDict

from samebits.checking.verdict import Treated, VerdictKind
from samebits.report.documents.origins import OriginDocument
from samebits.report.documents.shared import (
    DistanceDocument,
    DivergenceDocument,
    ErrorDocument,
    LocationDocument,
    RunDocument,
    TrainedDocument,
)


class FirstDivergenceDocument(DivergenceDocument):
    """The first place at which two runs of a check differ.

    Attributes:
        runs: the two runs that diverge
    """

    runs: list[int]


class _ShownFix(TypedDict, total=False):
    fix: str | None


class ShownDocument(_ShownFix):
    """A line that shows how a factor enters at another one.

    Attributes:
        what: what happens on that line
        fix: what to change there, where pinning the factor does not help
    """

    what: str
    location: LocationDocument


class EvidenceDocument(TypedDict):
    """The runs that speak about a factor.

    Attributes:
        held: runs that agree with everything pinned, or with the causes pinned and the rest left alone or varied
        released: runs in which this factor alone was changed, always in the same way; or left alone
        differing: how many released runs are not as the held runs are; of runs left alone, not as most of them
        left_alone: the factor was left alone, not changed
        chance: that the draws fit so well by luck, whatever else makes runs differ
        limit: below which chance the factor is called guilty
    """

    held: list[int]
    released: list[int]
    differing: int
    left_alone: bool
    chance: float
    limit: float


class SeededDocument(TypedDict):
    """A call that seeded a generator with another value in each of two runs."""

    what: str
    values: list[str]
    location: LocationDocument


class WitnessedDocument(TypedDict):
    """A factor that entered, with its first line."""

    factor: str
    what: str
    location: LocationDocument


class _MoreOfCause(TypedDict, total=False):
    shown_by: list[ShownDocument]
    seeded_late: LocationDocument | None
    seeded: list[SeededDocument]
    witnessed: list[WitnessedDocument]
    excluded: list[str]
    apart: list[str]
    next: list[str]


class CauseDocument(_MoreOfCause):
    """A factor that makes runs diverge, or what is known of an unknown cause.

    Attributes:
        factor: a factor of the catalogue, or unknown
        what: how it entered
        location: the user's line that let it in; null where there is none
        locations: the location, and its company: lines fixed together with it, or not told apart from it
        fixed_together: one seed before the first location fixes all of them
        shown_by: lines that show how the factor enters at its location
        seeded_late: where a generator is seeded after it was drawn from
        likely: the line was found by reading the code, not by watching it
        confirmed: shown by experiment: the chance that the draws fit so well by luck is below `runs.limit`
        on_this_machine: it differs between two runs here; else on other machines only
        evidence: how many runs of how many agree and differ
        runs: the runs that speak about it; null for an unknown cause
        seeded: of an unknown cause: calls that seeded a generator with another value in each of two runs
        witnessed: of an unknown cause: factors that entered, each with its first line
        excluded: of an unknown cause: what the evidence rules out
        apart: of an unknown cause: what only one of the two runs noted
        next: of an unknown cause: what to try next
    """

    factor: str
    what: str
    location: LocationDocument | None
    locations: list[LocationDocument]
    fixed_together: bool
    likely: bool
    confirmed: bool
    distance: DistanceDocument | None
    on_this_machine: bool
    evidence: str
    runs: EvidenceDocument | None


class RemedyDocument(TypedDict):
    """The smallest set of pins under which the runs agree.

    Attributes:
        diverged: two runs that diverge with the remedy
        runs: runs with these pins that agree, up to the step at which runs diverge without them
        to_the_end: those among them that went to the end
        rest_varied: the one among those in which everything else was varied
        chance: that the runs came out so with and without the pins by luck
        state: how well it is known to work, in words
    """

    pins: list[str]
    command: str
    verified: bool
    diverged: tuple[int, int] | None
    runs: list[int]
    to_the_end: list[int]
    rest_varied: int | None
    chance: float
    state: str
    code: list[str]


class RestsOnDocument(TypedDict):
    """What a verdict of "same" rests on.

    Attributes:
        detectable_rate: share of differing runs from which on they would have shown one
    """

    runs: int
    detectable_rate: float
    confidence: float


class LeftOutDocument(TypedDict):
    """A treatment under which the script fails, and without which it does not."""

    factor: str
    mode: Treated
    why: str


class RunUnderWayDocument(TypedDict):
    """A run that was ended with the check."""

    id: int
    role: str


class InterruptedCheckDocument(TypedDict):
    """How a check was ended before it was done.

    Attributes:
        signal: that ended the check, such as SIGINT
        runs: that were under way, and are not among `runs`
    """

    signal: str
    runs: list[RunUnderWayDocument]


class CheckDocument(TypedDict):
    """What `samebits check --format json` prints. Keys are only ever added.

    Attributes:
        headline: the answer in one sentence
        folder: where the runs are kept
        trained: whether what was trained agrees
        first_divergence: of all that was compared; with a verdict of same, in what else happened
        origin: the operation at which two runs diverge, where it was looked for
        further_origins: with --all: operations at which the runs diverge too, once those before are out of the way
        rests_on: what a verdict of same rests on
        steps_checked: how many steps were compared
        complete: runs went to the script's own end; otherwise only its first steps were looked at
        wall_seconds: it took, runs that went on side by side counted once
        left_out: treatments under which the script fails, and without which it does not
        streams: what was recorded and compared, in the order in which one thing follows from another
        interrupted: the check was ended before it was done: what is said holds for the runs that were complete
        error: set when nothing could be decided
        record: the same as `samebits.verdict` reads it; what it holds is not promised to stay
    """

    schema: Literal["samebits.check/1"]
    verdict: VerdictKind
    headline: str
    command: str | None
    folder: str | None
    runs: list[RunDocument]
    varied: list[str]
    pinned: list[str]
    trained: TrainedDocument | None
    first_divergence: FirstDivergenceDocument | None
    origin: OriginDocument | None
    further_origins: list[OriginDocument]
    causes: list[CauseDocument]
    remedy: RemedyDocument | None
    rests_on: RestsOnDocument | None
    steps_checked: int
    complete: bool
    wall_seconds: float
    left_out: list[LeftOutDocument]
    untested: list[str]
    notes: list[str]
    streams: list[str]
    not_observed: list[str]
    interrupted: InterruptedCheckDocument | None
    error: ErrorDocument | None
    record: dict[str, object] | None
