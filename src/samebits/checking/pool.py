"""The pool: it makes runs of specs, numbers them, keeps within the limits, and remembers and compares the runs."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from samebits.base.errors import SamebitsError
from samebits.checking import unjudgeable
from samebits.checking.facts import read_facts
from samebits.checking.made import MadeByRuns
from samebits.checking.plan import CheckRequest
from samebits.checking.verdict import Run
from samebits.comparison.locate import Divergence, first_divergence
from samebits.comparison.products import Products
from samebits.comparison.streams import streams_of, trained_in
from samebits.factors.catalog import find
from samebits.launch.command import Command
from samebits.launch.machine import RunCapacity
from samebits.launch.process import Outcome, run_in
from samebits.launch.signals import interruptible
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Carried, Wrote, read_notes
from samebits.runfolder.removal import remove
from samebits.runfolder.spec import RunSpec
from samebits.runfolder.steps import COMPARED, ROOTS, Recording
from samebits.workspace.place import Place
from samebits.workspace.workspace import Workspace

# The time limit of a run: this many times what the first run took, but at least a minute.
LIMIT_RATIO, LEAST_LIMIT_SECONDS = 10, 60.0
# Files that a script takes at least this long to make before its first step are kept for later runs.
PREPARATION_SECONDS = 10.0
# How far apart runs begin that are compared only with one another: in seconds (Linux measures the load of the machine
# every five), and as a share of the time that a run takes, for things that change slowly.
APART_SECONDS, APART_SHARE = 5.5, 0.1

Watch = Callable[[int, RunSpec, "Outcome | None", Path], None]


class BudgetSpentError(Exception):
    """No further run will be made: none is left, a `signal` came, or a recording failed, which is our `trouble`."""

    def __init__(self, signal: int | None = None, trouble: SamebitsError | None = None) -> None:
        super().__init__(signal)
        self.signal, self.trouble = signal, trouble


class RunPool:
    """Runs one command again and again, each time in a folder of its own in `home`.

    Attributes:
        watch: called when a run starts, about ten times a second while it lasts, and when it has ended.
        runs: the complete runs, in the order of their numbers.
        cut_short: number and spec of each run that a signal ended.
        causes: how many were found so far: each allows for more runs.
        seconds: from the start of the first run to the end of the last one that is complete.
        made: what its runs have made.
        at_end: called with every run as long as its place is there.
    """

    def __init__(
        self,
        request: CheckRequest,
        home: Path,
        watch: Watch | None = None,
        replaced: Mapping[str, bytes] | None = None,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.request, self.home, self.watch = request, home, watch
        self.workspace = Workspace(home, request.isolation, request.share, replaced, announce)
        self.runs: list[Run] = []
        self.cut_short: tuple[tuple[int, RunSpec], ...] = ()
        self._started = 0
        self.causes = 0
        self._limits: dict[str, float] = {}
        self._lock = threading.Lock()
        self._fitting = RunCapacity(request.jobs, as_fits=request.as_fits, is_same_path=self.workspace.is_mounted)
        self._began: float | None = None
        self.seconds = 0.0
        self.remarks: list[str] = []
        self.made = MadeByRuns(self.workspace, request.ignore)
        self.at_end: Callable[[Outcome, Place], None] = lambda *_: None
        self._compared: dict[tuple[int, int, bool], Divergence | None] = {}

    @property
    def left(self) -> int:
        return self.request.most_runs(self.causes) - self._started

    @property
    def room(self) -> int:
        """The number of runs that may be made side by side."""
        return self._fitting.room

    def run(self, plan: RunSpec, command: Command | None = None) -> Run:
        """Make one run, of another command where one is given."""
        return self.run_all([plan], command)[0]

    def run_all(self, plans: Sequence[RunSpec], command: Command | None = None) -> list[Run]:
        """Make several runs that do not depend on one another, as many side by side as there is room for.

        Raises:
            BudgetSpentError: too few runs are left, or a signal ended them. Runs that were complete are in `runs`.
        """
        if len(plans) > self.left:
            raise BudgetSpentError
        numbered = list(enumerate(plans, self._started + 1))
        paths = {number: str(self.path_of(number, plan)) for number, plan in numbered if plan.along is not None}

        def reading_along(number: int, plan: RunSpec) -> RunSpec:
            others = (path for other, path in paths.items() if other != number)
            return plan if plan.along is None else replace(plan, along=(*plan.along, *others))

        jobs = [(number, reading_along(number, plan)) for number, plan in numbered]
        self._began = time.monotonic() if self._began is None else self._began
        self._started += len(jobs)
        done: list[Run] = []
        try:
            while len(done) < len(jobs):
                batch = jobs[len(done) : len(done) + self.room]
                if len(batch) == 1:
                    done.append(self._keep(self._run_alone(*batch[0], command)))
                else:
                    done += self._run_side_by_side(batch, command)
        except KeyboardInterrupt as interrupt:
            complete = {run.id for run in self.runs}
            self.cut_short = tuple(job for job in jobs if job[0] not in complete and self.path_of(*job).exists())
            raise BudgetSpentError(interrupt.args[0] if interrupt.args else signal.SIGINT) from interrupt
        return done

    def compare(self, a: Run, b: Run, *, in_trained: bool = False) -> Divergence | None:
        """Return where two runs first differ; each pair is compared only once."""
        key = a.id, b.id, in_trained
        if key not in self._compared:
            self._compared[key] = divergence_of(a, b, in_trained=in_trained)
        return self._compared[key]

    def compare_trained(self, a: Run, b: Run) -> Divergence | None:
        """Return where two runs first differ in what was trained."""
        return None if self.compare(a, b) is None else self.compare(a, b, in_trained=True)

    def has_trained(self, run: Run) -> bool:
        """Whether a run was recorded far enough to hold a step of a training."""
        return "param" in streams_of([run.folder.recordings()])

    def steps_in_common(self) -> int:
        """Return how many steps at least two runs have in common, where a signal ended some; 0 where any two differ."""
        if not self.cut_short:
            return 0
        folders = [*(self.path_of(*job) for job in self.cut_short), *(run.path for run in self.runs)]
        try:
            recorded = [recordings for folder in folders if (recordings := RunFolder(folder).recordings())]
            steps = [_steps_of(recordings) for recordings in recorded]
            pairs = combinations(zip(steps, recorded, strict=True), 2)
            is_same = all(first_divergence(a, b, min(m, n) - 1) is None for (m, a), (n, b) in pairs)
        except SamebitsError:  # a recording that had only begun when the signal came
            return 0
        return sorted(steps)[-2] if is_same and len(steps) > 1 else 0

    def drop_values(self) -> None:
        """Remove the tensors that runs have kept: what they were kept for has been measured."""
        for values in self.home.glob("*/values"):  # also of runs that a signal ended
            remove(values)

    def close(self) -> None:
        """Remove what only further runs would need."""
        self.workspace.close()
        for roots in self.home.glob(f"*/*{ROOTS}"):
            remove(roots)

    def _run_alone(self, number: int, plan: RunSpec, command: Command | None) -> Run:
        """Make a run; once more where its time limit ended it, and no treatment can do that: the machine was busy."""
        run = self._run_one(number, replace(plan, shares_cores=False), command)
        may_stall = any(find(name).may_stall for name in (*plan.named("pinned"), *plan.named("varied")))
        is_final = not (self.runs and run.timed_out) or may_stall or plan.resume is not None
        return run if is_final else self._repeated(run, command, f"it {run.ending}")

    def _repeated(self, run: Run, command: Command | None, why: str) -> Run:
        """Make a run again, alone."""
        remove(run.path)
        self.remarks.append(f"run {run.id} was repeated alone: {why}")
        return self._run_one(run.id, replace(run.plan, shares_cores=False), command)

    def _run_side_by_side(self, jobs: Sequence[tuple[int, RunSpec]], command: Command | None) -> list[Run]:
        """Make runs side by side; where they met outside their copies, or memory was short, repeat them one by one.

        Also one that its time limit ended: company may have slowed it down.
        """
        apart = self._seconds_between_starts([plan for _, plan in jobs])
        with ThreadPoolExecutor(len(jobs)) as threads:
            running: list[Future[Run]] = []
            for number, plan in jobs:
                wait(running[-1:], apart)
                running.append(threads.submit(self._run_one, number, replace(plan, shares_cores=True), command))
        trouble = next(filter(None, (future.exception() for future in running)), None)
        made = [future.result() for future in running if future.exception() is None]
        have_met = any(run.facts.reached or _is_out_of_memory(run) for run in made)
        shared = next((note.what for run in made for note in run.facts.reached), "")
        why = f"it shares {shared} with a run made at the same time" if shared else "memory was short" * have_met
        for at, run in enumerate(made if trouble is None else ()):
            if have_met or run.timed_out:
                made[at] = self._repeated(run, command, why or f"it {run.ending}")
                if have_met or not made[at].timed_out:
                    self._fitting.go_alone()
        runs = [self._keep(run) for run in made]
        if trouble is not None:
            raise trouble
        return runs

    def _seconds_between_starts(self, plans: Sequence[RunSpec]) -> float:
        """Return the seconds between the starts of runs that would agree in what depends on the moment of the start.

        None are needed where each is compared with an earlier run, too: one that went to the end with as many pins, and
        in the same way if it has a twin among these.
        """
        if any(plan.follow or plan.along or plan.stop_after is not None for plan in plans):
            return 0.0
        whole = [run.plan for run in self.runs if run.succeeded and run.stopped_after is None]
        settings = [plan.settings for plan in plans]
        if all(
            any({*one.named("pinned")}.issuperset(plan.named("pinned")) for one in whole)
            and (settings.count(plan.settings) == 1 or plan.settings in [one.settings for one in whole])
            for plan in plans
        ):
            return 0.0
        longest = max((run.wall_seconds for run in self.runs), default=0.0)
        return max(APART_SECONDS, APART_SHARE * longest)

    def _run_one(self, number: int, plan: RunSpec, command: Command | None) -> Run:
        """Make one run, and read it from its folder."""
        path = self.path_of(number, plan)
        self._announce(number, plan, None, path)
        began, first_step, changed, products = time.time(), 0.0, set[str](), Products()

        def waiting() -> None:
            nonlocal first_step
            self._announce(number, plan, None, path)
            if not first_step and RunFolder(path).is_recorded:
                first_step = time.time()

        def finish(outcome: Outcome, place: Place) -> None:
            nonlocal products
            self.at_end(outcome, place)
            carried = list(read_notes(path, Carried))
            # Such a path was written by a program that the script started, or by C code.
            if any(note.wrote is None for note in carried):
                changed.update(self.workspace.changed(place))
            if number == 1 and first_step and plan.begins == "prepared":
                self._prepare(path, place, began, first_step)
            products = self.made.read(outcome, place)
            is_whole = outcome.succeeded and not outcome.stopped
            with self._lock:
                if is_whole and carried and plan.resume is None and plan.settings == self.request.pins and place.copy:
                    self.workspace.note_names(place)
                if plan.keeps and (plan.resume is not None or (is_whole and carried)) and place.copy:
                    self.workspace.keep(place, number)

        # The limit is asked for again and again: side by side, other runs begin before the first one has ended.
        chosen = command or self.request.command
        outcome = run_in(self.workspace, chosen, plan, path, lambda: self._limit(plan), waiting, finish)
        recordings = outcome.folder.recordings()
        steps = max((recording.steps for recording in recordings), default=0)
        return Run(
            **vars(outcome),
            id=number,
            steps=steps,
            ranks=len({recording.rank for recording in recordings}) or 1,
            facts=read_facts(path, None if plan.begins == "left" else changed),
            trouble=unjudgeable.recording_error(path, steps),
            nothing_recorded=unjudgeable.why_nothing_recorded(path, steps),
            products=products,
        )

    def _limit(self, plan: RunSpec) -> float | None:
        """Return the limit in seconds: the one asked for, else one by the first whole or short run; None so far."""
        short = None if plan.stop_after is None else self._limits.get("short")
        return self.request.timeout or self._limits.get("whole") or short

    def _prepare(self, run: Path, place: Place, began: float, first_step: float) -> None:
        """Let later runs begin with the files that this one took long to make before its first step."""
        # The first step is noticed a little late.
        later = {note.path for note in read_notes(run, Wrote) if note.step}
        prepared = {
            path: time for path, time in self.workspace.changed_before(place, first_step).items() if path not in later
        }
        if place.copy and prepared and max(prepared.values()) - began > PREPARATION_SECONDS:
            self.workspace.prepare(place, prepared)

    def _keep(self, run: Run) -> Run:
        """Add a run to those that count, and learn limits from it."""
        self._announce(run.id, run.plan, run, run.path)
        with self._lock:
            seconds = run.wall_seconds
            limit = float(max(LEAST_LIMIT_SECONDS, math.ceil(LIMIT_RATIO * seconds)))
            if run.succeeded:  # one that fails may do so at once
                self._limits.setdefault("whole" if run.stopped_after is None else "short", limit)
            self._fitting.learn(run.facts.used, seconds, reached=bool(run.facts.reached))
            self.seconds = time.monotonic() - (self._began or 0.0)
            self.runs = sorted([*self.runs, run], key=lambda run: run.id)
        return run

    def path_of(self, number: int, plan: RunSpec) -> Path:
        """Return the run folder."""
        return self.home / f"{number}-{plan.role.replace(',', '').replace(' ', '-')}"

    def _announce(self, number: int, plan: RunSpec, outcome: Outcome | None, path: Path) -> None:
        if self.watch is not None:
            with self._lock:
                self.watch(number, plan, outcome, path)


@dataclass(frozen=True)
class PoolContext:
    """The surroundings of runs: the folder for them, a receiver of announcements, and a display of their progress."""

    home: Path
    announce: Callable[[str], None] = field(default=lambda _: None)
    watching: Callable[[], AbstractContextManager[Watch | None]] = field(default=nullcontext)


@contextmanager
def pool_in(
    context: PoolContext, request: CheckRequest, replaced: Mapping[str, bytes] | None = None
) -> Iterator[RunPool]:
    """The pool that makes the runs of a command in a folder; afterwards only their recordings are left there.

    It announces that much will be copied, or that a run takes long to reach its first step. `replaced` maps files of
    the folder to the content that its copies hold instead.
    """
    with (
        interruptible(context.home),
        context.watching() as watch,
        closing(
            RunPool(request, context.home, announcing_a_long_wait(context.announce, watch), replaced, context.announce)
        ) as pool,
    ):
        yield pool


def _is_out_of_memory(run: Run) -> bool:
    """Whether a run was killed the way the system kills processes when memory runs out."""
    return run.exit_code == -signal.SIGKILL and not run.timed_out


def divergence_of(a: Run, b: Run, *, in_trained: bool = False, across: bool = False) -> Divergence | None:
    """Return where two runs differ: in what they recorded, or only in what was trained, else in how they ended."""
    ends = [end for run in (a, b) for end in (run.plan.stop_after, run.stopped_after)]
    stops = [end for end in ends if end is not None]
    recorded = a.folder.recordings(), b.folder.recordings()
    # A run that was ended before its training says nothing about it.
    pairs = zip((a, b), recorded, strict=True)
    shown = [one for run, one in pairs if run.stopped_after is None or "param" in streams_of([one])]
    streams = trained_in(shown or recorded) if in_trained else COMPARED
    place = first_divergence(*recorded, min(stops, default=None), streams, across=across)
    if a.succeeded != b.succeeded and (place is None or place.stream == "length"):
        failed, other = (b, a) if a.succeeded else (a, b)
        last = other.stopped_after
        if last is None or failed.steps <= last:
            return Divergence(failed.steps, "outcome", ending=failed.failure)
        # A failure later than the step at which we ended the other run says nothing about the two.
        return place if place is None or place.step <= last else None
    return place


def _steps_of(recordings: Sequence[Recording]) -> int:
    """Return how many steps all ranks of a run have taken."""
    last: dict[int, int] = {}
    for recording in recordings:
        last[recording.rank] = max(recording.steps, last.get(recording.rank, 0))
    return min(last.values(), default=0)


def announcing_a_long_wait(announce: Callable[[str], None], watch: Watch | None = None, seconds: float = 60.0) -> Watch:
    """Return the watch, extended to announce once that the first run took this long without a training step."""
    until, is_over = math.inf, False

    def patiently(number: int, plan: RunSpec, outcome: Outcome | None, path: Path) -> None:
        nonlocal until, is_over
        if watch is not None:
            watch(number, plan, outcome, path)
        now = time.monotonic()
        until = min(until, now + seconds)
        # The recording begins with the first step.
        is_over = is_over or number > 1 or outcome is not None or RunFolder(path).is_recorded
        if not is_over and now >= until:
            is_over = True
            announce(
                f"note: no training step after {seconds:.0f} s; the check waits for it, --timeout S ends a run "
                "after S seconds, and Ctrl-C ends the check"
            )

    return patiently
