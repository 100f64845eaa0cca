"""What a person reads in a terminal: the answer in the first line, the rest in a column of labels."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from samebits.checking.plan import LOOK_SECONDS, LOOK_STEPS, MAX_RUNS_EACH, CheckRequest
from samebits.checking.pool import LEAST_LIMIT_SECONDS, LIMIT_RATIO
from samebits.checking.verdict import CheckVerdict, Unknown
from samebits.comparison.locate import Divergence
from samebits.comparison.streams import TRAINED
from samebits.factors.catalog import find, in_order
from samebits.factors.pinning import Status, settings_for
from samebits.replay.runner import Replay
from samebits.report.causes import (
    LATENT,
    advice,
    cause_line,
    company,
    excluded,
    left_out,
    luck,
    remedy_state,
    reseeded,
    rests_on,
    roles_of,
    since,
    state_of,
    took,
    unknown_line,
    unknown_what,
    witnessed,
)
from samebits.report.origins import origin_place, origin_rows, other_origin
from samebits.report.places import agreed, counted, distance_words, path_of, place_of, unshown, where, which
from samebits.report.rows import laid_out, not_seen
from samebits.runfolder.spec import RunSpec
from samebits.workspace.trees import MOST_BYTES, MOST_FILES
from samebits.workspace.workspace import volume


def check_text(verdict: CheckVerdict) -> str:
    """The answer of `samebits check`."""
    if verdict.kind == "same" and verdict.divergent is None:
        rests = [("rests on", rests_on(verdict)), ("took", took(verdict))]
        return laid_out(_same_headline(verdict), [*_treated(verdict), *rests, *_left_out(verdict)])
    if verdict.kind == "undecided" and verdict.agreed:
        divergent = verdict.divergent
        place = None if divergent is None else divergent.divergence
        why = "a process could not be entered; of the others" if place is None else f"{unshown(place)}; beside that"
        beside: list[tuple[str, str]] = []
        if divergent is not None:
            own = which(divergent.divergence)
            beside = [("compare", own), *_runs(verdict, [divergent.a, divergent.b])]
        headline = f"undecided: {why}, {_same_headline(verdict)}"
        return laid_out(headline, [*beside, *_treated(verdict), *_left_out(verdict)])
    if verdict.kind == "undecided" and verdict.signal is not None:
        return laid_out(_interrupted_headline(verdict), [*_ran(verdict), *_left_out(verdict)])
    if verdict.kind == "undecided":
        return laid_out("undecided: no two runs could be compared", _left_out(verdict))
    assert verdict.divergent is not None
    a, b, place = verdict.divergent.a, verdict.divergent.b, verdict.divergent.divergence
    at = where(place)
    rows: list[tuple[str, str]] = []
    if which(place):
        rows.append(("first", which(place)))
    if verdict.origin is not None:
        a, b, at = verdict.origin.a, verdict.origin.b, origin_place(verdict.origin)
        rows = [*origin_rows(verdict.origin), *(("also", other_origin(origin)) for origin in verdict.origins[1:])]
    difference, compared = f"runs {a} and {b} diverge {at}", [a, b]
    if verdict.kind == "same":
        headline = _same_headline(verdict)
        rows = [("besides", difference), *rows]
    else:
        headline = f"different bits: {difference}"
        rows = [*_trained_row(verdict, place), *rows]
    rows += _cause_rows(verdict)
    rows += _remedy_rows(verdict)
    rows += [("rests on", rests_on(verdict))] if verdict.alike else []
    rows += [*_runs(verdict, compared), ("took", took(verdict))]
    return laid_out(headline, [*rows, *_left_out(verdict)])


def _runs(verdict: CheckVerdict, numbers: Sequence[int]) -> list[tuple[str, str]]:
    """What the runs were for that differ, where they were not both left alone."""
    roles = roles_of(verdict, numbers)
    return [("runs", roles)] if roles else []


def _trained_row(verdict: CheckVerdict, place: Divergence) -> list[tuple[str, str]]:
    """Whether what was trained agrees, where runs diverge in something else first."""
    if verdict.alike:
        return [("trained", _agreement(verdict))]
    if verdict.trained is None or verdict.trained.step <= place.step:
        return []
    if verdict.trained.stream == "product":
        return [("made", which(verdict.trained))]
    return [("trained", f"diverges {where(verdict.trained)}")]


def _interrupted_headline(verdict: CheckVerdict) -> str:
    """What is known of the runs that were complete: they have not been seen to differ."""
    if not verdict.runs:
        return "undecided: interrupted before the first run was complete"
    if len(verdict.whole) < 2:
        return f"undecided: interrupted when {counted(len(verdict.runs), 'run')} could be compared with no other"
    return f"undecided: interrupted; so far, {_same_headline(verdict)}"


def _ran(verdict: CheckVerdict) -> list[tuple[str, str]]:
    seconds = ((run, f"{run.wall_seconds:.1f} s") for run in verdict.runs)
    return [("ran", f"run {run.id} ({run.role}): {counted(run.steps, 'step')}, {took}") for run, took in seconds]


def _same_headline(verdict: CheckVerdict) -> str:
    part = " in what was trained" if verdict.alike else ""
    if verdict.is_complete:
        return f"same bits{part}: {_agreement(verdict)}"
    steps = verdict.steps_checked
    return f"same bits{part} for the first {f'{steps} steps' if steps > 1 else 'step'}: {_agreement(verdict)}"


def _agreement(verdict: CheckVerdict) -> str:
    """`3 runs of 60 steps agree in losses and gradients`."""
    steps = verdict.steps_checked
    full = verdict.whole if verdict.alike else [run for run in verdict.runs if run.steps == steps]
    streams = [one for one in verdict.streams if one in TRAINED] if verdict.alike else verdict.streams
    ranks = max((run.ranks for run in full), default=1)
    steps_of = f"{counted(steps, 'step')} on {ranks} ranks" if ranks > 1 else counted(steps, "step")
    of_steps = f" of {steps_of}" if verdict.is_complete else ""
    return f"{len(full)} runs{of_steps} agree in {agreed(streams)}"


def so_far_text(verdict: CheckVerdict) -> str:
    """What is known while a check goes on, in one line."""
    assert verdict.divergent is not None
    divergent = verdict.divergent
    found = [f"runs {divergent.a} and {divergent.b} diverge {where(divergent.divergence)}"]
    found += [f"{'confirmed' if cause.confirmed else 'suspected'}: {cause_line(cause)}" for cause in verdict.causes]
    return f"so far: {'; '.join(found)}"


def _treated(verdict: CheckVerdict) -> list[tuple[str, str]]:
    rows = [("varied", ", ".join(verdict.varied) or "nothing")]
    if verdict.pinned:
        rows.append(("pinned", ", ".join(verdict.pinned)))
    return rows


def _left_out(verdict: CheckVerdict) -> list[tuple[str, str]]:
    rows = [("left out", left_out(one)) for one in verdict.left_out]
    rows += [("untested", text) for text in verdict.untested]
    rows += [("note", text) for text in verdict.notes]
    # Where runs differ, all that was seen of them need not be said.
    return rows + (not_seen(verdict.not_observed) if verdict.not_observed or verdict.kind != "different" else [])


def _cause_rows(verdict: CheckVerdict) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for cause in verdict.causes:
        rows.append(("cause", cause_line(cause)))
        source = cause.source or (cause.site.source if cause.site is not None else "")
        if source:
            rows.append(("", f"    {source}"))
        if company(cause):
            rows.append(("", company(cause)))
        else:
            rows += [("", f"or {place_of(site)}  {site.source}") for site in cause.others]
        for shown in cause.shown_by:
            rows += [("", f"{shown.what} at {place_of(shown.site)}"), ("", f"    {shown.site.source}")]
        if cause.seeded_late is not None:
            late = cause.seeded_late
            rows += [("", f"seeded too late at {place_of(late)}{since(cause)}"), ("", f"    {late.source}")]
        rows += [("", state_of(cause)), ("", luck(cause))]
        if cause.distance is not None and cause.distance.is_rounding:
            rows.append(("", distance_words(cause.distance)))
        if not cause.varies_between_runs:
            rows.append(("", LATENT))
    if verdict.unknown is not None:
        rows += _unknown_rows(verdict, verdict.unknown)
    elif not verdict.causes:
        rows.append(("cause", "unknown"))
    return rows


def _unknown_rows(verdict: CheckVerdict, unknown: Unknown) -> list[tuple[str, str]]:
    rows = [("cause", unknown_line(unknown))]
    if unknown.divergent.distance is not None:
        rows.append(("", distance_words(unknown.divergent.distance)))
    rows.append(("", unknown_what(verdict)))
    if unknown.results > 1 and unknown.runs > 2:
        rows.append(("", f"{unknown.results} different results in {unknown.runs} runs treated alike"))
    rows += [("seeded", line) for line in reseeded(unknown.seeds)]
    rows += [("witnessed", line) for line in witnessed(unknown.witnessed)]
    rows += [("excluded", line) for line in excluded(verdict)]
    rows += [("differs", line) for line in unknown.apart]
    rows += [("next", line) for line in advice(verdict)]
    return rows


def _remedy_rows(verdict: CheckVerdict) -> list[tuple[str, str]]:
    if verdict.remedy is None:
        return []
    state, code = remedy_state(verdict.remedy, verdict.is_complete), verdict.remedy.code
    if not verdict.remedy.pins:
        return [*(("remedy", line) for line in code), ("", state)]
    return [("remedy", remedy_command(verdict)), ("", state), *(("", f"or in the code: {line}") for line in code)]


def remedy_command(verdict: CheckVerdict) -> str:
    """What to type to run with the remedy's pins, and those the check was given; empty where it has none."""
    own = verdict.remedy.pins if verdict.remedy else ()
    pins = in_order([*verdict.pinned, *own])
    named = [] if pins == [*settings_for(None)] else [f"--pin {name}" for name in pins]
    return " ".join(["samebits run", *named, verdict.command]) if own else ""


def replay_text(call: str, replay: Replay) -> str:
    """The answer of `samebits replay`."""
    if replay.failure:
        return laid_out(f"undecided: {call} cannot be called again: {replay.failure}", [])
    calls = sum(condition.calls for condition in replay.conditions)
    rows = [("", f"{c.name:<16} {counted(c.calls, 'call')}, {counted(c.results, 'result')}") for c in replay.conditions]
    if replay.script is not None:
        rows.append(("script", path_of(str(replay.script))))
    if replay.other_python:
        rows.append(("note", f"called by another Python than the run's, which was {replay.other_python}"))
    if replay.is_confirmed:
        return laid_out(
            f"different bits: {calls} calls on the same inputs gave {replay.distinct} different results", rows
        )
    return laid_out(f"same bits: {calls} calls on the same inputs gave one result", rows)


def plan_text(request: CheckRequest, first: Sequence[RunSpec]) -> str:
    """What `check --dry-run` prints."""
    rows = []
    for number, plan in enumerate(first, 1):
        treated = [f"{mode} {', '.join(plan.named(mode))}" for mode in ("pinned", "varied") if plan.named(mode)]
        rows.append((f"run {number}", f"{plan.role}: {'; '.join(treated) or 'nothing pinned, nothing varied'}"))
    look = f"ends {LOOK_SECONDS:g} s after its first step, but not before {LOOK_STEPS} steps"
    rest = "the others end there, too" if request.quick else "the varied one goes on where it agrees with that"
    rows.append(("look", f"a first run {look}; {rest}"))
    rows.append(("folder", _where_runs_happen(request)))
    pinnable = ", ".join(request.pinnable())
    read = ", ".join(name for name in request.pinnable() if find(name).found_statically)
    rows += [
        ("if they", "diverge, the following runs end just after the step at which they diverged:"),
        ("pinned", f"and what is released, drawn by lot until it is sure, with {pinnable}"),
        ("released", f"one factor at a time: those that entered the pinned run{f', and {read}' if read else ''}"),
        ("remedy", "the guilty factors pinned; twice to the end, once with the rest varied"),
        ("lines", "a guilty factor changed at some of its lines only, until they are known"),
        ("operation", f"{_when_located(request)}: the step recorded, followed until it diverges, and once more"),
        ("bounds", _bounds(request)),
    ]
    return laid_out(f"plan: {shlex.join(request.command.argv)}", rows)


def _where_runs_happen(request: CheckRequest) -> str:
    if request.isolation == "none":
        return "all runs share this one; {run} in the command is a folder of each one's own"
    shared = f", which show {', '.join(request.share)} as it is" if request.share else ""
    large = f"what comes after the {MOST_FILES:,} smallest files, or {volume(MOST_BYTES)} of them, is read where it is"
    return f"every run begins in a copy of this one{shared}; {large}"


def _when_located(request: CheckRequest) -> str:
    return "always" if request.level == "op" else "where algorithms or nothing in the catalogue are to blame"


def _bounds(request: CheckRequest) -> str:
    own = (
        f"as long as it takes for the first, then {LIMIT_RATIO} times that and at least {LEAST_LIMIT_SECONDS:g} s each"
    )
    limit = f"{request.timeout:g} s each" if request.timeout else own
    steps = f", the first {request.max_steps} steps" if request.max_steps else ""
    more = "" if request.max_runs else f" and {MAX_RUNS_EACH} for each cause"
    at_a_time = f"{'up to ' if request.as_fits and request.jobs > 1 else ''}{request.jobs} at a time"
    return f"at most {request.most_runs()} runs{more}, {at_a_time}, {limit}{steps}"


def factors_text(status: Status) -> str:
    """The answer of `samebits factors`."""
    held = sum(1 for factor in status if factor.observation.held is True)
    lines = [f"{held} of {len(status.factors)} factors are pinned in this process; `samebits run` pins those marked *"]
    column = max(len(factor.name) for factor in status)
    for factor in status:
        seen = factor.observation
        state = {True: "pinned", False: "free", None: "-"}[seen.held]
        late = "" if seen.can_pin else f" (too late here: {seen.reason})" if seen.reason else " (too late here)"
        mark = "*" if find(factor.name).pinned_by_default else " "
        lines.append(f"  {mark} {factor.name:<{column}}  {state:<6}  {seen.value}{late}")
        lines.append(f"    {'':<{column}}          {factor.summary}")
    return "\n".join(lines)
