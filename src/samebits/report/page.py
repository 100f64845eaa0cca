"""One page for a check, a measurement or a run: what the answer says, laid out for a browser; nothing is computed here.

Charts are drawn by the page's template as SVG, in the page's own colours: no library, and no picture that stays bright
in a dark window.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence

from samebits.base.version import __version__
from samebits.comparison.timeline import LossDifference, Timeline
from samebits.report.costs import SAFER
from samebits.report.documents.checks import CauseDocument, CheckDocument
from samebits.report.documents.costs import CostDocument, PriceDocument, RatioDocument
from samebits.report.documents.crossings import AgainstDocument
from samebits.report.documents.origins import OriginDocument
from samebits.report.documents.resumes import ResumeDocument
from samebits.report.documents.shared import LocationDocument, RunDocument
from samebits.report.places import apart
from samebits.runfolder.folder import Manifest, RunFolder
from samebits.runfolder.steps import Recording

# What a template draws: plain data by name.
View = dict[str, object]

LEFT, SPAN, LANE = 90, 760, 28
CHART = 180
BAR_LEFT, BAR_SPAN, BAR_ROW = 260, 520, 22


def check_page(
    document: CheckDocument,
    line: Timeline | None,
    losses: Sequence[LossDifference],
    agreeing: Mapping[int, Sequence[int]],
    manifest: Manifest,
    sources: bool = True,
) -> str:
    """The page of a check.

    Args:
        document: `samebits.check/1`.
        line: the two runs that diverge, side by side; None where there are none.
        losses: of those two runs, step by step.
        agreeing: for each run, those with the same bits.
        manifest: of one of the runs, for the environment.
        sources: show lines of the user's code.
    """
    origin, cwd = document["origin"], str(manifest.get("cwd", ""))
    return _rendered(
        "check.html",
        title=f"samebits: {document['verdict']}",
        state=document["verdict"],
        headline=document["headline"],
        command=document["command"],
        error=document["error"],
        document={"left_out": [], **document},
        origin=None if origin is None else _origin(origin, sources, cwd),
        causes=[_cause(cause, sources, cwd) for cause in document["causes"]],
        timeline=None if line is None else _timeline(line, _runs_of(document)),
        growth=_growth(losses),
        matrix=_matrix(document["runs"], agreeing),
        environment=_environment(manifest),
        shows_source=sources,
    )


def cost_page(document: CostDocument, manifest: Manifest) -> str:
    """The page of a measurement; `document` is `samebits.cost/1`."""
    prices = [price for price in (document["nothing_pinned"], *document["prices"]) if price is not None]
    return _rendered(
        "cost.html",
        title="samebits: what pins cost",
        state="same" if document["recommended"] else "undecided",
        headline=document["headline"],
        command=document["command"],
        error=document["error"],
        document=document,
        safer=SAFER,
        bars=_bars([(price["label"], price["ratio"]) for price in prices if price["ratio"] is not None]),
        prices=[_price(price) for price in prices],
        environment=_environment(manifest),
    )


def resume_page(document: ResumeDocument, manifest: Manifest, sources: bool = True) -> str:
    """The page of a resume; `document` is `samebits.resume/1`."""
    places = (("saved", document["saved_at"]), ("loaded", document["loaded_at"]))
    return _rendered(
        "resume.html",
        title=f"samebits: resume, {document['verdict']}",
        state=document["verdict"],
        headline=document["headline"],
        command=document["command"],
        error=document["error"],
        document=document,
        trials=document["trials"],
        lines=[
            (name, f"{one['path']}:{one['line']}", one["source"] if sources else "")
            for name, one in places
            if one is not None
        ],
        environment=_environment(manifest),
    )


def against_page(document: AgainstDocument, manifest: Manifest, sources: bool = True) -> str:
    """The page of a check against another interpreter; `document` is `samebits.against/1`."""
    operation = document["operation"]
    return _rendered(
        "against.html",
        title=f"samebits: against, {document['verdict']}",
        state=document["verdict"],
        headline=document["headline"],
        command=document["command"],
        error=document["error"],
        document=document,
        operation=operation,
        lines=_lines(operation["location"]) if sources and operation is not None else [],
        environment=_environment(manifest),
    )


def run_page(folder: RunFolder) -> str:
    """The page of one run."""
    manifest = folder.manifest()
    settings = manifest.get("plan", {}).get("settings", {})
    observed = manifest.get("observed", {})
    recordings = folder.recordings()
    steps = max((one.steps for one in recordings), default=0)
    factors = [
        (name, settings.get(name, {}).get("mode", "natural"), one.get("value", "")) for name, one in observed.items()
    ]
    return _rendered(
        "run.html",
        title="samebits: one run",
        state="undecided",
        headline=f"one run of {steps} steps, {manifest.get('status', 'unfinished')}",
        command=" ".join(manifest.get("typed", [])),
        error=None,
        recordings=[_recording(one) for one in recordings],
        factors=factors,
        environment=_environment(manifest),
    )


def _recording(recording: Recording) -> View:
    root = (recording.root(len(recording) - 1) or b"").hex() if len(recording) else ""
    return {"rank": recording.rank, "steps": recording.steps, "complete": recording.complete, "root": root}


def _rendered(template: str, **context: object) -> str:
    import jinja2

    loader = jinja2.PackageLoader("samebits.report", "pages")
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.get_template(template).render(version=__version__, **context)


# ---- a check


def _runs_of(document: CheckDocument) -> tuple[int, int]:
    assert document["first_divergence"] is not None
    a, b = document["first_divergence"]["runs"]
    return a, b


def _origin(origin: OriginDocument, sources: bool, cwd: str) -> View:
    facts = [["where", f"step {origin['step']}, op {origin['index']}, rank {origin['rank']}"]]
    if origin["backward_of"]:
        facts.append(["backward of", origin["backward_of"]])
    facts.append(["finding", origin["message"]])
    label = ""
    # The terminal's own rows; its first one is the operation with the finding, and its line of source stands below.
    for row in origin["rows"][1:]:
        label = row["label"] or label
        if label == "source":
            continue
        if row["label"]:
            facts.append([label, row["text"]])
        else:
            facts[-1][1] += f"; {row['text']}"
    if origin["distance"]:
        facts.append(["by", apart(**origin["distance"])])
    lines = _lines(origin["location"]) if sources else []
    return {**origin, "facts": facts, "lines": lines, "location": _near(origin["location"], cwd)}


def _cause(cause: CauseDocument, sources: bool, cwd: str) -> View:
    shown = [
        {**one, "lines": _lines(one["location"]) if sources else [], "location": _near(one["location"], cwd)}
        for one in cause.get("shown_by", [])
    ]
    lines = _lines(cause["location"]) if sources else []
    others = [_near(one, cwd) for one in cause["locations"][1:]]
    entered = [{**one, "location": _near(one["location"], cwd)} for one in cause.get("witnessed", [])]
    near = {"location": _near(cause["location"], cwd), "others": others, "witnessed": entered}
    near["seeded_late"] = _near(cause.get("seeded_late"), cwd)
    # An answer of an older samebits lacks what came later.
    later: View = {"fixed_together": False, "runs": None, "excluded": [], "apart": [], "next": [], "seeded": []}
    return {**later, **cause, "lines": lines, "shown_by": shown, **near}


def _near(location: LocationDocument | None, cwd: str) -> LocationDocument | None:
    """A place with its path as one would type it where the command ran."""
    if location is None:
        return None
    path = location["path"]
    inside = bool(cwd) and path.startswith(cwd.rstrip(os.sep) + os.sep)
    return {**location, "path": os.path.relpath(path, cwd) if inside else path}


def _lines(location: LocationDocument | None) -> list[View]:
    """The guilty line as it ran: what lies at its path may be another file by now, or the reader's own."""
    if location is None or not location["source"]:
        return []
    return [{"number": location["line"], "text": location["source"], "is_guilty": True}]


def _matrix(runs: Sequence[RunDocument], agreeing: Mapping[int, Sequence[int]]) -> View:
    """Factors down, runs across: how each was treated in each."""
    factors = dict.fromkeys(name for run in runs for name in (*run["pinned"], *run["varied"]))
    shown = [{**run, "agrees": ", ".join(map(str, agreeing.get(run["id"], ()))) or "none"} for run in runs]
    rows = [{"factor": name, "modes": [_mode(run, name) for run in runs]} for name in factors]
    return {"rows": rows, "runs": shown}


def _mode(run: RunDocument, factor: str) -> str:
    return "pinned" if factor in run["pinned"] else "varied" if factor in run["varied"] else ""


def _timeline(line: Timeline, runs: tuple[int, int]) -> View:
    width = SPAN / max(1, len(line.steps))
    lanes = []
    for number, lane in enumerate(line.lanes):
        y = number * LANE
        marks = [
            {
                "x": round(LEFT + at * width, 2),
                "y": round(y + 20 - max(4.0, 20 * share), 2),
                "width": round(max(width, 1.5), 2),
                "height": round(max(4.0, 20 * share), 2),
            }
            for at, share in enumerate(lane.shares)
            if share
        ]
        known = [
            {"x": round(LEFT + start * width, 2), "width": round((end - start) * width, 2)}
            for start, end in _spans(lane.shares)
        ]
        first = lane.first
        last = next((share for share in reversed(lane.shares) if share is not None), None)
        lanes.append(
            {
                "stream": lane.stream,
                "y": y,
                "known": known,
                "marks": marks,
                "first": "never" if first is None else f"step {line.steps[first]}",
                "share_first": "" if first is None else f"{lane.shares[first] or 0:.0%}",
                "share_last": "" if last is None else f"{last:.0%}",
            }
        )
    parts = [f"{lane['stream']} diverges at {lane['first']}" for lane in lanes]
    return {
        "a": runs[0],
        "b": runs[1],
        "lanes": lanes,
        "left": LEFT,
        "span": SPAN,
        "width": LEFT + SPAN,
        "height": len(lanes) * LANE + 20,
        "first_step": line.steps[0] if line.steps else 0,
        "last_step": line.steps[-1] if line.steps else 0,
        "words": f"streams over the steps of runs {runs[0]} and {runs[1]}: {', '.join(parts)}",
    }


def _growth(losses: Sequence[LossDifference]) -> View | None:
    """The relative difference of the losses on a logarithmic scale, from the first step in which they differ."""
    shown = [one for one in losses if one.relative]
    if not shown:
        return None
    powers = [math.log10(one.relative) for one in shown if one.relative]
    low, high = math.floor(min(powers)), math.ceil(max(powers) + 1e-9)
    high += low == high
    last = max(1, losses[-1].step)

    def at(step: int, power: float) -> tuple[float, float]:
        return round(LEFT + SPAN * step / last, 1), round(CHART * (high - power) / (high - low) + 10, 1)

    points = [at(one.step, power) for one, power in zip(shown, powers, strict=True)]
    stride = max(1, (high - low) // 6)
    ticks = [{"y": at(0, power)[1], "label": f"1e{power}"} for power in range(low, high + 1, stride)]
    chosen = [shown[number] for number in sorted({0, len(shown) // 3, 2 * len(shown) // 3, len(shown) - 1})]
    words = f"from {shown[0].relative:.2g} at step {shown[0].step} to {shown[-1].relative:.2g} at step {shown[-1].step}"
    return {
        "points": points,
        "line": " ".join(f"{x},{y}" for x, y in points),
        "ticks": ticks,
        "left": LEFT,
        "span": SPAN,
        "width": LEFT + SPAN + 10,
        "height": CHART + 40,
        "bottom": CHART + 10,
        "last_step": last,
        "words": f"relative difference of the losses, {words}",
        "rows": [
            {
                "step": one.step,
                "a": repr(one.a),
                "b": repr(one.b),
                "relative": f"{one.relative:.3g}",
                "ulp": "" if one.ulp is None else one.ulp,
            }
            for one in chosen
        ],
    }


def _spans(shares: Sequence[float | None]) -> list[tuple[int, int]]:
    """From where to where something is known: an optimizer's state is not recorded in every step."""
    edges = [at for at in range(len(shares) + 1) if _is_known(shares, at) != _is_known(shares, at - 1)]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _is_known(shares: Sequence[float | None], at: int) -> bool:
    return 0 <= at < len(shares) and shares[at] is not None


# ---- a measurement


def _bars(prices: Sequence[tuple[str, RatioDocument]]) -> View | None:
    """A bar for each labelled ratio, with its interval."""
    if not prices:
        return None
    top = max(1.1, *(min(ratio["high"], 3 * ratio["middle"]) for _, ratio in prices))

    def across(ratio: float) -> float:
        return round(BAR_LEFT + BAR_SPAN * min(ratio, top) / top, 1)

    rows = [
        {
            "label": label,
            "y": number * BAR_ROW,
            "x": BAR_LEFT,
            "width": round(across(ratio["middle"]) - BAR_LEFT, 1),
            "low": across(ratio["low"]),
            "high": across(ratio["high"]),
        }
        for number, (label, ratio) in enumerate(prices)
    ]
    words = "; ".join(f"{label} {ratio['middle']:.3f}" for label, ratio in prices)
    height = len(rows) * BAR_ROW + 20
    return {"rows": rows, "one": across(1.0), "width": BAR_LEFT + BAR_SPAN + 10, "height": height, "words": words}


def _price(price: PriceDocument) -> dict[str, str]:
    ratio, why = price["ratio"], price["failure"] or price["not_measured"]
    was_run = price["first_step_seconds"] > 0 and not price["failure"]
    repeats = {True: "yes", False: f"no, diverges at {price['diverges_at']}", None: "unknown"}[price["repeats"]]
    return {
        "label": price["label"],
        "ratio": _state(price) if why else "1" if ratio is None else f"{ratio['middle']:.3f}",
        "speed": "" if why else "1" if ratio is None else f"{1 / ratio['middle']:.3f}",
        "interval": why or ("" if ratio is None else _interval(ratio)),
        "step": "" if why else f"{price['step_seconds'] * 1000:.2f} ms",
        "first": f"{price['first_step_seconds'] * 1000:.1f} ms" if was_run else "",
        "memory": f"{price['peak_bytes'] / 2**20:.0f} MiB" if was_run else "",
        "repeats": repeats if was_run else "",
    }


def _state(price: PriceDocument) -> str:
    return "failed" if price["failure"] else "not measured"


def _interval(ratio: RatioDocument) -> str:
    return f"{ratio['low']:.3f} to {ratio['high']:.3f}{'' if ratio['is_difference'] else ', no difference'}"


# ---- both


def _environment(manifest: Manifest) -> list[tuple[str, str]]:
    versions = manifest.get("versions", {})
    named = [(name, str(value)) for name, value in versions.items() if value]
    facts = {
        "platform": manifest.get("platform"),
        "cores": manifest.get("cores"),
        "started": manifest.get("started"),
        "folder": manifest.get("cwd"),
    }
    return [*named, *((name, str(value)) for name, value in facts.items() if value)]
