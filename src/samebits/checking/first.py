"""The first question: do runs that are left alone agree, also with runs in which harmless things are changed?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from samebits.base.errors import SamebitsError
from samebits.checking import plan as plans
from samebits.checking.facts import Facts
from samebits.checking.inquiry import LONG_RATIO, Asking, Inquiry
from samebits.checking.plan import following, stopping_after
from samebits.checking.unjudgeable import why_unjudgeable
from samebits.checking.verdict import DivergentRuns, Run
from samebits.comparison.locate import Divergence
from samebits.factors.catalog import CATALOG, find
from samebits.runfolder.spec import RunSpec

Answer: TypeAlias = "DivergentRuns | SamebitsError | None"
Compare: TypeAlias = "Callable[[Run, Run], Divergence | None]"

# A choice between two things falls alike in three runs once in 4 checks; in eight, with these five, once in 128.
LOOK_AGAIN_STEPS, LOOK_AGAIN_DRAWS = 10, 5
# So many variants after those of three first runs: the varied clock of these and of the two have a phase each.
OTHER_VALUES = (0, 2)
# One run that begins with nothing prepared, and one that begins with what the first run has prepared.
WARM_RUNS = 2


def ask_first_question(inquiry: Inquiry) -> Asking[Answer]:
    """Return where the first runs diverge; None where they agree; an error where they cannot be judged.

    The first run, a look, ends early, as soon as it shows how many steps a look has. The varied run ends soon after it
    diverges from the look, so a difference there is found in seconds, however long the script trains. Where the two
    agree, it goes on to the end, and the controls follow. If the script itself ends within the look, the look is whole.
    """
    (look,) = yield [plans.look_run(inquiry.request)]
    inquiry.first = [look]
    trouble = why_unjudgeable([look], final=False)
    if trouble is not None:
        return trouble
    last = look.stopped_after
    if inquiry.request.quick and last is not None:
        inquiry.request = replace(inquiry.request, max_steps=last + 1)
    workspace, further = inquiry.pool.workspace, len(plans.first_runs(inquiry.request)) + 2 * LOOK_AGAIN_DRAWS
    if workspace.prepared and inquiry.left < WARM_RUNS + 2 * further:
        workspace.forget_prepared()  # too few runs are left to test whether it matters
    answer = yield from _others(inquiry, look)
    if not workspace.prepared or inquiry.left < WARM_RUNS:
        return answer
    # The other runs began with what the first one had prepared: does that make a difference?
    held = plans.pinned_run(inquiry.request, inquiry.request.pinnable(), min(look.steps - 1, LOOK_AGAIN_STEPS))
    cold, warm = yield [replace(held, role="pinned, nothing prepared", begins="found"), held]
    made = [{path: run.products.files.get(path) for path in workspace.prepared} for run in (look, cold)]
    if cold.succeeded == warm.succeeded and inquiry.compare(cold, warm) is None and made[0] == made[1]:
        return answer
    workspace.forget_prepared()
    inquiry.failures_are_ours, inquiry.failed_once, inquiry.unsteady = True, None, None
    inquiry.left_out.clear()
    return (yield from _others(inquiry, look))


def _others(inquiry: Inquiry, look: Run) -> Asking[Answer]:
    """Make the remaining first runs, and return the answer that they give."""
    wanted, alone = plans.first_runs(inquiry.request), inquiry.request.controls
    if inquiry.is_short:
        runs = [look]
        answer = yield from _judge_further(inquiry, runs, wanted[1:])
    elif inquiry.room > 1 and inquiry.left > alone:
        runs = yield from _read_along(inquiry, look, [wanted[alone], *wanted[:alone]])
        answer = yield from _judge_whole(inquiry, look, runs, wanted[alone + 1 :])
    else:
        (varied,) = yield [following(wanted[alone], look)]
        inquiry.first = [look, varied]
        trouble = why_unjudgeable(inquiry.first, final=False)
        if trouble is not None:
            return trouble
        if inquiry.compare(look, varied) is not None:
            return (yield from _within_the_look(inquiry, look, varied))
        runs = []
        for batch in inquiry.batches(wanted[:alone]):  # each ends soon after it diverges from an earlier run
            earlier = runs[0] if runs else varied if varied.succeeded else look
            runs += yield [following(plan, earlier) for plan in batch]
            inquiry.first = [look, varied, *runs]
            trouble = why_unjudgeable([varied, *runs], final=len(runs) == alone)
            if trouble is not None:
                return trouble
        runs.append(varied)
        answer = yield from _judge_whole(inquiry, look, runs, wanted[alone + 1 :])
    return answer or (yield from _look_again(inquiry, runs))


def _within_the_look(inquiry: Inquiry, look: Run, varied: Run) -> Asking[Answer]:
    """Return the answer where the varied run differs within the look; one more control run ends with the look, too."""
    inquiry.is_long = True
    again = stopping_after(inquiry.request.base("control again"), look.stopped_after)
    runs = [look, varied, *(yield [following(again, look)])]
    inquiry.first = [*runs]
    return why_unjudgeable(runs, final=False) or (yield from _find_divergent(inquiry, runs))


def _read_along(inquiry: Inquiry, look: Run, wanted: Sequence[RunSpec]) -> Asking[list[Run]]:
    """Make runs that read along in one another, side by side, and end where two diverge; return the first one last."""
    runs: list[Run] = []
    for batch in inquiry.batches(wanted):
        before = tuple(str(run.path) for run in runs)
        runs += yield [replace(following(plan, look), along=before) for plan in batch]
        # The varied run says nothing without one that was left alone.
        if len(runs) > 1 and any(inquiry.compare(look, run) is not None for run in runs):
            break
    # A run that was ended because of another run, but differs from none that is kept, is made again: that other run may
    # have been made again, too, or have begun its processes in another order.
    for number, run in enumerate(list(runs)):
        others = [look, *(one for one in runs if one.id != run.id)]
        is_cut = run.stopped_after not in (None, run.plan.stop_after)
        if is_cut and all(inquiry.compare(run, one) is None for one in others):
            (runs[number],) = yield [replace(run.plan, along=None)]
    inquiry.first = [look, *runs]
    return [*runs[1:], runs[0]]


def _judge_whole(inquiry: Inquiry, look: Run, runs: list[Run], others: Sequence[RunSpec]) -> Asking[Answer]:
    """Return the answer of these runs, the varied one last, and of further ones where they agree."""
    answer: Answer = why_unjudgeable([runs[-1], *runs[:-1]])
    answer = answer or _noting_whose_failure(inquiry, earliest([look, *_controls(runs)], inquiry.compare))
    answer = answer or (yield from _find_divergent(inquiry, runs)) or (yield from _judge_further(inquiry, runs, others))
    if isinstance(answer, DivergentRuns):
        whole = next((run for run in runs if run.stopped_after is None), None)
        inquiry.learn_length(whole, answer.divergence)
    return answer


def _judge_further(inquiry: Inquiry, runs: list[Run], wanted: Sequence[RunSpec]) -> Asking[Answer]:
    """Make further runs and add them to `runs`, as long as all agree; each ends soon after it leaves the first one."""
    # A script that fails once more is not run a third time.
    batches = inquiry.batches(wanted) if runs[0].succeeded else [[plan] for plan in wanted]
    for number, batch in enumerate(batches, 1):
        further = yield [following(plan, runs[0]) for plan in batch]
        runs += further
        inquiry.first += further
        answer = why_unjudgeable(runs, final=number == len(batches)) or (yield from _find_divergent(inquiry, runs))
        if answer is not None:
            return answer
    return None


def _controls(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if not run.plan.named("varied")]


def earliest(runs: Sequence[Run], compare: Compare) -> DivergentRuns | None:
    """Return where the first of these runs and another one diverge soonest; None where it agrees with all others."""
    divergences = [_apart_at(runs[0], run, place) for run in runs[1:] if (place := compare(runs[0], run)) is not None]
    return min(divergences, key=lambda divergent: divergent.divergence.position, default=None)


def _apart_at(a: Run, b: Run, place: Divergence) -> DivergentRuns:
    return DivergentRuns(a.id, b.id, place, varied=tuple(b.plan.named("varied")))


def _find_divergent(inquiry: Inquiry, runs: list[Run]) -> Asking[DivergentRuns | None]:
    """Return where these runs diverge: controls first, since no varied factor is to blame where they diverge."""
    controls = _controls(runs)
    divergent = _noting_whose_failure(inquiry, earliest(controls, inquiry.compare))
    if divergent is not None:
        return divergent
    if any(not run.succeeded for run in controls):
        inquiry.failures_are_ours = False
    runs[:] = yield from inquiry.retried(runs)
    return inquiry.failed_once or earliest(runs, inquiry.compare)


def _noting_whose_failure(inquiry: Inquiry, divergent: DivergentRuns | None) -> DivergentRuns | None:
    """Return `divergent`; where an untreated run of it failed, note that failures under treatment are not ours."""
    if divergent is not None:
        inquiry.failures_are_ours = divergent.divergence.stream != "outcome"
    return divergent


def _look_again(inquiry: Inquiry, runs: Sequence[Run]) -> Asking[DivergentRuns | None]:
    """Make further runs, as runs may agree by luck: a choice between two things then shows in 99 of 100 checks.

    One other value may change nothing by luck: a small set keeps its order, of two forms the same is the quicker. Where
    the code depends on a set, or takes the time of something, two more values are tried. Threads are made to take turns
    in one order, in a run to the end, and in the reverse order. An unseeded choice, or an autotuner's, may fall the
    same way, a race, a timer, and the time of a file: where the watched run asked for one, more runs are left alone, or
    varied by chance. Factors that are varied here count as varied in all that follows.
    """
    request, last = inquiry.request, None if inquiry.is_short else LOOK_AGAIN_STEPS
    facts = next((run for run in runs if run.plan.witness), runs[0]).facts
    chosen = [name for name in request.varied if _falls_by_luck(name, facts)]
    chosen = [name for name in chosen if not inquiry.is_left_out(name, "varied")]
    seen = [factor.name for factor in CATALOG if factor.may_stall and facts.entries.get(factor.name)]
    seen = [name for name in seen if inquiry.left and name not in (*request.pins, *request.varied)]
    inquiry.request = replace(request, vary=(*request.vary, *seen))
    others = [plans.varied_alone_run(request, chosen, request.runs + number) for number in OTHER_VALUES if chosen]
    others += [plans.varied_alone_run(inquiry.request, [name], 2) for name in seen]
    asked = [find(name) for name, lines in facts.entries.items() if lines and name not in request.pins]
    shaken = [one.name for one in asked if one.left_alone and one.name in request.varied]
    is_untreated = any(note.kind in ("timer", "time") for note in facts.outside)
    if is_untreated or any(one.is_random or (one.left_alone and facts.has_use_for(one.name)) for one in asked):
        alone = plans.varied_alone_run(request, shaken, 1) if shaken else request.base("control again")
        others += [alone] * LOOK_AGAIN_DRAWS
    others = [stopping_after(plan, last) for plan in others]
    # These runs go to the end, as threads may start late.
    others += [following(plans.varied_alone_run(inquiry.request, [name], 1), runs[0]) for name in seen]
    for batch in inquiry.batches(others[: inquiry.left]):
        further = yield from inquiry.runs_of(batch)
        inquiry.first += further if last is None else []
        for run in further:
            place = inquiry.compare(runs[0], run)
            if place is not None:
                return inquiry.failed_once or _apart_at(runs[0], run, place)
    return None


def _falls_by_luck(name: str, facts: Facts) -> bool:
    """Whether the code depends on a factor in a way that one other value may leave as it is."""
    is_timing = any(word in entry.what for entry in facts.entries.get(name, ()) for word in find(name).stopwatches)
    return is_timing or (find(name).found_statically and bool(facts.read_lines.get(name)))


def trained_alike(inquiry: Inquiry, divergent: DivergentRuns) -> Asking[tuple[Run, ...]]:
    """Return runs to the end, where runs diverge in what else happened, to see if they agree in what was trained.

    First runs that went to their end are used; the others are made again, as many as for a verdict of "same".
    """
    compare, runs = inquiry.pool.compare_trained, [run for run in inquiry.first if run.stopped_after is None]
    made = [(run.plan.role, run.plan.settings) for run in runs]
    wanted = [plan for plan in plans.first_runs(inquiry.request) if (plan.role, plan.settings) not in made]
    pair = [run for run in inquiry.first if run.id in (divergent.a, divergent.b)]
    if len(pair) < 2 or inquiry.left < len(wanted):
        return ()
    ended = [run for run in pair if run.stopped_after is not None and not inquiry.pool.has_trained(run)]
    if ended:
        # They diverge in what came before the training, and were ended there: one of them, or both. It may begin at any
        # time, or never, so nobody waits for it much longer than the longest run so far.
        trained = [run for run in pair if run not in ended]
        last = trained[0].steps - 1 if trained else LONG_RATIO * max(run.steps for run in inquiry.first)
        again = [stopping_after(replace(run.plan, follow=None, along=None, look_seconds=None), last) for run in ended]
        pair = [*trained, *(yield from inquiry.runs_of(again))]
    if compare(*pair) is not None:
        return ()
    for batch in inquiry.batches(wanted):
        if any(not run.succeeded or compare(runs[0], run) is not None for run in runs):
            break
        runs += yield from inquiry.runs_of([replace(plan, keeps=False) for plan in batch])
    return tuple(runs)
