"""From a script to its prices: runs are started, take turns, and are made once more; `decisions` says which."""

from __future__ import annotations

import math
import os
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from samebits.base.errors import (
    BudgetError,
    InterruptError,
    NothingTrainedError,
    SamebitsError,
    ScriptFailedError,
    UsageError,
)
from samebits.comparison.locate import first_divergence
from samebits.launch.machine import free_bytes
from samebits.launch.process import Outcome, Runner
from samebits.pricing.decisions import (
    ROUNDS,
    UNKNOWN_FIT,
    affordable,
    cheaper,
    fitting,
    in_groups,
    is_enough,
    too_small_a_budget,
)
from samebits.pricing.plan import NATURAL, Candidate, CostRequest, candidates
from samebits.pricing.prices import Costs, Ending, Price, ratio_of, why_unmeasured
from samebits.pricing.turns import Arm, GivenUpError
from samebits.workspace.workspace import Workspace

# A block this long is far longer than a clock's tick and a pipe's delay, and short enough for many.
BLOCK_SECONDS = 0.05

Announce = Callable[[str], None]


def run_cost(request: CostRequest, home: Path, announce: Announce | None = None) -> Costs:
    """Measure.

    Args:
        request: what.
        home: folder for the runs.
        announce: called with what is going on, about ten times a second.
    """
    try:
        measuring = _Measuring(request, home, announce or (lambda _: None))
        return measuring.costs()
    except SamebitsError as error:
        return Costs(str(request.command), home, error=error)
    except KeyboardInterrupt as interrupt:
        return measuring.so_far(interrupt.args[0] if interrupt.args else signal.SIGINT)


class _Measuring:
    def __init__(self, request: CostRequest, home: Path, announce: Announce) -> None:
        self.request, self.home, self.announce = request, home, announce
        self.runner = Runner(request.command, Workspace(home, request.isolation, request.share))
        self.began = time.monotonic()
        self.deadline = self.began + request.budget
        self.numbers = iter(range(1, 1000))
        self.block = 1
        self.arms: list[Arm] = []
        self.has_cuda = False
        self.shapes = 0
        self.baseline: Price | None = None
        self.prices: list[Price] = []
        self.impossible: tuple[tuple[str, str], ...] = ()
        # Wall time from one run's start to its readiness, alone on the machine.
        self.start_seconds = 0.0

    def costs(self) -> Costs:
        """All of it; whatever comes in between, no run is left behind."""
        with ThreadPoolExecutor(64) as pool:
            try:
                return self._costs(pool)
            finally:
                for arm in self.arms:
                    arm.give_up()
                self.runner.workspace.close()

    def so_far(self, number: int | None = None) -> Costs:
        """What is known: of a measurement that a signal ended, the prices of those that had all their turns."""
        return Costs(
            str(self.request.command),
            self.home,
            self.baseline,
            tuple(self.prices),
            self.impossible,
            self.request.warm_up,
            self.block,
            self.shapes,
            time.monotonic() - self.began,
            None if number is None else InterruptError.by(number, self.home),
            number,
            () if number is None else tuple(arm.candidate.label for arm in self.arms),
        )

    def _costs(self, pool: ThreadPoolExecutor) -> Costs:
        plain = self._first(pool)
        ready: dict[str, Any] = plain.ready or {}
        self.start_seconds = time.monotonic() - self.began
        if ready.get("ranks", 1) > 1:
            # While one rank waits for its turn, the others wait for it, on the very device that is timed.
            raise UsageError(
                f"the script trains on {ready['ranks']} ranks, and cost can only let one take turns",
                "measure one rank: samebits cost python train.py, without torchrun",
            )
        error = too_small_a_budget(self.request.budget, self._left(), self.start_seconds)
        if error is not None:
            raise error
        self.has_cuda, self.shapes = ready["has_cuda"], ready["shapes"]
        self.block = max(1, math.ceil(BLOCK_SECONDS / max(ready["step_seconds"], 1e-6)))
        wanted, impossible = candidates(self.request, ready["used"])
        wanted, left_out = affordable(wanted, self._left(), self.start_seconds, self._at_once())
        # Time is kept for looking whether the default set can do without what costs most.
        until = max(time.monotonic(), self.deadline - 5 * self.start_seconds)
        self._measure(wanted, plain, pool, until)
        if self._left() >= 3 * self.start_seconds:
            self._measure(cheaper(self.prices), None, pool, self.deadline)
        if plain.has_ended and not plain.seconds:
            raise NothingTrainedError(
                "the script ended before a block of steps could be timed",
                f"let it take more steps than {self.request.warm_up} to warm up and {self.block} to time",
            )
        if self.baseline is None or self.baseline.failure or not plain.seconds:
            raise BudgetError(
                f"the budget of {self.request.budget:g} s was over before a block of steps could be timed",
                f"give --budget {math.ceil(2 * self.request.budget)} or more, or fewer factors with --factor",
            )
        self.prices += left_out
        self.impossible = tuple(impossible)
        return self.so_far()

    # ---- runs

    def _arm(self, candidate: Candidate, pool: ThreadPoolExecutor) -> Arm:
        # It waits while others start; only one that is not ended otherwise is ended by this.
        timeout = max(1.0, self.deadline - time.monotonic()) + 10 * self.start_seconds + 60
        path = self.home / f"{next(self.numbers)}-{_slug(candidate)}"
        self.arms.append(Arm(self.request, candidate, path, self.runner, pool, timeout))
        return self.arms[-1]

    def _first(self, pool: ThreadPoolExecutor) -> Arm:
        """A run with nothing pinned, ready; raises where there is none."""
        arm = self._arm(NATURAL, pool)
        if arm.wait_until_ready(self.deadline, lambda: self.announce("starting the script")):
            return arm
        if not arm.run.done():
            taken = time.monotonic() - self.began
            raise BudgetError(
                f"in {taken:.0f} s the script did not take its first {self.request.warm_up} steps",
                "give a larger --budget, or fewer steps with --warm-up",
            )
        outcome = arm.end()
        if not outcome.succeeded:
            raise ScriptFailedError(f"the script failed with nothing pinned: {arm.failure()}", "run it by itself first")
        steps = max((one.steps for one in outcome.folder.recordings()), default=0)
        warm_up, fewer = self.request.warm_up, max(2, steps // 2)
        other = f", or a few more than {fewer} with --warm-up {fewer}" if fewer < warm_up else ""
        raise NothingTrainedError(
            f"with nothing pinned {arm.failure()}", f"let it take more than {warm_up} steps{other}"
        )

    def _left(self) -> float:
        """Seconds of the budget."""
        return self.deadline - time.monotonic()

    def _at_once(self) -> int:
        """How many runs may be looked at side by side while others wait; two leave most memories room."""
        return 1 if self.has_cuda else min(2, os.cpu_count() or 1)

    # ---- turns

    def _measure(
        self, wanted: Sequence[Candidate], plain: Arm | None, pool: ThreadPoolExecutor, deadline: float
    ) -> None:
        """The prices of some candidates, as many at a time as fit, each group beside a run with nothing pinned."""
        groups = in_groups(wanted, _fitting(plain))
        for number, group in enumerate(groups):
            until = time.monotonic() + (deadline - time.monotonic()) / (len(groups) - number)
            first = plain if number == 0 and plain is not None else self._started([NATURAL], pool)[0]
            arms = [first, *self._started(group, pool)]
            second = self._again([*([] if self.baseline else [NATURAL]), *group])
            self._take_turns([arm for arm in arms if arm.ready is not None], until)
            for arm, outcome in zip(arms, [arm.end() for arm in arms], strict=True):
                if arm is not first:
                    self.prices.append(self._price(arm, first, outcome, second[arm.candidate.label]))
                elif self.baseline is None:
                    self.baseline = self._price(arm, first, outcome, second[arm.candidate.label])

    def _started(self, group: Sequence[Candidate], pool: ThreadPoolExecutor) -> list[Arm]:
        """Paced runs that have taken their first steps, or failed; each alone, since the first step is timed."""
        arms = []
        for candidate in group:
            arms.append(self._arm(candidate, pool))
            arms[-1].wait_until_ready(self.deadline, partial(self.announce, f"starting: {candidate.label}"))
        return arms

    def _again(self, group: Sequence[Candidate]) -> dict[str, Outcome]:
        """The recorded steps once more, while nothing is timed."""
        timeout = max(1.0, self.deadline - time.monotonic() + 30)
        given_up = Event()

        def go_on() -> None:
            if given_up.is_set():
                raise GivenUpError

        with ThreadPoolExecutor(self._at_once()) as pool:
            runs = {}
            for candidate in group:
                path = self.home / f"{next(self.numbers)}-{_slug(candidate)}-again"
                plan = candidate.plan(self.request, paced=False)
                runs[candidate.label] = pool.submit(self.runner.run, plan, path, timeout, go_on)
            try:
                while not all(run.done() for run in runs.values()):
                    self.announce(
                        f"looking whether it repeats: {sum(run.done() for run in runs.values())} of {len(runs)}"
                    )
                    time.sleep(0.1)
            except BaseException:
                given_up.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return {label: run.result() for label, run in runs.items()}

    def _take_turns(self, arms: list[Arm], until: float) -> None:
        """Block by block, so that whatever slows the machine for a while slows all of them; nothing pinned is first."""
        for turn in range(ROUNDS):
            start = turn % len(arms) if arms else 0
            for arm in arms[start:] + arms[:start]:
                if arm.has_more and not arm.take(self.block, self.deadline) and arm is arms[0]:
                    return
            self.announce(f"timing: block {turn + 1} of up to {ROUNDS}")
            if is_enough(turn + 1, [arm.has_more for arm in arms[1:]], time.monotonic() > until):
                return

    def _price(self, arm: Arm, plain: Arm, outcome: Outcome, again: Outcome) -> Price:
        if arm.ready is None or not outcome.succeeded:
            return Price(arm.candidate, failure=arm.failure())
        pairs = min(len(arm.seconds), len(plain.seconds))
        own, beside = arm.seconds[:pairs], plain.seconds[:pairs]
        ending: Ending = "script" if arm.has_ended or plain.has_ended else "rounds" if pairs == ROUNDS else "budget"
        why = "" if arm is plain else why_unmeasured(own, beside, ending, self.request.budget)
        both = outcome.folder.recordings(), again.folder.recordings()
        place = first_divergence(*both, self.request.warm_up - 1)
        return Price(
            arm.candidate,
            None if arm is plain or why else ratio_of(own, beside),
            statistics.median(arm.seconds or [0.0]),
            arm.ready["first_seconds"],
            arm.peak_bytes,
            None if again.timed_out else place is None and again.succeeded,
            "" if place is None else f"step {place.step}, {place.stream}",
            not_measured=why,
        )


def _slug(candidate: Candidate) -> str:
    return candidate.label.replace(",", "").replace(" ", "-")


def _fitting(plain: Arm | None) -> int:
    if plain is None or plain.ready is None or not plain.peak_bytes:
        return UNKNOWN_FIT
    # The accelerator's, where that is what the peak is of.
    free = plain.ready["free_bytes"] or free_bytes()
    return 1 if free is None else fitting(free, plain.peak_bytes)
