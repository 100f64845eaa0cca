"""Decides, in pure functions, what time and memory allow to measure, when to stop, and which sets to measure next."""

from __future__ import annotations

import math
from collections.abc import Sequence

from samebits.base.errors import BudgetError
from samebits.pricing.plan import DEFAULT_SET, Candidate, default_set
from samebits.pricing.prices import Price

ROUNDS = 60
FEW_ROUNDS = 16
# The share of free memory that runs may use while they wait for their turn.
MEMORY_SHARE = 0.6
# How many runs may wait at the same time at most, and how many where it is unknown how much memory one needs.
MOST_FIT, UNKNOWN_FIT = 12, 4
# The share of the time left after the first start that may go into further starts of the script.
STARTS_SHARE = 0.75


def need_time(budget: float, left: float, start_seconds: float) -> None:
    """Raise BudgetError where the seconds that are left are not enough to measure even one pair."""
    if left < 3 * start_seconds:
        raise BudgetError(
            f"a budget of {budget:g} s is too small: the script needs {start_seconds:.1f} s to get ready, and one pair "
            "needs three such runs",
            f"give --budget {math.ceil(4 * start_seconds + 5)} or more",
        )


def affordable(
    wanted: list[Candidate], left: float, start_seconds: float, at_once: int
) -> tuple[list[Candidate], list[Price]]:
    """Return the candidates there is time for, at two starts each and one with nothing pinned; the rest unmeasured."""
    each = start_seconds * (1 + 1 / at_once)
    count = max(1, int((STARTS_SHARE * left - start_seconds) / each))
    needed = math.ceil((start_seconds * 2 + each * len(wanted)) / STARTS_SHARE)
    reason = f"there was no time for it; give --budget {needed} or more"
    return wanted[:count], [Price(candidate, not_measured=reason) for candidate in wanted[count:]]


def fitting(free_bytes: int, peak_bytes: int) -> int:
    """Return how many runs may wait next to the one with nothing pinned: as many as fit into memory, at least one."""
    return max(1, min(MOST_FIT, int(free_bytes * MEMORY_SHARE / peak_bytes) - 1))


def is_enough(rounds: int, others_have_more: Sequence[bool], is_late: bool) -> bool:
    """Whether to time no further block: the other runs are done, or time is over after at least `FEW_ROUNDS` rounds."""
    return not any(others_have_more) or (is_late and rounds >= FEW_ROUNDS)


def cheaper_sets(prices: Sequence[Price]) -> list[Candidate]:
    """Return sets to try where the default set repeats: it without each costly pin, and without all of them."""
    whole = next((price for price in prices if price.candidate.label == DEFAULT_SET), None)
    if whole is None or not whole.repeats:
        return []
    costly = [
        price.candidate.pins[0]
        for price in prices
        if len(price.candidate.pins) == 1 and price.ratio is not None and price.ratio.low > 1.0
    ]
    leave = [name for name in costly if name in whole.candidate.pins]
    sets = [default_set([name]) for name in leave]
    return [*sets, default_set(leave)] if len(leave) > 1 else sets
