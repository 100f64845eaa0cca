"""Words for the answers of `samebits check`, `factors` and `replay`, and for the plan of a check."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from samebits.base.sites import shown_path
from samebits.checking.evidence import detectable_rate, runs_for_rate
from samebits.checking.plan import CONTROL, LOOK_SECONDS, LOOK_STEPS, MAX_RUNS_EACH, CheckRequest
from samebits.checking.pool import LEAST_LIMIT_SECONDS, LIMIT_RATIO
from samebits.checking.verdict import WITNESSED, CheckVerdict, LeftOut
from samebits.comparison.locate import Divergence
from samebits.comparison.products import MESSAGES, PRINTED
from samebits.factors.catalog import find
from samebits.factors.pinning import Status
from samebits.replay.runner import Replay
from samebits.report.causes import cause_line, cause_rows, lines_of, remedy_rows
from samebits.report.origins import origin_place, origin_rows, other_origin
from samebits.report.patches import patch_rows
from samebits.report.places import difference_words, place_words, stream_list
from samebits.report.rows import AnswerReport, Rows, counted, laid_out, unseen_rows
from samebits.report.unknown import unknown_rows
from samebits.runfolder.folder import HOME
from samebits.runfolder.spec import RunSpec
from samebits.runfolder.steps import TRAINED
from samebits.workspace.trees import MOST_BYTES, MOST_FILES, shown_bytes

# The share of runs for which the answer says how many runs would catch it.
UNLIKELY = 0.05


def check_report(verdict: CheckVerdict) -> AnswerReport:
    """Return the answer of `samebits check`: where runs diverge, why, by which figures, what fixes it, what is next."""
    rows = [*_rows(verdict), *patch_rows(verdict), *(("left out", _left_out(item)) for item in verdict.left_out)]
    rows += [("untested", text) for text in verdict.untested]
    rows += [("note", text) for text in verdict.notes]
    # Where runs differ, that everything was recorded is not worth a row.
    if verdict.not_observed or verdict.kind != "different":
        rows += unseen_rows(verdict.not_observed)
    if verdict.kind == "different":
        named = "" if verdict.home.parent.name == HOME else f" {shlex.quote(shown_path(verdict.home))}"
        rows.append(("next", f"samebits report{named}     (a page with all lines and runs)"))
    return AnswerReport(_headline(verdict), rows)


def _left_out(one: LeftOut) -> str:
    if one.mode == WITNESSED:
        return f"watching where factors enter: under watch, the script {one.why}; so no lines are known"
    return f"{one.factor}: {one.mode}, the script {one.why}; so it was left alone"


def _headline(verdict: CheckVerdict) -> str:
    if verdict.kind == "same":
        return _same_headline(verdict)
    if verdict.kind == "different":
        return f"different bits: {_difference(verdict)}"
    if verdict.agreed:
        why = "a process could not be entered; of the others"
        if verdict.divergent is not None:
            why = f"{verdict.divergent.divergence.name} differs, and the reason is not known; otherwise"
        return f"undecided: {why}, {_same_headline(verdict)}"
    if verdict.signal is None:
        return "undecided: no two runs could be compared"
    if not verdict.runs:
        return "undecided: interrupted before the first run was complete"
    if len(verdict.whole) < 2:
        return f"undecided: interrupted when {counted(len(verdict.runs), 'run')} could not be compared with another"
    return f"undecided: interrupted; so far, {_same_headline(verdict)}"


def _difference(verdict: CheckVerdict) -> str:
    """Tell which runs diverge, and where."""
    assert verdict.divergent is not None
    origin, divergent = verdict.origin, verdict.divergent
    if origin is not None:
        return f"runs {origin.a} and {origin.b} diverge {origin_place(origin)}"
    return f"runs {divergent.a} and {divergent.b} diverge {place_words(divergent.divergence)}"


def _rows(verdict: CheckVerdict) -> Rows:
    own, origin = verdict.divergent, verdict.origin
    treated = [("varied", ", ".join(verdict.varied) or "nothing"), ("pinned", ", ".join(verdict.pinned))]
    rests_on, took = ("rests on", _rests_on(verdict)), ("took", _run_totals(verdict))
    if verdict.kind == "undecided" and not verdict.agreed:
        return [
            ("ran", f"run {run.id} ({run.role}): {counted(run.steps, 'step')}, {run.wall_seconds:.1f} s")
            for run in (verdict.runs if verdict.signal is not None else ())
        ]
    if verdict.kind == "undecided":
        if own is None:
            return treated
        is_file = not own.divergence.name.startswith((PRINTED, MESSAGES))
        hint = "if that file does not matter, leave it out with --ignore PATH" if is_file else ""
        compared = [("compare", difference_words(own.divergence)), ("runs", _roles(verdict, own.a, own.b))]
        return [*compared, *treated, ("next", hint)]
    if own is None:
        return [*treated, rests_on, took]
    rows = [("besides", _difference(verdict)) if verdict.kind == "same" else _trained_row(verdict, own.divergence)]
    if origin is None:
        rows.append(("first", difference_words(own.divergence)))
    else:
        rows += [*origin_rows(origin), *(("also", other_origin(other)) for other in verdict.origins[1:])]
    rows += cause_rows(verdict)
    if verdict.unknown is not None:
        rows += unknown_rows(verdict, verdict.unknown)
    elif not verdict.causes and verdict.kind == "different":
        rows.append(("cause", "unknown"))
    rows += [*remedy_rows(verdict), *([rests_on] if verdict.alike else [])]
    pair = own if origin is None else origin
    return [*rows, ("runs", _roles(verdict, pair.a, pair.b)), took]


def _rests_on(verdict: CheckVerdict) -> str:
    """Tell how many runs a verdict of "same" rests on, and how rare a difference they would still have caught."""
    runs = len(verdict.whole)
    if runs < 2:
        return "too few runs to say anything"
    caught = f"{runs} runs would catch a cause affecting ≥{100 * detectable_rate(runs):.0f} % of runs (95 % confidence)"
    return f"{caught}; --runs {runs_for_rate(UNLIKELY)} for ≥{100 * UNLIKELY:.0f} %"


def _run_totals(verdict: CheckVerdict) -> str:
    """Return how many runs a check made, and how long it took: `23 runs, 48 s`."""
    seconds = verdict.took_seconds
    time = f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
    return f"{counted(len(verdict.runs), 'run')}, {time}"


def _roles(verdict: CheckVerdict, *numbers: int) -> str:
    """Return what runs were for: `run 1: control, run 16: cpu-threads released`; empty where all were left alone."""
    roles = {run.id: run.role for run in verdict.runs}
    if all(roles.get(number, CONTROL).startswith(CONTROL) for number in numbers):
        return ""
    return ", ".join(f"run {number}: {roles[number]}" for number in numbers if number in roles)


def _trained_row(verdict: CheckVerdict, place: Divergence) -> tuple[str, str]:
    """Return a row that tells whether what was trained agrees, where runs diverge in something else first."""
    if verdict.alike:
        return "trained", _agreement(verdict)
    if verdict.trained is None or verdict.trained.step <= place.step:
        return "trained", ""
    if verdict.trained.stream == "product":
        return "made", difference_words(verdict.trained)
    return "trained", f"diverges {place_words(verdict.trained)}"


def _same_headline(verdict: CheckVerdict) -> str:
    part = " in what was trained" if verdict.alike else ""
    if verdict.is_complete:
        return f"same bits{part}: {_agreement(verdict)}"
    steps = verdict.steps_checked
    return f"same bits{part} for the first {f'{steps} steps' if steps > 1 else 'step'}: {_agreement(verdict)}"


def _agreement(verdict: CheckVerdict) -> str:
    """Return in what runs agree: `3 runs of 60 steps agree in losses and gradients`."""
    steps = verdict.steps_checked
    full = verdict.whole if verdict.alike else [run for run in verdict.runs if run.steps == steps]
    streams = [stream for stream in verdict.streams if stream in TRAINED] if verdict.alike else verdict.streams
    ranks = max((run.ranks for run in full), default=1)
    steps_of = f"{counted(steps, 'step')} on {ranks} ranks" if ranks > 1 else counted(steps, "step")
    of_steps = f" of {steps_of}" if verdict.is_complete else ""
    return f"{len(full)} runs{of_steps} agree in {stream_list(streams)}"


def so_far_text(verdict: CheckVerdict) -> str:
    """Return what is known while a check runs, in one line."""
    assert verdict.divergent is not None
    own = verdict.divergent
    parts = [f"runs {own.a} and {own.b} diverge {place_words(own.divergence)}"]
    for cause in verdict.causes:
        state = "confirmed" if cause.confirmed else "suspected"
        others = "" if cause.fixed_together or not cause.others else f" or {lines_of(cause.others)}"
        parts.append(f"{state}: {cause_line(cause)}{others}")
    return f"so far: {'; '.join(parts)}"


def replay_report(replay: Replay) -> AnswerReport:
    """Return the answer of `samebits replay`."""
    call = "it" if replay.operands is None else replay.operands.stem.replace(".", " ")
    if replay.failure:
        return AnswerReport(f"undecided: {call} cannot be called again: {replay.failure}")
    calls = sum(condition.calls for condition in replay.conditions)
    rows = [("", f"{c.name:<16} {counted(c.calls, 'call')}, {counted(c.results, 'result')}") for c in replay.conditions]
    rows.append(("script", "" if replay.script is None else shown_path(replay.script)))
    if replay.other_python:
        rows.append(("note", f"called by another Python than the run's, which was {replay.other_python}"))
    gave = f"{calls} calls on the same inputs gave"
    if replay.is_confirmed:
        return AnswerReport(f"different bits: {gave} {replay.distinct} different results", rows)
    return AnswerReport(f"same bits: {gave} one result", rows)


def plan_text(request: CheckRequest, first: Sequence[RunSpec]) -> str:
    """Return what `samebits check --dry-run` prints."""
    rows = []
    for number, plan in enumerate(first, 1):
        treated = [f"{mode} {', '.join(plan.named(mode))}" for mode in ("pinned", "varied") if plan.named(mode)]
        rows.append((f"run {number}", f"{plan.role}: {'; '.join(treated) or 'nothing pinned, nothing varied'}"))
    look = f"ends {LOOK_SECONDS:g} s after its first step, but not before {LOOK_STEPS} steps"
    rest = "the others end there, too" if request.quick else "the varied run continues where it agrees with that"
    rows.append(("look", f"a first run {look}; {rest}"))
    pinnable = ", ".join(request.pinnable())
    read = ", ".join(name for name in request.pinnable() if find(name).found_statically)
    located = "always" if request.level == "op" else "where algorithms or nothing in the catalogue are to blame"
    rows += [
        ("folder", _where_runs_happen(request)),
        ("if they", "diverge, the following runs end just after the step at which they diverged:"),
        ("pinned", f"everything here, then all but what is released, drawn by lot until the cause is sure: {pinnable}"),
        ("released", f"one factor at a time: those that entered the pinned run{f', and {read}' if read else ''}"),
        ("remedy", "the guilty factors pinned; twice to the end, once with the rest varied"),
        ("lines", "a guilty factor changed at some of its lines only, until they are known"),
        ("operation", f"{located}: the step recorded, followed until it diverges, and once more"),
        ("bounds", _bounds(request)),
    ]
    return laid_out(f"plan: {shlex.join(request.command.argv)}", rows)


def _where_runs_happen(request: CheckRequest) -> str:
    if request.isolation == "none":
        return "all runs share this one; {run} in the command is each run's own folder"
    shared = f", which show {', '.join(request.share)} as it is" if request.share else ""
    large = f"what comes after the {MOST_FILES:,} smallest files, or {shown_bytes(MOST_BYTES)} of them"
    return f"every run begins in a copy of this one{shared}; {large}, is read where it is"


def _bounds(request: CheckRequest) -> str:
    limit = f"as long as it takes for the first, then {LIMIT_RATIO} times that and at least {LEAST_LIMIT_SECONDS:g} s"
    if request.timeout:
        limit = f"{request.timeout:g} s"
    steps = f", the first {request.max_steps} steps" if request.max_steps else ""
    more = "" if request.max_runs else f" and {MAX_RUNS_EACH} for each cause"
    at_a_time = f"{'up to ' if request.as_fits and request.jobs > 1 else ''}{request.jobs} at a time"
    return f"at most {request.most_runs()} runs{more}, {at_a_time}, {limit} each{steps}"


def factors_report(status: Status) -> AnswerReport:
    """Return the answer of `samebits factors`: two lines for each factor."""
    held = sum(factor.is_pinned for factor in status)
    rows: Rows = []
    for factor in status:
        seen = factor.observation
        state = {True: "pinned", False: "free", None: "-"}[seen.held]
        late = "" if seen.can_pin else f" (too late here: {seen.reason})" if seen.reason else " (too late here)"
        mark = "*" if factor.pinned_by_default else " "
        rows += [(f"{mark} {factor.name}", f"{state:<6}  {seen.value}{late}"), ("", f"{'':<8}{factor.summary}")]
    return AnswerReport(
        f"{held} of {len(status.factors)} factors are pinned in this process; `samebits run` pins those marked *",
        rows,
        column=max(len(label) for label, _ in rows) + 2,
    )
