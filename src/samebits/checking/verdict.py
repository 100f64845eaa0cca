"""The result of a check, as plain data. `report` makes text and JSON of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from samebits.base.errors import SamebitsError, exit_code_of
from samebits.base.records import published
from samebits.base.sites import Site
from samebits.checking.evidence import CONFIDENCE, detectable_rate
from samebits.checking.facts import Entry, Facts, Shown
from samebits.comparison.locate import Divergence
from samebits.comparison.ops import OpDivergence, is_collective
from samebits.comparison.products import Products
from samebits.comparison.values import Distance
from samebits.fixing.patch import Mend, Unmended
from samebits.launch.process import Outcome
from samebits.replay.runner import Replay
from samebits.runfolder.ops import Producer
from samebits.runfolder.spec import Beginning

VerdictKind = Literal["same", "different", "undecided"]
# How a factor was treated in a run; `witnessed` stands for watching where factors enter.
Treated = Literal["pinned", "varied", "witnessed"]
WATCHING: Final = "watching"
WITNESSED: Final = "witnessed"


@dataclass(frozen=True)
class Run(Outcome):
    """One run of a check: how it ended, and what it noted; ids count from 1.

    Attributes:
        steps: how many it took.
        ranks: how many it had.
        facts: what it noted in addition to its recording.
        trouble: why it cannot be judged, whatever the other runs show: samebits did not get in, the disk is full.
        nothing_recorded: why nothing was recorded; None where something was.
        products: the files that it wrote, and what it printed.
    """

    id: int = 0
    steps: int = 0
    ranks: int = 1
    facts: Facts = field(default_factory=Facts)
    trouble: SamebitsError | None = None
    nothing_recorded: SamebitsError | None = None
    products: Products = field(default_factory=Products)

    @property
    def ending(self) -> str:
        """The end of the run, as a clause: `ended with exit status 1`, or why a pin stopped it."""
        return ("" if self.timed_out else self.facts.refusal) or self.described

    @property
    def failure(self) -> str:
        """The end of the run, as a clause with its number, its steps and its last words."""
        # The script's last words do not explain why we ended it at its time limit.
        words = "" if self.timed_out else self.facts.last_words
        return f"run {self.id} {self.ending} after {self.steps} steps{f', saying: {words}' if words else ''}"

    @property
    def record(self) -> RunRecord:
        """The run as answers show it."""
        return RunRecord(
            id=self.id,
            role=self.plan.role,
            folder=self.path,
            steps=self.steps,
            wall_seconds=self.wall_seconds,
            pinned=tuple(self.plan.named("pinned")),
            varied=tuple(self.plan.named("varied")),
            exit_code=self.exit_code,
            timed_out=self.timed_out,
            stopped=self.stopped,
            ranks=self.ranks,
            begins=self.plan.begins,
        )


@dataclass(frozen=True)
class RunRecord:
    """One run, as answers show it.

    Attributes:
        id: the number of the run, from 1.
        role: what the run was for, in words.
        folder: the run folder.
        steps: how many steps it took.
        wall_seconds: seconds from its start to its end.
        pinned, varied: the factors that were treated so.
        exit_code: the command's status; negative for the signal that ended it.
        timed_out: samebits ended it because it ran too long.
        stopped: samebits ended it after the step that it was asked to stop after.
        ranks: how many ranks it had.
        begins: what its working folder held when it began.
    """

    id: int
    role: str
    folder: Path
    steps: int
    wall_seconds: float
    pinned: tuple[str, ...] = ()
    varied: tuple[str, ...] = ()
    exit_code: int = 0
    timed_out: bool = False
    stopped: bool = False
    ranks: int = 1
    begins: Beginning = "found"

    @property
    def succeeded(self) -> bool:
        return not self.timed_out and (self.exit_code == 0 or self.stopped)


@dataclass(frozen=True)
class DivergentRuns:
    """Two runs that differ, and where.

    Attributes:
        a, b: the numbers of the two runs.
        divergence: the place at which they differ first.
        distance: how far the first tensor that differs lies apart, where both runs kept it.
        varied: the factors that were changed on purpose in the second run; empty where both were treated alike.
    """

    a: int
    b: int
    divergence: Divergence
    distance: Distance | None = None
    varied: tuple[str, ...] = ()


@dataclass(frozen=True)
class OriginOnRank:
    """The first operation at which one rank diverges.

    Attributes:
        place: the operation.
        producer: the operation that last wrote an input that arrived different, was never written, or was written on
            another stream; None if there is no such input, or no recorded operation wrote it.
    """

    place: OpDivergence
    producer: Producer | None = None

    @property
    @published()
    def is_received(self) -> bool:
        """Whether the difference came from another rank."""
        return self.producer is not None and is_collective(self.producer.op)

    @property
    @published()
    def is_uninitialized(self) -> bool:
        """Whether memory was read that had never been written."""
        return self.producer is not None and self.producer.uninitialized


@dataclass(frozen=True)
class Origin:
    """The first operation at which two runs diverge.

    Attributes:
        a, b: the numbers of the two runs.
        pairs: how many pairs of runs it took until one diverged.
        ranks: for each rank that diverges, the first operation at which it does.
        distance: how far the results lie apart; None where that could not be measured.
        unobserved_write: inputs that something changed past the dispatcher: that is then the origin, not the operation.
        replay: what calling the operation again showed.
        operands: the file that holds the call.
        changed_meanwhile: inputs that another process or thread changed while the operation ran.
        shared: operands in memory that other processes may write to.
        unmeasured: why samebits failed to keep the operands; empty where it kept them.
    """

    a: int
    b: int
    pairs: int
    ranks: tuple[OriginOnRank, ...]
    distance: Distance | None = None
    unobserved_write: tuple[str, ...] = ()
    replay: Replay | None = None
    operands: Path | None = None
    changed_meanwhile: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    unmeasured: str = ""

    @property
    @published()
    def is_accused(self) -> bool:
        """Whether the operation itself made the difference, as far as that was measured."""
        if self.first.place.finding != "op" or self.unobserved_write or self.changed_meanwhile:
            return False
        # Another process or stream may have written to operands in between: called alone, it must differ, too.
        producer = self.first.producer
        is_alone = not self.shared and (producer is None or producer.uninitialized or not producer.other_stream)
        return is_alone or (self.replay is not None and self.replay.is_confirmed)

    @property
    @published()
    def first(self) -> OriginOnRank:
        """The rank that diverges first, of those that did not receive their difference from another rank, if any."""
        candidates = [rank for rank in self.ranks if not rank.is_received] or list(self.ranks)
        return min(candidates, key=lambda rank: (rank.place.step, rank.place.index, rank.place.rank))


@dataclass(frozen=True)
class Evidence:
    """The runs that speak against one factor.

    Attributes:
        held: runs that agree, with everything pinned, or with the causes pinned and the rest left alone or varied.
        released: runs in which only this factor was changed on purpose; or left alone, if it chooses between
            algorithms.
        strays: how many released runs differ from the held runs; for a factor left alone, from most released runs.
        chance: the chance that the draws fit this well by luck, whatever else makes runs differ.
        limit: the chance below which the factor is called guilty.
        diverged: the factor was left alone, and the released runs diverge from one another.
        last_words: the last words of a released run, where the divergence is in how runs end.
    """

    held: tuple[int, ...]
    released: tuple[int, ...]
    strays: int
    chance: float
    limit: float
    diverged: bool = False
    last_words: str = ""

    @property
    def is_enough(self) -> bool:
        return self.chance < self.limit


@dataclass(frozen=True)
class Cause:
    """A factor that makes runs diverge when it alone is released.

    Attributes:
        factor: the name of the factor.
        site: the user's line at which it entered; None where there is no call (a thread count).
        varies_between_runs: it differs between two runs on this machine; if false, only between machines.
        what: how it entered, as a clause.
        evidence: the runs that show that it is a cause.
        called: the function that was called at that line, as it was witnessed; empty where there is no call.
        script: the path of the script whose process ran that line; empty where that is not known.
        source: the text of the line as it was when it ran; empty where it is to be read from the file.
        likely: the line was found by reading the code, not by watching it run.
        others: further lines at which the factor enters, fixed together with the first one, or not told apart from it.
        fixed_together: one seed before the first line fixes the other lines, too.
        shown_by: lines that show how it enters at the first line.
        seeded_late: the line that seeds a generator only after it was drawn from; None where there is none.
        distance: how far the first differing tensor lies from that of the pinned run.
        divergent: the two runs that showed the cause.
        rules: codes of the rules of `samebits lint` that report this factor at this line without running it.
    """

    factor: str
    site: Site | None = field(metadata={"key": "location"})
    varies_between_runs: bool
    what: str
    evidence: Evidence
    called: str = ""
    script: str = ""
    source: str = ""
    likely: bool = False
    others: tuple[Site, ...] = ()
    fixed_together: bool = False
    shown_by: tuple[Shown, ...] = ()
    seeded_late: Site | None = None
    distance: Distance | None = None
    divergent: DivergentRuns | None = None
    rules: tuple[str, ...] = ()

    @property
    @published()
    def confirmed(self) -> bool:
        """Whether experiments have shown that it is a cause; if not, it is only suspected."""
        return self.evidence.is_enough


@dataclass(frozen=True)
class Remedy:
    """The smallest set of pins under which the runs agree.

    Attributes:
        pins: the factors to pin.
        verified: runs have shown that they agree with these pins.
        code: what to change in the code instead.
        diverged: two runs that still diverge with it; None where none do.
        runs: runs with it that agree, up to the step at which runs diverge without it.
        whole: the runs among them that went to the end.
        varied: the whole run in which everything else was varied; None if there was none.
        chance: the chance that runs with and without it came out like this by luck.
        failure: why the script fails with it, as a clause; empty where it does not.
    """

    pins: tuple[str, ...]
    verified: bool
    code: tuple[str, ...] = ()
    diverged: tuple[int, int] | None = None
    runs: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    varied: int | None = None
    chance: float = 1.0
    failure: str = ""


@dataclass(frozen=True)
class LeftOut:
    """A treatment under which the script fails and without which it does not: samebits is to blame, so it is left out.

    Attributes:
        factor: the factor that was treated, or `watching`.
        mode: how it was treated: `pinned`, `varied` or `witnessed`.
        why: how the script ended, as a clause.
    """

    factor: str
    mode: Treated
    why: str


@dataclass(frozen=True)
class Reseeded:
    """A call that seeded a generator with another value in each of two runs: what the seed is computed from differs.

    Attributes:
        what: the function that was called.
        site: the line of the call.
        a, b: the two values, as text.
        source: the text of the line as it was when it ran.
    """

    what: str
    site: Site = field(metadata={"key": "location"})
    a: str
    b: str
    source: str = ""


@dataclass(frozen=True)
class Unknown:
    """Runs that were treated alike and still diverge.

    Attributes:
        divergent: two of these runs.
        held: whether everything that can be pinned was pinned in them; if not, only the remedy was, if there is one.
        results: how many different results these runs gave.
        runs: how many of these runs there were.
        seeds: calls that seeded a generator with another value in each of the two runs.
        witnessed: factors that entered in these runs, each with its first line; none of them could be singled out.
        acquitted: factors that were released, alone or together, and changed nothing, where all held runs agree.
        untried: factors that were not released any more.
        apart: further things that only one of the two runs noted: commands that it started, files that it met.
        races: lines at which several processes step on parameters that they share.
        taken: programs that they started, timers, times of files, addresses of objects, and files outside the folder
            that they read, each with its line.
        read: what `samebits lint` reports at lines at which no factor was seen to enter: the line, a clause, the rule.
    """

    divergent: DivergentRuns
    held: bool
    results: int = 2
    runs: int = 2
    seeds: tuple[Reseeded, ...] = ()
    witnessed: tuple[tuple[str, Entry], ...] = ()
    acquitted: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    races: tuple[Site, ...] = ()
    taken: tuple[str, ...] = ()
    read: tuple[str, ...] = ()


@dataclass(frozen=True)
class Patch:
    """Edits of the user's files that mend the confirmed causes.

    Attributes:
        diff: the edits as `git apply` takes them, with paths relative to the folder that was checked.
        files: the files that it changes.
        lines: how many lines it changes, adds or removes.
        mends: the causes that it mends.
        cannot: the causes that no edit mends, and why.
        pins: those of the latter that were pinned in the proof, and have to be pinned in every run.
        proven: whether the patched script repeats, by the same check; null where that was not asked for.
        is_complete: runs of the patched script went to its own end; if false, only its first steps were compared.
        agree: how many runs of the patched script agree.
        diverged: two runs of the patched script that differ.
        why: why the proof decided nothing, as a sentence; empty where it decided.
        applied: whether the user's files were changed.
    """

    diff: str = ""
    files: tuple[str, ...] = ()
    lines: int = 0
    mends: tuple[Mend, ...] = ()
    cannot: tuple[Unmended, ...] = ()
    pins: tuple[str, ...] = ()
    proven: bool | None = None
    is_complete: bool = False
    agree: int = 0
    diverged: DivergentRuns | None = None
    why: str = ""
    applied: bool = False


def whole_runs(runs: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """Return the successful runs with the most steps: those that went to their own end, or all where none did."""
    candidates = [run for run in runs if run.begins != "left"]
    steps = max((run.steps for run in candidates), default=0)
    longest = [run for run in candidates if run.steps == steps > 0 and run.succeeded]
    return tuple([run for run in longest if not run.stopped] or longest)


@dataclass(frozen=True)
class RestsOn:
    """The runs on which a verdict of "same" rests, and what they would have shown.

    Attributes:
        runs: how many runs went to the end and agree.
        detectable_rate: the smallest share of differing runs of which they would have shown one.
        confidence: the confidence with which they would.
    """

    runs: int
    detectable_rate: float
    confidence: float = CONFIDENCE


@dataclass(frozen=True)
class CheckVerdict:
    """The answer of `samebits check`, as plain data that can be kept and read again.

    Attributes:
        kind: `same`, `different` or `undecided`.
        command: the command, as it was typed.
        home: the folder that holds the run folders.
        runs: all runs that were made.
        varied: the factors that were changed on purpose, to see whether that changes the bits.
        pinned: the factors that were held still in every run because the user asked for it.
        divergent: the first two runs that differ, in what was trained or in what else happened.
        causes: factors that make runs diverge, confirmed or suspected.
        unknown: where runs differ even with everything pinned, or with the remedy, and what is known about that.
        origins: the operations at which runs diverge, in order, where they were looked for.
        remedy: the smallest set of pins under which runs agree; None where none was looked for.
        untested: the tests that were left out, and why.
        left_out: treatments under which the script fails.
        not_observed: what the recordings cannot see in this command.
        streams: the streams that the runs that went to the end have recorded, in the order of comparison.
        error: why nothing could be decided; null where something was.
        notes: further things to know.
        agreed: undecided although all that was recorded agrees: a process could not be entered, or two runs wrote or
            printed different things (`divergent`), and it is not known what makes them differ.
        signal: the signal that ended the check before it was done; None where it went to its end.
        cut_short: number and role of each run that the signal ended.
        wall_seconds: seconds that the runs took, side by side counted once; 0 where an earlier version did not note it.
        trained: where runs first differ in what was trained; None where no runs that were compared do.
        alike: the runs to the end that agree in what was trained, though runs differ in what else happened.
        patch: edits that mend the causes; None where there are none.
        options: the options with which another check of the command asks the same.
    """

    kind: VerdictKind = field(metadata={"key": "verdict"})
    command: str
    home: Path = field(metadata={"key": "folder"})
    runs: tuple[RunRecord, ...] = ()
    varied: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    divergent: DivergentRuns | None = None
    causes: tuple[Cause, ...] = ()
    unknown: Unknown | None = None
    origins: tuple[Origin, ...] = ()
    remedy: Remedy | None = None
    untested: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    not_observed: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    error: SamebitsError | None = None
    notes: tuple[str, ...] = ()
    agreed: bool = False
    signal: int | None = None
    cut_short: tuple[tuple[int, str], ...] = ()
    wall_seconds: float = 0.0
    trained: Divergence | None = None
    alike: tuple[int, ...] = ()
    patch: Patch | None = None
    options: tuple[str, ...] = ()

    def given(self, option: str) -> list[str]:
        """Return the values that were given for an option; empty where that was the default."""
        return [value for word, value in zip(self.options, self.options[1:], strict=False) if word == option]

    @property
    @published()
    def took_seconds(self) -> float:
        """The seconds that all its runs took."""
        return self.wall_seconds or sum(run.wall_seconds for run in self.runs)

    @property
    def origin(self) -> Origin | None:
        """The first operation at which runs diverge; None where none was found."""
        return self.origins[0] if self.origins else None

    @property
    @published()
    def steps_checked(self) -> int:
        """The number of steps that were compared."""
        return max((run.steps for run in self.runs), default=0)

    @property
    @published()
    def is_complete(self) -> bool:
        """Whether runs went to the script's own end; if false, only its first steps were compared."""
        return any(not run.stopped for run in self.whole)

    @property
    @published()
    def training(self) -> VerdictKind:
        """Whether what was trained agrees; undecided where runs that differ were not compared to their end."""
        if self.divergent is None:
            return self.kind
        return "same" if self.alike else "undecided" if self.trained is None else "different"

    @property
    @published()
    def rests_on(self) -> RestsOn | None:
        """The runs on which a verdict of "same" rests; None for other verdicts."""
        runs = len(self.whole)
        return RestsOn(runs, detectable_rate(runs)) if self.kind == "same" and runs > 1 else None

    @property
    def whole(self) -> tuple[RunRecord, ...]:
        """The runs that a verdict of "same" rests on."""
        return tuple(run for run in self.runs if run.id in self.alike) or whole_runs(self.runs)

    @property
    def exit_code(self) -> int:
        is_mended = self.patch is not None and self.patch.applied and not self.patch.pins
        return exit_code_of("same" if is_mended else self.kind, self.error)
