"""A check from the first run to the verdict: the decisions of `search`, answered with real runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from signal import SIGINT
from typing import Any, TypeVar

from samebits.base.errors import InterruptError
from samebits.base.sites import Site
from samebits.checking.asking import BudgetSpentError, answered
from samebits.checking.facts import NotedSeed, apart
from samebits.checking.first import earliest
from samebits.checking.leftovers import described, outside
from samebits.checking.origin import MAX_PAIRS, RecordingEndedError, find_origins
from samebits.checking.plan import VARIED, CheckRequest
from samebits.checking.pool import RunPool
from samebits.checking.search import Found, look
from samebits.checking.treatments import Inquiry
from samebits.checking.verdict import (
    Cause,
    CheckVerdict,
    DivergentRuns,
    Origin,
    Remedy,
    Reseeded,
    Run,
    Unknown,
    VerdictKind,
    whole_runs,
)
from samebits.comparison.locate import Divergence
from samebits.comparison.runs import distance_at
from samebits.comparison.streams import not_seen, streams_of
from samebits.comparison.values import Distance
from samebits.factors.catalog import find, in_order
from samebits.factors.context import SiteKey
from samebits.launch.unentered_processes import unentered
from samebits.lint.seeds import find_seed_arguments
from samebits.runfolder.notes import Observed, read_notes
from samebits.runfolder.spec import RunSpec
from samebits.workspace.workspace import shown_size

T = TypeVar("T")
MAX_ORIGINS, MOST_NAMED = 8, 3
# A suspect is named while a check goes on as soon as chance explains it that rarely.
WORTH_SAYING = 0.1
RANKS = "ranks"
ONE_STEP = "only the first step was looked at"


def run_check(
    request: CheckRequest, pool: RunPool, so_far: Callable[[CheckVerdict], None] | None = None
) -> CheckVerdict:
    """Run experiments until the verdict stands or the bounds are met; `so_far` is called as more becomes known."""
    pool.reads_products = True
    try:
        return _verdict_of(request, pool, so_far or (lambda _: None))
    finally:
        pool.drop_values()


def _verdict_of(request: CheckRequest, pool: RunPool, so_far: Callable[[CheckVerdict], None]) -> CheckVerdict:
    space, found = pool.workspace, Found()
    inquiry = Inquiry(
        request,
        pool.compare,
        lambda: pool.left,
        pool.room,
        lambda: space.left_by,
        lambda: space.is_prepared,
        space.forget_prepared,
        space.folder,
        unlike=pool.unlike,
        compare_trained=pool.compare_trained,
    )
    answered(look(inquiry, found), _running(request, pool, found, so_far))
    if found.signal is not None and found.divergent is None:
        # Of runs side by side some were complete already, and were not looked at yet.
        found.divergent = earliest([run for run in pool.runs if run.succeeded], pool.compare)
    request = inquiry.request
    untested = (*found.untested, *_outside(found, pool), *_stopped(request, pool, found))
    common = {"left_out": tuple(inquiry.left_out), "untested": untested}
    if found.signal is not None:
        common |= _interrupted(pool, found.signal)
    if found.error is not None:
        return _verdict(request, pool, "undecided", **{**common, "error": found.error})
    if found.divergent is None:
        # What agrees is what was recorded; a process that was not recorded may have done anything.
        agreed = not found.stopped and any(unentered(run.outcome.folder) for run in pool.runs)
        kind: VerdictKind = "undecided" if found.stopped or agreed else "same"
        notes = _known_so_far(pool) if found.stopped else _about_the_same(found, inquiry, pool)
        return _verdict(request, pool, kind, notes=notes, agreed=agreed, **common)
    if found.divergent is found.made.at and not any(cause.confirmed for cause in found.causes):
        notes = (*_about_the_same(found, inquiry, pool), *(f"not confirmed: {one.factor}" for one in found.causes))
        unshown = _measured(pool, found.made.at)
        return _verdict(request, pool, "undecided", divergent=unshown, notes=notes, agreed=True, **common)
    more = _More()
    try:
        _locate(request, pool, found, more)
    except BudgetSpentError as spent:
        if spent.signal is not None:
            common |= _interrupted(pool, spent.signal)
        why = _at_the_bound(request, pool.causes) if spent.signal is None else _cut_short(pool)
        common["untested"] = (*common["untested"], why)
    except KeyboardInterrupt as interrupt:
        # While the operation was called again, in no run at all.
        common |= _interrupted(pool, interrupt.args[0] if interrupt.args else SIGINT)
        common["untested"] = (*common["untested"], "interrupted while the operation was called again")
    causes, remedy, fixes = _with_fixes(found)
    alike, trained = _training(pool, found)
    return _verdict(
        request,
        pool,
        "same" if alike and not request.strict else "different",
        alike=alike,
        trained=trained,
        divergent=_measured(pool, found.divergent),
        causes=tuple(replace(cause, distance=_distance(pool, cause.divergent)) for cause in causes),
        unknown=None if fixes else _unknown(pool, found),
        origins=tuple(more.origins),
        remedy=None if remedy is None else replace(remedy, code=(*fixes, *_code(causes, _script(pool.runs)))),
        notes=(
            *more.notes,
            *filter(None, [found.made.words]),
            *_about_files(found, pool),
            *_about_the_remedy(found, remedy),
            *_seed_notes(found, pool.runs),
            *_bounds(request),
        ),
        **common,
    )


def _running(
    request: CheckRequest, pool: RunPool, found: Found, so_far: Callable[[CheckVerdict], None]
) -> Callable[[Sequence[RunSpec]], Sequence[Run]]:
    """What makes runs of plans; before, it says what is known if that is more than the last time."""
    known: list[object] = [(None, [])]

    def run_all(plans: Sequence[RunSpec]) -> Sequence[Run]:
        pool.causes = len(found.accused)
        causes = tuple(cause for cause in found.causes if cause.confirmed or cause.evidence.chance < WORTH_SAYING)
        now = found.divergent, [(cause.factor, cause.site, cause.confirmed) for cause in causes]
        if now != known[-1]:
            known.append(now)
            so_far(_verdict(request, pool, "different", divergent=found.divergent, causes=causes))
        runs = pool.run_all(plans)
        trouble = next((run.trouble for run in runs if run.trouble is not None), None)
        if trouble is not None:
            raise BudgetSpentError(trouble=trouble)
        return runs

    return run_all


@dataclass
class _More:
    """What is known of the operation so far."""

    origins: list[Origin] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _locate(request: CheckRequest, pool: RunPool, found: Found, more: _More) -> None:
    """The operation: of runs that diverge with everything pinned, or as algorithms are left alone, or if asked for."""
    if found.stopped or (found.left is not None and found.divergent == found.left.divergent):
        return
    unknown = found.unknown
    # What shows so rarely that held runs agree would be waited for in vain.
    if unknown is not None and unknown.acquitted:
        return
    if unknown is not None and any(outside(run, pool.workspace.folder) for run in pool.runs):
        return
    if unknown is not None:
        at: DivergentRuns | None = unknown.divergent
    else:
        # Runs that diverge in one factor only tell more than the first ones, in which several were changed.
        shown = [
            cause.divergent
            for cause in found.causes
            if find(cause.factor).selects_algorithm or (request.level == "op" and not find(cause.factor).by_folder)
        ]
        at = next(filter(None, shown), found.divergent if request.level == "op" else None)
    # Operations are recorded by rank: of processes and threads beside the first one there are none to compare.
    if at is None or at.divergence.stream in ("outcome", "length", "product") or at.divergence.process:
        return
    a, b = (_run(pool, number).plan for number in (at.a, at.b))
    most = MAX_ORIGINS if request.all_origins else 1
    try:
        for origin in find_origins(pool, a, b, at.divergence.step, most):
            more.origins.append(origin)
    except RecordingEndedError as error:
        more.notes.append(f"recording operations ended before the run did, so they are not known: {error.message}")
        return
    if not more.origins:
        more.notes.append(f"with operations recorded, {MAX_PAIRS} pairs of runs agreed: the operation is not known")


def _training(pool: RunPool, found: Found) -> tuple[tuple[int, ...], Divergence | None]:
    """Runs to the end that agree in what was trained; or the first place at which any two that were compared do not."""
    if found.made.at is not None:
        return (), found.made.at.divergence
    later = found.rounds[-1].trials[-1].later if found.rounds and found.rounds[-1].trials else None
    divergent = [found.divergent, later, *(cause.divergent for cause in found.causes)]
    divergent += [one.divergent for one in (found.left, found.unknown) if one is not None]
    pairs = [(_run(pool, one.a), _run(pool, one.b)) for one in divergent if one is not None]
    pairs += [(found.alike[0], run) for run in found.alike[1:]]
    place = next((place for pair in pairs if (place := pool.compare_trained(*pair)) is not None), None)
    is_seen = all(run.succeeded for run in found.alike) and not any(unentered(run.outcome.folder) for run in pool.runs)
    return tuple(run.id for run in found.alike) if is_seen and place is None else (), place


def _with_fixes(found: Found) -> tuple[list[Cause], Remedy | None, tuple[str, ...]]:
    """Where data diverge with their keys pinned, and nothing else was found: what is carried only the code can cure."""
    causes, remedy = found.causes, found.remedy
    if remedy is None and found.left is not None and found.left.divergent is not None:
        ids = tuple(run.id for run in found.left.base)
        chance = causes[0].evidence.chance
        remedy = Remedy((), not found.left.is_outside and causes[0].confirmed, runs=ids, chance=chance)
    last = found.rounds[-1] if found.rounds else None
    later = None if last is None else last.trials[-1].later if last.trials else last.at
    if remedy is not None and remedy.diverged is not None and later is not None and later.divergence.stream == "batch":
        fixes = tuple(dict.fromkeys(shown.fix for cause in causes for shown in cause.shown_by if shown.fix))
        if fixes:
            return causes, remedy, fixes
    # Lines that only the code could cure are shown where that is needed.
    shown = [replace(one, shown_by=tuple(line for line in one.shown_by if not line.fix)) for one in causes]
    return shown, remedy, ()


def _unknown(pool: RunPool, found: Found) -> Unknown | None:
    unknown = found.unknown
    if unknown is None:
        return None
    divergent = unknown.divergent
    a, b = (_run(pool, number).facts for number in (divergent.a, divergent.b))
    return replace(
        unknown,
        divergent=_measured(pool, divergent),
        seeds=reseeded(a.seeds, b.seeds),
        races=a.races or b.races,
        apart=tuple(apart(a, b)[:MOST_NAMED]),
    )


def reseeded(a: Sequence[NotedSeed], b: Sequence[NotedSeed]) -> tuple[Reseeded, ...]:
    """Calls on one line, of one process, with values that the other run did not seed with there, the first of each."""
    found: dict[SiteKey, Reseeded] = {}
    for key in dict.fromkeys((call.process, call.site.key) for call in a):
        left, right = ([call for call in calls if (call.process, call.site.key) == key] for calls in (a, b))
        only = _only([call.value for call in left], [call.value for call in right])
        for x, y in zip(*only, strict=False):
            call = next(call for call in left if call.value == x)
            found.setdefault(call.site.key, Reseeded(call.what, call.site, x, y, call.source))
    return tuple(found.values())


def _only(a: Sequence[T], b: Sequence[T]) -> tuple[list[T], list[T]]:
    """What only one of two lists holds, as often as it holds it more: processes come in any order."""
    left, right = list(a), list(b)
    for one in a:
        if one in right:
            left.remove(one)
            right.remove(one)
    return left, right


def _about_the_same(found: Found, inquiry: Inquiry, pool: RunPool) -> tuple[str, ...]:
    """What runs did beside agreeing."""
    return (*filter(None, [found.made.words]), *_about_files(found, pool), *_bounds(inquiry.request))


def _about_files(found: Found, pool: RunPool) -> list[str]:
    """Where runs happened, as far as it was not what one would expect."""
    survey, space, notes = pool.workspace.survey, pool.workspace, [*pool.remarks]
    notes += [f"not in the copies of the working folder: {one}" for one in survey.lost]
    if survey.linked or survey.whole:
        notes.append(f"not copied, but used in place: {shown_size(survey)}")
    left = found.left
    if left is not None and left.divergent is None and left.after:
        before, after = left.base[0].id, left.after[0].id
        notes.append(f"run {after} began in what run {before} left, and agrees with it for {left.after[0].steps} steps")
    written = dict.fromkeys(
        one.what.removeprefix("file ")
        for run in pool.runs
        for one in run.facts.reached
        if one.what.startswith("file ") and space.isolation == "copy"
    )
    if written:
        more = f" and {len(written) - MOST_NAMED} more" if len(written) > MOST_NAMED else ""
        notes.append(f"the script wrote {', '.join([*written][:MOST_NAMED])}{more}, which no copy keeps apart")
    if space.isolation == "none":
        notes.append("the runs shared the working folder: what one of them leaves, the next one finds")
    return notes


def _outside(found: Found, pool: RunPool) -> list[str]:
    """What runs carried from one to the next in other folders, where no experiment can tell whether it matters."""
    runs = [run for run in pool.runs if run.begins != "left"]
    carried = {one.path: one for run in runs for one in outside(run, pool.workspace.folder) if one.wrote is not None}
    if found.error is not None:
        return []
    return [
        f"whether it matters that the script {described(one)}, {one.asked.place}: it lies outside the working folder"
        for one in [*carried.values()][:MOST_NAMED]
    ]


def _about_the_remedy(found: Found, remedy: Remedy | None) -> list[str]:
    """What a user should know before taking a remedy that works."""
    last = found.rounds[-1] if found.rounds else None
    whole = last.trials[-1].whole if last is not None and last.trials else []
    if last is None or remedy is None or not remedy.verified or not whole:
        return []
    cured, notes = whole[0], []
    plain = next((run for run in last.inquiry.made if _is_whole(run) and not run.plan.settings), None)
    if plain is not None and _is_whole(cured) and cured.steps != plain.steps:
        notes.append(f"with the remedy the script takes {cured.steps} steps; in run {plain.id} it took {plain.steps}")
    if RANKS in (cured.facts.used or ()) and any(find(cause.factor).fixed_once for cause in found.causes):
        notes.append(
            "with the remedy all ranks draw the same numbers; where theirs are to differ, add the rank to the seed"
        )
    return notes


def _is_whole(run: Run) -> bool:
    return run.succeeded and run.facts.stopped_after is None


def _code(causes: Iterable[Cause], script: str) -> tuple[str, ...]:
    """What to change in the code, each thing once: what is cured for all lines at once, at the first of them."""
    fixes: dict[object, str] = {}
    for cause in sorted(causes, key=lambda cause: not cause.varies_between_runs):
        factor = find(cause.factor)
        own = cause.script or script
        fix = factor.fix_for(cause.site, own, cause.called)
        fixes.setdefault((factor.name, own) if factor.fixed_once else fix, fix)
    return tuple(fixes.values())


def _script(runs: Sequence[Run]) -> str:
    """Path of the script that is run; empty for code that lies in no file of the user's."""
    return next((run.facts.script for run in runs if run.facts.script), "")


def _seed_notes(found: Found, runs: Sequence[Run]) -> list[str]:
    """Seeds that the script takes and does not use, where a seed may be what is missing."""
    if not any(cause.fixed_together for cause in found.causes) and found.unknown is None:
        return []
    files = sorted({path for run in runs for path in run.facts.files})
    return [f"{one.text} ({Site(one.path, one.line).place})" for one in find_seed_arguments(files)]


def _stopped(request: CheckRequest, pool: RunPool, found: Found) -> tuple[str, ...]:
    """What was not done any more."""
    if found.signal is None:
        return (_at_the_bound(request, pool.causes),) if found.stopped else ()
    waiting = [f"not released any more: {', '.join(found.waiting)}"] if found.waiting else []
    return (_cut_short(pool), *waiting)


def _known_so_far(pool: RunPool) -> tuple[str, ...]:
    """Also runs that a signal ended have been compared."""
    steps = pool.steps_in_common()
    return (f"no two runs differ in the first {steps} steps, as far as they got",) if steps > 1 else ()


def _cut_short(pool: RunPool) -> str:
    runs = " and ".join(f"run {number} ({plan.role})" for number, plan in pool.cut_short)
    return f"interrupted in {runs}, and nothing was run after that" if runs else "interrupted between two runs"


def _interrupted(pool: RunPool, signal: int) -> dict[str, Any]:
    roles = tuple((number, plan.role) for number, plan in pool.cut_short)
    return {"signal": signal, "cut_short": roles, "error": InterruptError.by(signal, pool.home)}


def _at_the_bound(request: CheckRequest, causes: int) -> str:
    return f"stopped after {request.most_runs(causes)} runs: give more with --max-runs to test the rest"


def _bounds(request: CheckRequest) -> tuple[str, ...]:
    if request.max_steps is None:
        return ()
    return (f"only the first {request.max_steps} steps were looked at" if request.max_steps > 1 else ONE_STEP,)


def _run(pool: RunPool, number: int) -> Run:
    return next(run for run in pool.runs if run.id == number)


def _measured(pool: RunPool, divergent: DivergentRuns) -> DivergentRuns:
    return replace(divergent, distance=_distance(pool, divergent))


def _distance(pool: RunPool, divergent: DivergentRuns | None) -> Distance | None:
    """How far the first tensor that differs lies apart, where both runs kept it."""
    if divergent is None:
        return None
    return distance_at(_run(pool, divergent.a).path, _run(pool, divergent.b).path, divergent.divergence)


def _verdict(request: CheckRequest, pool: RunPool, kind: VerdictKind, **more: Any) -> CheckVerdict:
    left_out = {(one.factor, one.mode) for one in more.get("left_out", ())}
    alike = more.get("alike", ())
    whole = [run for run in pool.runs if run.id in alike] or whole_runs(pool.runs)
    streams = streams_of(run.outcome.folder.recordings() for run in whole)
    kept = _kept_by_program(pool.runs)
    if kept:
        more["notes"] = (*more.get("notes", ()), f"not varied, because the script sets it itself: {', '.join(kept)}")
    return CheckVerdict(
        kind,
        str(request.command),
        pool.home,
        tuple(run.record for run in pool.runs),
        tuple(name for name in request.varied if (name, "varied") not in left_out and name not in kept),
        tuple(in_order(request.pins)),
        streams=streams,
        not_observed=not_seen(
            (run.path for run in pool.runs),
            streams,
            max((run.steps for run in whole), default=0),
            lambda note: None if note.files else note,  # what they made is compared
        ),
        wall_seconds=round(pool.seconds, 3),
        **more,
    )


def _kept_by_program(runs: Sequence[Run]) -> list[str]:
    """What belongs to the environment and was as it is left alone where it was to be varied: by `os.exec`, mostly."""
    alone, varied = (
        {
            (name, one.value)
            for run in runs
            for note in read_notes(run.path, Observed)
            for name, one in note.factors.items()
            if one.mode == mode and find(name).scope == "environment" and run.plan.role.startswith(role)
        }
        for mode, role in (("natural", "control"), ("varied", VARIED))
    )
    moved = {name for name, value in varied if (name, value) not in alone}
    return in_order({name for name, _ in varied} - moved)
