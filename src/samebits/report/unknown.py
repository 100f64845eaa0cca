"""Words for what is known of a cause that no factor explains."""

from __future__ import annotations

from samebits.checking.plan import CONTROL
from samebits.checking.verdict import CheckVerdict, Origin, Unknown
from samebits.report.causes import lines_of
from samebits.report.places import distance_words, place_words
from samebits.report.rows import Rows


def unknown_rows(verdict: CheckVerdict, unknown: Unknown) -> Rows:
    """Return rows for runs that diverge although they were treated alike: what their cause may be, and cannot be."""
    rows = [("cause", _line(verdict, unknown)), ("", distance_words(unknown.divergent.distance))]
    rows.append(("", _nature(verdict, unknown)))
    if unknown.results > 1 and unknown.runs > 2:
        rows.append(("", f"{unknown.results} different results in {unknown.runs} runs treated alike"))
    for seed in unknown.seeds:
        rows.append(("seeded", f"{seed.what} with {seed.a} in one run and {seed.b} in the other, {seed.site.place}"))
    label, how = ("excluded", ", held in both runs") if unknown.held else ("witnessed", "")
    rows += [(label, f"{name}{how}: {entry.what}, {entry.site.place}") for name, entry in unknown.witnessed]
    if unknown.acquitted:
        names = ", ".join(unknown.acquitted)
        rows.append(("excluded", f"pinned, runs agree; releasing these changed nothing: {names}"))
    if unknown.untried:
        rows.append(("excluded", f"not tried: {', '.join(unknown.untried)}"))
    rows.append(("excluded", _ruled_out(verdict.origin)))
    rows += [("differs", line) for line in unknown.apart]
    return rows + [("next", line) for line in advice(verdict)]


def _line(verdict: CheckVerdict, unknown: Unknown) -> str:
    """Tell which runs diverge, and how they were treated."""
    divergent = unknown.divergent
    held = "with everything pinned that can be" if unknown.held else "with the remedy in place"
    if not unknown.held and not divergent.varied:
        role = next((run.role for run in verdict.runs if run.id == divergent.a), CONTROL)
        held = "left alone" if role.startswith(CONTROL) else f"treated alike ({role})"
    elif unknown.acquitted:
        held = "where harmless things are varied"
    return f"unknown: {held}, runs {divergent.a} and {divergent.b} diverge {place_words(divergent.divergence)}"


def _nature(verdict: CheckVerdict, unknown: Unknown) -> str:
    if _races(verdict.origin):
        return "an operation whose result depends on timing"
    if unknown.races:
        return f"race: several processes update shared parameters, {lines_of(unknown.races)}"
    if unknown.acquitted:
        return "no factor alone made pinned runs differ: the cause is too rare for so few runs, or not in the catalogue"
    return "something outside the catalogue"


def _races(origin: Origin | None) -> bool:
    return origin is not None and origin.replay is not None and origin.replay.is_racy


def _ruled_out(origin: Origin | None) -> str:
    """Tell what the operation at which runs diverge rules out; empty where it rules out nothing."""
    if origin is None:
        return ""
    place, replay = origin.first.place, origin.replay
    if origin.is_accused and replay is not None:
        calls = sum(condition.calls for condition in replay.conditions)
        if calls and not replay.is_confirmed and not replay.failure:
            op = place.row.kind.op
            return f"no race in {op}: {calls} calls on the same inputs gave one result; processes differ"
    if place.finding in ("argument", "input", "control flow", "generator"):
        return "no operation of torch is to blame: the inputs of the first one differ already"
    return ""


def advice(verdict: CheckVerdict) -> list[str]:
    """Tell what to try next where the cause is unknown."""
    assert verdict.unknown is not None
    unknown, origin = verdict.unknown, verdict.origin
    finding, op = ("", "") if origin is None else (origin.first.place.finding, origin.first.place.row.kind.op)
    if _races(origin):
        is_in_vain = unknown.held or any(item.factor == "torch-algorithms" for item in verdict.left_out)
        pin = "" if is_in_vain else "samebits run --pin torch-algorithms, or "
        return [f"{pin}another operation in place of {op}, with a result that repeats"]
    if unknown.races:
        return ["let one process step, with the gradients of all, or let them step in a fixed order"]
    seeds = lines_of([seed.site for seed in unknown.seeds])
    seeded = [f"look at what the seed at {seeds} is computed from"] if seeds else []
    if unknown.read:
        return [*(f"look at {line}" for line in unknown.read), *seeded]
    others = ["what the machine reports about itself (free memory, load)", "the network"]
    others += [] if unknown.taken else ["files outside the folder"]
    between = ", ".join([*unknown.taken, *others])
    if finding == "argument":
        return [f"look at what the arguments of {op} are computed from: {between}"]
    if finding == "op" and _ruled_out(origin):
        return [f"look for what differs between processes: {between}"]
    if seeded:
        return seeded
    outside = ["how long things take outside of Python"] if unknown.divergent.divergence.stream == "length" else []
    between = ", ".join([*unknown.taken, "the order in which processes finish", *outside, *others])
    return [f"look for causes that no pin covers: {between}"]
