"""The lab: runs plans, numbers them, keeps within the bounds, and remembers what every run was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from samebits.check import trouble
from samebits.check.asking import BudgetSpentError
from samebits.check.facts import read_facts
from samebits.check.places import Places
from samebits.check.plan import Request
from samebits.check.treatments import ended
from samebits.check.verdict import Run
from samebits.comparison.locate import Divergence, first_divergence
from samebits.launch.plan import RunPlan
from samebits.launch.process import Outcome, run_recorded

Watch = Callable[[int, RunPlan, "Outcome | None", Path], None]


class Lab:
    """Runs one command again and again.

    Args:
        home: folder of the check; every run gets a folder inside.
        watch: told when a run starts, about ten times a second meanwhile, and when it ended.
    """

    def __init__(self, request: Request, home: Path, watch: Watch | None = None) -> None:
        self.request, self.home, self.watch = request, home, watch
        self.runs: list[Run] = []
        self._started = 0
        self._lock = threading.Lock()
        self.places = Places(request, home)
        self._compared: dict[tuple[int, int], Divergence | None] = {}

    @property
    def left(self) -> int:
        return self.request.max_runs - self._started

    def run(self, plan: RunPlan) -> Run:
        """One run; BudgetSpentError when none is left."""
        return self.run_all([plan])[0]

    def run_all(self, plans: Sequence[RunPlan]) -> list[Run]:
        """Several runs that do not depend on one another, side by side as far as `jobs` allows."""
        if len(plans) > self.left:
            raise BudgetSpentError
        numbered = [(self._number(), plan) for plan in plans]
        if self.request.jobs == 1 or len(plans) == 1:
            done = [self._one(number, plan) for number, plan in numbered]
        else:
            with ThreadPoolExecutor(self.request.jobs) as pool:
                done = list(pool.map(lambda job: self._one(*job), numbered))
        self.runs = sorted([*self.runs, *done], key=lambda run: run.id)
        return done

    def compare(self, a: Run, b: Run) -> Divergence | None:
        """Where two runs first differ; each pair is looked at once."""
        key = a.id, b.id
        if key not in self._compared:
            self._compared[key] = parts(a, b)
        return self._compared[key]

    def close(self) -> None:
        """Take away what only further runs would need."""
        self.places.close()

    def _number(self) -> int:
        self._started += 1
        return self._started

    def _one(self, number: int, plan: RunPlan) -> Run:
        path = self.home / f"{number}-{plan.role.replace(',', '').replace(' ', '-')}"
        self._tell(number, plan, None, path)
        with self.places.place_for(plan, path, self.runs) as place:
            waiting = partial(self._tell, number, plan, None, path)
            outcome = run_recorded(self.request.command, plan, path, self.request.timeout, waiting, place)
        self._tell(number, plan, outcome, path)
        steps = max((recording.steps for recording in outcome.folder.recordings()), default=0)
        facts = read_facts(path)
        facts = replace(facts, left=self.places.judged(facts.left))
        return Run(number, outcome, steps, facts, trouble.broken(path, steps), trouble.silence(outcome, steps))

    def _tell(self, number: int, plan: RunPlan, outcome: Outcome | None, path: Path) -> None:
        if self.watch is not None:
            with self._lock:
                self.watch(number, plan, outcome, path)


def parts(a: Run, b: Run) -> Divergence | None:
    """Where two runs differ: in what they recorded, else in how they ended."""
    stops = [run.plan.stop_after for run in (a, b) if run.plan.stop_after is not None]
    place = first_divergence(a.outcome.folder.recordings(), b.outcome.folder.recordings(), min(stops, default=None))
    if a.succeeded != b.succeeded and (place is None or place.stream == "length"):
        failed = a if not a.succeeded else b
        return Divergence(failed.steps, "outcome", detail=ended(failed))
    return place
