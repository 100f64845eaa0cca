"""Why runs part: everything is held still, then one factor at a time is let go, then one line at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.check import plan as plans
from samebits.check.first import earliest, hash_lines
from samebits.check.lab import Lab, parts
from samebits.check.plan import Request
from samebits.check.verdict import Cause, Parting, Run
from samebits.compare.locate import Divergence, Position
from samebits.compare.values import Distance, distance
from samebits.factors.base import Setting
from samebits.factors.catalog import find
from samebits.factors.sites import Site
from samebits.launch.plan import RunPlan
from samebits.record.journal import read_notes
from samebits.record.values import read_kept

HASH_SEEDS = range(2, 6)
NATURAL_RUNS = 3

Entry = tuple[str, Site]


@dataclass
class Findings:
    """What attribution brings besides the causes themselves.

    Attributes:
        causes: confirmed, in the order in which they were found.
        unknown: two runs that part although everything was pinned.
        untested: what could not be tried, and why.
        notes: what else the user should know.
    """

    causes: list[Cause] = field(default_factory=list)
    unknown: Parting | None = None
    untested: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_causes(request: Request, lab: Lab, at: Divergence, pins: Sequence[str], findings: Findings) -> list[Cause]:
    """The factors that part the runs at `at` or before, with `pins` and the user's own pins held throughout."""
    held = replace(request, pins={**request.pins, **{name: Setting("pinned") for name in pins}})
    plan = _keeping(plans.pinned_run(held, at.step if _is_in_a_step(at) else None), at)
    base, again = _pinned_twice(lab, plan, findings)
    if not base.outcome.succeeded:
        status = base.outcome.exit_code
        findings.untested.append(
            f"every factor: the pinned run {base.id} failed (exit status {status}), see {base.path}"
        )
        return []
    unequal = parts(base, again)
    if unequal is not None:
        findings.unknown = Parting(base.id, again.id, unequal, _apart(base, again, unequal))
    attribution = _Attribution(lab, base, None if unequal is None else unequal.position, frozenset(held.pins))
    causes = attribution.released_one_by_one()
    if not causes and unequal is None:
        causes = attribution.left_alone()
        if not causes:
            findings.notes.append(
                "with everything pinned the runs agree; with one factor released at a time they do too"
            )
    return causes


def _is_in_a_step(place: Divergence) -> bool:
    return place.stream not in ("length", "outcome")


def _keeping(plan: RunPlan, place: Divergence) -> RunPlan:
    """Keep the tensors of the stream in which the runs parted, to say by how much."""
    return replace(plan, keep_step=place.step, keep_streams=(place.stream,)) if _is_in_a_step(place) else plan


def _pinned_twice(lab: Lab, plan: RunPlan, findings: Findings) -> list[Run]:
    runs = lab.run_all([plan, plan])
    refused = next(read_notes(runs[0].path, "refused"), None)
    if refused is None or "torch-algorithms" not in plan.settings:
        return runs
    # An operation without a deterministic kernel stops the pinned run; the other factors can still be told apart.
    findings.untested.append(f"torch-algorithms: {refused['message'].splitlines()[0]} ({refused['where']})")
    settings = {name: setting for name, setting in plan.settings.items() if name != "torch-algorithms"}
    return lab.run_all([replace(plan, settings=settings)] * 2)


def _apart(a: Run, b: Run, place: Divergence) -> Distance | None:
    left = read_kept(a.path, place.rank, place.step, place.stream).get(place.name)
    right = read_kept(b.path, place.rank, place.step, place.stream).get(place.name)
    return None if left is None or right is None else distance(left, right)


@dataclass
class _Attribution:
    """Experiments around one pinned run.

    Attributes:
        base: the pinned run everything is compared with.
        limit: where two equal pinned runs part by themselves; a difference no earlier than that accuses nobody.
        innocent: factors that stay pinned: the user's own pins, and causes known already.
    """

    lab: Lab
    base: Run
    limit: Position | None
    innocent: frozenset[str]

    @property
    def plan(self) -> RunPlan:
        return self.base.plan

    def parting(self, run: Run) -> Divergence | None:
        """Where `run` leaves the pinned run."""
        place = parts(self.base, run)
        return place if place is not None and (self.limit is None or place.position < self.limit) else None

    # A factor at a time.

    def released_one_by_one(self) -> list[Cause]:
        entries = _entries(self.base)
        candidates = [
            name
            for name in self.plan.named("pinned")
            if name not in self.innocent and not find(name).is_mode and (name in entries or not find(name).has_sites)
        ]
        runs = self.lab.run_all([plans.released_run(self.plan, name, 2) for name in candidates])
        causes: list[Cause] = []
        for name, first in zip(candidates, runs, strict=True):
            run, place = self._tried_again(name, first)
            if place is not None:
                causes.extend(self._causes(name, entries.get(name, []), run, place))
        return causes

    def _tried_again(self, name: str, run: Run) -> tuple[Run, Divergence | None]:
        """Two hash seeds may order a small set alike by luck, so one that changes nothing is no acquittal yet."""
        place = self.parting(run)
        if name != "hash-seed" or place is not None or not hash_lines(self.base):
            return run, place
        for variant in HASH_SEEDS[1:]:
            run = self.lab.run(plans.released_run(self.plan, name, variant))
            place = self.parting(run)
            if place is not None:
                break
        return run, place

    def _causes(self, name: str, entries: Sequence[Entry], run: Run, place: Divergence) -> list[Cause]:
        shown = {"evidence": self._evidence(run, place), "distance": _apart(self.base, run, place)}
        if find(name).has_sites:
            sites, others = self._guilty(name, entries)
            what = {site.key: text for text, site in entries}
            found = [self._cause(name, site, what[site.key], others=others, **shown) for site in sites]
            return found or [self._cause(name, None, "", **shown)]
        lines = hash_lines(self.base) if name == "hash-seed" else []
        return [self._cause(name, lines[0] if lines else None, "", likely=True, others=tuple(lines[1:]), **shown)]

    def _cause(self, name: str, site: Site | None, what: str, **more: Any) -> Cause:
        factor = find(name)
        return Cause(name, site, True, factor.drifts, factor.story.format(what=what or "a library"), **more)

    def _evidence(self, run: Run, place: Divergence) -> str:
        if place.stream == "outcome":
            return f"pinned, the runs agree; released alone, {place.detail}"
        return "pinned, the runs agree; released alone, they part"

    # A line at a time.

    def _guilty(self, name: str, entries: Sequence[Entry]) -> tuple[list[Site], tuple[Site, ...]]:
        """The guilty lines; or, where no line alone parts the runs, the first one and all others as company."""
        sites = [site for _, site in entries]
        guilty = self._guilty_among(name, sites)
        return (guilty, ()) if guilty else (sites[:1], tuple(sites[1:]))

    def _guilty_among(self, name: str, sites: Sequence[Site]) -> list[Site]:
        """Known to part the runs together; halving finds which do, and an innocent half costs one run."""
        if len(sites) <= 1:
            return list(sites)
        middle = len(sites) // 2
        halves = [sites[:middle], sites[middle:]]
        released = [plans.sites_released_run(self.plan, name, [site.key for site in half]) for half in halves]
        guilty = [self.parting(run) is not None for run in self.lab.run_all(released)]
        return [
            site
            for half, is_guilty in zip(halves, guilty, strict=True)
            if is_guilty
            for site in self._guilty_among(name, half)
        ]

    # Factors that choose between algorithms.

    def left_alone(self) -> list[Cause]:
        """Their settings have bits of their own, so runs in which one is left alone are compared with one another."""
        for name in self.plan.named("pinned"):
            if name in self.innocent or not find(name).is_mode or (plans.needs_cuda(name) and not self._has_cuda()):
                continue
            runs = self.lab.run_all([plans.natural_run(self.plan, name)] * NATURAL_RUNS)
            parting = earliest(runs)
            if parting is not None:
                a, b = (next(run for run in runs if run.id == number) for number in (parting.a, parting.b))
                evidence = f"pinned, the runs agree; left alone, runs {a.id} and {b.id} part"
                return [self._cause(name, None, "", evidence=evidence, distance=_apart(a, b, parting.divergence))]
        return []

    def _has_cuda(self) -> bool:
        observed = next(read_notes(self.base.path, "observed"), None)
        return observed is not None and bool(observed["versions"].get("cuda"))


def _entries(base: Run) -> dict[str, list[Entry]]:
    """Factor → what was called and on which line, each line once, in the order of time.

    A factor that entered from library code alone is there with no line: it is a candidate all the same.
    """
    found: dict[str, list[Entry]] = {}
    for note in _in_order(read_notes(base.path, "witness")):
        entries = found.setdefault(note["factor"], [])
        if note["site"] is None:
            continue
        site = Site(note["site"]["path"], note["site"]["line"], note["site"]["function"])
        if all(other.key != site.key for _, other in entries):
            entries.append((note["what"], site))
    return found


def _in_order(notes: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Witnesses with a draw before seeding, or of factors that know no seeding."""
    return [note for note in notes if not note["seeded"]]
