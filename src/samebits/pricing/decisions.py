"""What a measurement decides: what there is time and memory for, when it is enough, and what to leave out. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from samebits.base.errors import BudgetError
from samebits.pricing.plan import DEFAULT_SET, Candidate, default_set
from samebits.pricing.prices import Price

ROUNDS = 60
FEW_ROUNDS = 16
# Of the memory that is free, so much may be used by runs that wait for their turn.
MEMORY_SHARE = 0.6
# At most this many runs wait at the same time; fewer where it is unknown what one of them needs.
MOST_FIT, UNKNOWN_FIT = 12, 4
# Of the time that is left when the script has been started once, so much may go into starting it again.
STARTS_SHARE = 0.75


def need_time(budget: float, left: float, start_seconds: float) -> None:
    """BudgetError where not even one pair can be measured in the seconds that are left."""
    if left < 3 * start_seconds:
        raise BudgetError(
            f"a budget of {budget:g} s is too small: the script needs {start_seconds:.1f} s to get ready, and one pair "
            "needs three such runs",
            f"give --budget {math.ceil(4 * start_seconds + 5)} or more",
        )


def affordable(
    wanted: list[Candidate], left: float, start_seconds: float, at_once: int
) -> tuple[list[Candidate], list[Price]]:
    """Those for which there is time, and the others as not measured: each is started twice, nothing once more."""
    each = start_seconds * (1 + 1 / at_once)
    count = max(1, int((STARTS_SHARE * left - start_seconds) / each))
    needed = math.ceil((start_seconds * 2 + each * len(wanted)) / STARTS_SHARE)
    why = f"there was no time for it; give --budget {needed} or more"
    return wanted[:count], [Price(candidate, not_measured=why) for candidate in wanted[count:]]


def fitting(free_bytes: int, peak_bytes: int) -> int:
    """How many runs may wait beside the one with nothing pinned: as many as fit into memory, at least one."""
    return max(1, min(MOST_FIT, int(free_bytes * MEMORY_SHARE / peak_bytes) - 1))


def is_enough(rounds: int, others_have_more: Sequence[bool], is_late: bool) -> bool:
    """Whether no further block is to be timed: the others are done, or the time is over and a few rounds are there."""
    return not any(others_have_more) or (is_late and rounds >= FEW_ROUNDS)


def cheaper(prices: Sequence[Price]) -> list[Candidate]:
    """The default set repeats, and some of its pins cost something: the sets without them, to see whether they do."""
    whole = next((price for price in prices if price.candidate.label == DEFAULT_SET), None)
    if whole is None or not whole.repeats:
        return []
    costly = [
        price.candidate.pins[0]
        for price in prices
        if len(price.candidate.pins) == 1 and price.ratio is not None and price.ratio.low > 1.0
    ]
    leave = [name for name in costly if name in whole.candidate.pins]
    found = [default_set([name]) for name in leave]
    return [*found, default_set(leave)] if len(leave) > 1 else found
