"""What runs have made, where all that was recorded of them agrees.

    made      the leaves that still differ
    held      of those, what agrees with the clock and the process ids held still, and the rest varied, follows them
    changed   unless a generator gets another seed when nothing but these is changed

A coin agrees in two runs half of the time. So a leaf is believed that has one value in two runs with the clock held,
another one in two with it changed, and neither in any of the three others: whatever is drawn, luck shows that in 0.7 %
at most. One that has the same value now and then takes three times as many runs of each kind: seven agreements, 0.8 %
for a coin.

What the first run alone has otherwise follows what it left for the others, where it left anything outside its copy.
What follows the clock or the process is left out, and said; nothing else is. The rest is a divergence like any other,
to be explained by experiment; what cannot be explained stays undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from samebits.base.printable import listed
from samebits.base.sites import shown_path
from samebits.checking import plan as plans
from samebits.checking.inquiry import Asking, Inquiry, product_divergence
from samebits.checking.verdict import DivergentRuns, Run
from samebits.comparison.products import PRINTED, Key, Unlike
from samebits.factors.catalog import in_order
from samebits.factors.context import Setting
from samebits.runfolder.spec import RunSpec

# What is harmless in a file; by what a leaf is shown to follow it.
HARMLESS = ("clock", "process-id")
ROLES = "clock held", "clock held, rest varied", "clock changed"
MOST_NAMED = 3

Apart = tuple[Run, Run, Sequence[Unlike]]


@dataclass(frozen=True)
class ProductComparison:
    """What is known of what the runs have made.

    Attributes:
        at: two runs that made something else, and what; None where nothing is left that differs.
        follows: leaves that follow the clock or the process.
        held: the runs that have shown it, in which those agree that were treated alike.
        ids: leaves in which each run quotes what it alone was handed out.
    """

    at: DivergentRuns | None = None
    follows: tuple[Key, ...] = ()
    held: tuple[int, ...] = ()
    ids: tuple[Key, ...] = ()

    @property
    def words(self) -> list[str]:
        """What is left out, and why, as clauses."""
        said = []
        if self.follows:
            runs = f"{', '.join(map(str, self.held[:-1]))} and {self.held[-1]}"
            value = "one value follows" if len(self.follows) == 1 else f"{len(self.follows)} values follow"
            said.append(
                f"{_left_out(self.follows)}: {value} the clock or the process, held still in runs {runs}, which agree"
            )
        if self.ids:
            ids = "one id is" if len(self.ids) == 1 else f"{len(self.ids)} ids are"
            said.append(f"{_left_out(self.ids)}: {ids} drawn anew by each run")
        return said


def _left_out(keys: Sequence[Key]) -> str:
    files = dict.fromkeys(shown_path(file) if file != PRINTED else file for file, _ in keys)
    return f"left out of {listed([*files], MOST_NAMED, 'file')}"


def products_compared(inquiry: Inquiry, runs: Sequence[Run], pins: Sequence[str] = ()) -> Asking[ProductComparison]:
    """Whether runs that agree in all that was recorded, those left alone first, have made the same."""
    # The first run may have been a look that was ended in the middle.
    own = max(([run for run in runs if inquiry.may_compare(one, run)] for one in runs), key=len, default=[])
    found = [(a, b, apart) for a, b in combinations(own, 2) if (apart := inquiry.pool.unlike(a, b))]
    if not found:
        return ProductComparison()
    inquiry.explained = moving = _keys(found)
    names = [name for name in HARMLESS if name not in inquiry.request.pins and name not in pins]
    if not names or inquiry.left < len(ROLES):
        return ProductComparison(_place(found, moving))
    plan = _plans(inquiry, pins, names)
    first = held, again, other = yield from inquiry.runs_of(plan)
    if not _is_judged(inquiry, held, first):
        return ProductComparison(_place(found, moving))
    # What runs that are left alone were handed out nobody has heard; all but that is as in those of which it is known.
    pairs = product(first, [*own, *first])
    beside = frozenset[Key]().union(*(inquiry.pool.unlike_beside_ids(one, run) for one, run in pairs))
    ids = frozenset(key for key in moving if not any(_is_about(one, key) for one in beside))
    inquiry.explained = moving = moving - ids
    if not moving:
        return ProductComparison(ids=tuple(sorted(ids)))
    entering = {*other.facts.in_libraries, *(name for name, lines in other.facts.entries.items() if lines)}
    if entering.isdisjoint(names) or _is_seeded_otherwise(held, again, other):
        return ProductComparison(_place(found, moving))
    still, shown = [(held, again, inquiry.pool.unlike(held, again))], [held.id, again.id]
    following = moving - _keys(still)
    new_in = [inquiry.pool.unlike(a, b) for a, b in [(held, other), *product(own, (held, other))]]
    is_new = all(any(_is_about(one.key, key) for one in apart) for key in following for apart in new_in)
    # Beside two others, luck would show that in 1.2 %: one held run more is needed there.
    batches = [plan[2:] if len(own) > 2 else plan[1:]] if is_new else [plan, plan]
    for batch in batches if following else ():
        further = (yield from inquiry.runs_of(batch)) if inquiry.left >= len(batch) else []
        if not further or not _is_judged(inquiry, held, further):
            return ProductComparison(_place(found, moving))
        for run in further:
            like = other if run.plan.role == other.plan.role else held
            still.append((like, run, inquiry.pool.unlike(like, run)))
            shown += [run.id] if like is held else []
        following = moving - _keys(still)
    once = frozenset(key for key in following if _is_first_only(inquiry, key, [*own, held, other]))
    following -= once
    inquiry.explained = differing = _keys(still) | once
    # What only the held runs have otherwise is shown by them.
    place = _place(found, differing) or _place(still, differing)
    return ProductComparison(place, tuple(sorted(following)), tuple(shown), tuple(sorted(ids)))


def _is_judged(inquiry: Inquiry, held: Run, runs: Sequence[Run]) -> bool:
    """Whether runs can be compared with the one with the clock held, and have trained the same."""
    return all(inquiry.may_compare(held, one) and inquiry.pool.compare_trained(held, one) is None for one in runs)


def _is_first_only(inquiry: Inquiry, key: Key, runs: Sequence[Run]) -> bool:
    """Whether a leaf is as all later runs have it but in the first one, which left something outside for them."""
    first, *later = sorted(runs, key=lambda run: run.id)
    pairs = (inquiry.pool.unlike(a, b) for a, b in combinations(later, 2))
    return bool(first.facts.reached) and not any(_is_about(one.key, key) for apart in pairs for one in apart)


def _plans(inquiry: Inquiry, pins: Sequence[str], names: Sequence[str]) -> list[RunSpec]:
    """Held still; held still and the rest varied; and nothing but these changed on purpose."""
    request, kept = inquiry.request, (*pins, *names)
    pinned = {name: Setting("pinned") for name in kept}
    moved = {name: Setting("varied", variant=plans.RELEASED, steady=True) for name in names}
    alone = request.base("").with_settings(pinned)
    varied = plans.varied_run(request, leave=kept).with_settings(pinned)
    wanted = alone, varied, alone.with_settings(moved)
    return [replace(plan, role=role, witness=True) for role, plan in zip(ROLES, wanted, strict=True)]


def _keys(found: Sequence[Apart]) -> frozenset[Key]:
    return frozenset(one.key for _, _, apart in found for one in apart)


def _is_about(one: Key, other: Key) -> bool:
    """Whether they are one leaf, or one is a word of the other."""
    leaf, word = sorted((one[1], other[1]), key=len)
    return one[0] == other[0] and f"{word}, ".startswith(f"{leaf}, ")


def _place(found: Sequence[Apart], keys: frozenset[Key]) -> DivergentRuns | None:
    """The first pair that differs in one of these leaves: of those left alone, if any does."""
    for a, b, apart in sorted(found, key=lambda one: bool(one[1].plan.named("varied"))):
        place = product_divergence(a, [one for one in apart if one.key in keys])
        if place is not None:
            return DivergentRuns(a.id, b.id, place, varied=tuple(in_order(b.plan.named("varied"))))
    return None


def _is_seeded_otherwise(held: Run, again: Run, other: Run) -> bool:
    """Whether what is drawn may be drawn from other seeds: then what differs need not be a time.

    A line that seeds otherwise with the clock held, too, as workers of a pool do that take jobs in any order, says
    nothing of the clock: what depends on such seeds does not agree there.
    """
    before, after, now = map(_seeds, (held, again, other))
    return any(before.get(site) == after.get(site) != now.get(site) for site in {*before, *after, *now})


def _seeds(run: Run) -> dict[object, set[str]]:
    found: dict[object, set[str]] = {}
    for call in run.facts.seeds:
        found.setdefault(call.site.key, set()).add(str(call.value))
    return found
