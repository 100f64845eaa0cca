"""The pool: it runs plans, numbers them, keeps within the bounds, and remembers what every run was."""

from __future__ import annotations

import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from samebits.checking import unjudgeable
from samebits.checking.abreast import Abreast, Company
from samebits.checking.asking import BudgetSpentError
from samebits.checking.facts import read_facts
from samebits.checking.places import Places
from samebits.checking.plan import LOOK_STEPS, Request
from samebits.checking.treatments import ended
from samebits.checking.verdict import Run
from samebits.comparison.locate import Divergence, first_divergence
from samebits.launch.command import Command
from samebits.launch.process import Outcome, run_recorded
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.ledger import has_changed, remove_temporary
from samebits.runfolder.place import Place
from samebits.runfolder.plan import RunPlan

# No run of a check is waited for longer than so many times the first one, and never given less than a minute.
LIMIT_RATIO, LEAST_LIMIT_SECONDS = 10, 60.0

# A run that failed beside another one gets so many chances to do so again, before it is said to fail by itself.
TRIES = 2

Job = tuple[int, RunPlan]
Watch = Callable[[int, RunPlan, "Outcome | None", Path], None]


class RunPool:
    """Runs one command again and again.

    Args:
        home: folder of the check; every run gets a folder inside.
        watch: called when a run starts, about ten times a second meanwhile, and when it ended.

    Attributes:
        runs: those that are complete, by their numbers.
        cut_short: number and plan of those that a signal ended.
        seconds: from the start of the first run to the end of the last one that is complete.
        remarks: what was made again because it had gone on beside another run, as sentences without an end.
    """

    def __init__(self, request: Request, home: Path, watch: Watch | None = None) -> None:
        self.request, self.home, self.watch = request, home, watch
        self.runs: list[Run] = []
        self.cut_short: tuple[tuple[int, RunPlan], ...] = ()
        self._started = 0
        self._limits = Limits(request.timeout)
        self._lock = threading.Lock()
        self.places = Places(request, home)
        self.abreast = Abreast(request, self.places)
        self._began: float | None = None
        self.seconds = 0.0
        self.remarks: list[str] = []
        self._compared: dict[tuple[int, int], Divergence | None] = {}

    @property
    def left(self) -> int:
        return self.request.max_runs - self._started

    def room(self, plan: RunPlan) -> int:
        """How many runs like this one may go on side by side."""
        return self.abreast.room(plan)

    def run(self, plan: RunPlan) -> Run:
        """One run; BudgetSpentError when none is left."""
        return self.run_all([plan])[0]

    def run_all(self, plans: Sequence[RunPlan]) -> list[Run]:
        """Several runs that do not depend on one another, as many side by side as there is room for.

        Raises:
            BudgetSpentError: no run is left, or a signal ended them. Those that were complete by then are in `runs`.
        """
        if len(plans) > self.left:
            raise BudgetSpentError
        numbered = [(self._number(), plan) for plan in plans]
        try:
            return self._made(numbered)
        except KeyboardInterrupt as interrupt:
            complete = {run.id for run in self.runs}
            self.cut_short = tuple(job for job in numbered if job[0] not in complete and self._path(*job).exists())
            raise BudgetSpentError(interrupt.args[0] if interrupt.args else signal.SIGINT) from interrupt

    def compare(self, a: Run, b: Run) -> Divergence | None:
        """Where two runs first differ; each pair is looked at once."""
        key = a.id, b.id
        if key not in self._compared:
            self._compared[key] = divergence_of(a, b)
        return self._compared[key]

    def drop_values(self) -> None:
        """Take away the tensors that runs have kept: what they were kept for has been measured."""
        for values in self.home.glob("*/values"):  # also of those that a signal ended
            shutil.rmtree(values, ignore_errors=True)

    def close(self) -> None:
        """Take away what only further runs would need."""
        self.places.close()

    def _number(self) -> int:
        self._began = time.monotonic() if self._began is None else self._began
        self._started += 1
        return self._started

    def _made(self, jobs: Sequence[Job]) -> list[Run]:
        made: list[Run] = []
        while len(made) < len(jobs):
            left = jobs[len(made) :]
            room = min(self.room(plan) for _, plan in left)
            if room == 1 or len(left) == 1:
                number, plan = left[0]
                made.append(self._kept(self._run(number, self._ended(number, plan))))
            elif self.request.unasked:
                made += self._in_company(left[:room])
            else:
                with ThreadPoolExecutor(room) as threads:
                    made += threads.map(lambda job: self._kept(self._run(job[0], self._ended(*job))), left)
        return made

    def _in_company(self, jobs: Sequence[Job]) -> list[Run]:
        """Side by side in one folder, the first of them as host; what company may have changed is made again, alone."""
        host, *guests = jobs
        company = self.abreast.company(self._path(*host))
        if company is None:
            return [self._kept(self._run(job[0], self._ended(*job))) for job in jobs]
        ended = self._side_by_side(jobs, company)
        failed = [job for job in jobs if (outcome := ended[job[0]]) is not None and not outcome.succeeded]
        if failed:
            self.abreast.go_alone()
            if any(self._fails_again(jobs) for _ in range(TRIES)):
                self._remark(failed, "failed beside another one, more than once, and was made again by itself")
                failed = []
            ended = {
                number: outcome if any(number == job[0] for job in failed) else None
                for number, outcome in ended.items()
            }
        elif company.is_disturbed:
            self.abreast.go_alone()
            self._remark(guests, "was made again: files changed meanwhile, and no run had said so")
        elif None in ended.values():
            self.abreast.go_alone(guests[0][1])
        good = {number: outcome for number, outcome in ended.items() if outcome is not None}
        for job in guests:
            if job[0] not in good:
                stamp = company.look()
                good[job[0]] = self._again(job)
                # Alone it changes files, too, and says nothing: so it may have been what disturbed the host.
                if company.is_disturbed and company.look() != stamp and not has_changed(self._path(*job)):
                    good.pop(host[0], None)
        if host[0] not in good:
            good[host[0]] = self._again(host)
        runs = {number: self._run(number, outcome) for number, outcome in good.items()}
        if not failed and None not in ended.values():
            self._compare_with_lone(jobs, runs)
        return [self._kept(runs[number]) for number, _ in jobs]

    def _side_by_side(self, jobs: Sequence[Job], company: Company) -> dict[int, Outcome | None]:
        """How each ended; None for a guest that cannot count."""
        with ThreadPoolExecutor(len(jobs)) as threads:
            running: list[Future[Outcome | None]] = [threads.submit(self._ended, *jobs[0])]
            running += [threads.submit(self._guest, *job, company) for job in jobs[1:]]
        trouble = next(filter(None, (one.exception() for one in running)), None)
        ended = {job[0]: None if one.exception() else one.result() for job, one in zip(jobs, running, strict=True)}
        if trouble is None:
            return ended
        for number, outcome in ended.items():
            if outcome is not None and outcome.succeeded:
                self._kept(self._run(number, outcome))
        raise trouble

    def _fails_again(self, jobs: Sequence[Job]) -> bool:
        """Whether one fails whenever they go on at once: otherwise it fails by itself, now and then."""
        first = {self._path(*job): self._aside(job) for job in jobs}
        company = self.abreast.company(self._path(*jobs[0]))
        ended = {} if company is None else self._side_by_side(jobs, company)
        for path, aside in first.items():
            shutil.rmtree(path, ignore_errors=True)
            aside.rename(path)
        return any(outcome is not None and not outcome.succeeded for outcome in ended.values())

    def _compare_with_lone(self, jobs: Sequence[Job], runs: dict[int, Run]) -> None:
        """What runs have in company is theirs only if they have it alone; asked as long as that is not known.

        It is known where they agree with runs that are trusted; else the last one is made again by itself.
        """
        steps = max(run.steps for run in runs.values())
        if steps <= self.abreast.harmless_steps or self._is_like_trusted(list(runs.values())):
            self.abreast.harmless_steps = max(steps, self.abreast.harmless_steps)
            return
        host, guest = jobs[0], jobs[-1]
        aside = self._aside(guest)
        beside = replace(runs[guest[0]].outcome, folder=RunFolder(aside))
        lone = runs[guest[0]] = self._run(guest[0], self._ended(*guest))
        place = divergence_of(self._run(guest[0], beside), lone)
        shutil.rmtree(aside)
        if place is None:
            self.abreast.harmless_steps = lone.steps
            return
        known = self._diverges_anyway(runs[host[0]], lone)
        if known is None:
            self._remark([guest], "had other bits beside another one than by itself: all others were made one by one")
            self.abreast.go_alone()
            runs[host[0]] = self._run(host[0], self._again(host))
        elif known >= LOOK_STEPS:
            self.abreast.harmless_steps = known

    def _is_like_trusted(self, found: Sequence[Run]) -> bool:
        """Whether runs agree with runs that count, or, where company was harmless before, with one another."""
        if all(any(one.steps >= run.steps and divergence_of(one, run) is None for one in self.runs) for run in found):
            return True
        return self.abreast.harmless_steps > 0 and all(divergence_of(found[0], run) is None for run in found[1:])

    def _diverges_anyway(self, beside: Run, lone: Run) -> int | None:
        """The step up to which nothing is to be said of company: from there on runs differ that were left free.

        They leave a run that counts at the same place, one in company and one alone. None where that is not so.
        """
        if not set(lone.plan.named("pinned")) <= set(self.request.pins):
            return None
        for one in self.runs:
            a, b = divergence_of(one, beside), divergence_of(one, lone)
            if a is not None and b is not None and a.position == b.position:
                return a.step
        return None

    def _remark(self, jobs: Sequence[Job], what: str) -> None:
        self.remarks += [f"run {number} {what}" for number, _ in jobs]

    def _aside(self, job: Job) -> Path:
        path = self._path(*job)
        return path.rename(path.with_name(f"{path.name}-beside"))

    def _again(self, job: Job) -> Outcome:
        shutil.rmtree(self._path(*job))
        return self._ended(*job)

    def _guest(self, number: int, plan: RunPlan, company: Company) -> Outcome | None:
        """A run beside that one; None where it cannot count, because it has not been alone with the folder."""
        path = self._path(number, plan)
        outcome = self._ended(number, plan, lambda: company.is_over(path), is_guest=True)
        if company.counts(path):
            return outcome
        remove_temporary(path)
        return None

    def _ended(
        self, number: int, plan: RunPlan, is_over: Callable[[], bool] | None = None, is_guest: bool = False
    ) -> Outcome:
        path = self._path(number, plan)
        self._announce(number, plan, None, path)
        with self.places.place_for(plan, path, self.runs) as place:
            return self._outcome(number, plan, replace(place, is_guest=is_guest), self.request.command, is_over)

    @contextmanager
    def place_for(self, plan: RunPlan) -> Iterator[Place]:
        """A place for several runs, one after the other, each of which finds what those before it left.

        What they have in the folder `{run}` is kept beside the runs.
        """
        path = self.home / f"files-{self._started + 1}"
        path.mkdir(exist_ok=True)
        try:
            with self.places.place_for(plan, path, self.runs) as place:
                yield place
        finally:
            with suppress(OSError):
                path.rmdir()  # where there were no files

    def run_at(self, place: Place, plan: RunPlan, command: Command | None = None) -> Run:
        """One run in a place that is there already, also of another command.

        Raises:
            BudgetSpentError: a signal ended it.
        """
        number = self._number()
        try:
            return self._kept(self._run(number, self._outcome(number, plan, place, command or self.request.command)))
        except KeyboardInterrupt as interrupt:
            self.cut_short = ((number, plan),)
            raise BudgetSpentError(interrupt.args[0] if interrupt.args else signal.SIGINT) from interrupt

    def _outcome(
        self, number: int, plan: RunPlan, place: Place, command: Command, is_over: Callable[[], bool] | None = None
    ) -> Outcome:
        path = self._path(number, plan)
        self._announce(number, plan, None, path)
        waiting = partial(self._announce, number, plan, None, path)

        # Asked again and again: side by side, the others begin before the first run has ended.
        def limit() -> float | None:
            return 0.0 if is_over is not None and is_over() else self._limits.of(plan)

        return run_recorded(command, plan, path, limit, waiting, place)

    def _run(self, number: int, outcome: Outcome) -> Run:
        """The run that it was, read from its folder."""
        path = outcome.folder.path
        recordings = outcome.folder.recordings()
        steps = max((recording.steps for recording in recordings), default=0)
        ranks = len({recording.rank for recording in recordings}) or 1
        facts = read_facts(path)
        facts = replace(facts, left=self.places.judged(facts.left))
        return Run(
            number, outcome, steps, ranks, facts, unjudgeable.broken(path, steps), unjudgeable.silence(outcome, steps)
        )

    def _kept(self, run: Run) -> Run:
        """The run, among those that count."""
        self._announce(run.id, run.plan, run.outcome, run.path)
        with self._lock:
            self._limits.learn(run.outcome.wall_seconds, is_whole=run.facts.stopped_after is None)
            self.abreast.learn(run)
            self.seconds = time.monotonic() - (self._began or 0.0)
            self.runs = sorted([*self.runs, run], key=lambda run: run.id)
        return run

    def _path(self, number: int, plan: RunPlan) -> Path:
        return self.home / f"{number}-{plan.role.replace(',', '').replace(' ', '-')}"

    def _announce(self, number: int, plan: RunPlan, outcome: Outcome | None, path: Path) -> None:
        if self.watch is not None:
            with self._lock:
                self.watch(number, plan, outcome, path)


class Limits:
    """How long runs may take: what was asked for, else by the first one that went to its end, or was ended early.

    Args:
        asked: seconds for every run.
    """

    def __init__(self, asked: float | None) -> None:
        self.asked = asked
        self._whole: float | None = None
        self._short: float | None = None

    def of(self, plan: RunPlan) -> float | None:
        """Seconds; None as long as no run has shown how long such a run takes."""
        if self.asked is not None:
            return self.asked
        return self._whole if plan.stop_after is None else self._whole or self._short

    def learn(self, seconds: float, *, is_whole: bool) -> None:
        """Take the first run of either kind as the measure."""
        if is_whole:
            self._whole = self._whole or limit_after(seconds)
        else:
            self._short = self._short or limit_after(seconds)


def limit_after(seconds: float) -> float:
    """How long a run may take where the control run took so long: a round number of seconds."""
    return float(max(LEAST_LIMIT_SECONDS, math.ceil(LIMIT_RATIO * seconds)))


def divergence_of(a: Run, b: Run) -> Divergence | None:
    """Where two runs differ: in what they recorded, else in how they ended."""
    ends = [end for run in (a, b) for end in (run.plan.stop_after, run.facts.stopped_after)]
    stops = [end for end in ends if end is not None]
    place = first_divergence(a.outcome.folder.recordings(), b.outcome.folder.recordings(), min(stops, default=None))
    if a.succeeded != b.succeeded and (place is None or place.stream == "length"):
        failed, other = (b, a) if a.succeeded else (a, b)
        last = other.facts.stopped_after
        if last is None or failed.steps <= last:
            return Divergence(failed.steps, "outcome", ending=ended(failed))
        # What failed later than the other was ended says nothing about both.
        return place if place is None or place.step <= last else None
    return place
