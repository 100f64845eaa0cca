"""The pool: it runs specs, numbers them, keeps within the bounds, and remembers what every run was."""

from __future__ import annotations

import math
import os
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
from samebits.checking.plan import CheckRequest
from samebits.checking.verdict import Run
from samebits.comparison.locate import Divergence, first_divergence
from samebits.comparison.products import Key, Products, Unlike, read_products, unlike, unlike_beside_ids
from samebits.comparison.streams import trained_in
from samebits.launch.command import Command
from samebits.launch.machine import Fitting
from samebits.launch.process import Outcome, run_in
from samebits.launch.signals import working_in
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Carried, HandedOut, Reached, Started, Wrote, read_notes
from samebits.runfolder.removal import remove
from samebits.runfolder.spec import RunSpec
from samebits.runfolder.steps import COMPARED, ROOTS, Recording
from samebits.workspace.place import Place, is_in
from samebits.workspace.workspace import Workspace

# No run of a check is waited for longer than this many times the first one, and none is given less than a minute.
LIMIT_RATIO, LEAST_LIMIT_SECONDS = 10, 60.0
# What a script makes before its first step is kept for later runs where it was busy with it for so long.
PREPARATION_SECONDS = 10.0
# So far apart begin runs that are compared with one another only: in seconds (Linux takes the load of the machine every
# five), and as a share of what a run takes, for what changes slowly.
APART_SECONDS, APART_SHARE = 5.5, 0.1

Watch = Callable[[int, RunSpec, "Outcome | None", Path], None]


class BudgetSpentError(Exception):
    """No further run will be made: none is left, or a signal came, or a recording failed, which is our `trouble`."""

    def __init__(self, signal: int | None = None, trouble: SamebitsError | None = None) -> None:
        super().__init__(signal)
        self.signal, self.trouble = signal, trouble


class RunPool:
    """Runs one command again and again, each time in a folder of its own in `home`.

    Attributes:
        watch: called when a run starts, about ten times a second meanwhile, and when it ended.
        runs: those that are complete, by their numbers.
        cut_short: number and spec of those that a signal ended.
        causes: found so far: each allows for more runs.
        seconds: from the start of the first run to the end of the last one that is complete.
        reads_products: what runs have made is kept with them.
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
        self._fitting = Fitting(request.jobs, as_fits=request.as_fits, is_same_path=self.workspace.is_mounted)
        self._began: float | None = None
        self.seconds = 0.0
        self.remarks: list[str] = []
        self.reads_products = False
        self.at_end: Callable[[Outcome, Place], None] = lambda *_: None
        self._compared: dict[tuple[int, int, bool], Divergence | None] = {}
        self._unlike: dict[tuple[int, int], list[Unlike]] = {}

    @property
    def left(self) -> int:
        return self.request.most_runs(self.causes) - self._started

    @property
    def room(self) -> int:
        """How many runs may be made side by side."""
        return self._fitting.room

    def run(self, plan: RunSpec, command: Command | None = None) -> Run:
        """One run, maybe of another command."""
        return self.run_all([plan], command)[0]

    def run_all(self, plans: Sequence[RunSpec], command: Command | None = None) -> list[Run]:
        """Several runs that do not depend on one another, as many side by side as there is room for.

        Raises:
            BudgetSpentError: no run is left, or a signal ended them. Those that were complete by then are in `runs`.
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
        made: list[Run] = []
        try:
            while len(made) < len(jobs):
                batch = jobs[len(made) : len(made) + self.room]
                if len(batch) == 1:
                    made.append(self._keep(self._one(*batch[0], command)))
                else:
                    made += self._at_once(batch, command)
        except KeyboardInterrupt as interrupt:
            complete = {run.id for run in self.runs}
            self.cut_short = tuple(job for job in jobs if job[0] not in complete and self.path_of(*job).exists())
            raise BudgetSpentError(interrupt.args[0] if interrupt.args else signal.SIGINT) from interrupt
        return made

    def compare(self, a: Run, b: Run, *, in_trained: bool = False) -> Divergence | None:
        """Where two runs first differ; each pair is looked at once."""
        key = a.id, b.id, in_trained
        if key not in self._compared:
            self._compared[key] = divergence_of(a, b, in_trained=in_trained)
        return self._compared[key]

    def compare_trained(self, a: Run, b: Run) -> Divergence | None:
        """Where two runs first differ in what was trained."""
        return None if self.compare(a, b) is None else self.compare(a, b, in_trained=True)

    def unlike(self, a: Run, b: Run) -> list[Unlike]:
        """What two runs have made otherwise; each pair is looked at once."""
        if (a.id, b.id) not in self._unlike:
            found = unlike(self._made_by(a, b), self._made_by(b, a))
            self._unlike[a.id, b.id] = [one for one in found if not self._is_found(one, a, b)]
        return self._unlike[a.id, b.id]

    def unlike_beside_ids(self, heard: Run, other: Run) -> frozenset[Key]:
        """What two runs have otherwise than where the first one quotes its own ids."""
        return unlike_beside_ids(self._made_by(heard, other), self._made_by(other, heard))

    def _is_found(self, one: Unlike, a: Run, b: Run) -> bool:
        """Whether a file lies outside all copies, so that the later run, which did not write it, found it there."""
        only = one.a if a.id < b.id else one.b
        is_alone = not one.key[1] and None in (one.a, one.b) and only is not None
        return is_alone and os.path.isabs(one.path) and not is_in(one.path, self.workspace.folder)

    def _made_by(self, run: Run, other: Run) -> Products:
        """What it made, without what it prepared for the other, which made no such file of its own."""
        files, prepared = run.products.files, self.workspace.prepared - other.products.files.keys()
        return replace(run.products, files={path: one for path, one in files.items() if path not in prepared})

    def steps_in_common(self) -> int:
        """How many steps two runs at least have in common, where a signal ended some; 0 where any two differ."""
        if not self.cut_short:
            return 0
        folders = [*(self.path_of(*job) for job in self.cut_short), *(run.path for run in self.runs)]
        try:
            found = [made for folder in folders if (made := RunFolder(folder).recordings())]
            steps = [_steps_of(made) for made in found]
            pairs = combinations(zip(steps, found, strict=True), 2)
            is_same = all(first_divergence(a, b, min(m, n) - 1) is None for (m, a), (n, b) in pairs)
        except SamebitsError:  # a recording that was begun when the signal came
            return 0
        return sorted(steps)[-2] if is_same and len(steps) > 1 else 0

    def drop_values(self) -> None:
        """Take away the tensors that runs have kept: what they were kept for has been measured."""
        for values in self.home.glob("*/values"):  # also of those that a signal ended
            remove(values)

    def close(self) -> None:
        """Take away what only further runs would need."""
        self.workspace.close()
        for roots in self.home.glob(f"*/*{ROOTS}"):
            remove(roots)

    def _at_once(self, jobs: Sequence[tuple[int, RunSpec]], command: Command | None) -> list[Run]:
        """Side by side; what met another one outside its copy of the folder is made again, by itself."""
        apart = self._apart([plan for _, plan in jobs])
        with ThreadPoolExecutor(len(jobs)) as threads:
            running: list[Future[Run]] = []
            for job in jobs:
                wait(running[-1:], apart)
                running.append(threads.submit(self._one, *job, command))
        trouble = next(filter(None, (one.exception() for one in running)), None)
        made = [one.result() for one in running if one.exception() is None]
        if trouble is None and any(run.facts.reached or _is_out_of_memory(run) for run in made):
            self._fitting.go_alone()
            for at, job in enumerate(jobs):
                remove(self.path_of(*job))
                made[at] = self._one(*job, command)
            met = next((one.what for run in made for one in run.facts.reached), "")
            why = f"it shares {met} with the run at the same time" if met else "memory was short"
            self.remarks += [f"run {number} was repeated alone: {why}" for number, _ in jobs]
        runs = [self._keep(run) for run in made]
        if trouble is not None:
            raise trouble
        return runs

    def _apart(self, plans: Sequence[RunSpec]) -> float:
        """Seconds between the beginnings of runs that would agree in what one moment gave both of them."""
        if any(plan.follow or plan.along or plan.stop_after is not None for plan in plans):
            return 0.0
        longest = max((run.wall_seconds for run in self.runs), default=0.0)
        return max(APART_SECONDS, APART_SHARE * longest)

    def _one(self, number: int, plan: RunSpec, command: Command | None) -> Run:
        """One run, read from its folder."""
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
            # Written by a program that it started, or in C.
            if any(note.wrote is None for note in carried):
                changed.update(self.workspace.changed(place))
            if number == 1 and first_step and plan.begins == "prepared":
                self._prepare(path, place, began, first_step)
            if self.reads_products:
                products = self._products(outcome, place)
            is_whole = outcome.succeeded and not outcome.stopped
            if plan.keeps and (plan.resume is not None or (is_whole and carried)) and place.copy:
                self.workspace.keep(place, number)

        # Asked again and again: side by side, the others begin before the first run has ended.
        own = command or self.request.command
        outcome = run_in(self.workspace, own, plan, path, lambda: self._limit(plan), waiting, finish)
        recordings = outcome.folder.recordings()
        steps = max((recording.steps for recording in recordings), default=0)
        return Run(
            **vars(outcome),
            id=number,
            steps=steps,
            ranks=len({recording.rank for recording in recordings}) or 1,
            facts=read_facts(path, None if plan.begins == "left" else changed),
            trouble=unjudgeable.broken(path, steps),
            silence=unjudgeable.silence(path, steps),
            products=products,
        )

    def _limit(self, plan: RunSpec) -> float | None:
        """Seconds: what was asked for, else by the first run that went to its end, or was ended early; None so far."""
        short = None if plan.stop_after is None else self._limits.get("short")
        return self.request.timeout or self._limits.get("whole") or short

    def _products(self, outcome: Outcome, place: Place) -> Products:
        """What the run has made, as long as its place is there."""
        # What a run finds there, and adds to, is not what it has made.
        reached = (note.what for note in read_notes(outcome.path, Reached) if not note.goes_on)
        outside = [what.removeprefix("file ") for what in reached if what.startswith("file ")]
        own = {place.root: "", place.files: "{run}", place.temporary: "{tmp}"}

        def said(text: str) -> str:
            for path in filter(None, own):
                text = text.replace(path, own[path])
            return text

        files = self.workspace.products(place, outside)
        ids = {str(note.pid) for note in read_notes(outcome.path, Started)}
        ids |= {note.begins for note in read_notes(outcome.path, HandedOut)}
        return read_products(files, outcome.folder.stdout, said, outcome.stopped, frozenset(ids))

    def _prepare(self, run: Path, place: Place, began: float, first_step: float) -> None:
        """Later runs begin with what this one took long to make before its first step."""
        # The first step is seen a little late.
        later = {note.path for note in read_notes(run, Wrote) if note.step}
        made = {
            path: time for path, time in self.workspace.changed_before(place, first_step).items() if path not in later
        }
        if place.copy and made and max(made.values()) - began > PREPARATION_SECONDS:
            self.workspace.prepare(place, made)

    def _keep(self, run: Run) -> Run:
        """Put a run among those that count."""
        self._announce(run.id, run.plan, run, run.path)
        with self._lock:
            seconds = run.wall_seconds
            limit = float(max(LEAST_LIMIT_SECONDS, math.ceil(LIMIT_RATIO * seconds)))
            self._limits.setdefault("whole" if run.stopped_after is None else "short", limit)
            self._fitting.learn(run.facts.used, seconds, reached=bool(run.facts.reached))
            self.seconds = time.monotonic() - (self._began or 0.0)
            self.runs = sorted([*self.runs, run], key=lambda run: run.id)
        return run

    def path_of(self, number: int, plan: RunSpec) -> Path:
        """The run folder."""
        return self.home / f"{number}-{plan.role.replace(',', '').replace(' ', '-')}"

    def _announce(self, number: int, plan: RunSpec, outcome: Outcome | None, path: Path) -> None:
        if self.watch is not None:
            with self._lock:
                self.watch(number, plan, outcome, path)


@dataclass(frozen=True)
class Around:
    """The folder in which runs are made, what takes notes, and what shows how far the runs are."""

    home: Path
    announce: Callable[[str], None] = field(default=lambda _: None)
    watching: Callable[[], AbstractContextManager[Watch | None]] = field(default=nullcontext)


@contextmanager
def pool_in(around: Around, request: CheckRequest, replaced: Mapping[str, bytes] | None = None) -> Iterator[RunPool]:
    """What makes the runs of a command in a folder; afterwards only their recordings are left there.

    Notes are announced where much is going to be copied, or a run does not come to a step for long; `replaced` are
    files of the folder, and what its copies hold in their place.
    """
    with (
        working_in(around.home),
        around.watching() as watch,
        closing(RunPool(request, around.home, patient(around.announce, watch), replaced, around.announce)) as pool,
    ):
        yield pool


def _is_out_of_memory(run: Run) -> bool:
    """Whether it was killed as the system kills what there is no memory for."""
    return run.exit_code == -signal.SIGKILL and not run.timed_out


def divergence_of(a: Run, b: Run, *, in_trained: bool = False, across: bool = False) -> Divergence | None:
    """Where two runs differ: in what they recorded, or in what was trained alone, else in how they ended."""
    ends = [end for run in (a, b) for end in (run.plan.stop_after, run.stopped_after)]
    stops = [end for end in ends if end is not None]
    recorded = a.folder.recordings(), b.folder.recordings()
    streams = trained_in(recorded) if in_trained else COMPARED
    place = first_divergence(*recorded, min(stops, default=None), streams, across=across)
    if a.succeeded != b.succeeded and (place is None or place.stream == "length"):
        failed, other = (b, a) if a.succeeded else (a, b)
        last = other.stopped_after
        if last is None or failed.steps <= last:
            return Divergence(failed.steps, "outcome", ending=failed.failure)
        # What failed later than the other was ended says nothing about both.
        return place if place is None or place.step <= last else None
    return place


def _steps_of(recordings: Sequence[Recording]) -> int:
    """How many steps all ranks of a run have taken."""
    last: dict[int, int] = {}
    for one in recordings:
        last[one.rank] = max(one.steps, last.get(one.rank, 0))
    return min(last.values(), default=0)


def patient(announce: Callable[[str], None], watch: Watch | None = None, seconds: float = 60.0) -> Watch:
    """The same watch, which also announces once that the first run has not come to a training step for so long."""
    until, is_over = math.inf, False

    def patiently(number: int, plan: RunSpec, outcome: Outcome | None, path: Path) -> None:
        nonlocal until, is_over
        if watch is not None:
            watch(number, plan, outcome, path)
        now = time.monotonic()
        until = min(until, now + seconds)
        # A recording is begun with the first step.
        is_over = is_over or number > 1 or outcome is not None or RunFolder(path).is_recorded
        if not is_over and now >= until:
            is_over = True
            announce(
                f"note: no training step after {seconds:.0f} s; the check waits for it, --timeout S ends a run "
                "after S seconds, and Ctrl-C ends the check"
            )

    return patiently
