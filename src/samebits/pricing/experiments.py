"""Measures the prices of a script: starts runs, times them in turns, and makes them again; `decisions` says which."""

from __future__ import annotations

import math
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from samebits.base.errors import (
    BudgetError,
    InterruptError,
    NothingTrainedError,
    SamebitsError,
    ScriptFailedError,
    UsageError,
)
from samebits.checking.pool import BudgetSpentError, RunPool
from samebits.checking.verdict import Run
from samebits.comparison.locate import first_divergence
from samebits.launch.machine import SHARED, free_bytes
from samebits.launch.process import Outcome
from samebits.pricing.decisions import (
    ROUNDS,
    UNKNOWN_FIT,
    affordable,
    cheaper_sets,
    fitting,
    is_enough,
    need_time,
)
from samebits.pricing.plan import NATURAL, Candidate, CostRequest, candidates
from samebits.pricing.prices import Costs, Ending, Price, ratio_of, why_unmeasured
from samebits.pricing.turns import AbandonedRunError, PacedRun, why_never_ready
from samebits.runfolder.notes import Replaced
from samebits.runfolder.spec import RunSpec

# Far longer than a clock's tick and a pipe's delay, and short enough for many blocks.
BLOCK_SECONDS = 0.05
# How long the second run of the recorded steps may go on after the budget is over.
GRACE_SECONDS = 30.0

Announce = Callable[[str], None]


def run_cost(request: CostRequest, home: Path, announce: Announce = lambda _: None) -> Costs:
    """Measure, with runs in `home`; `announce` is called about ten times a second with what is going on."""
    try:
        return _Measuring(request, home, announce).costs()
    except SamebitsError as error:
        return Costs(str(request.command), home, error=error)


class _Measuring:
    def __init__(self, request: CostRequest, home: Path, announce: Announce) -> None:
        self.request, self.home, self.announce = request, home, announce
        self.pool = RunPool(request, home, self._watch, announce=announce)
        self.threads = ThreadPoolExecutor(64)
        self.began = time.monotonic()
        self.deadline = self.began + request.budget
        self.arms: dict[str, PacedRun] = {}
        self.found = Costs(str(request.command), home, recorded_steps=request.warm_up, block_steps=1)
        # Wall time from the start of one run, alone on the machine, until it is ready.
        self.start_seconds = 0.0

    def costs(self) -> Costs:
        """Return all prices, or those that were known when the measurement was ended; no run is ever left behind."""
        with self.threads:
            try:
                return self._costs()
            except BudgetSpentError as spent:
                return self._so_far(spent.signal)
            except KeyboardInterrupt as interrupt:
                return self._so_far(interrupt.args[0] if interrupt.args else signal.SIGINT)
            finally:
                for arm in self.arms.values():
                    arm.give_up()
                self.pool.close()

    def _so_far(self, number: int | None = None) -> Costs:
        """Return what is known: after a signal (`number`), the prices of the runs that had all their turns."""
        costs = replace(self.found, wall_seconds=time.monotonic() - self.began)
        if number is None:
            return costs
        return replace(costs, error=InterruptError.by(number, self.home), signal=number, ran=tuple(self.arms))

    def _costs(self) -> Costs:
        plain = self._first()
        ready: dict[str, Any] = plain.ready or {}
        self.start_seconds = time.monotonic() - self.began
        if ready.get("ranks", 1) > 1:
            # While one rank waits for its turn, the others wait for it, on the very device that is timed.
            raise UsageError(
                f"the script trains on {ready['ranks']} ranks, and cost can only let one take turns",
                "measure one rank: samebits cost python train.py, without torchrun",
            )
        need_time(self.request.budget, self._left(), self.start_seconds)
        block = max(1, math.ceil(BLOCK_SECONDS / max(ready["step_seconds"], 1e-6)))
        self.found = replace(self.found, shapes=ready["shapes"], block_steps=block)
        wanted, impossible = candidates(self.request, ready["used"])
        at_once = 1 if SHARED.intersection(ready["used"]) else self.request.jobs
        wanted, left_out = affordable(wanted, self._left(), self.start_seconds, at_once)
        # Keep time to test whether the default set still repeats without its costly pins.
        until = max(time.monotonic(), self.deadline - 5 * self.start_seconds)
        self._measure(wanted, plain, until)
        if self._left() >= 3 * self.start_seconds:
            self._measure(cheaper_sets(self.found.prices), None, self.deadline)
        self._need_blocks(plain)
        self.found = replace(self.found, prices=(*self.found.prices, *left_out), impossible=tuple(impossible))
        return self._so_far()

    def _need_blocks(self, plain: PacedRun) -> None:
        if plain.has_ended and not plain.seconds:
            raise NothingTrainedError(
                "the script ended before a block of steps could be timed",
                f"let it take more steps than {self.request.warm_up} to warm up and {self.found.block_steps} to time",
            )
        if self.found.plain is None or self.found.plain.failure or not plain.seconds:
            raise BudgetError(
                f"the budget of {self.request.budget:g} s was over before a block of steps could be timed",
                f"give --budget {math.ceil(2 * self.request.budget)} or more, or fewer factors with --factor",
            )

    # ---- runs

    def _arm(self, candidate: Candidate, doing: str = "") -> PacedRun:
        """Start a paced run, alone as its first step is timed; return it after its first steps, or if it takes none."""
        # The run waits while others start, so the timeout only ends a run that nothing else ends.
        timeout = max(1.0, self._left()) + 10 * self.start_seconds + 60
        path = self.home / f"turns-{len(self.arms) + 1}-{candidate.label.replace(',', '').replace(' ', '-')}"
        arm = PacedRun(candidate.plan(self.request, paced=True), path, self.pool, self.threads, timeout)
        label = candidate.label if candidate.label not in self.arms else f"{candidate.label}, again"
        self.arms[label] = arm
        arm.wait_until_ready(self.deadline, partial(self.announce, doing or f"starting: {candidate.label}"))
        return arm

    def _first(self) -> PacedRun:
        """Start a run with nothing pinned, and return it when it is ready; raise where it never is."""
        arm = self._arm(NATURAL, "starting the script")
        if arm.ready is not None:
            return arm
        warm_up = self.request.warm_up
        if not arm.run.done():
            raise BudgetError(
                f"in {time.monotonic() - self.began:.0f} s the script did not take its first {warm_up} steps",
                "give a larger --budget, or fewer steps with --warm-up",
            )
        run = arm.end()
        why = why_never_ready(run)
        if not run.succeeded:
            raise ScriptFailedError(f"with nothing pinned {why}", "run it alone first")
        fewer = max(2, run.steps // 2)
        alternative = f", or a few more than {fewer} with --warm-up {fewer}" if fewer < warm_up else ""
        raise NothingTrainedError(f"with nothing pinned {why}", f"let it take more than {warm_up} steps{alternative}")

    def _left(self) -> float:
        """Return how many seconds of the budget are left."""
        return self.deadline - time.monotonic()

    def _again(self, group: Sequence[Candidate]) -> Mapping[str, Run]:
        """Make the recorded steps again while nothing is timed, and return the runs by label; none if time runs out."""
        try:
            runs = self.pool.run_all([candidate.plan(self.request, paced=False) for candidate in group])
        except AbandonedRunError:
            return {}
        return {candidate.label: run for candidate, run in zip(group, runs, strict=True)}

    def _watch(self, number: int, spec: RunSpec, outcome: Outcome | None, path: Path) -> None:
        self.announce(f"checking whether it repeats: {spec.role}")
        if outcome is None and self._left() < -GRACE_SECONDS:
            raise AbandonedRunError

    # ---- turns

    def _measure(self, wanted: Sequence[Candidate], plain: PacedRun | None, deadline: float) -> None:
        """Measure the prices of candidates, as many at a time as fit, each group next to a run with nothing pinned."""
        size = _fitting(plain)
        groups = [wanted[start : start + size] for start in range(0, len(wanted), size)]
        for number, group in enumerate(groups):
            until = time.monotonic() + (deadline - time.monotonic()) / (len(groups) - number)
            baseline = plain if number == 0 and plain is not None else self._arm(NATURAL)
            arms = [baseline, *map(self._arm, group)]
            again = self._again([*([] if self.found.plain else [NATURAL]), *group])
            self._take_turns([arm for arm in arms if arm.ready is not None], until)
            measured = zip((NATURAL, *group), arms, strict=True)
            prices = [self._price(candidate, arm, baseline, again.get(candidate.label)) for candidate, arm in measured]
            plain_price = self.found.plain or prices[0]
            self.found = replace(self.found, plain=plain_price, prices=(*self.found.prices, *prices[1:]))

    def _take_turns(self, arms: list[PacedRun], until: float) -> None:
        """Time runs in turns, block by block, so that a slow moment of the machine hits all; `arms[0]` pins nothing."""
        for turn in range(ROUNDS):
            start = turn % len(arms) if arms else 0
            for arm in arms[start:] + arms[:start]:
                if arm.has_more and not arm.take(self.found.block_steps, self.deadline) and arm is arms[0]:
                    return
            self.announce(f"timing: block {turn + 1} of up to {ROUNDS}")
            if is_enough(turn + 1, [arm.has_more for arm in arms[1:]], time.monotonic() > until):
                return

    def _price(self, candidate: Candidate, arm: PacedRun, plain: PacedRun, again: Run | None) -> Price:
        run = arm.end()
        if arm.ready is None or not run.succeeded:
            return Price(candidate, failure=why_never_ready(run))
        price = Price(
            candidate,
            step_seconds=statistics.median(arm.seconds or [0.0]),
            first_seconds=arm.ready["first_seconds"],
            peak_bytes=arm.peak_bytes,
        )
        if again is not None and not again.timed_out:
            recordings = run.folder.recordings(), again.folder.recordings()
            divergence = first_divergence(*recordings, self.request.warm_up - 1)
            where = "" if divergence is None else f"step {divergence.step}, {divergence.stream}"
            price = replace(price, repeats=divergence is None and again.succeeded, diverges_at=where)
            if candidate.replaces:
                price = replace(price, replaced=Replaced.summary_of(again.path))
        if arm is plain:
            return price
        pairs = min(len(arm.seconds), len(plain.seconds))
        seconds, plain_seconds = arm.seconds[:pairs], plain.seconds[:pairs]
        ending: Ending = "script" if arm.has_ended or plain.has_ended else "rounds" if pairs == ROUNDS else "budget"
        why = why_unmeasured(seconds, plain_seconds, ending, self.request.budget)
        return replace(price, ratio=None if why else ratio_of(seconds, plain_seconds), not_measured=why)


def _fitting(plain: PacedRun | None) -> int:
    if plain is None or plain.ready is None or not plain.peak_bytes:
        return UNKNOWN_FIT
    # The peak is of the accelerator's memory where one is used; then its free memory counts.
    free = plain.ready["free_bytes"] or free_bytes()
    return 1 if free is None else fitting(free, plain.peak_bytes)
