"""What a program reads, typed: every JSON document that samebits prints or keeps.

The published schemas are generated from these types and their docstrings by `docs/schemas.py`. Keys are only ever
added. What a document may lack stands in a base of its own, because Python 3.10 has no `NotRequired`.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from samebits.against.interpreters import Relation
from samebits.against.operations import Finding as AcrossFinding
from samebits.checking.verdict import Treated, VerdictKind
from samebits.comparison.locate import DivergentStream
from samebits.comparison.ops import OpFinding
from samebits.factors.base import Scope
from samebits.factors.context import Mode
from samebits.locking.entries import Repeats
from samebits.locking.verdict import LockKind, VerifyKind, What
from samebits.resuming.verdict import State
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
_NamedPass = TypedDict("_NamedPass", {"pass": "str"})
_Pass = TypedDict("_Pass", {"pass": "Pass"})


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


class FirstDivergenceDocument(DivergenceDocument):
    """The first place at which two runs of a check differ.

    Attributes:
        runs: the two runs that diverge
    """

    runs: list[int]


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


class OpPlaceDocument(_Pass):
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
        chance: that a coin outside the catalogue shows this pattern, the largest over every bias
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
        confirmed: shown by experiment: a coin outside the catalogue would have shown the same with a chance below
            `runs.limit`
        on_this_machine: it differs between two runs here; else on other machines only
        evidence: how many runs of how many agree and differ
        runs: the runs that speak about it; null for an unknown cause
        seeded: of an unknown cause: calls that seeded a generator with another value in each of two runs
        witnessed: of an unknown cause: factors that entered, each with its first line
        excluded: of an unknown cause: what the evidence rules out
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
        chance: that a coin makes runs agree with the pins and differ without them
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
        origin: the operation at which two runs diverge, where it was looked for
        further_origins: with --all: operations at which the runs diverge too, once those before are out of the way
        rests_on: what a verdict of same rests on
        steps_checked: how many steps were compared
        complete: runs went to the script's own end; otherwise only its first steps were looked at
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
    first_divergence: FirstDivergenceDocument | None
    origin: OriginDocument | None
    further_origins: list[OriginDocument]
    causes: list[CauseDocument]
    remedy: RemedyDocument | None
    rests_on: RestsOnDocument | None
    steps_checked: int
    complete: bool
    left_out: list[LeftOutDocument]
    untested: list[str]
    notes: list[str]
    streams: list[str]
    not_observed: list[str]
    interrupted: InterruptedCheckDocument | None
    error: ErrorDocument | None
    record: dict[str, object] | None


class FirstOpDocument(_NamedPass):
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
        first_op: the first operation that differs, where both runs recorded operations
        streams: what was recorded and compared, in the order in which one thing follows from another
        compares_ops: operations were compared, too
        not_observed: what the recordings cannot see
        error: set when nothing could be decided
    """

    schema: Literal["samebits.diff/1"]
    verdict: VerdictKind
    runs: list[str]
    first_divergence: DivergenceDocument | None
    first_op: FirstOpDocument | None
    streams: list[str]
    compares_ops: bool
    not_observed: list[str]
    notes: list[str]
    error: ErrorDocument | None


class FactorDocument(TypedDict):
    """One factor as it stands here.

    Attributes:
        held: null: cannot be told from here
        can_pin: from inside a running program
    """

    name: str
    scope: Scope
    summary: str
    in_effect: str
    held: bool | None
    can_pin: bool
    reason: str
    too_late_since: str
    pinned_by_default: bool
    varied_by_default: bool


class FactorsDocument(TypedDict):
    """What `samebits factors --format json` prints. Keys are only ever added."""

    schema: Literal["samebits.factors/1"]
    factors: list[FactorDocument]


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


class RatioDocument(TypedDict):
    """A ratio of step times, with its interval.

    Attributes:
        middle: median over pairs of blocks
        low: lower bound of the 95 % interval of the median (order statistics)
        high: upper bound
        is_difference: 1 lies outside of the interval
    """

    middle: float
    low: float
    high: float
    pairs: int
    is_difference: bool


class PriceDocument(TypedDict):
    """What was measured of one set of pins.

    Attributes:
        settings: how which factor was treated; the rest was left alone
        ratio: of step times to those with nothing pinned; null for nothing itself, for failures and for what was not
            measured
        step_seconds: median
        first_step_seconds: from the first forward call to the end of the step
        peak_bytes: of the accelerator where one is used, else of the process
        repeats: a second run had the same bits in every recorded step
        diverges_at: where it had not
        failure: why it could not be run; empty if it could
        not_measured: why there is no ratio although it could be run, and what to do; empty otherwise
    """

    label: str
    settings: dict[str, Mode]
    ratio: RatioDocument | None
    step_seconds: float
    first_step_seconds: float
    peak_bytes: int
    repeats: bool | None
    diverges_at: str
    failure: str
    not_measured: str


class NotApplicableDocument(TypedDict):
    """A factor that cannot matter here."""

    factor: str
    reason: str


class PinSetDocument(TypedDict):
    """A set of pins, as a command and as code."""

    label: str
    pins: list[str]
    command: str
    code: str


class InterruptedCostDocument(TypedDict):
    """How a measurement was ended before it was done.

    Attributes:
        signal: that ended the measurement, such as SIGINT
        begun: labels of the runs that were begun
    """

    signal: str
    begun: list[str]


class CostDocument(TypedDict):
    """What `samebits cost --format json` prints. Keys are only ever added.

    Attributes:
        headline: the answer in one sentence
        command: as it was typed
        folder: holds a run folder for every run
        recorded_steps: first steps of each run, recorded and not timed
        block_steps: steps that a run takes when it has its turn
        distinct_input_shapes: of the outermost module, in the recorded steps
        not_applicable: factors that cannot matter for this script on this machine
        recommended: the cheapest set that repeats, of those that were measured, nothing pinned among them; null when
            there is none
        pins_most: the set that pins most, where it costs no measured difference from the cheapest; null when that is
            the cheapest
        is_noisy: an interval is wider than 10 % to each side
        interrupted: the measurement was ended before it was done
    """

    schema: Literal["samebits.cost/1"]
    headline: str
    command: str | None
    folder: str | None
    recorded_steps: int
    block_steps: int
    distinct_input_shapes: int
    nothing_pinned: PriceDocument | None
    prices: list[PriceDocument]
    not_applicable: list[NotApplicableDocument]
    recommended: PinSetDocument | None
    pins_most: PinSetDocument | None
    is_noisy: bool
    wall_seconds: float
    interrupted: InterruptedCostDocument | None
    error: ErrorDocument | None


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
    trials: list[TrialDocument]
    seed: int | None
    not_observed: list[str]
    interrupted: str | None
    error: ErrorDocument | None


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
        commit: that was checked out when it was locked
        folder: of the run
        written: what was done to the lockfile: added, changed, or nothing
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
    commit: str
    folder: str | None
    written: str
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


# Every document by the name in its `schema` key.
DOCUMENTS: dict[str, type] = {
    "against": AgainstDocument,
    "check": CheckDocument,
    "cost": CostDocument,
    "diff": DiffDocument,
    "factors": FactorsDocument,
    "lock": LockDocument,
    "replay": ReplayDocument,
    "resume": ResumeDocument,
    "verify": VerifyDocument,
}
# What holds no other keys than these, now or later.
CLOSED: tuple[type, ...] = (InterruptedCheckDocument, RunUnderWayDocument, InterruptedCostDocument)
