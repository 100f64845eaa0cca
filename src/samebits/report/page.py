"""Makes one page for any answer: the rows that a terminal shows, and for a check the experiment; computes nothing.

The page's template draws the pictures in the page's own colours: no library, and nothing that stays bright in a dark
window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from samebits.base.version import __version__
from samebits.checking.verdict import CheckVerdict, DivergentRuns, Origin
from samebits.pricing.prices import Costs, Price
from samebits.report.experiment import Experiment
from samebits.report.rows import CODE, FIXES, AnswerReport
from samebits.runfolder.folder import Manifest, RunFolder

# What a template draws: plain data by name.
View = dict[str, object]
LEFT, SPAN, CHART = 90, 760, 200
BAR_LEFT, BAR_SPAN, BAR_ROW = 260, 520, 22
TITLES = {"cost": "what pins cost", "run": "one run"}


def answer_page(
    kind: str,
    answer: Any,
    told: AnswerReport,
    manifest: Manifest,
    experiment: Experiment | None = None,
    sources: bool = True,
) -> str:
    """Return the page of an answer; a run's manifest names the environment, `sources` allows lines of user code."""
    shown = experiment or Experiment()
    is_check, is_cost = isinstance(answer, CheckVerdict), isinstance(answer, Costs)
    return _rendered(
        kind,
        answer,
        told,
        manifest,
        sources,
        state=("same" if answer.recommended else "undecided") if is_cost else answer.kind,
        experiment=_experiment(shown, answer.origin or answer.divergent) if is_check else None,
        chart=_chart(shown),
        bars=_bars(answer.prices) if is_cost else None,
    )


def run_page(folder: RunFolder) -> str:
    """Return the page of one run."""
    manifest, recordings = folder.manifest(), folder.recordings()
    settings = manifest.get("plan", {}).get("settings", {})
    rows = [
        ("recorded", f"rank {one.rank}: {one.steps} steps, {'complete' if one.complete else 'incomplete'}, root {root}")
        for one in recordings
        for root in [(one.root(len(one) - 1) or b"").hex() if len(one) else "none"]
    ]
    table = [("factor", "treated", "in effect")]
    for name, observed in manifest.get("observed", {}).items():
        mode = settings.get(name, {}).get("mode", "natural")
        table.append((name, "" if mode == "natural" else mode, str(observed.get("value", ""))))
    steps = max((recording.steps for recording in recordings), default=0)
    headline = f"one run of {steps} steps, {manifest.get('status', 'unfinished')}"
    answer = {"command": " ".join(manifest.get("typed", [])), "error": None}
    return _rendered("run", answer, AnswerReport(headline, rows, table), manifest, True, state="undecided")


def _rendered(
    kind: str,
    answer: object,
    told: AnswerReport,
    manifest: Manifest,
    sources: bool,
    **parts: View | str | None,
) -> str:
    import jinja2

    loader = jinja2.PackageLoader("samebits.report", "pages")
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.get_template("page.html").render(
        kind=kind,
        title=f"samebits: {TITLES.get(kind, kind)}",
        told=told,
        answer=answer,
        entries=_entries(told, sources),
        environment=_environment(manifest),
        version=__version__,
        **{"experiment": None, "chart": None, "bars": None, **parts},
    )


def _entries(told: AnswerReport, sources: bool) -> list[View]:
    """Return the rows by label, each with its text in pieces: plain, a command to copy, code, or a line of a diff."""
    entries: list[View] = []
    label, parts = "", cast("list[View]", [])
    for given, text in told.rows:
        if given == "next" and text.startswith("samebits report"):
            continue  # it would lead to this very page
        if given and given != label:
            label, parts = given, []
            entries.append({"label": label, "parts": parts})
        if text.startswith(CODE):
            code = text.removeprefix(CODE)
            if sources:
                kind = {"- ": "removed", "+ ": "added"}.get(code[:2], "code") if label in FIXES else "code"
                parts.append({"kind": kind, "text": code})
        elif label in ("remedy", "run", "safer", "apply", "next") and text.startswith(("samebits ", "python ")):
            command, _, about = text.partition("     ")
            parts.append({"kind": "command", "text": command})
            parts += [{"kind": "text", "text": about}] if about else []
        else:
            shown = text.partition("  ")[0] if label == "source" and not sources else text
            parts.append({"kind": "text", "text": shown})
    return entries


def _experiment(found: Experiment, pair: Origin | DivergentRuns | None) -> View | None:
    """Return the experiment, runs down and factors across; the two runs that diverge are marked."""
    if not found.runs:
        return None
    runs = [
        {
            **vars(run),
            "modes": [*zip(found.factors, found.modes(run), strict=True)],
            "bits": found.bits.get(run.id, ""),
            "kind": found.kind(run.id),
            "is_shown": pair is not None and run.id in (pair.a, pair.b),
        }
        for run in found.runs
    ]
    words = f"{len(runs)} runs, {len(found.factors)} factors, {len({*found.bits.values()})} different results"
    return {"factors": found.factors, "runs": runs, "words": words}


def _chart(found: Experiment) -> View | None:
    """Return the losses of whole runs; runs with the same bits share a curve."""
    curves: dict[str, tuple[list[int], list[tuple[int, float]]]] = {}
    for number, losses in found.losses.items():
        shown = [(step, loss) for step, loss in losses if math.isfinite(loss)]
        if len(shown) > 1:
            curves.setdefault(found.bits.get(number, ""), ([], shown))[0].append(number)
    if not curves:
        return None
    points = [point for _, curve in curves.values() for point in curve]
    last = max(step for step, _ in points)
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)
    span = (high - low) or 1.0

    def at(step: int, loss: float) -> str:
        return f"{LEFT + SPAN * step / last:.1f},{10 + CHART * ((high - loss) / span):.1f}"

    lines = [
        {
            "kind": found.kind(runs[0]),
            "points": " ".join(at(*point) for point in curve),
            "label": f"{letter}: {'run' if len(runs) == 1 else 'runs'} {', '.join(map(str, runs))}",
            "last": f"{curve[-1][1]!r}",
        }
        for letter, (runs, curve) in sorted(curves.items())
    ]
    words = "; ".join(f"{line['label']} ends at {line['last']}" for line in lines)
    ticks = [{"y": 10 + CHART * part / 4, "label": f"{high - span * part / 4:.4g}"} for part in range(5)]
    size = {"left": LEFT, "right": LEFT + SPAN, "width": LEFT + SPAN + 10, "height": CHART + 40}
    return {"lines": lines, "ticks": ticks, "last_step": last, "words": f"losses of whole runs: {words}", **size}


def _bars(prices: Sequence[Price]) -> View | None:
    """Return a bar for each set of pins that has a price, with its interval."""
    priced = [(price.candidate.label, price.ratio) for price in prices if price.ratio is not None]
    if not priced:
        return None
    top = max(1.1, *(min(ratio.high, 3 * ratio.middle) for _, ratio in priced))

    def across(ratio: float) -> float:
        return float(round(BAR_LEFT + BAR_SPAN * min(ratio, top) / top, 1))

    rows = []
    for number, (label, ratio) in enumerate(priced):
        ends = {"low": across(ratio.low), "middle": across(ratio.middle), "high": across(ratio.high)}
        rows.append({"label": label, "y": number * BAR_ROW, **ends})
    words = "; ".join(f"{label} {ratio.middle:.3f}" for label, ratio in priced)
    size = {"left": BAR_LEFT, "width": BAR_LEFT + BAR_SPAN + 10, "height": len(rows) * BAR_ROW + 20}
    return {"rows": rows, "one": across(1.0), "words": words, **size}


def _environment(manifest: Manifest) -> list[tuple[str, str]]:
    versions = manifest.get("versions", {})
    wanted = {"platform": "platform", "cores": "cores", "started": "started", "folder": "cwd"}
    facts = {**versions, **{name: manifest.get(key) for name, key in wanted.items()}}
    return [(name, str(value)) for name, value in facts.items() if value]
