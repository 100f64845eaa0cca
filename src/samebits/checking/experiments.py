"""A check from the first run to the verdict: the decisions of `search`, answered with real runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from signal import SIGINT

from samebits.base.errors import InterruptError, StorageError
from samebits.base.printable import listed
from samebits.base.sites import Site, shown_path
from samebits.checking.facts import noted_by_one_run, unread_words
from samebits.checking.first import earliest
from samebits.checking.inquiry import Inquiry, drive
from samebits.checking.leftovers import described, outside
from samebits.checking.mending import Checked, mending_of, patched
from samebits.checking.origin import MAX_PAIRS, RecordingEndedError, find_origins
from samebits.checking.plan import VARIED, CheckRequest
from samebits.checking.pool import BudgetSpentError, PoolContext, RunPool, pool_in
from samebits.checking.products import WHEN
from samebits.checking.search import SearchState, search
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
from samebits.factors.catalog import CATALOG, find, in_order
from samebits.factors.context import SiteKey
from samebits.launch.supervised import unentered
from samebits.lint.findings import Finding
from samebits.lint.linting import lint
from samebits.lint.rule import find_rule
from samebits.lint.seeds import find_seed_arguments
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Observed, Replaced, Seeded, read_notes
from samebits.runfolder.spec import RunSpec
from samebits.workspace.trees import shown_size

MAX_ORIGINS, MOST_NAMED = 8, 3
_TAKEN = {
    "file": "{}",
    "program": "`{}`",
    "timer": "the timer of {}",
    "time": "the time of a file, {}",
    "address": "the address of an object, {}()",
}
# A suspect is named while a check runs as soon as the chance that it is innocent is below this.
WORTH_SAYING = 0.1
RANKS = "ranks"
ONE_STEP = "only the first step was looked at"

# Called with the verdict so far, whenever more is known.
SoFar = Callable[[CheckVerdict], None]


def check_in(context: PoolContext, request: CheckRequest, so_far: SoFar = lambda _: None) -> CheckVerdict:
    """Make the runs of a check, and return the verdict on them, with a patch where one can be made."""
    found = _checked(context, request, so_far)

    def check_again(home: Path, request: CheckRequest, replaced: Mapping[str, bytes]) -> Checked:
        home.mkdir()
        context.announce(f"checking the patched script in {shown_path(home)}")
        return _checked(PoolContext(home, context.announce), request, lambda _: None, replaced)

    return patched(found, request, context.home, check_again)


def _checked(
    context: PoolContext, request: CheckRequest, so_far: SoFar, replaced: Mapping[str, bytes] | None = None
) -> Checked:
    """Make the runs of a check without a patch; return the verdict, and what a patch can be made from."""
    with pool_in(context, request, replaced) as pool:
        pool.made.is_compared = True
        inquiry, found = Inquiry(request, pool), SearchState()
        try:
            drive(search(inquiry, found), _running(inquiry, found, so_far))
            if found.signal is not None and found.divergent is None:
                # Some of the runs made side by side were complete already, and have not been compared yet.
                found.divergent = earliest([run for run in pool.runs if run.succeeded], pool.compare)
            verdict = _concluded(inquiry, found)
            return verdict, mending_of(pool, verdict)
        finally:
            pool.drop_values()


def _running(inquiry: Inquiry, found: SearchState, so_far: SoFar) -> Callable[[Sequence[RunSpec]], Sequence[Run]]:
    """Return a function that makes runs of specs, and before that reports what is known, if that has changed."""
    pool = inquiry.pool
    reported: tuple[object, object] = None, []

    def run_all(specs: Sequence[RunSpec]) -> Sequence[Run]:
        nonlocal reported
        pool.causes = len(found.accused)
        causes = tuple(cause for cause in found.causes if cause.confirmed or cause.evidence.chance < WORTH_SAYING)
        now = found.divergent, [(cause.factor, cause.site, cause.confirmed) for cause in causes]
        if now != reported:
            reported = now
            so_far(replace(_verdict(inquiry, "different"), divergent=found.divergent, causes=causes))
        runs = pool.run_all(specs)
        trouble = next((run.trouble for run in runs if run.trouble is not None), None)
        if trouble is not None:
            raise BudgetSpentError(trouble=trouble)
        return runs

    return run_all


# ---- the verdict


def _concluded(inquiry: Inquiry, found: SearchState) -> CheckVerdict:
    """Return the verdict on what was found; where runs diverge, the operation is looked for, too."""
    pool = inquiry.pool
    untested = [*found.untested, *_outside(inquiry, found), *_stopped(inquiry, found)]
    if found.error is not None:
        return replace(_verdict(inquiry, "undecided"), error=found.error, untested=tuple(untested))
    signal = found.signal
    changed = None if found.divergent is None else pool.workspace.changed_meanwhile()
    if changed is not None:
        why = f"{shown_path(changed)} was changed while the check ran, and it is too large for a copy of each run's own"
        error = StorageError(why, "check again when nothing writes to it")
        return replace(_verdict(inquiry, "undecided"), error=error, untested=tuple(untested))
    is_explained = any(one.confirmed for one in found.causes)
    if found.divergent is None or (found.divergent is found.product_comparison.at and not is_explained):
        return _interrupted(replace(_agreeing(inquiry, found), untested=tuple(untested)), pool, signal)
    origins, notes = list[Origin](), list[str]()
    try:
        _locate(inquiry, found, origins, notes)
    except BudgetSpentError as spent:
        signal = spent.signal or signal
        untested.append(_at_the_bound(inquiry) if spent.signal is None else _cut_short(pool))
    except KeyboardInterrupt as interrupt:
        signal = interrupt.args[0] if interrupt.args else SIGINT
        untested.append("interrupted while the operation was called again")
    causes, remedy, fixes = _with_fixes(found)
    alike, trained = _training(pool, found)
    script = next((run.facts.script for run in pool.runs if run.facts.script), "")
    notes += _about_the_same(inquiry, found, [*_about_the_remedy(inquiry, found, remedy), *_seed_notes(pool, found)])
    made = found.product_comparison
    # A log counts where it is the only thing made that differs.
    notes += [] if made.is_log and trained is not None and trained.stream == "product" else made.log_words
    kind: VerdictKind = "same" if alike and not inquiry.request.strict else "different"
    verdict = replace(
        _verdict(inquiry, kind, notes, alike),
        trained=trained,
        divergent=_measured(pool, found.divergent),
        causes=with_rules(
            [replace(cause, distance=_distance(pool, cause.divergent)) for cause in causes], _files(pool)
        ),
        unknown=None if fixes else _unknown(pool, found),
        origins=tuple(origins),
        remedy=None if remedy is None else replace(remedy, code=(*fixes, *_code(causes, script))),
        untested=tuple(untested),
    )
    return _interrupted(verdict, pool, signal)


def _agreeing(inquiry: Inquiry, found: SearchState) -> CheckVerdict:
    """Return the verdict where all that was recorded agrees, as far as it was compared."""
    # A process that was not recorded may have done anything.
    agreed = not found.stopped and any(unentered(run.folder) for run in inquiry.pool.runs)
    notes = _about_the_same(inquiry, found)
    divergent, alike = None, tuple[int, ...]()
    if found.divergent is not None:
        divergent = _measured(inquiry.pool, found.divergent)
        # A log that a check cannot explain is told as such, also where its runs are used up, unless few were asked for.
        is_searched = not found.stopped or (found.signal is None and inquiry.request.max_runs is None)
        alike = _training(inquiry.pool, found)[0] if is_searched and found.is_of_a_log else ()
        agreed = not alike
        notes += found.product_comparison.log_words if alike else []
        notes += [f"not confirmed: {one.factor}" for one in found.causes]
    elif found.stopped:
        # Also runs that a signal ended have been compared.
        steps = inquiry.pool.steps_in_common()
        notes = [f"no two runs differ in the first {steps} steps, as far as each got"] if steps > 1 else []
    kind: VerdictKind = "undecided" if agreed or (found.stopped and not alike) else "same"
    return replace(_verdict(inquiry, kind, notes, alike), divergent=divergent, agreed=agreed)


def _verdict(
    inquiry: Inquiry, kind: VerdictKind, notes: Sequence[str] = (), alike: tuple[int, ...] = ()
) -> CheckVerdict:
    """Return a verdict with what every verdict says of its runs, and nothing of what they showed."""
    request, pool = inquiry.request, inquiry.pool
    records = tuple(run.record for run in pool.runs)
    whole = [run for run in records if run.id in alike] or whole_runs(records)
    streams = streams_of(RunFolder(run.folder).recordings() for run in whole)
    kept = _kept_by_program(pool.runs)
    facts = [run.facts for run in pool.runs]
    used = [one for one in request.varied if one in request.vary or any(each.has_use_for(one) for each in facts)]
    unvaried = [f"not varied, because the script sets it itself: {', '.join(kept)}"] if kept else []
    return CheckVerdict(
        kind=kind,
        command=str(request.command),
        options=request.options,
        home=pool.home,
        runs=records,
        varied=tuple(name for name in used if not inquiry.is_left_out(name, "varied") and name not in kept),
        pinned=tuple(in_order(request.pins)),
        left_out=tuple(inquiry.left_out),
        streams=streams,
        not_observed=not_seen(
            (run.path for run in pool.runs),
            streams,
            max((run.steps for run in whole), default=0),
            lambda note: None if note.files else note,  # their files are compared
        ),
        notes=(*notes, *unvaried),
        wall_seconds=round(pool.seconds, 3),
        alike=alike,
    )


def _locate(inquiry: Inquiry, found: SearchState, origins: list[Origin], notes: list[str]) -> None:
    """Find the operation where runs diverge with everything pinned or algorithms left alone, or where asked for."""
    pool, unknown, is_asked = inquiry.pool, found.unknown, inquiry.request.level == "op"
    if found.stopped or (found.leftover_result is not None and found.divergent == found.leftover_result.divergent):
        return
    # A difference that shows so rarely that held runs agree would be waited for in vain.
    if unknown is not None and (unknown.acquitted or any(outside(run, inquiry.folder) for run in pool.runs)):
        return
    # Runs in which only one factor was changed tell more than the first runs, in which several were.
    shown = [
        cause.divergent
        for cause in found.causes
        if find(cause.factor).left_alone or (is_asked and not find(cause.factor).by_folder)
    ]
    at = next(filter(None, shown), found.divergent if is_asked else None) if unknown is None else unknown.divergent
    # Operations are recorded per rank: those of processes and threads other than its first one cannot be compared.
    if at is None or at.divergence.stream in ("outcome", "length", "product") or at.divergence.process:
        return
    a, b = (_run(pool, number).plan for number in (at.a, at.b))
    try:
        for origin in find_origins(pool, a, b, at.divergence.step, MAX_ORIGINS if inquiry.request.all_origins else 1):
            origins.append(origin)  # origins found so far stay where a later one fails
    except RecordingEndedError as error:
        notes.append(
            f"the recording of operations ended before the run did, so the operation is not known: {error.message}"
        )
        return
    if not origins:
        notes.append(f"with operations recorded, {MAX_PAIRS} pairs of runs agreed: the operation is not known")


def _training(pool: RunPool, found: SearchState) -> tuple[tuple[int, ...], Divergence | None]:
    """Return the runs to the end that agree in what was trained, and where two compared runs first differ in that."""
    made = found.product_comparison
    if made.at is not None and not made.is_log:
        return (), made.at.divergence
    later = None if found.last_trial is None else found.last_trial.later
    divergent = [found.divergent, later, *(cause.divergent for cause in found.causes)]
    divergent += [one.divergent for one in (found.leftover_result, found.unknown) if one is not None]
    pairs = [(_run(pool, one.a), _run(pool, one.b)) for one in divergent if one is not None]
    pairs += [(found.alike[0], run) for run in found.alike[1:]]
    if any(map(pool.has_trained, found.alike)):
        # Two runs that were ended before they trained say nothing about that.
        pairs = [pair for pair in pairs if any(run.stopped_after is None or pool.has_trained(run) for run in pair)]
    place = next((place for pair in pairs if (place := pool.compare_trained(*pair)) is not None), None)
    # A log is no part of that, unless a cause decides more than when things happen.
    if made.at is not None and place is None and not {one.factor for one in found.causes if one.confirmed} <= {*WHEN}:
        place = made.at.divergence
    is_seen = all(run.succeeded for run in found.alike) and not any(unentered(run.folder) for run in pool.runs)
    return tuple(run.id for run in found.alike) if is_seen and place is None else (), place


def _with_fixes(found: SearchState) -> tuple[list[Cause], Remedy | None, tuple[str, ...]]:
    """Return causes, remedy and fixes; where batches diverge with all causes pinned, only changing the code helps."""
    causes, remedy = found.causes, found.remedy
    if remedy is None and found.leftover_result is not None and found.leftover_result.divergent is not None:
        ids = tuple(run.id for run in found.leftover_result.base)
        chance = causes[0].evidence.chance
        remedy = Remedy((), not found.leftover_result.is_outside and causes[0].confirmed, runs=ids, chance=chance)
    later = found.last_trial.later if found.last_trial else found.rounds[-1].at if found.rounds else None
    if remedy is not None and remedy.diverged is not None and later is not None and later.divergence.stream == "batch":
        fixes = tuple(dict.fromkeys(shown.fix for cause in causes for shown in cause.shown_by if shown.fix))
        if fixes:
            return causes, remedy, fixes
    # Lines that only a change of the code can fix are shown only where that is needed.
    shown = [replace(one, shown_by=tuple(line for line in one.shown_by if not line.fix)) for one in causes]
    return shown, remedy, ()


def _code(causes: Iterable[Cause], script: str) -> tuple[str, ...]:
    """Return what to change in the code, each change once; one that fixes all lines is made at the first of them."""
    fixes: dict[object, str] = {}
    for cause in sorted(causes, key=lambda cause: not cause.varies_between_runs):
        factor = find(cause.factor)
        script_of_cause = cause.script or script
        fix = factor.fix_for(cause.site, script_of_cause, cause.called)
        if cause.others and not cause.fixed_together:
            fix += f"; the same at {listed([site.place for site in cause.others], MOST_NAMED, 'line')}"
        fixes.setdefault((factor.name, script_of_cause) if factor.fixed_once else fix, fix)
    return tuple(fixes.values())


def _unknown(pool: RunPool, found: SearchState) -> Unknown | None:
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
        apart=tuple(noted_by_one_run(a, b)[:MOST_NAMED]),
        taken=tuple(_taken([_run(pool, divergent.a), _run(pool, divergent.b)])[:MOST_NAMED]),
        read=tuple(_read(pool, unknown.acquitted)[:MOST_NAMED]),
    )


def _read(pool: RunPool, excluded: Collection[str]) -> list[str]:
    """Return what reading finds at lines at which no factor was seen to enter: at other lines, the factor was held."""
    entered = {one.site.key for run in pool.runs for entries in run.facts.entries.values() for one in entries}
    held = [factor.name for factor in CATALOG if factor.found_statically and not factor.held_in_part]
    findings = [one for one in _linted(_files(pool)) if (one.path, one.line) not in entered]
    unexplained = [one for one in findings if not {*find_rule(one.rule).factors} <= {*excluded, *held}]
    return [f"{Site(one.path, one.line).place}, which {one.reason} ({one.rule})" for one in unexplained]


def reseeded(a: Sequence[Seeded], b: Sequence[Seeded]) -> tuple[Reseeded, ...]:
    """Return calls on one line of one process that seed with values unlike the other run's; the first of each line."""
    by_line: dict[SiteKey, Reseeded] = {}
    for key in dict.fromkeys((call.process, call.site.key) for call in a):
        left, right = ([call for call in calls if (call.process, call.site.key) == key] for calls in (a, b))
        # Values are counted, since processes come in any order.
        mine, theirs = (Counter(str(call.value) for call in calls) for calls in (left, right))
        x, y = next(iter(mine - theirs), None), next(iter(theirs - mine), None)
        if x is not None and y is not None:
            call = next(call for call in left if str(call.value) == x)
            by_line.setdefault(call.site.key, Reseeded(call.what, call.site, x, y, call.site.source))
    return tuple(by_line.values())


def _run(pool: RunPool, number: int) -> Run:
    return next(run for run in pool.runs if run.id == number)


def _measured(pool: RunPool, divergent: DivergentRuns) -> DivergentRuns:
    return replace(divergent, distance=_distance(pool, divergent))


def _distance(pool: RunPool, divergent: DivergentRuns | None) -> Distance | None:
    """Return how far the first tensor that differs lies apart in two runs, where both kept it."""
    if divergent is None:
        return None
    return distance_at(_run(pool, divergent.a).path, _run(pool, divergent.b).path, divergent.divergence)


# ---- notes


def _about_the_same(inquiry: Inquiry, found: SearchState, more: Sequence[str] = ()) -> list[str]:
    """Return notes on what runs did that one would not expect, and on the limits of the comparison."""
    pool, space, left, request = inquiry.pool, inquiry.pool.workspace, found.leftover_result, inquiry.request
    notes = [*found.product_comparison.words, *pool.remarks, *_ignored(pool)]
    notes += dict.fromkeys(run.facts.unread for run in pool.runs if run.facts.unread)
    notes += [f"not in the copies of the working folder: {one}" for one in space.survey.lost]
    if space.survey.linked or space.survey.whole:
        notes.append(f"not copied, but used in place: {shown_size(space.survey)}")
    if left is not None and left.divergent is None and left.after:
        before, after = left.base[0].id, left.after[0]
        agree = f"run {after.id} began with the files of run {before} and agrees with it for {after.steps} steps"
        notes.append(f"what a run leaves changes nothing: {agree}")
    if left is not None and left.named_alike:
        one = left.named_alike[0]
        named = f"every run asks for {shown_path(one.path)} ({one.asked.place})"
        notes.append(f"with the remedy's pins {named}: begin the next one in a folder without it")
    if left is not None and left.divergent is not None and not left.is_outside and space.isolation == "copy":
        read = dict.fromkeys(one.path for group in left.guilty for one in group if one.how == "read")
        there = [shown_path(path) for path in read if os.path.isfile(path)]
        notes += [f"{listed(there, MOST_NAMED)} was there before the check: every run began with it"] if there else []
    reached = dict.fromkeys(one.what for run in pool.runs for one in run.facts.reached)
    written = [what.removeprefix("file ") for what in reached if what.startswith("file ")]
    if written and space.isolation == "copy":
        notes.append(f"the script wrote {listed(written, MOST_NAMED)}, outside the copies: all runs share that")
    if taken := _taken(pool.runs, ["file"]):
        missing = "whether runs without it agree was not tried"
        notes.append(f"read outside the folder: {listed(taken, MOST_NAMED)}; {missing}")
    if space.isolation == "none":
        notes.append("the runs shared the working folder: what one of them leaves, the next one finds")
    replaced = next(filter(None, (Replaced.summary_of(run.path) for run in pool.runs)), "")
    notes += [f"replaced: {replaced}"] if replaced else []
    notes += more
    if request.max_steps is not None:
        notes.append(f"only the first {request.max_steps} steps were looked at" if request.max_steps > 1 else ONE_STEP)
    return notes


def _ignored(pool: RunPool) -> list[str]:
    named = [pattern for pattern in pool.request.ignore if pattern in pool.made.matched]
    missed = [f"--ignore {one}: no run wrote such a file" for one in pool.request.ignore if one not in named]
    return [*([f"not compared, as asked: {', '.join(named)}"] if named else []), *missed]


def _taken(runs: Iterable[Run], kinds: Collection[str] = _TAKEN) -> list[str]:
    """Return the files, programs, timers, times and addresses that nothing holds still, each with its line."""
    notes = {(one.kind, one.what): one for run in runs for one in run.facts.outside if one.kind in kinds}
    taken = [one for one in notes.values() if not any(one.what in run.facts.wrote for run in runs)]
    return [f"{_TAKEN[one.kind].format(shown_path(one.what))} ({one.site.place})" for one in taken]


def _about_the_remedy(inquiry: Inquiry, found: SearchState, remedy: Remedy | None) -> list[str]:
    """Return what a user should know before taking a remedy that works."""
    whole = found.last_trial.whole if found.last_trial is not None else []
    if remedy is None or not remedy.verified or not whole:
        return []
    pinned, notes = whole[0], []
    plain = next((run for run in inquiry.first if _is_whole(run) and not run.plan.settings), None)
    # Threads that train together each have steps of their own.
    is_one = plain is not None and len(plain.folder.recordings()) <= plain.ranks
    if plain is not None and is_one and _is_whole(pinned) and pinned.steps != plain.steps:
        notes.append(f"with the remedy the script takes {pinned.steps} steps; in run {plain.id} it took {plain.steps}")
    if RANKS in (pinned.facts.used or ()) and any(find(cause.factor).fixed_once for cause in found.causes):
        notes.append("with the remedy all ranks draw the same numbers; if they should differ, add the rank to the seed")
    return notes


def _is_whole(run: Run) -> bool:
    return run.succeeded and run.stopped_after is None


def _seed_notes(pool: RunPool, found: SearchState) -> list[str]:
    """Return notes on seeds that the script takes and does not use, where a missing seed may be the cause."""
    if not any(cause.fixed_together for cause in found.causes) and found.unknown is None:
        return []
    try:
        return [f"{one.reason} ({Site(one.path, one.line).place})" for one in find_seed_arguments(_files(pool))]
    except Exception as error:  # what was measured is worth more than this note
        return [unread_words(error)]


def _files(pool: RunPool) -> list[str]:
    """Return the source files of the user's program."""
    return sorted({path for run in pool.runs for path in run.facts.files})


def with_rules(causes: Sequence[Cause], paths: Iterable[str]) -> tuple[Cause, ...]:
    """Return the causes, each with the rules of `samebits lint` that report its factor at its line."""
    findings = _linted(paths) if causes else ()
    reported = {(one.path, line, one.rule) for one in findings for line in one.lines}
    return tuple(replace(cause, rules=tuple(sorted(_rules_of(cause, reported)))) for cause in causes)


def _linted(paths: Iterable[str]) -> Sequence[Finding]:
    return lint([path for path in paths if os.path.isfile(path)]).findings


def _rules_of(cause: Cause, said: set[tuple[str, int, str]]) -> set[str]:
    here = (cause.site.path, cause.site.line) if cause.site is not None else None
    return {rule for path, line, rule in said if (path, line) == here and cause.factor in find_rule(rule).factors}


def _outside(inquiry: Inquiry, found: SearchState) -> list[str]:
    """Return what runs left for the next one outside the folder, where no experiment can tell whether it matters."""
    runs = [run for run in inquiry.pool.runs if run.plan.begins != "left"]
    carried = {one.path: one for run in runs for one in outside(run, inquiry.folder) if one.wrote is not None}
    if found.error is not None or (found.leftover_result is not None and found.leftover_result.is_outside):
        return []
    return [
        f"whether it matters that the script {described(one)}, {one.asked.place}: it lies outside the working folder"
        for one in [*carried.values()][:MOST_NAMED]
    ]


def _stopped(inquiry: Inquiry, found: SearchState) -> list[str]:
    """Return what was left undone when the runs were used up or a signal came."""
    if found.signal is None:
        return [_at_the_bound(inquiry)] if found.stopped else []
    waiting = [f"not released any more: {', '.join(found.waiting)}"] if found.waiting else []
    return [_cut_short(inquiry.pool), *waiting]


def _cut_short(pool: RunPool) -> str:
    runs = " and ".join(f"run {number} ({plan.role})" for number, plan in pool.cut_short)
    return f"interrupted in {runs}, and nothing was run after that" if runs else "interrupted between two runs"


def _interrupted(verdict: CheckVerdict, pool: RunPool, signal: int | None) -> CheckVerdict:
    """Return the verdict with the signal that ended the check; unchanged where none did."""
    if signal is None:
        return verdict
    roles = tuple((number, plan.role) for number, plan in pool.cut_short)
    return replace(verdict, signal=signal, cut_short=roles, error=InterruptError.by(signal, pool.home))


def _at_the_bound(inquiry: Inquiry) -> str:
    most = inquiry.request.most_runs(inquiry.pool.causes)
    return f"stopped after {most} runs: raise --max-runs to test the rest"


def _kept_by_program(runs: Sequence[Run]) -> list[str]:
    """Return environment factors that were to be varied but were as in the controls: mostly because of `os.exec`."""
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
