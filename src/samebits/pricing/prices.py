"""Prices: how much slower steps are than the same steps with nothing pinned, and how certain that is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from samebits.base.errors import SamebitsError
from samebits.base.records import published
from samebits.pricing.plan import Candidate

SURE = 0.95
# With fewer pairs, even lowest to highest holds the median less often than that: with 5, in 93.75 % of all cases.
LEAST_PAIRS = 6
# An interval that is wider than this to each side was widened by a noisy machine.
NOISY = 0.10
# An interval that is wider than this share of its median, from end to end, gives no price.
WIDEST = 0.5

# What ended the timing: the script had no more steps, the budget was over, or all blocks were taken.
Ending = Literal["script", "budget", "rounds"]


@dataclass(frozen=True)
class Ratio:
    """A ratio to nothing pinned, with its 95 % confidence interval.

    Attributes:
        middle, low, high: the median over pairs of blocks, and the bounds of the interval.
        pairs: how many pairs of blocks were timed.
    """

    middle: float
    low: float
    high: float
    pairs: int

    @property
    @published()
    def is_difference(self) -> bool:
        return not self.low <= 1.0 <= self.high

    @property
    @published()
    def is_noisy(self) -> bool:
        return (self.high - self.low) / 2 > NOISY


def ratio_of(own: Sequence[float], plain: Sequence[float]) -> Ratio:
    """Return the ratio of paired blocks, of which there must be at least `LEAST_PAIRS`.

    The blocks of a pair were timed right after each other, so whatever slowed the machine for a while slowed both.
    """
    ratios = [a / b for a, b in zip(own, plain, strict=True)]
    return Ratio(statistics.median(ratios), *interval_of_median(ratios), len(ratios))


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """Return two of the values between which the median of their distribution lies in at least 95 of 100 cases.

    Whatever the distribution is, each value lies below the true median as a fair coin falls: so the interval from the
    k-th lowest to the k-th highest value misses it with the chance 2 · P(Binomial(n, ½) < k), exactly.
    """
    count = len(values)
    if count < LEAST_PAIRS:
        raise ValueError(f"an interval needs at least {LEAST_PAIRS} values, got {count}")
    rank, missed = 0, 2 / 2**count
    while missed <= 1 - SURE:
        rank += 1
        missed += 2 * math.comb(count, rank) / 2**count
    ordered = sorted(values)
    return ordered[rank - 1], ordered[count - rank]


def why_unmeasured(own: Sequence[float], plain: Sequence[float], ending: Ending, budget: float) -> str:
    """Tell why these pairs of blocks, in seconds per step, give no price, and what to do; empty where they give one."""
    if not all(math.isfinite(seconds) and seconds > 0 for seconds in (*own, *plain)):
        return "a clock that stood still or ran backwards: a block took no time"
    more = f"give --budget {math.ceil(2 * budget)} or more"
    if len(own) < LEAST_PAIRS:
        timed = "1 pair of blocks was" if len(own) == 1 else f"{len(own)} pairs of blocks were"
        fix = "the script ended: let it take more steps" if ending == "script" else more
        return f"{timed} timed, and an interval needs {LEAST_PAIRS}; {fix}"
    ratio = ratio_of(own, plain)
    if ratio.high - ratio.low <= WIDEST * ratio.middle:
        return ""
    fixes = {"script": "let the script take more steps", "budget": more, "rounds": "measure on a quieter machine"}
    interval = f"{ratio.low:.3f} to {ratio.high:.3f} of {ratio.pairs} pairs"
    return f"the interval is too wide, {interval}; {fixes[ending]}"


@dataclass(frozen=True)
class Price:
    """The measurement of one candidate.

    Attributes:
        candidate: the set of pins.
        ratio: step times relative to those with nothing pinned; None for nothing pinned, and where it was not measured.
        step_seconds: the median seconds per step.
        first_seconds: the first step, from the first forward call to its end.
        peak_bytes: the most memory, of the accelerator where one is used, else of the process.
        repeats: whether a second run had the same bits in all recorded steps; None where that could not be seen.
        diverges_at: where the second run diverged, in words.
        failure: why it could not be run, in one line.
        not_measured: why there is no ratio although it could be run, in one line.
        replaced: where operations may be replaced, which were, at which lines, how often in the recorded steps; empty
            where none was, None where that could not be seen.
    """

    candidate: Candidate
    ratio: Ratio | None = None
    step_seconds: float = 0.0
    first_seconds: float = 0.0
    peak_bytes: int = 0
    repeats: bool | None = None
    diverges_at: str = ""
    failure: str = ""
    not_measured: str = ""
    replaced: str | None = None

    @property
    def was_run(self) -> bool:
        return self.first_seconds > 0 and not self.failure

    @property
    def is_known(self) -> bool:
        """Whether its ratio is known, which for nothing pinned is 1 by definition."""
        return self.ratio is not None or not self.candidate.settings

    @property
    def times(self) -> Ratio:
        """The ratio, where it is known."""
        return self.ratio or Ratio(1.0, 1.0, 1.0, 0)

    @property
    def is_remedy(self) -> bool:
        """Whether the script repeats with it, and a user could choose it."""
        return self.repeats is True and self.candidate.is_remedy


@dataclass(frozen=True)
class Costs:
    """The answer of `samebits cost`.

    Attributes:
        command: the command as it was typed.
        home: the folder with every run.
        plain: the price of nothing pinned.
        prices: the price of every candidate.
        impossible: factors that cannot matter here, each with the reason.
        recorded_steps, block_steps: how many steps were recorded, and how many a block had.
        shapes: how many different input shapes the recorded steps had.
        wall_seconds: how long the whole measurement took.
        error: why there is no answer, if there is none.
        signal: the signal that ended the measurement before it was done; None where it went to its end.
        ran: labels of the runs that had begun by then.
    """

    command: str
    home: Path = field(metadata={"key": "folder"})
    plain: Price | None = None
    prices: tuple[Price, ...] = ()
    impossible: tuple[tuple[str, str], ...] = ()
    recorded_steps: int = 0
    block_steps: int = 0
    shapes: int = 0
    wall_seconds: float = 0.0
    error: SamebitsError | None = None
    signal: int | None = None
    ran: tuple[str, ...] = ()

    @property
    @published()
    def recommended(self) -> Price | None:
        """The cheapest measured set that repeats; None where there is none."""
        quickest = min(self._priced, key=lambda price: price.times.middle, default=None)
        level = self._level_with(quickest)
        return min(level, key=lambda price: (len(price.candidate.pins), price.times.middle), default=None)

    @property
    @published()
    def fullest(self) -> Price | None:
        """The set that pins most at no measured difference in price from the cheapest; None if that is the cheapest."""
        # A script that repeats here with little pinned may do so by luck: where more pins are free, they are better.
        best = self.recommended
        fuller = max(self._level_with(best), key=lambda price: len(price.candidate.pins), default=None)
        is_fuller = best and fuller and len(fuller.candidate.pins) > len(best.candidate.pins)
        return fuller if is_fuller else None

    @property
    def repeats_unmeasured(self) -> tuple[Price, ...]:
        """The sets that repeat and have no known price."""
        return tuple(price for price in self.prices if price.is_remedy and not price.is_known)

    @property
    @published()
    def is_noisy(self) -> bool:
        return any(price.ratio is not None and price.ratio.is_noisy for price in self.prices)

    @property
    def _priced(self) -> list[Price]:
        """The sets that repeat and have a known price."""
        return [one for one in (self.plain, *self.prices) if one is not None and one.is_remedy and one.is_known]

    def _level_with(self, other: Price | None) -> list[Price]:
        """Return the sets whose interval is not entirely above that of another one."""
        return [price for price in self._priced if other is not None and price.times.low <= other.times.high]

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        return 2 if self.plain is None or (self.recommended is None and self.repeats_unmeasured) else 0
