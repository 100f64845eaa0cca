"""How causes, remedies and what a verdict rests on are put into words: the same in text, in JSON and on a page."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.base.sites import Site
from samebits.checking.evidence import detectable_rate, runs_for_rate
from samebits.checking.plan import CONTROL
from samebits.checking.verdict import WITNESSED, Cause, CheckVerdict, LeftOut, Origin, Remedy, Unknown
from samebits.factors.catalog import find
from samebits.factors.files_left_behind import OUTSIDE
from samebits.report.origins import not_waited_for
from samebits.report.places import where
from samebits.report.rows import counted

UNLIKELY = 0.05


def cause_line(cause: Cause) -> str:
    """`torch-rng: drawn before it was seeded, train.py:31`."""
    place = ""
    if cause.site is not None:
        place = f", {'likely ' if cause.likely else ''}{cause.site.place}"
    return f"{cause.factor}: {cause.what}{place}"


def company(cause: Cause) -> str:
    """The further lines of a cause that one seed fixes together; empty where there are none."""
    if not cause.others or not cause.fixed_together:
        return ""
    return f"the same seed covers {lines_of(cause.others)}"


def since(cause: Cause) -> str:
    """Why a seed comes too late, as the end of a sentence: `, after the interpreter's start`; often empty."""
    factor = find(cause.factor)
    return f", after {factor.too_late}" if factor.scope == "environment" else ""


def lines_of(sites: Sequence[Site]) -> str:
    """`train.py:31, 32 and model.py:7`: every line, each file named once."""
    files: dict[str, list[str]] = {}
    for site in sites:
        path, _, line = site.place.rpartition(":")
        files.setdefault(path, []).append(line)
    return " and ".join(f"{path}:{', '.join(lines)}" for path, lines in files.items())


def fixes(remedy: Remedy, causes: Sequence[Cause]) -> list[str]:
    """What to change in the code: where several lines need the same, one sentence names them all."""
    places: dict[tuple[str, str], list[Site]] = {}
    for text in remedy.code:
        named = [cause.site for cause in causes if cause.site is not None and cause.site.place in text]
        site = max(named, key=lambda site: len(site.place), default=None)
        before, _, after = text.partition(site.place) if site is not None else (text, "", "")
        places.setdefault((before, after), []).extend(filter(None, [site]))
    return [f"{before}{lines_of(sites)}{after}" for (before, after), sites in places.items()]


def figures(cause: Cause) -> tuple[str, str]:
    """How many runs agree that were held, and how many differ that were not."""
    own = cause.evidence
    held, released = len(own.held), len(own.released)
    fail = f" (they fail: {own.last_words})" if own.last_words else ""
    if find(cause.factor).by_folder and cause.called == OUTSIDE:
        return f"later runs {held}/{held} identical", f"the first one differs{fail}"
    if find(cause.factor).by_folder:
        return (
            f"in a fresh folder {held}/{held} identical",
            f"in what one run left {own.strays}/{released} differ{fail}",
        )
    pinned = f"pinned {held}/{held} identical"
    if not own.diverged:
        return pinned, f"changed {own.strays}/{released} differ{fail}"
    if own.strays == released - 1:
        return pinned, f"left alone {released}/{released} differ from one another{fail}"
    return pinned, f"left alone {own.strays}/{released} differ from the most common result{fail}"


def evidence(cause: Cause) -> str:
    """How many runs of how many say so."""
    held, released = figures(cause)
    return f"{held}; {released if find(cause.factor).by_folder else f'only {cause.factor} {released}'}"


def confirmed(cause: Cause) -> tuple[str, str]:
    """Confirmed or suspected, by which figures, and how often an unknown cause would look the same by chance."""
    text, chance = ", ".join(figures(cause)), cause.evidence.chance
    bound = f"false-positive bound {chance_words(chance)}"
    if cause.confirmed:
        return ("confirmed", f"{text}; {bound}")
    return ("suspected", f"{text}; {f'{bound}: ' * (chance < 1)}too few runs to be sure")


def chance_words(chance: float) -> str:
    """`0.4 %`, rounded up."""
    percent = chance * 100
    step = 0.1 if percent >= 0.1 else 0.01
    return f"{-(-percent // step) * step:.2f}".rstrip("0").rstrip(".") + " %"


def remedy_state(remedy: Remedy, is_complete: bool = True) -> str:
    """Whether the remedy works, and how that is known; `is_complete` where runs went to the script's own end."""
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
    """Which runs diverge although they were treated alike."""
    divergent = unknown.divergent
    held = "with everything pinned that can be" if unknown.held else "with the remedy in place"
    if not unknown.held and not divergent.varied:
        role = next((run.role for run in verdict.runs if run.id == divergent.a), CONTROL)
        held = "left alone" if role.startswith(CONTROL) else f"treated alike ({role})"
    elif unknown.acquitted:
        held = "where harmless things are varied"
    return f"unknown: {held}, runs {divergent.a} and {divergent.b} diverge {where(divergent.divergence)}"


def unknown_what(verdict: CheckVerdict) -> str:
    """What is known of the nature of an unknown cause."""
    if verdict.origin is not None and verdict.origin.replay is not None and verdict.origin.replay.is_racy:
        return "an operation whose result depends on timing"
    if verdict.unknown is not None and verdict.unknown.races:
        lines = lines_of(verdict.unknown.races)
        return f"race: several processes update shared parameters, {lines}"
    if verdict.unknown is not None and verdict.unknown.acquitted:
        return "no single factor made pinned runs differ: too rare for so few runs, or outside the catalogue"
    return "something outside the catalogue"


def excluded(verdict: CheckVerdict) -> list[str]:
    """What an unknown cause is not, and what it may still be of what the catalogue holds."""
    assert verdict.unknown is not None
    names, untried = verdict.unknown.acquitted, verdict.unknown.untried
    said = [f"pinned, runs agree; releasing these changed nothing: {', '.join(names)}"] if names else []
    said += [f"not tried: {', '.join(untried)}"] if untried else []
    return said + _excluded(verdict.origin)


def _excluded(origin: Origin | None) -> list[str]:
    """What the operation at which runs diverge rules out."""
    if origin is None:
        return []
    place = origin.first.place
    if place.finding == "op" and not origin.unobserved_write and origin.replay is not None:
        calls = sum(condition.calls for condition in origin.replay.conditions)
        if calls and not origin.replay.is_confirmed and not origin.replay.failure:
            op = place.row.kind.op
            return [f"no race in {op}: {calls} calls on the same inputs gave one result; processes differ"]
    if place.finding in ("argument", "input", "control flow", "generator"):
        return ["no operation of torch is to blame: the inputs of the first one differ already"]
    return []


def advice(verdict: CheckVerdict) -> list[str]:
    """What to try next where the cause is unknown."""
    assert verdict.unknown is not None
    origin = verdict.origin
    if origin is not None and origin.replay is not None and origin.replay.is_racy:
        is_in_vain = verdict.unknown.held or any(one.factor == "torch-algorithms" for one in verdict.left_out)
        pin = "" if is_in_vain else "samebits run --pin torch-algorithms, or "
        return [f"{pin}another operation in place of {origin.first.place.row.kind.op}, with a result that repeats"]
    if verdict.unknown.races:
        return ["let one process step, with the gradients of all, or let them step in a fixed order"]
    if origin is not None and (line := not_waited_for(origin)):
        return [line]
    seeds = lines_of([one.site for one in verdict.unknown.seeds])
    seeded = [f"look at what the seed at {seeds} is computed from"] if seeds else []
    if verdict.unknown.read:
        return [*(f"look at {line}" for line in verdict.unknown.read), *seeded]
    others = ["what the machine tells of itself (free memory, load)", "the network"]
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
    return [f"look for what no pin holds: {between}"]


def rests_on(verdict: CheckVerdict) -> str:
    """How many runs a verdict of "same" rests on, and which differences they would have missed."""
    runs = len(verdict.whole)
    if runs < 2:
        return "too few runs to say anything"
    rate, more = _percent(detectable_rate(runs)), runs_for_rate(UNLIKELY)
    return (
        f"{runs} runs would catch a cause affecting ≥{rate} of runs (95 % confidence); "
        f"--runs {more} for ≥{_percent(UNLIKELY)}"
    )


def took(verdict: CheckVerdict) -> str:
    """`23 runs, 48 s`: what a check has cost."""
    seconds = verdict.took_seconds
    time = f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
    return f"{counted(len(verdict.runs), 'run')}, {time}"


def roles_of(verdict: CheckVerdict, *numbers: int) -> str:
    """`run 1: control, run 16: cpu-threads released`: what runs were for; empty where both were left alone."""
    roles = {run.id: run.role for run in verdict.runs}
    if all(roles.get(number, CONTROL).startswith(CONTROL) for number in numbers):
        return ""
    return ", ".join(f"run {number}: {roles[number]}" for number in numbers if number in roles)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def left_out(one: LeftOut) -> str:
    """A treatment that the script does not survive."""
    if one.mode == WITNESSED:
        return f"watching where factors enter: watched, the script {one.why}; so no lines are known"
    return f"{one.factor}: {one.mode}, the script {one.why}; so it was left alone"
