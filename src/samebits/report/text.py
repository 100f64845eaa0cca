"""Words for the answers of `samebits check`, `factors` and `replay`, and for the plan of a check."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise

from samebits.base.sites import shown_path
from samebits.checking.plan import LOOK_SECONDS, LOOK_STEPS, MAX_RUNS_EACH, CheckRequest
from samebits.checking.pool import LEAST_LIMIT_SECONDS, LIMIT_RATIO
from samebits.checking.verdict import Cause, CheckVerdict, Evidence, Unknown
from samebits.comparison.locate import Divergence
from samebits.comparison.products import MESSAGES, PRINTED
from samebits.factors.catalog import find, in_order
from samebits.factors.pinning import Status, settings_for
from samebits.replay.runner import Replay
from samebits.report.causes import (
    advice,
    cause_line,
    code_changes,
    confirmation_row,
    excluded,
    further_lines,
    left_out_line,
    lines_of,
    remedy_state,
    rests_on,
    roles_of,
    run_totals,
    too_late_words,
    unknown_line,
    unknown_what,
)
from samebits.report.origins import origin_place, origin_rows, other_origin
from samebits.report.patches import patch_rows
from samebits.report.places import difference_words, distance_words, place_words, stream_list, unexplained_words
from samebits.report.rows import FIX, TRY, AnswerReport, Rows, counted, laid_out, source_row, unseen_rows
from samebits.runfolder.folder import HOME
from samebits.runfolder.spec import RunSpec
from samebits.runfolder.steps import TRAINED
from samebits.workspace.trees import MOST_BYTES, MOST_FILES, shown_bytes


def check_report(verdict: CheckVerdict) -> AnswerReport:
    """Return the answer of `samebits check`: where runs diverge, why, by which figures, what fixes it, what is next."""
    page = f"{_report(verdict)}     (a page with all lines and runs)" if verdict.kind == "different" else ""
    rows = [*_rows(verdict), *patch_rows(verdict), *_left_out(verdict), ("next", page)]
    return AnswerReport(_headline(verdict), rows)


def _headline(verdict: CheckVerdict) -> str:
    if verdict.kind == "same":
        return _same_headline(verdict)
    if verdict.kind == "different":
        return f"different bits: {_difference(verdict)}"
    if verdict.agreed:
        place = None if verdict.divergent is None else verdict.divergent.divergence
        why = (
            "a process could not be entered; of the others"
            if place is None
            else f"{unexplained_words(place)}; otherwise"
        )
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
    if verdict.kind == "undecided" and verdict.agreed:
        own = verdict.divergent
        first = (
            []
            if own is None
            else [("compare", difference_words(own.divergence)), ("runs", roles_of(verdict, own.a, own.b))]
        )
        is_file = own is not None and not own.divergence.name.startswith((PRINTED, MESSAGES))
        hint = "if that file does not matter, leave it out with --ignore PATH" if is_file else ""
        return [*first, *_treated(verdict), ("next", hint)]
    if verdict.kind == "undecided":
        return [
            ("ran", f"run {run.id} ({run.role}): {counted(run.steps, 'step')}, {run.wall_seconds:.1f} s")
            for run in (verdict.runs if verdict.signal is not None else ())
        ]
    if verdict.divergent is None:
        return [*_treated(verdict), ("rests on", rests_on(verdict)), ("took", run_totals(verdict))]
    own, origin = verdict.divergent, verdict.origin
    is_same = verdict.kind == "same"
    rows = [("besides", _difference(verdict)) if is_same else _trained_row(verdict, own.divergence)]
    if origin is None:
        rows.append(("first", difference_words(own.divergence)))
    else:
        rows += [*origin_rows(origin), *(("also", other_origin(other)) for other in verdict.origins[1:])]
    rows += [*_cause_rows(verdict), *_remedy_rows(verdict), ("rests on", rests_on(verdict) if verdict.alike else "")]
    pair = own if origin is None else origin
    return [*rows, ("runs", roles_of(verdict, pair.a, pair.b)), ("took", run_totals(verdict))]


def _report(verdict: CheckVerdict) -> str:
    is_newest = verdict.home.parent.name == HOME
    return "samebits report" if is_newest else f"samebits report {shlex.quote(shown_path(verdict.home))}"


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
    divergent = verdict.divergent
    parts = [f"runs {divergent.a} and {divergent.b} diverge {place_words(divergent.divergence)}"]
    for cause in verdict.causes:
        state = "confirmed" if cause.confirmed else "suspected"
        others = "" if cause.fixed_together or not cause.others else f" or {lines_of(cause.others)}"
        parts.append(f"{state}: {cause_line(cause)}{others}")
    return f"so far: {'; '.join(parts)}"


def _treated(verdict: CheckVerdict) -> Rows:
    return [("varied", ", ".join(verdict.varied) or "nothing"), ("pinned", ", ".join(verdict.pinned))]


def _left_out(verdict: CheckVerdict) -> Rows:
    rows = [("left out", left_out_line(item)) for item in verdict.left_out]
    rows += [("untested", text) for text in verdict.untested]
    rows += [("note", text) for text in verdict.notes]
    # Where runs differ, that everything was recorded is not worth a row.
    return rows + (unseen_rows(verdict.not_observed) if verdict.not_observed or verdict.kind != "different" else [])


def _cause_rows(verdict: CheckVerdict) -> Rows:
    rows: Rows = []
    for cause, following in pairwise([*verdict.causes, None]):
        assert cause is not None
        # Causes of one factor that the same runs show share their figures.
        is_shared = following is not None and _shown_by(cause) == _shown_by(following)
        rows += [row for row in _rows_of(cause) if not is_shared or row != confirmation_row(cause)]
    if verdict.unknown is not None:
        return rows + _unknown_rows(verdict, verdict.unknown)
    return rows or ([("cause", "unknown")] if verdict.kind == "different" else [])


def _shown_by(cause: Cause) -> tuple[str, Evidence]:
    return cause.factor, cause.evidence


def _rows_of(cause: Cause) -> Rows:
    rows = [
        ("cause", cause_line(cause)),
        source_row(cause.source or (cause.site.source if cause.site is not None else "")),
    ]
    rows.append(("", further_lines(cause)))
    for site in () if further_lines(cause) else cause.others:
        rows += [("", f"or {site.place}"), source_row(site.source)]
    for shown in cause.shown_by:
        rows += [("", f"{shown.what} at {shown.site.place}"), source_row(shown.site.source)]
    if cause.seeded_late is not None:
        late = cause.seeded_late
        rows += [("seeded", f"too late, at {late.place}{too_late_words(cause)}"), source_row(late.source)]
    rows.append(confirmation_row(cause))
    rows += [("rule", f"{rule} says so without a run: samebits lint --explain {rule}") for rule in cause.rules]
    if cause.distance is not None and cause.distance.is_rounding:
        rows.append(("", distance_words(cause.distance)))
    return [*rows, ("latent", "" if cause.varies_between_runs else "repeats on this machine only")]


def _unknown_rows(verdict: CheckVerdict, unknown: Unknown) -> Rows:
    rows = [("cause", unknown_line(verdict, unknown)), ("", distance_words(unknown.divergent.distance))]
    rows.append(("", unknown_what(verdict)))
    if unknown.results > 1 and unknown.runs > 2:
        rows.append(("", f"{unknown.results} different results in {unknown.runs} runs treated alike"))
    for seed in unknown.seeds:
        rows.append(("seeded", f"{seed.what} with {seed.a} in one run and {seed.b} in the other, {seed.site.place}"))
    label = "held" if unknown.held else "witnessed"
    rows += [(label, f"{name}: {entry.what}, {entry.site.place}") for name, entry in unknown.witnessed]
    rows += [("excluded", line) for line in excluded(verdict)]
    rows += [("differs", line) for line in unknown.apart]
    return rows + [("next", line) for line in advice(verdict)]


def _remedy_rows(verdict: CheckVerdict) -> Rows:
    if verdict.remedy is None:
        return []
    state = ("", remedy_state(verdict.remedy, verdict.is_complete))
    is_mended = verdict.patch is not None and verdict.patch.proven and not verdict.patch.cannot
    label = FIX if all(cause.confirmed for cause in verdict.causes) else TRY
    # A proven patch shows in code what these rows would say in words.
    changes = [] if is_mended else [(label, line) for line in code_changes(verdict.remedy, verdict.causes)]
    command = remedy_command(verdict)
    return [("remedy", command), state, *changes] if command else [*changes, state]


def remedy_command(verdict: CheckVerdict) -> str:
    """Return the command that runs with the pins of the remedy and of the check; empty where the remedy has no pins."""
    pins_of_remedy, given = verdict.remedy.pins if verdict.remedy else (), pins_given(verdict)
    pins = in_order([*verdict.pinned, *pins_of_remedy])
    named = [] if pins == [*settings_for(None)] and not given else [f"--pin {given.get(name, name)}" for name in pins]
    seed = [f"--seed {number}" for number in verdict.given("--seed")]
    return " ".join(["samebits run", *named, *seed, verdict.command]) if pins_of_remedy else ""


def pins_given(verdict: CheckVerdict) -> dict[str, str]:
    """Return the factors that the check was asked to pin, each as it was typed: `cpu-threads=2`."""
    return {word.partition("=")[0]: shlex.quote(word) for word in verdict.given("--pin")}


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
    if replay.is_confirmed:
        return AnswerReport(
            f"different bits: {calls} calls on the same inputs gave {replay.distinct} different results", rows
        )
    return AnswerReport(f"same bits: {calls} calls on the same inputs gave one result", rows)


def plan_text(request: CheckRequest, first: Sequence[RunSpec]) -> str:
    """Return what `samebits check --dry-run` prints."""
    rows = []
    for number, plan in enumerate(first, 1):
        treated = [f"{mode} {', '.join(plan.named(mode))}" for mode in ("pinned", "varied") if plan.named(mode)]
        rows.append((f"run {number}", f"{plan.role}: {'; '.join(treated) or 'nothing pinned, nothing varied'}"))
    look = f"ends {LOOK_SECONDS:g} s after its first step, but not before {LOOK_STEPS} steps"
    rest = "the others end there, too" if request.quick else "the varied run continues where it agrees with that"
    rows.append(("look", f"a first run {look}; {rest}"))
    rows.append(("folder", _where_runs_happen(request)))
    pinnable = ", ".join(request.pinnable())
    read = ", ".join(name for name in request.pinnable() if find(name).found_statically)
    rows += [
        ("if they", "diverge, the following runs end just after the step at which they diverged:"),
        ("pinned", f"everything here, then all but what is released, drawn by lot until the cause is sure: {pinnable}"),
        ("released", f"one factor at a time: those that entered the pinned run{f', and {read}' if read else ''}"),
        ("remedy", "the guilty factors pinned; twice to the end, once with the rest varied"),
        ("lines", "a guilty factor changed at some of its lines only, until they are known"),
        ("operation", f"{_when_located(request)}: the step recorded, followed until it diverges, and once more"),
        ("bounds", _bounds(request)),
    ]
    return laid_out(f"plan: {shlex.join(request.command.argv)}", rows)


def _where_runs_happen(request: CheckRequest) -> str:
    if request.isolation == "none":
        return "all runs share this one; {run} in the command is each run's own folder"
    shared = f", which show {', '.join(request.share)} as it is" if request.share else ""
    large = (
        f"what comes after the {MOST_FILES:,} smallest files, or {shown_bytes(MOST_BYTES)} of them, is read where it is"
    )
    return f"every run begins in a copy of this one{shared}; {large}"


def _when_located(request: CheckRequest) -> str:
    return "always" if request.level == "op" else "where algorithms or nothing in the catalogue are to blame"


def _bounds(request: CheckRequest) -> str:
    by_first_run = (
        f"as long as it takes for the first, then {LIMIT_RATIO} times that and at least {LEAST_LIMIT_SECONDS:g} s each"
    )
    limit = f"{request.timeout:g} s each" if request.timeout else by_first_run
    steps = f", the first {request.max_steps} steps" if request.max_steps else ""
    more = "" if request.max_runs else f" and {MAX_RUNS_EACH} for each cause"
    at_a_time = f"{'up to ' if request.as_fits and request.jobs > 1 else ''}{request.jobs} at a time"
    return f"at most {request.most_runs()} runs{more}, {at_a_time}, {limit}{steps}"


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
