"""The pool: it runs plans, numbers them, keeps within the bounds, and remembers what every run was."""

from __future__ import annotations

import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

from samebits.base.errors import SamebitsError
from samebits.checking import unjudgeable
from samebits.checking.abreast import Abreast
from samebits.checking.asking import BudgetSpentError
from samebits.checking.company import SideBySide
from samebits.checking.facts import read_facts
from samebits.checking.halfway import Halfway
from samebits.checking.places import Places
from samebits.checking.plan import Request
from samebits.checking.treatments import ended
from samebits.checking.verdict import Run
from samebits.comparison.locate import Divergence, first_divergence
from samebits.launch.command import Command
from samebits.launch.process import Outcome, run_recorded
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.place import Place
from samebits.runfolder.plan import RunPlan
from samebits.runfolder.steps import ROOTS, Recording

# No run of a check is waited for longer than so many times the first one, and never given less than a minute.
LIMIT_RATIO, LEAST_LIMIT_SECONDS = 10, 60.0

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
        remarks: what was made again because of another run, as sentences without an end.
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
        self.halfway = Halfway(self, self.places)
        self._side_by_side = SideBySide(self, self.abreast)
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
        numbered = self._reading_along([(self._number(), plan) for plan in plans])
        try:
            return self._made(numbered)
        except KeyboardInterrupt as interrupt:
            complete = {run.id for run in self.runs}
            self.cut_short = tuple(job for job in numbered if job[0] not in complete and self.path_of(*job).exists())
            raise BudgetSpentError(interrupt.args[0] if interrupt.args else signal.SIGINT) from interrupt

    def compare(self, a: Run, b: Run) -> Divergence | None:
        """Where two runs first differ; each pair is looked at once."""
        key = a.id, b.id
        if key not in self._compared:
            self._compared[key] = divergence_of(a, b)
        return self._compared[key]

    def differ(self, a: Run, b: Run) -> Divergence | None:
        """The same of runs that may not come to count."""
        return divergence_of(a, b)

    def steps_in_common(self) -> int:
        """How many steps two runs at least have in common, with those that a signal ended; 0 where any two differ."""
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
            shutil.rmtree(values, ignore_errors=True)

    def written(self) -> list[str]:
        """What runs have left in the working folder, relative to it; what misled others is taken away before."""
        self.halfway.close()
        return self.places.written()

    def close(self) -> None:
        """Take away what only further runs would need, and what misled some."""
        self.halfway.close()
        self.places.close()
        for roots in self.home.glob(f"*/*{ROOTS}"):
            roots.unlink()

    def lone(self, plan: RunPlan) -> int:
        """How many runs more are wanted of runs like this one, to compare them with one made by itself."""
        return self.abreast.lone(plan)

    def _reading_along(self, jobs: Sequence[Job]) -> list[Job]:
        """The runs; those that are to follow the others that they are made with know where to find them."""
        paths = {number: str(self.path_of(number, plan)) for number, plan in jobs if plan.along is not None}
        return [
            (number, replace(plan, along=tuple(path for other, path in paths.items() if other != number)))
            if number in paths
            else (number, plan)
            for number, plan in jobs
        ]

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
                made.append(self.keep(self.read(left[0][0], self.halfway.made(left[0]))))
            elif self.request.unasked and self.halfway.is_open:
                made += [self.keep(self.read(job[0], self.halfway.made(job))) for job in left[:room]]
            elif self.request.unasked:
                made += self._side_by_side.make(left[:room], *left[room : room + 1])
            else:
                with ThreadPoolExecutor(room) as threads:
                    made += threads.map(lambda job: self.keep(self.read(job[0], self.ended(*job))), left)
        return made

    def ended(
        self, number: int, plan: RunPlan, is_over: Callable[[], bool] | None = None, is_guest: bool = False
    ) -> Outcome:
        """How a run ended that was made where its plan wants it; ended early as soon as it `is_over`."""
        path = self.path_of(number, plan)
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
            return self.keep(self.read(number, self._outcome(number, plan, place, command or self.request.command)))
        except KeyboardInterrupt as interrupt:
            self.cut_short = ((number, plan),)
            raise BudgetSpentError(interrupt.args[0] if interrupt.args else signal.SIGINT) from interrupt

    def _outcome(
        self, number: int, plan: RunPlan, place: Place, command: Command, is_over: Callable[[], bool] | None = None
    ) -> Outcome:
        path = self.path_of(number, plan)
        self._announce(number, plan, None, path)
        waiting = partial(self._announce, number, plan, None, path)

        # Asked again and again: side by side, the others begin before the first run has ended.
        def limit() -> float | None:
            return 0.0 if is_over is not None and is_over() else self._limits.of(plan)

        return run_recorded(command, plan, path, limit, waiting, place)

    def read(self, number: int, outcome: Outcome) -> Run:
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

    def keep(self, run: Run) -> Run:
        """Put a run among those that count."""
        self._announce(run.id, run.plan, run.outcome, run.path)
        with self._lock:
            self._limits.learn(run.outcome.wall_seconds, is_whole=run.facts.stopped_after is None)
            self.abreast.learn(run)
            self.seconds = time.monotonic() - (self._began or 0.0)
            self.runs = sorted([*self.runs, run], key=lambda run: run.id)
        return run

    def path_of(self, number: int, plan: RunPlan) -> Path:
        """The run folder."""
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


def _steps_of(recordings: Sequence[Recording]) -> int:
    """How many steps all ranks of a run have taken."""
    last: dict[int, int] = {}
    for one in recordings:
        last[one.rank] = max(one.steps, last.get(one.rank, 0))
    return min(last.values(), default=0)
