"""Words for causes and remedies: the same in text, in JSON and on a page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from samebits.base.sites import Site
from samebits.checking.verdict import Cause, CheckVerdict, Remedy
from samebits.factors.catalog import find, in_order
from samebits.factors.files_left_behind import OUTSIDE
from samebits.factors.pinning import settings_for
from samebits.report.places import distance_words
from samebits.report.rows import FIX, TRY, Rows, counted, source_row


def cause_rows(verdict: CheckVerdict) -> Rows:
    """Return rows for each cause: its lines, the runs that show it, and the rules that know it."""
    rows: Rows = []
    figures_of = [(cause.factor, cause.evidence) for cause in verdict.causes]
    for at, cause in enumerate(verdict.causes):
        # Causes of one factor that the same runs show share their figures.
        rows += _rows_of(cause, has_figures=figures_of[at + 1 : at + 2] != [figures_of[at]])
    return rows


def _rows_of(cause: Cause, has_figures: bool) -> Rows:
    source = cause.source or (cause.site.source if cause.site is not None else "")
    rows = [("cause", cause_line(cause)), source_row(source)]
    if cause.fixed_together and cause.others:
        rows.append(("", f"the same seed covers {lines_of(cause.others)}"))
    for site in () if cause.fixed_together else cause.others:
        rows += [("", f"or {site.place}"), source_row(site.source)]
    for shown in cause.shown_by:
        rows += [("", f"{shown.what} at {shown.site.place}"), source_row(shown.site.source)]
    if cause.seeded_late is not None:
        late, factor = cause.seeded_late, find(cause.factor)
        after = f", after {factor.too_late}" if factor.scope == "environment" else ""
        rows += [("seeded", f"too late, at {late.place}{after}"), source_row(late.source)]
    rows += [confirmation_row(cause)] if has_figures else []
    rows += [("rule", f"{rule} says so without a run: samebits lint --explain {rule}") for rule in cause.rules]
    if cause.distance is not None and cause.distance.is_rounding:
        rows.append(("", distance_words(cause.distance)))
    return [*rows, ("latent", "" if cause.varies_between_runs else "repeats on this machine only")]


def cause_line(cause: Cause) -> str:
    """Return a cause in one line: `torch-rng: drawn before it was seeded, train.py:31`."""
    place = "" if cause.site is None else f", {'likely ' if cause.likely else ''}{cause.site.place}"
    return f"{cause.factor}: {cause.what}{place}"


def lines_of(sites: Sequence[Site]) -> str:
    """Return all lines, each file named once: `train.py:31, 32 and model.py:7`."""
    files: dict[str, list[str]] = {}
    for site in sites:
        path, _, line = site.place.rpartition(":")
        files.setdefault(path, []).append(line)
    return " and ".join(f"{path}:{', '.join(lines)}" for path, lines in files.items())


def figures(cause: Cause) -> tuple[str, str]:
    """Return how many of the held runs agree, and how many of the released runs differ."""
    shown, factor = cause.evidence, find(cause.factor)
    released = len(shown.released)
    same, apart = f"{len(shown.held)}/{len(shown.held)} identical", f"{shown.strays}/{released} differ"
    fail = f" (they fail: {shown.last_words})" if shown.last_words else ""
    if factor.by_folder and cause.called == OUTSIDE:
        return f"later runs {same}", f"the first one differs{fail}"
    if factor.by_folder:
        return f"in a fresh folder {same}", f"in a folder that a run left {apart}{fail}"
    if not shown.diverged:
        return f"pinned {same}", f"changed {apart}{fail}"
    how = "released" if factor.varied_by_default else "left alone"
    if shown.strays == released - 1:
        return f"pinned {same}", f"{how} {released}/{released} differ from one another{fail}"
    return f"pinned {same}", f"{how} {apart} from the most common result{fail}"


def confirmation_row(cause: Cause) -> tuple[str, str]:
    """Return a row: confirmed or suspected, the figures, and how often an unknown cause would look so by chance."""
    text, chance = ", ".join(figures(cause)), cause.evidence.chance
    bound = f"false-positive bound {_rounded_up(chance * 100)} %"
    if cause.confirmed:
        return ("confirmed", f"{text}; {bound}")
    return ("suspected", f"{text}; {f'{bound}: ' * (chance < 1)}too few runs to be sure")


def _rounded_up(percent: float) -> str:
    step = 0.1 if percent >= 0.1 else 0.01
    return f"{-(-percent // step) * step:.2f}".rstrip("0").rstrip(".")


def remedy_rows(verdict: CheckVerdict) -> Rows:
    """Return rows for the remedy: the command, whether it works, and what to change in the code instead."""
    if verdict.remedy is None:
        return []
    state = ("", remedy_state(verdict.remedy, verdict.is_complete))
    is_mended = verdict.patch is not None and verdict.patch.proven and not verdict.patch.cannot
    label = FIX if all(cause.confirmed for cause in verdict.causes) else TRY
    # A proven patch shows in code what these rows would say in words.
    changes = [] if is_mended else [(label, line) for line in _code_changes(verdict.remedy, verdict.causes)]
    command = remedy_command(verdict)
    return [("remedy", command), state, *changes] if command else [*changes, state]


def _code_changes(remedy: Remedy, causes: Sequence[Cause]) -> list[str]:
    """Return what to change in the code, in one sentence for all lines that need the same change."""
    places: dict[tuple[str, str], list[Site]] = {}
    for text in remedy.code:
        named = [cause.site for cause in causes if cause.site is not None and cause.site.place in text]
        site = max(named, key=lambda site: len(site.place), default=None)
        before, _, after = text.partition(site.place) if site is not None else (text, "", "")
        places.setdefault((before, after), []).extend(filter(None, [site]))
    return [f"{before}{lines_of(sites)}{after}" for (before, after), sites in places.items()]


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
    is_whole = len(remedy.whole) == len(remedy.runs)
    whole = f"{runs} identical {until}" if is_whole else f"{runs} identical, {len(remedy.whole)} {until}"
    rest = "" if remedy.varied is None else f"; rest varied in run {remedy.varied}"
    return f"verified: {whole}{rest}"


def remedy_command(verdict: CheckVerdict) -> str:
    """Return the command that runs with the pins of the remedy and of the check; empty where the remedy has no pins."""
    if verdict.remedy is None or not verdict.remedy.pins:
        return ""
    pins, given = in_order([*verdict.pinned, *verdict.remedy.pins]), pins_given(verdict)
    named = [] if pins == [*settings_for(None)] and not given else [f"--pin {given.get(name, name)}" for name in pins]
    seed = [f"--seed {number}" for number in verdict.given("--seed")]
    return " ".join(["samebits run", *named, *seed, verdict.command])


def pins_given(verdict: CheckVerdict) -> dict[str, str]:
    """Return the factors that the check was asked to pin, each as it was typed: `cpu-threads=2`."""
    return {word.partition("=")[0]: shlex.quote(word) for word in verdict.given("--pin")}
