"""What runs have made, where all that was recorded of them agrees.

made      the leaves that differ in runs that agree otherwise
held      those with the clock and the process ids held still, and the rest varied: what agrees there follows them,
and is left out; nothing else is
the rest  is a divergence like any other, to be explained by experiment; what cannot be explained stays undecided
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from samebits.base.sites import shown_path
from samebits.checking import plan as plans
from samebits.checking.asking import Asking
from samebits.checking.products import place_of
from samebits.checking.treatments import Inquiry
from samebits.checking.verdict import DivergentRuns, Run
from samebits.comparison.products import PRINTED, Key, Unlike, keys_of
from samebits.factors.catalog import in_order
from samebits.factors.context import Setting

# What is harmless in a file; by what a leaf is shown to follow it.
HARMLESS = ("clock", "process-id")
ROLE = "clock held"
# Where two of the runs that are left alone agree by luck, one held run more has to tell luck from the clock.
HELD_RUNS, MOST_NAMED = 2, 3


@dataclass(frozen=True)
class Made:
    """What is known of what the runs have made.

    Attributes:
        at: two runs that made something else, and what; None where nothing is left that differs.
        follows: leaves that follow the clock or the process.
        held: the runs that have shown it.
    """

    at: DivergentRuns | None = None
    follows: tuple[Key, ...] = ()
    held: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """What is left out, and why, as a clause; empty where nothing is."""
        if not self.follows:
            return ""
        files = dict.fromkeys(shown_path(file) if file != PRINTED else file for file, _ in self.follows)
        more = f" and {len(files) - MOST_NAMED} more files" if len(files) > MOST_NAMED else ""
        runs = " and ".join(map(str, self.held))
        leaf = "one leaf" if len(self.follows) == 1 else f"{len(self.follows)} leaves"
        return f"{leaf} of {', '.join([*files][:MOST_NAMED])}{more}: the same with the clock held, in runs {runs}"


def made_by(inquiry: Inquiry, runs: Sequence[Run], pins: Sequence[str] = ()) -> Asking[Made]:
    """Whether runs that agree in all that was recorded have made the same.

    Args:
        inquiry: the check.
        runs: they agree; those that are left alone come first.
        pins: held in all of them.
    """
    own = [run for run in runs if inquiry.may_compare(runs[0], run)] if runs else []
    found = [(a, b, apart) for a, b in combinations(own, 2) if (apart := inquiry.unlike(a, b))]
    if not found:
        return Made()
    moving = frozenset[Key]().union(*(keys_of(apart) for _, _, apart in found))
    inquiry.explained = moving
    names = [name for name in HARMLESS if name not in inquiry.request.pins and name not in pins]
    is_lucky = any(len(keys_of(apart)) < len(moving) for _, _, apart in found) or len(found) < len(own)
    count = HELD_RUNS + is_lucky
    if not names or any(_is_seeded_otherwise(a, b) for a, b, _ in found) or inquiry.left() < count:
        return Made(_place(found, moving))
    held = Setting("pinned")
    alone = inquiry.request.base(ROLE).with_settings(dict.fromkeys((*pins, *names), held))
    varied = plans.varied_run(inquiry.request, leave=(*pins, *names))
    varied = varied.with_settings(dict(alone.settings))
    wanted = [replace(alone, witness=True), replace(varied, role=f"{ROLE}, rest varied", witness=True)]
    wanted += [wanted[0]] * (count - len(wanted))
    still = yield from inquiry.runs_of(wanted)
    pairs = list(combinations(still, 2))
    have_entered = any(_enters(run, names) for run in still)
    if not have_entered or not all(inquiry.may_compare(a, b) and inquiry.recorded(a, b) is None for a, b in pairs):
        return Made(_place(found, moving))
    differing = frozenset[Key]().union(*(keys_of(inquiry.unlike(a, b)) for a, b in pairs))
    follows = tuple(sorted(moving - differing))
    inquiry.explained = differing
    if not differing:
        return Made(None, follows, tuple(run.id for run in still))
    # What only the held runs have otherwise is shown by them.
    own_pairs = [(a, b, inquiry.unlike(a, b)) for a, b in pairs]
    return Made(_place(found, differing) or _place(own_pairs, differing), follows, tuple(run.id for run in still))


def _place(found: Sequence[tuple[Run, Run, Sequence[Unlike]]], keys: frozenset[Key]) -> DivergentRuns | None:
    """The first pair that differs in one of these leaves: of those left alone, if any does."""
    for a, b, apart in sorted(found, key=lambda one: bool(one[1].plan.named("varied"))):
        place = place_of(a, b, [one for one in apart if one.key in keys])
        if place is not None:
            return DivergentRuns(a.id, b.id, place, varied=tuple(in_order(b.plan.named("varied"))))
    return None


def _enters(run: Run, names: Sequence[str]) -> bool:
    return any(run.facts.entries.get(name) or name in run.facts.in_libraries for name in names)


def _is_seeded_otherwise(a: Run, b: Run) -> bool:
    """Whether what is drawn may be drawn from other seeds: then what differs need not be a time."""
    left, right = ([(call.site.key, call.value) for call in run.facts.seeds] for run in (a, b))
    return left != right
