"""The first question: do runs agree that are left alone, and runs in which harmless things are changed?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from samebits.base.errors import SamebitsError
from samebits.checking import plan as plans
from samebits.checking.asking import Asking, Compare
from samebits.checking.treatments import Inquiry
from samebits.checking.unjudgeable import why_unjudgeable
from samebits.checking.verdict import DivergentRuns, Run
from samebits.comparison.locate import Divergence
from samebits.factors.catalog import find
from samebits.runfolder.spec import RunSpec

Answer: TypeAlias = "DivergentRuns | SamebitsError | None"

LOOK_AGAIN_STEPS = 10
LOOK_AGAIN_RUNS = 2
WARM_RUNS = 2


def first_divergence(inquiry: Inquiry) -> Asking[Answer]:
    """Where the first runs diverge; None when they agree; an error when they cannot be judged.

    The first run ends early, as soon as it shows how many steps a look has. A varied one goes on where it agrees with
    that, and ends where it does not: what differs there is found in seconds, however long the script trains. Those that
    are left alone to the end follow. A script that ended by itself within the look is whole.
    """
    request = inquiry.request
    (first,) = yield [plans.look_run(request)]
    inquiry.made = [first]
    trouble = why_unjudgeable([first], final=False)
    if trouble is not None:
        return trouble
    last = first.facts.stopped_after
    inquiry.is_short = last is None or last == request.last_step
    if last is None or last == request.last_step:
        return (yield from _warm(inquiry, first, lambda: _short(inquiry, first)))
    if not request.quick:
        return (yield from _warm(inquiry, first, lambda: _beyond(inquiry, first, last)))
    inquiry.request, inquiry.is_short = replace(request, max_steps=last + 1), True
    return (yield from _warm(inquiry, first, lambda: _short(inquiry, first)))


def _warm(inquiry: Inquiry, first: Run, others: Callable[[], Asking[Answer]]) -> Asking[Answer]:
    """What further runs say; where those that began with what the first one had prepared do not agree, is it that?"""
    found = yield from others()
    if found is None or not inquiry.is_prepared() or inquiry.left() < WARM_RUNS:
        return found
    held = plans.pinned_run(inquiry.request, inquiry.request.pinnable(), min(first.steps - 1, LOOK_AGAIN_STEPS))
    cold, warm = yield [replace(held, role="pinned, nothing prepared", begins="found"), held]
    if cold.succeeded == warm.succeeded and inquiry.compare(cold, warm) is None:
        return found
    inquiry.forget_prepared()
    inquiry.blames_us, inquiry.erratic, inquiry.unsteady = True, None, None
    inquiry.left_out.clear()
    return (yield from others())


def _short(inquiry: Inquiry, first: Run) -> Asking[Answer]:
    """The same for a script that ended by itself within the look."""
    runs = [first]
    found = yield from _judged(inquiry, runs, plans.first_runs(inquiry.request)[1:])
    return found or (yield from _doubted(inquiry, runs))


def _beyond(inquiry: Inquiry, look: Run, last: int) -> Asking[Answer]:
    """The same for a script that goes on after the look."""
    request = inquiry.request
    wanted = plans.first_runs(request)
    # By what they are for: where all is pinned, nothing is left to vary.
    alone = [plan for plan in wanted if plan.role != plans.VARIED]
    first_varied, *others = (plan for plan in wanted if plan.role == plans.VARIED)
    if inquiry.room() > 1 and inquiry.left() > len(alone):
        return (yield from _along(inquiry, look, [first_varied, *alone], others))
    (varied,) = yield [following(first_varied, look)]
    inquiry.made = [look, varied]
    trouble = why_unjudgeable([look, varied], final=False)
    if trouble is not None:
        return trouble
    if inquiry.compare(look, varied) is not None:
        inquiry.is_long = True
        runs = [look, varied, *(yield [following(stopping_after(request.base("control again"), last), look)])]
        inquiry.made = [*runs]
        return why_unjudgeable(runs, final=False) or (yield from _divergent(inquiry, runs))
    # Each ends where it leaves the one before; left alone twice, they are asked before the varied one is.
    runs = []
    for batch in inquiry.batches(alone):
        runs += yield [following(plan, runs[0] if runs else varied if varied.succeeded else look) for plan in batch]
        inquiry.made = [look, varied, *runs]
        trouble = why_unjudgeable([varied, *runs], final=len(runs) == len(alone))
        if trouble is not None:
            return trouble
    return (yield from _decided(inquiry, look, [*runs, varied], others))


def _along(inquiry: Inquiry, look: Run, wanted: Sequence[RunSpec], others: Sequence[RunSpec]) -> Asking[Answer]:
    """The same where runs go on side by side: they read along in one another, and all end where two diverge."""
    found: list[Run] = []
    for batch in inquiry.batches(wanted):
        before = tuple(str(run.path) for run in found)
        found += yield [replace(following(plan, look), along=before) for plan in batch]
        # The varied one says nothing without one that was left alone.
        if len(found) > 1 and any(inquiry.compare(look, run) is not None for run in found):
            break
    varied, *runs = yield from _gone_on(inquiry, look, found)
    inquiry.made = [look, varied, *runs]
    trouble = why_unjudgeable([varied, *runs])
    return trouble or (yield from _decided(inquiry, look, [*runs, varied], others))


def _gone_on(inquiry: Inquiry, look: Run, runs: Sequence[Run]) -> Asking[list[Run]]:
    """The same runs; one that was ended because of another one, but differs from none that is left, is made again.

    The other one may have been made again, too, or have begun its processes in another order.
    """
    found = list(runs)
    for number, run in enumerate(runs):
        others = [look, *(one for one in found if one.id != run.id)]
        is_cut = run.facts.stopped_after not in (None, run.plan.stop_after)
        if is_cut and all(inquiry.compare(run, one) is None for one in others):
            (found[number],) = yield [replace(run.plan, along=None)]
    return found


def _decided(inquiry: Inquiry, look: Run, runs: list[Run], others: Sequence[RunSpec]) -> Asking[Answer]:
    """What these runs say, the varied one last, and further ones where they agree."""
    first = _blaming(inquiry, earliest([look, *_controls(runs)], inquiry.compare))
    found = first or (yield from _divergent(inquiry, runs)) or (yield from _judged(inquiry, runs, others))
    if isinstance(found, DivergentRuns):
        whole = next((run for run in runs if run.facts.stopped_after is None), None)
        inquiry.learn_length(whole, found.divergence)
    return found or (yield from _doubted(inquiry, runs))


def _judged(inquiry: Inquiry, runs: list[Run], wanted: Sequence[RunSpec]) -> Asking[Answer]:
    """Further runs, each added to `runs`, as long as all agree; each ends where it leaves the first one."""
    # A script that fails once more is not run a third time.
    batches = inquiry.batches(wanted) if runs[0].succeeded else [[plan] for plan in wanted]
    for number, batch in enumerate(batches, 1):
        made = yield [following(plan, runs[0]) for plan in batch]
        runs += made
        inquiry.made += made
        trouble = why_unjudgeable(runs, final=number == len(batches))
        if trouble is not None:
            return trouble
        divergent = yield from _divergent(inquiry, runs)
        if divergent is not None:
            return divergent
    return None


def _doubted(inquiry: Inquiry, runs: Sequence[Run]) -> Asking[DivergentRuns | None]:
    """Runs agree: do they only by luck?"""
    return (yield from _look_again(inquiry, runs))


def _controls(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if not run.plan.named("varied")]


def earliest(runs: Sequence[Run], compare: Compare) -> DivergentRuns | None:
    """Where the first of these runs and another one diverge soonest."""
    found = [diverged(runs[0], run, place) for run in runs[1:] if (place := compare(runs[0], run)) is not None]
    return min(found, key=lambda divergent: divergent.divergence.position, default=None)


def diverged(a: Run, b: Run, place: Divergence) -> DivergentRuns:
    """Two runs that differ, and what was changed on purpose between them."""
    return DivergentRuns(a.id, b.id, place, varied=tuple(b.plan.named("varied")))


def _divergent(inquiry: Inquiry, runs: list[Run]) -> Asking[DivergentRuns | None]:
    """Runs treated alike are asked first: where they diverge, nothing that is varied is to blame."""
    controls = _controls(runs)
    divergent = _blaming(inquiry, earliest(controls, inquiry.compare))
    if divergent is not None:
        return divergent
    if any(not run.succeeded for run in controls):
        inquiry.blames_us = False
    runs[:] = yield from inquiry.mended(runs)
    return inquiry.erratic or earliest(runs, inquiry.compare)


def _blaming(inquiry: Inquiry, divergent: DivergentRuns | None) -> DivergentRuns | None:
    """The same; where one of them fails that was left alone, failing under treatment is not our doing."""
    if divergent is not None:
        inquiry.blames_us = divergent.divergence.stream != "outcome"
    return divergent


def trained_alike(inquiry: Inquiry, divergent: DivergentRuns) -> Asking[tuple[Run, ...]]:
    """Runs to the end, where others diverge in what else happened: do they agree in what was trained?

    Where those that were compared ended as they diverged, others are made, as many as for a verdict of "same".
    """
    compare = inquiry.compare_trained
    pair = [run for run in inquiry.made if run.id in (divergent.a, divergent.b)]
    wanted = plans.first_runs(inquiry.request)
    if compare is None or len(pair) < 2 or compare(*pair) is not None or inquiry.left() < len(wanted):
        return ()
    if len(inquiry.made) >= len(wanted) and all(run.facts.stopped_after is None for run in inquiry.made):
        return tuple(inquiry.made)
    runs: list[Run] = []
    for batch in inquiry.batches(wanted):
        runs += yield from inquiry.runs_of([replace(plan, keeps=False) for plan in batch])
        if any(not run.succeeded or compare(runs[0], run) is not None for run in runs):
            break
    return tuple(runs)


def _look_again(inquiry: Inquiry, runs: Sequence[Run]) -> Asking[DivergentRuns | None]:
    """Small sets often come out in the same order by luck: where the code orders a set, others are tried."""
    request = inquiry.request
    read = [name for name in request.varied if find(name).found_statically and runs[0].facts.read_lines.get(name)]
    chosen = [name for name in read if not inquiry.is_left_out(name, "varied")]
    if not chosen or inquiry.left() < LOOK_AGAIN_RUNS:
        return None
    others = [name for name in request.varied if name not in chosen]
    for variant in range(request.runs, request.runs + LOOK_AGAIN_RUNS):
        plan = replace(plans.varied_run(request, variant, leave=others), role=f"{chosen[0]} varied")
        (run,) = yield from inquiry.runs_of([stopping_after(plan, LOOK_AGAIN_STEPS)])
        place = inquiry.compare(runs[0], run)
        if place is not None:
            return inquiry.erratic or diverged(runs[0], run, place)
    return None


def stopping_after(plan: RunSpec, step: int | None) -> RunSpec:
    """The same run, ended after `step`."""
    if step is None:
        return plan
    earlier = step if plan.stop_after is None else min(step, plan.stop_after)
    return replace(plan, stop_after=earlier)


def following(plan: RunSpec, known: Run | None) -> RunSpec:
    """The same run, ended soon after it diverges from one that is known."""
    return plan if known is None or not known.succeeded else replace(plan, follow=str(known.path))
