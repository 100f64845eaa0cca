"""Words for causes, remedies and what a verdict rests on: the same in text, in JSON and on a page."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.base.sites import Site
from samebits.checking.evidence import detectable_rate, runs_for_rate
from samebits.checking.plan import CONTROL
from samebits.checking.verdict import WITNESSED, Cause, CheckVerdict, LeftOut, Origin, Remedy, Unknown
from samebits.factors.catalog import find
from samebits.factors.files_left_behind import OUTSIDE
from samebits.report.places import place_words
from samebits.report.rows import counted

UNLIKELY = 0.05


def cause_line(cause: Cause) -> str:
    """Return a cause in one line: `torch-rng: drawn before it was seeded, train.py:31`."""
    place = ""
    if cause.site is not None:
        place = f", {'likely ' if cause.likely else ''}{cause.site.place}"
    return f"{cause.factor}: {cause.what}{place}"


def further_lines(cause: Cause) -> str:
    """Name the further lines of a cause that the same seed fixes; empty where there are none."""
    if not cause.others or not cause.fixed_together:
        return ""
    return f"the same seed covers {lines_of(cause.others)}"


def too_late_words(cause: Cause) -> str:
    """Tell why a seed comes too late, as the end of a sentence: `, after the interpreter's start`; often empty."""
    factor = find(cause.factor)
    return f", after {factor.too_late}" if factor.scope == "environment" else ""


def lines_of(sites: Sequence[Site]) -> str:
    """Return all lines, each file named once: `train.py:31, 32 and model.py:7`."""
    files: dict[str, list[str]] = {}
    for site in sites:
        path, _, line = site.place.rpartition(":")
        files.setdefault(path, []).append(line)
    return " and ".join(f"{path}:{', '.join(lines)}" for path, lines in files.items())


def code_changes(remedy: Remedy, causes: Sequence[Cause]) -> list[str]:
    """Return what to change in the code, in one sentence for all lines that need the same change."""
    places: dict[tuple[str, str], list[Site]] = {}
    for text in remedy.code:
        named = [cause.site for cause in causes if cause.site is not None and cause.site.place in text]
        site = max(named, key=lambda site: len(site.place), default=None)
        before, _, after = text.partition(site.place) if site is not None else (text, "", "")
        places.setdefault((before, after), []).extend(filter(None, [site]))
    return [f"{before}{lines_of(sites)}{after}" for (before, after), sites in places.items()]


def figures(cause: Cause) -> tuple[str, str]:
    """Return how many of the held runs agree, and how many of the released runs differ."""
    shown = cause.evidence
    held, released = len(shown.held), len(shown.released)
    fail = f" (they fail: {shown.last_words})" if shown.last_words else ""
    if find(cause.factor).by_folder and cause.called == OUTSIDE:
        return f"later runs {held}/{held} identical", f"the first one differs{fail}"
    if find(cause.factor).by_folder:
        return (
            f"in a fresh folder {held}/{held} identical",
            f"in a folder that a run left {shown.strays}/{released} differ{fail}",
        )
    pinned = f"pinned {held}/{held} identical"
    if not shown.diverged:
        return pinned, f"changed {shown.strays}/{released} differ{fail}"
    how = "released" if find(cause.factor).varied_by_default else "left alone"
    if shown.strays == released - 1:
        return pinned, f"{how} {released}/{released} differ from one another{fail}"
    return pinned, f"{how} {shown.strays}/{released} differ from the most common result{fail}"


def evidence_words(cause: Cause) -> str:
    """Return by how many runs a cause is shown, in one clause."""
    held, released = figures(cause)
    return f"{held}; {released if find(cause.factor).by_folder else f'only {cause.factor} {released}'}"


def confirmation_row(cause: Cause) -> tuple[str, str]:
    """Return a row: confirmed or suspected, the figures, and how often an unknown cause would look so by chance."""
    text, chance = ", ".join(figures(cause)), cause.evidence.chance
    bound = f"false-positive bound {chance_words(chance)}"
    if cause.confirmed:
        return ("confirmed", f"{text}; {bound}")
    return ("suspected", f"{text}; {f'{bound}: ' * (chance < 1)}too few runs to be sure")


def chance_words(chance: float) -> str:
    """Return a chance as a percentage, rounded up: `0.4 %`."""
    percent = chance * 100
    step = 0.1 if percent >= 0.1 else 0.01
    return f"{-(-percent // step) * step:.2f}".rstrip("0").rstrip(".") + " %"


def remedy_state(remedy: Remedy, is_complete: bool = True) -> str:
    """Tell whether the remedy works, and by which runs; `is_complete`: runs went to the script's own end."""
    if remedy.failure:
        return f"not usable: with it {remedy.failure}"
    if remedy.diverged is not None:
        return f"not enough: with it runs {remedy.diverged[0]} and {remedy.diverged[1]} diverge"
    if not remedy.verified:
        return "not verified"
    runs, until = counted(len(remedy.runs), "run"), "to the end" if is_complete else "for the steps looked at"
    if not remedy.pins:
        return f"verified: {runs} in fresh folders identical"
    whole = f"{runs} identical {until}"
    if len(remedy.whole) < len(remedy.runs):
        whole = f"{runs} identical, {len(remedy.whole)} {until}"
    rest = "" if remedy.varied is None else f"; rest varied in run {remedy.varied}"
    return f"verified: {whole}{rest}"


def unknown_line(verdict: CheckVerdict, unknown: Unknown) -> str:
    """Tell which runs diverge although they were treated alike."""
    divergent = unknown.divergent
    held = "with everything pinned that can be" if unknown.held else "with the remedy in place"
    if not unknown.held and not divergent.varied:
        role = next((run.role for run in verdict.runs if run.id == divergent.a), CONTROL)
        held = "left alone" if role.startswith(CONTROL) else f"treated alike ({role})"
    elif unknown.acquitted:
        held = "where harmless things are varied"
    return f"unknown: {held}, runs {divergent.a} and {divergent.b} diverge {place_words(divergent.divergence)}"


def unknown_what(verdict: CheckVerdict) -> str:
    """Tell what is known about the nature of an unknown cause."""
    if verdict.origin is not None and verdict.origin.replay is not None and verdict.origin.replay.is_racy:
        return "an operation whose result depends on timing"
    if verdict.unknown is not None and verdict.unknown.races:
        lines = lines_of(verdict.unknown.races)
        return f"race: several processes update shared parameters, {lines}"
    if verdict.unknown is not None and verdict.unknown.acquitted:
        return "no factor alone made pinned runs differ: the cause is too rare for so few runs, or not in the catalogue"
    return "something outside the catalogue"


def excluded(verdict: CheckVerdict) -> list[str]:
    """Tell what an unknown cause cannot be, and which factors of the catalogue were not tried."""
    assert verdict.unknown is not None
    names, untried = verdict.unknown.acquitted, verdict.unknown.untried
    lines = [f"pinned, runs agree; releasing these changed nothing: {', '.join(names)}"] if names else []
    lines += [f"not tried: {', '.join(untried)}"] if untried else []
    return lines + _excluded(verdict.origin)


def _excluded(origin: Origin | None) -> list[str]:
    """Tell what the operation at which runs diverge rules out."""
    if origin is None:
        return []
    place = origin.first.place
    if origin.is_accused and origin.replay is not None:
        calls = sum(condition.calls for condition in origin.replay.conditions)
        if calls and not origin.replay.is_confirmed and not origin.replay.failure:
            op = place.row.kind.op
            return [f"no race in {op}: {calls} calls on the same inputs gave one result; processes differ"]
    if place.finding in ("argument", "input", "control flow", "generator"):
        return ["no operation of torch is to blame: the inputs of the first one differ already"]
    return []


def advice(verdict: CheckVerdict) -> list[str]:
    """Tell what to try next where the cause is unknown."""
    assert verdict.unknown is not None
    origin = verdict.origin
    if origin is not None and origin.replay is not None and origin.replay.is_racy:
        is_in_vain = verdict.unknown.held or any(item.factor == "torch-algorithms" for item in verdict.left_out)
        pin = "" if is_in_vain else "samebits run --pin torch-algorithms, or "
        return [f"{pin}another operation in place of {origin.first.place.row.kind.op}, with a result that repeats"]
    if verdict.unknown.races:
        return ["let one process step, with the gradients of all, or let them step in a fixed order"]
    seeds = lines_of([seed.site for seed in verdict.unknown.seeds])
    seeded = [f"look at what the seed at {seeds} is computed from"] if seeds else []
    if verdict.unknown.read:
        return [*(f"look at {line}" for line in verdict.unknown.read), *seeded]
    others = ["what the machine reports about itself (free memory, load)", "the network"]
    others += [] if verdict.unknown.taken else ["files outside the folder"]
    between = ", ".join([*verdict.unknown.taken, *others])
    if origin is not None and origin.first.place.finding == "argument":
        return [f"look at what the arguments of {origin.first.place.row.kind.op} are computed from: {between}"]
    if _excluded(origin) and origin is not None and origin.first.place.finding == "op":
        return [f"look for what differs between processes: {between}"]
    if seeded:
        return seeded
    if verdict.unknown.divergent.divergence.stream == "length":
        others.insert(0, "how long things take outside of Python")
    between = ", ".join([*verdict.unknown.taken, "the order in which processes finish", *others])
    return [f"look for causes that no pin covers: {between}"]


def rests_on(verdict: CheckVerdict) -> str:
    """Tell how many runs a verdict of "same" rests on, and how rare a difference they would still have caught."""
    runs = len(verdict.whole)
    if runs < 2:
        return "too few runs to say anything"
    rate, more = _percent(detectable_rate(runs)), runs_for_rate(UNLIKELY)
    return (
        f"{runs} runs would catch a cause affecting ≥{rate} of runs (95 % confidence); "
        f"--runs {more} for ≥{_percent(UNLIKELY)}"
    )


def run_totals(verdict: CheckVerdict) -> str:
    """Return how many runs a check made, and how long it took: `23 runs, 48 s`."""
    seconds = verdict.took_seconds
    time = f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
    return f"{counted(len(verdict.runs), 'run')}, {time}"


def roles_of(verdict: CheckVerdict, *numbers: int) -> str:
    """Return what runs were for: `run 1: control, run 16: cpu-threads released`; empty where all were left alone."""
    roles = {run.id: run.role for run in verdict.runs}
    if all(roles.get(number, CONTROL).startswith(CONTROL) for number in numbers):
        return ""
    return ", ".join(f"run {number}: {roles[number]}" for number in numbers if number in roles)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def left_out_line(one: LeftOut) -> str:
    """Describe a treatment under which the script fails."""
    if one.mode == WITNESSED:
        return f"watching where factors enter: under watch, the script {one.why}; so no lines are known"
    return f"{one.factor}: {one.mode}, the script {one.why}; so it was left alone"
