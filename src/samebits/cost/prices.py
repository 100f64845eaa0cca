"""Prices: how much slower steps are than the same steps with nothing pinned, and how sure that is."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.cost.plan import Candidate
from samebits.errors import SamebitsError

RESAMPLES = 2000
SURE = 0.95
# Wider than that, and the machine rather than the pin is what was measured.
NOISY = 0.10


@dataclass(frozen=True)
class Ratio:
    """A ratio to nothing pinned, with the interval in which it lies 95 times in 100.

    Attributes:
        middle, low, high: the median over pairs of blocks, and the bounds.
        pairs: how many pairs of blocks.
    """

    middle: float
    low: float
    high: float
    pairs: int

    @property
    def is_difference(self) -> bool:
        return not self.low <= 1.0 <= self.high

    @property
    def is_noisy(self) -> bool:
        return (self.high - self.low) / 2 > NOISY


def ratio_of(own: Sequence[float], plain: Sequence[float]) -> Ratio:
    """The ratio of paired blocks: the median, with a bootstrap of the pairs.

    Each pair was measured side by side, so whatever slowed the machine for a while slowed both (Efron's percentile
    bootstrap; the seed is fixed, so the same blocks give the same interval).
    """
    ratios = [a / b for a, b in zip(own, plain, strict=True)]
    if len(ratios) < 2:
        return Ratio(ratios[0], 0.0, math.inf, 1)
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    edge = (1 - SURE) / 2
    low, high = medians[int(edge * RESAMPLES)], medians[min(RESAMPLES - 1, math.ceil((1 - edge) * RESAMPLES))]
    return Ratio(statistics.median(ratios), low, high, len(ratios))


@dataclass(frozen=True)
class Price:
    """What was measured of one candidate.

    Attributes:
        candidate: the set of pins.
        ratio: of step times to those with nothing pinned; None for nothing itself, and where it failed.
        step_seconds: the median step.
        first_seconds: the first step, from the first forward call to its end.
        peak_bytes: the most memory, of the accelerator where one is used, else of the process.
        repeats: whether a second run had the same bits in all recorded steps; None where that could not be seen.
        parts_at: where it had not, in words.
        failure: why it could not be measured, in one line.
    """

    candidate: Candidate
    ratio: Ratio | None = None
    step_seconds: float = 0.0
    first_seconds: float = 0.0
    peak_bytes: int = 0
    repeats: bool | None = None
    parts_at: str = ""
    failure: str = ""


@dataclass(frozen=True)
class Costs:
    """The answer of `samebits cost`.

    Attributes:
        command: as it was typed.
        home: the folder with every run.
        plain: nothing pinned.
        prices: every candidate.
        impossible: factors that cannot matter here, with the reason.
        steps: how many were recorded, and how many a block had.
        shapes: how many different input shapes the recorded steps had.
        wall_seconds: how long all of it took.
        error: why there is no answer, if there is none.
    """

    command: str
    home: Path
    plain: Price | None = None
    prices: tuple[Price, ...] = ()
    impossible: tuple[tuple[str, str], ...] = ()
    recorded_steps: int = 0
    block_steps: int = 0
    shapes: int = 0
    wall_seconds: float = 0.0
    error: SamebitsError | None = None

    @property
    def recommended(self) -> Price | None:
        """The cheapest set that repeats; None when none does. Between equal ones, the one that pins more."""
        possible = [price for price in self._all if price.repeats and price.candidate.is_remedy]
        if not possible:
            return None
        cheapest = min(possible, key=_cost)
        bound = 1.0 if cheapest.ratio is None else cheapest.ratio.high
        level = [price for price in possible if (1.0 if price.ratio is None else price.ratio.low) <= bound]
        return max(level, key=lambda price: len(price.candidate.pins))

    @property
    def is_noisy(self) -> bool:
        return any(price.ratio is not None and price.ratio.is_noisy for price in self.prices)

    @property
    def _all(self) -> list[Price]:
        return [*([self.plain] if self.plain else []), *self.prices]

    @property
    def exit_code(self) -> int:
        return 2 if self.error is not None or self.plain is None else 0


def _cost(price: Price) -> float:
    return 1.0 if price.ratio is None else price.ratio.middle
