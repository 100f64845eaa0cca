"""From a script to its prices: runs are started, take turns, and are made once more; `decisions` says which."""

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
    cheaper,
    fitting,
    is_enough,
    need_time,
)
from samebits.pricing.plan import NATURAL, Candidate, CostRequest, candidates
from samebits.pricing.prices import Costs, Ending, Price, ratio_of, why_unmeasured
from samebits.pricing.turns import Arm, GivenUpError, why_never_ready
from samebits.runfolder.notes import Replaced
from samebits.runfolder.spec import RunSpec

# A block this long is far longer than a clock's tick and a pipe's delay, and short enough for many.
BLOCK_SECONDS = 0.05
# The recorded steps once more may go on for so long when the budget is over.
GRACE_SECONDS = 30.0

Announce = Callable[[str], None]


def run_cost(request: CostRequest, home: Path, announce: Announce = lambda _: None) -> Costs:
    """Measure, with runs in `home`; what is going on is announced about ten times a second."""
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
        self.arms: dict[str, Arm] = {}
        self.found = Costs(str(request.command), home, recorded_steps=request.warm_up, block_steps=1)
        # Wall time from one run's start to its readiness, alone on the machine.
        self.start_seconds = 0.0

    def costs(self) -> Costs:
        """All of it, or what was known when it was ended; whatever comes in between, no run is left behind."""
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
        """What is known: of a measurement that a signal ended, the prices of those that had all their turns."""
        found = replace(self.found, wall_seconds=time.monotonic() - self.began)
        if number is None:
            return found
        return replace(found, error=InterruptError.by(number, self.home), signal=number, ran=tuple(self.arms))

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
        # Time is kept for looking whether the default set can do without what costs most.
        until = max(time.monotonic(), self.deadline - 5 * self.start_seconds)
        self._measure(wanted, plain, until)
        if self._left() >= 3 * self.start_seconds:
            self._measure(cheaper(self.found.prices), None, self.deadline)
        self._need_blocks(plain)
        self.found = replace(self.found, prices=(*self.found.prices, *left_out), impossible=tuple(impossible))
        return self._so_far()

    def _need_blocks(self, plain: Arm) -> None:
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

    def _arm(self, candidate: Candidate, doing: str = "") -> Arm:
        """A paced run that has taken its first steps, or never will; alone, since the first step is timed."""
        # It waits while others start; only one that is not ended otherwise is ended by this.
        timeout = max(1.0, self._left()) + 10 * self.start_seconds + 60
        path = self.home / f"turns-{len(self.arms) + 1}-{candidate.label.replace(',', '').replace(' ', '-')}"
        arm = Arm(candidate.plan(self.request, paced=True), path, self.pool, self.threads, timeout)
        label = candidate.label if candidate.label not in self.arms else f"{candidate.label}, again"
        self.arms[label] = arm
        arm.wait_until_ready(self.deadline, partial(self.announce, doing or f"starting: {candidate.label}"))
        return arm

    def _first(self) -> Arm:
        """A run with nothing pinned, ready; raises where there is none."""
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
        other = f", or a few more than {fewer} with --warm-up {fewer}" if fewer < warm_up else ""
        raise NothingTrainedError(f"with nothing pinned {why}", f"let it take more than {warm_up} steps{other}")

    def _left(self) -> float:
        """Seconds of the budget."""
        return self.deadline - time.monotonic()

    def _again(self, group: Sequence[Candidate]) -> Mapping[str, Run]:
        """The recorded steps once more, while nothing is timed; nothing of those for which there is no time left."""
        try:
            runs = self.pool.run_all([candidate.plan(self.request, paced=False) for candidate in group])
        except GivenUpError:
            return {}
        return {candidate.label: run for candidate, run in zip(group, runs, strict=True)}

    def _watch(self, number: int, spec: RunSpec, outcome: Outcome | None, path: Path) -> None:
        self.announce(f"checking whether it repeats: {spec.role}")
        if outcome is None and self._left() < -GRACE_SECONDS:
            raise GivenUpError

    # ---- turns

    def _measure(self, wanted: Sequence[Candidate], plain: Arm | None, deadline: float) -> None:
        """The prices of some candidates, as many at a time as fit, each group beside a run with nothing pinned."""
        size = _fitting(plain)
        groups = [wanted[start : start + size] for start in range(0, len(wanted), size)]
        for number, group in enumerate(groups):
            until = time.monotonic() + (deadline - time.monotonic()) / (len(groups) - number)
            first = plain if number == 0 and plain is not None else self._arm(NATURAL)
            arms = [first, *map(self._arm, group)]
            again = self._again([*([] if self.found.plain else [NATURAL]), *group])
            self._take_turns([arm for arm in arms if arm.ready is not None], until)
            measured = zip((NATURAL, *group), arms, strict=True)
            prices = [self._price(one, arm, first, again.get(one.label)) for one, arm in measured]
            plain_price = self.found.plain or prices[0]
            self.found = replace(self.found, plain=plain_price, prices=(*self.found.prices, *prices[1:]))

    def _take_turns(self, arms: list[Arm], until: float) -> None:
        """Block by block, so that whatever slows the machine for a while slows all of them; nothing pinned is first."""
        for turn in range(ROUNDS):
            start = turn % len(arms) if arms else 0
            for arm in arms[start:] + arms[:start]:
                if arm.has_more and not arm.take(self.found.block_steps, self.deadline) and arm is arms[0]:
                    return
            self.announce(f"timing: block {turn + 1} of up to {ROUNDS}")
            if is_enough(turn + 1, [arm.has_more for arm in arms[1:]], time.monotonic() > until):
                return

    def _price(self, candidate: Candidate, arm: Arm, plain: Arm, again: Run | None) -> Price:
        run = arm.end()
        if arm.ready is None or not run.succeeded:
            return Price(candidate, failure=why_never_ready(run))
        found = Price(
            candidate,
            step_seconds=statistics.median(arm.seconds or [0.0]),
            first_seconds=arm.ready["first_seconds"],
            peak_bytes=arm.peak_bytes,
        )
        if again is not None and not again.timed_out:
            both = run.folder.recordings(), again.folder.recordings()
            place = first_divergence(*both, self.request.warm_up - 1)
            where = "" if place is None else f"step {place.step}, {place.stream}"
            found = replace(found, repeats=place is None and again.succeeded, diverges_at=where)
            if candidate.replaces:
                found = replace(found, replaced=Replaced.told(again.path))
        if arm is plain:
            return found
        pairs = min(len(arm.seconds), len(plain.seconds))
        own, beside = arm.seconds[:pairs], plain.seconds[:pairs]
        ending: Ending = "script" if arm.has_ended or plain.has_ended else "rounds" if pairs == ROUNDS else "budget"
        why = why_unmeasured(own, beside, ending, self.request.budget)
        return replace(found, ratio=None if why else ratio_of(own, beside), not_measured=why)


def _fitting(plain: Arm | None) -> int:
    if plain is None or plain.ready is None or not plain.peak_bytes:
        return UNKNOWN_FIT
    # The accelerator's, where that is what the peak is of.
    free = plain.ready["free_bytes"] or free_bytes()
    return 1 if free is None else fitting(free, plain.peak_bytes)
