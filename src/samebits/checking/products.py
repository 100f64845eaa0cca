"""The comparison of what runs have made (files, or prints), where all that was recorded of them agrees.

    made      the leaves that still differ
    held      a leaf that agrees with the clock and the process ids held still, and the rest varied, follows these two
    changed   unless a generator gets another seed when nothing but these two is changed

A coin agrees in two runs half of the time. So a leaf is left out only if it has one value in two runs with the clock
held, another value in two runs with the clock changed, and neither value in any of the three other runs: by luck, that
happens in 0.7 % at most, whatever is drawn. A leaf whose value another run has, too, takes three times as many runs of
each kind: seven agreements, 0.8 % for a coin.

A leaf that only the first run has different follows what that run left outside its copy, if it left anything there.
Leaves that follow the clock or the process are left out, and reported; no others are. The rest is a divergence like any
other, to be explained by experiment; where that fails, the verdict stays undecided.

A text that grows while it trains, beside other files that the script makes, is a log: it tells when things happened,
as prints do. A log that differs does not count, unless a cause is found for it that decides more than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Any

from samebits.base.printable import listed
from samebits.base.sites import shown_path
from samebits.checking import plan as plans
from samebits.checking.inquiry import Asking, Inquiry, product_divergence
from samebits.checking.verdict import DivergentRuns, Run
from samebits.comparison.products import MESSAGES, PRINTED, Key, LeafDifference, Leaves
from samebits.factors.catalog import in_order
from samebits.factors.clock import SLOW
from samebits.factors.context import Setting
from samebits.runfolder.spec import RunSpec

# The factors that a file may follow, and the roles of the runs that show whether it does.
HARMLESS = ("clock", "process-id")
# The factors that decide when things happen.
WHEN = *HARMLESS, "thread-order", "completion-order"
ROLES = "clock held", "clock held, rest varied", "clock changed", "clock changed to a slow one"
FEWEST_RUNS = 3  # two held ones, and one changed
MOST_NAMED = 3

Apart = tuple[Run, Run, Sequence[LeafDifference]]


@dataclass(frozen=True)
class ProductComparison:
    """The result of comparing what the runs have made.

    Attributes:
        at: two runs that made different things, and the first of these; None where nothing is left that differs.
        is_log: nothing but logs is left that differs.
        logs: the leaves of logs that differ.
        follows: leaves that follow the clock or the process.
        held: the runs with these two held still that have shown it, by their agreement.
        ids: leaves in which each run quotes an id that only it was handed out.
    """

    at: DivergentRuns | None = None
    is_log: bool = False
    logs: tuple[Key, ...] = ()
    follows: tuple[Key, ...] = ()
    held: tuple[int, ...] = ()
    ids: tuple[Key, ...] = ()

    @property
    def words(self) -> list[str]:
        """The leaves that are left out, and why, as clauses."""
        clauses = []
        if self.follows:
            runs = f"{', '.join(map(str, self.held[:-1]))} and {self.held[-1]}"
            value = "one value follows" if len(self.follows) == 1 else f"{len(self.follows)} values follow"
            clauses.append(
                f"{_left_out(self.follows)}: {value} the clock or the process id; with both pinned, runs {runs} agree"
            )
        if self.ids:
            ids = "one id is" if len(self.ids) == 1 else f"{len(self.ids)} ids are"
            clauses.append(f"{_left_out(self.ids)}: {ids} drawn anew by each run")
        return clauses

    @property
    def log_words(self) -> list[str]:
        """The logs that differ and do not count, as a clause."""
        files = sorted({file for file, _ in self.logs})
        grow = "grows while it trains, as a log does" if len(files) == 1 else "grow while it trains, as logs do"
        return [f"{_files(files)} {grow}: only --strict counts that"] if files else []


def _left_out(keys: Sequence[Key]) -> str:
    return f"left out of {_files([file for file, _ in keys])}"


def _files(files: Sequence[str]) -> str:
    shown = dict.fromkeys(file if file in (PRINTED, MESSAGES) else shown_path(file) for file in files)
    return listed([*shown], MOST_NAMED, "file")


def products_compared(inquiry: Inquiry, runs: Sequence[Run], pins: Sequence[str] = ()) -> Asking[ProductComparison]:
    """Compare what runs have made that agree in all that was recorded; runs left alone come first in `runs`."""
    # The first run may have been a look that was ended in the middle.
    usable = max(([run for run in runs if inquiry.may_compare(one, run)] for one in runs), key=len, default=[])
    differing_pairs = [
        (a, b, apart) for a, b in combinations(usable, 2) if (apart := inquiry.pool.made.differing(a, b))
    ]
    if not differing_pairs:
        return ProductComparison()
    moving = _keys(differing_pairs)
    inquiry.compared_leaves = Leaves(moving)
    of_logs = frozenset() if inquiry.request.strict else _keys(differing_pairs, in_logs=True)

    def result(keys: frozenset[Key], **more: Any) -> ProductComparison:
        """Compare these leaves from now on, but for those of logs."""
        counted = keys - of_logs
        inquiry.compared_leaves = Leaves(counted)
        # Where a leaf differs between the held runs only, these show it.
        place = _place(differing_pairs, counted or keys) or _place(alike_pairs, counted or keys)
        return ProductComparison(place, bool(keys) and not counted, tuple(sorted(keys & of_logs)), **more)

    names = [name for name in HARMLESS if name not in inquiry.request.pins and name not in pins]
    alike_pairs: list[Apart] = []
    if not names or inquiry.left < FEWEST_RUNS:
        return result(moving)
    plan = _plans(inquiry, pins, names)
    first = held, again = yield from inquiry.runs_of(plan[:2])
    if not _is_judged(inquiry, held, first):
        return result(moving)
    # Ids of runs left alone are unknown: a leaf is an id if it differs only where a watched run quotes its own.
    pairs = product(first, [*usable, *first])
    beside = Leaves(chain(*(inquiry.pool.made.differing_beyond_ids(one, run) for one, run in pairs)))
    ids = frozenset(key for key in moving if key not in beside)
    moving -= ids
    inquiry.compared_leaves = Leaves(moving)
    if not moving:
        return result(moving, ids=tuple(sorted(ids)))
    alike_pairs += [(held, again, inquiry.pool.made.differing(held, again))]
    following = yield from _following(inquiry, moving, usable, plan, alike_pairs)
    if following is None:
        return result(moving, ids=tuple(sorted(ids)))
    of_logs |= frozenset() if inquiry.request.strict else _keys(alike_pairs, in_logs=True)
    shown = sorted({run.id for a, b, _ in alike_pairs for run in (a, b) if run.plan.role in ROLES[:2]})
    drawn = Leaves(ids)
    rest = frozenset(key for key in _keys(alike_pairs) | (moving - following) if key not in drawn)
    return result(rest, follows=tuple(sorted(following)), held=tuple(shown), ids=tuple(sorted(ids)))


def _following(
    inquiry: Inquiry, moving: frozenset[Key], usable: Sequence[Run], plan: Sequence[RunSpec], alike_pairs: list[Apart]
) -> Asking[frozenset[Key] | None]:
    """Return the leaves that are shown to follow the clock or the process; None where such runs cannot be judged."""
    ((held, again, _),) = alike_pairs
    following = _without(moving, alike_pairs)
    # What differs with the clock held does not follow it: it need not be changed to see that.
    if not following:
        return frozenset()
    # A quick clock may end a training by its time limit: then a slow one tells what follows it.
    for changed in plan[2:]:
        (other,) = yield from inquiry.runs_of([changed])
        if _is_judged(inquiry, held, [other]) or not inquiry.left:
            break
    plan = [*plan[:2], changed]
    entering = {*other.facts.in_libraries, *(name for name, lines in other.facts.entries.items() if lines)}
    if not _is_judged(inquiry, held, [other]) or entering.isdisjoint(other.plan.named("varied")):
        return None
    if _is_seeded_otherwise(held, again, other):
        return None
    new_in = [
        Leaves(one.key for one in inquiry.pool.made.differing(a, b))
        for a, b in [(held, other), *product(usable, (held, other))]
    ]
    is_new = all(key in apart for key in following for apart in new_in)
    # With only two other runs, luck would show that in 1.2 %: one more held run is needed then.
    for batch in [plan[2:] if len(usable) > 2 else plan[1:]] if is_new else [plan, plan]:
        further = (yield from inquiry.runs_of(batch)) if inquiry.left >= len(batch) else []
        if not further or not _is_judged(inquiry, held, further):
            return None
        for run in further:
            like = other if run.plan.role == other.plan.role else held
            alike_pairs.append((like, run, inquiry.pool.made.differing(like, run)))
    following = _without(moving, alike_pairs)
    return following - _first_only(inquiry, following, [*usable, held, other])


def _is_judged(inquiry: Inquiry, held: Run, runs: Sequence[Run]) -> bool:
    """Whether runs can be compared with the run with the clock held, and have trained the same."""
    return all(inquiry.may_compare(held, run) and inquiry.pool.compare_trained(held, run) is None for run in runs)


def _first_only(inquiry: Inquiry, keys: frozenset[Key], runs: Sequence[Run]) -> frozenset[Key]:
    """Return the leaves alike in all runs after the first one, if that left something outside its copy for them."""
    first, *later = sorted(runs, key=lambda run: run.id)
    if not first.facts.reached:
        return frozenset()
    return _without(keys, [(a, b, inquiry.pool.made.differing(a, b)) for a, b in combinations(later, 2)])


def _plans(inquiry: Inquiry, pins: Sequence[str], names: Sequence[str]) -> list[RunSpec]:
    """Return specs: these factors held still; held still and the rest varied; only these changed, in two ways."""
    request, kept = inquiry.request, (*pins, *names)
    pinned = {name: Setting("pinned") for name in kept}
    moved = {name: Setting("varied", variant=plans.RELEASED, steady=True) for name in names}
    alone = request.base("").with_settings(pinned)
    varied = plans.varied_run(request, leave=kept).with_settings(pinned)
    slow = {name: replace(setting, value=SLOW) for name, setting in moved.items() if name == "clock"}
    changed = alone.with_settings(moved)
    wanted = alone, varied, changed, *([changed.with_settings(slow)] if slow else [])
    return [replace(plan, role=role, witness=True) for role, plan in zip(ROLES, wanted, strict=False)]


def _keys(found: Sequence[Apart], in_logs: bool = False) -> frozenset[Key]:
    return frozenset(one.key for _, _, apart in found for one in apart if one.in_log or not in_logs)


def _without(keys: frozenset[Key], found: Sequence[Apart]) -> frozenset[Key]:
    """Return the leaves that differ in none of these pairs."""
    differing = Leaves(_keys(found))
    return frozenset(key for key in keys if key not in differing)


def _place(found: Sequence[Apart], keys: frozenset[Key]) -> DivergentRuns | None:
    """Return where the first pair of runs differs in one of these leaves; pairs of runs left alone come first."""
    leaves = Leaves(keys)
    for a, b, apart in sorted(found, key=lambda one: bool(one[1].plan.named("varied"))):
        place = product_divergence(a, [one for one in apart if one.key in leaves])
        if place is not None:
            return DivergentRuns(a.id, b.id, place, varied=tuple(in_order(b.plan.named("varied"))))
    return None


def _is_seeded_otherwise(held: Run, again: Run, other: Run) -> bool:
    """Whether a line seeds a generator with another value only in `other`: then a leaf that differs may be a draw.

    A line that seeds with another value also while the clock is held (workers of a pool take jobs in any order) says
    nothing about the clock: leaves that depend on such seeds do not agree there.
    """
    before, after, now = map(_seeds, (held, again, other))
    return any(before.get(site) == after.get(site) != now.get(site) for site in {*before, *after, *now})


def _seeds(run: Run) -> dict[object, set[str]]:
    values: dict[object, set[str]] = {}
    for call in run.facts.seeds:
        values.setdefault(call.site.key, set()).add(str(call.value))
    return values
