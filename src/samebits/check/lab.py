"""The lab: runs plans, numbers them, keeps within the bounds, and remembers what every run was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from samebits.check.plan import Request
from samebits.check.verdict import Run
from samebits.comparison.locate import Divergence, first_divergence
from samebits.launch.plan import RunPlan
from samebits.launch.process import Outcome, run_recorded

Watch = Callable[[int, RunPlan, "Outcome | None", Path], None]


class BudgetSpentError(Exception):
    """No run is left of `--max-runs`."""


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

    def _number(self) -> int:
        self._started += 1
        return self._started

    def _one(self, number: int, plan: RunPlan) -> Run:
        path = self.home / f"{number}-{plan.role.replace(',', '').replace(' ', '-')}"
        self._tell(number, plan, None, path)
        outcome = run_recorded(
            self.request.command, plan, path, self.request.timeout, lambda: self._tell(number, plan, None, path)
        )
        self._tell(number, plan, outcome, path)
        steps = max((recording.steps for recording in outcome.folder.recordings()), default=0)
        return Run(number, outcome, steps)

    def _tell(self, number: int, plan: RunPlan, outcome: Outcome | None, path: Path) -> None:
        if self.watch is not None:
            with self._lock:
                self.watch(number, plan, outcome, path)


def parts(a: Run, b: Run) -> Divergence | None:
    """Where two runs differ: in what they recorded, else in how they ended."""
    stops = [run.plan.stop_after for run in (a, b) if run.plan.stop_after is not None]
    place = first_divergence(a.outcome.folder.recordings(), b.outcome.folder.recordings(), min(stops, default=None))
    ended = _ended_apart(a, b)
    if ended is not None and (place is None or place.stream == "length"):
        return ended
    return place


def _ended_apart(a: Run, b: Run) -> Divergence | None:
    if a.outcome.succeeded == b.outcome.succeeded:
        return None
    bad = a if not a.outcome.succeeded else b
    how = "ran past its time limit" if bad.outcome.timed_out else f"ended with exit status {bad.outcome.exit_code}"
    said = _last_words(bad)
    return Divergence(bad.steps, "outcome", detail=f"run {bad.id} {how} after {bad.steps} steps{said}")


def _last_words(run: Run) -> str:
    lines = run.outcome.folder.stderr.read_text(errors="replace").strip().splitlines()
    return f", saying: {lines[-1].strip()}" if lines else ""


def stopping_after(plan: RunPlan, step: int | None) -> RunPlan:
    """The same run, ended after `step`."""
    if step is None:
        return plan
    earlier = step if plan.stop_after is None else min(step, plan.stop_after)
    return replace(plan, stop_after=earlier)
