"""Why runs part: everything is held still, then one factor at a time is let go, then one line at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from samebits.check import plan as plans
from samebits.check.first import earliest, hash_lines
from samebits.check.lab import Lab, parts
from samebits.check.plan import Request
from samebits.check.verdict import Cause, Parting, Run, Shown
from samebits.comparison.locate import Divergence
from samebits.comparison.values import Distance, distance
from samebits.factors.base import Setting
from samebits.factors.catalog import find
from samebits.launch.plan import RunPlan
from samebits.recording.journal import read_notes
from samebits.recording.values import read_kept
from samebits.sites import Site

# What is released takes its second other value: the first one was used by the varied run, and may have changed nothing.
RELEASED = 2
LUCKY_VALUES = (3, 4, 5)
NATURAL_RUNS = 3

Entry = tuple[str, Site]


class Attribution:
    """Experiments around one pinned run. `next_causes` names the causes one factor at a time, the likeliest first.

    Whoever asks may stop as soon as pinning the causes found so far cures the runs: that acquits all other factors.

    Args:
        request: what is checked.
        lab: where runs are made.
        at: where the runs part that are to be explained.
        pins: causes known already; they stay pinned throughout.
        suspects: the factors that can be guilty.

    Attributes:
        unknown: two pinned runs that part all the same.
        untested: what could not be tried, and why.
    """

    def __init__(
        self, request: Request, lab: Lab, at: Divergence, pins: Sequence[str], suspects: Collection[str]
    ) -> None:
        held = replace(request, pins={**request.pins, **{name: Setting("pinned") for name in pins}}, vary=())
        self.request, self.lab = request, lab
        self.unknown: Parting | None = None
        self.untested: list[str] = []
        moving = [name for name in request.pinnable() if name not in held.pins]
        self.base, again = self._pinned_twice(_keeping(plans.pinned_run(held, moving, _step_of(at)), at))
        self.plan = self.base.plan
        place = parts(self.base, again)
        if place is not None:
            self.unknown = Parting(self.base.id, again.id, place, _apart(self.base, again, place))
        self.entries = _entries(self.base)
        self.candidates = self._ordered([name for name in moving if name in suspects])

    def next_causes(self) -> list[Cause]:
        """The causes of the next factor that parts the runs, one for each guilty line; empty when none is left."""
        while self.candidates:
            jobs = self.request.jobs
            tried, self.candidates = self.candidates[:jobs], self.candidates[jobs:]
            causes = [cause for name, run, place in self._released(tried) for cause in self._causes(name, run, place)]
            if causes:
                return causes
        return []

    # The pinned runs, and who is suspected.

    def _pinned_twice(self, plan: RunPlan) -> list[Run]:
        runs = self.lab.run_all([plan, plan])
        refused = next(read_notes(runs[0].path, "refused"), None)
        refusing = [name for name in plan.named("pinned") if find(name).refuses]
        if refused is not None and refusing:
            # An operation without a deterministic kernel stops this run; the other factors can still be told apart.
            why = f"{refused['message'].splitlines()[0]} ({refused['where']})"
            self.untested.append(f"{', '.join(refusing)}: {why}")
            settings = {name: setting for name, setting in plan.settings.items() if name not in refusing}
            runs = self.lab.run_all([replace(plan, settings=settings)] * 2)
        if not runs[0].outcome.succeeded:
            status, path = runs[0].outcome.exit_code, runs[0].path
            self.untested.append(f"the pinned run {runs[0].id} failed (exit status {status}), see {path}")
        return runs

    def _ordered(self, names: Sequence[str]) -> list[str]:
        """What was asked for, what was seen to enter, what can only be read in the code, modes, and all others."""
        if not self.base.outcome.succeeded:
            return []
        possible = [name for name in names if self._is_possible(name)]
        if self.unknown is not None:
            # Pinned runs part by themselves: only what was seen to enter can have parted them any earlier.
            possible = [name for name in possible if self._unlikeliness(name) == 0]
        return sorted(possible, key=lambda name: (name not in self.request.vary, self._unlikeliness(name)))

    def _is_possible(self, name: str) -> bool:
        factor = find(name)
        return name in self.plan.named("pinned") and (not factor.needs_cuda or self._has_cuda())

    def _unlikeliness(self, name: str) -> int:
        factor = find(name)
        if factor.is_mode:
            return 2
        if factor.has_sites:
            # Entered by no line of the user's: possible, for what libraries do on their own, and tried last.
            return 0 if self.entries.get(name) else 3
        return 1 if factor.read_in_code and not hash_lines(self.base) else 0

    def _has_cuda(self) -> bool:
        observed = next(read_notes(self.base.path, "observed"), None)
        return observed is not None and bool(observed["versions"].get("cuda"))

    # A factor at a time.

    def _released(self, names: Sequence[str]) -> list[tuple[str, Run, Divergence]]:
        """The factors that part the runs when released, each with a run that shows it."""
        values = [name for name in names if not find(name).is_mode]
        runs = self.lab.run_all([plans.released_run(self.plan, name, RELEASED) for name in values])
        tried = [(name, *self._tried_again(name, run)) for name, run in zip(values, runs, strict=True)]
        tried += [(name, *self._left_alone(name)) for name in names if find(name).is_mode]
        return [(name, run, place) for name, run, place in tried if place is not None]

    def _parting(self, run: Run) -> Divergence | None:
        """Where `run` leaves the pinned run; a difference no earlier than the pinned runs' own accuses nobody."""
        place = parts(self.base, run)
        if place is None or self.unknown is None:
            return place
        return place if place.position < self.unknown.divergence.position else None

    def _tried_again(self, name: str, run: Run) -> tuple[Run, Divergence | None]:
        """Two hash seeds may order a small set alike by luck, so one that changes nothing is no acquittal yet."""
        place = self._parting(run)
        if place is not None or not find(name).read_in_code or not hash_lines(self.base):
            return run, place
        for variant in LUCKY_VALUES:
            run = self.lab.run(plans.released_run(self.plan, name, variant))
            place = self._parting(run)
            if place is not None:
                break
        return run, place

    def _left_alone(self, name: str) -> tuple[Run, Divergence | None]:
        """A factor that chooses algorithms: each has bits of its own, so runs left alone are compared together."""
        runs = self.lab.run_all([plans.natural_run(self.plan, name)] * NATURAL_RUNS)
        parting = earliest(runs)
        if parting is None:
            return runs[0], None
        return next(run for run in runs if run.id == parting.b), parting.divergence

    def _causes(self, name: str, run: Run, place: Divergence) -> list[Cause]:
        factor = find(name)
        other = run if factor.is_mode else self.base
        shown = {
            "evidence": _evidence(place, factor.is_mode),
            "distance": _apart(self.base, run, place),
            "parting": Parting(other.id, run.id, place),
        }
        if factor.has_sites:
            sites, others = self._guilty(name)
            what = {site.key: text for text, site in self.entries.get(name, [])}
            found = [
                _cause(name, site, what[site.key], others=others, shown_by=_shown_by(self.base, name, site), **shown)
                for site in sites
            ]
            return found or [_cause(name, None, "", **shown)]
        lines = hash_lines(self.base) if factor.read_in_code else []
        likely = bool(lines)
        return [_cause(name, lines[0] if lines else None, "", likely=likely, others=tuple(lines[1:]), **shown)]

    # A line at a time.

    def _guilty(self, name: str) -> tuple[list[Site], tuple[Site, ...]]:
        """The guilty lines; or, where no line alone parts the runs, the first one and all others as company."""
        sites = [site for _, site in self.entries.get(name, [])]
        guilty = self._guilty_among(name, sites)
        return (guilty, ()) if guilty else (sites[:1], tuple(sites[1:]))

    def _guilty_among(self, name: str, sites: Sequence[Site]) -> list[Site]:
        """These part the runs together; halving finds which do alone, and an innocent half costs one run."""
        if len(sites) <= 1:
            return list(sites)
        middle = len(sites) // 2
        halves = [sites[:middle], sites[middle:]]
        keys = [[site.key for site in half] for half in halves]
        runs = self.lab.run_all([plans.sites_released_run(self.plan, name, half) for half in keys])
        guilty = [half for half, run in zip(halves, runs, strict=True) if self._parting(run) is not None]
        return [site for half in guilty for site in self._guilty_among(name, half)]


def _cause(name: str, site: Site | None, what: str, **more: Any) -> Cause:
    factor = find(name)
    return Cause(name, site, True, factor.drifts, factor.story.format(what=what or "a library"), called=what, **more)


def _evidence(place: Divergence, is_mode: bool) -> str:
    if place.stream == "outcome":
        return f"pinned, the runs agree; released alone, {place.detail}"
    if is_mode:
        return "pinned, the runs agree; left alone, they part from one another"
    return "pinned, the runs agree; released alone, they part"


def _step_of(place: Divergence) -> int | None:
    return place.step if _is_in_a_step(place) else None


def _is_in_a_step(place: Divergence) -> bool:
    return place.stream not in ("length", "outcome")


def _keeping(plan: RunPlan, place: Divergence) -> RunPlan:
    """Keep the tensors of the stream in which the runs parted, to say by how much."""
    return replace(plan, keep_step=place.step, keep_streams=(place.stream,)) if _is_in_a_step(place) else plan


def _apart(a: Run, b: Run, place: Divergence) -> Distance | None:
    left = read_kept(a.path, place.rank, place.step, place.stream).get(place.name)
    right = read_kept(b.path, place.rank, place.step, place.stream).get(place.name)
    return None if left is None or right is None else distance(left, right)


def _site(note: Any) -> Site:
    return Site(note["path"], note["line"], note["function"])


def _shown_by(base: Run, name: str, site: Site) -> tuple[Shown, ...]:
    """The lines that explain how a factor enters at this one."""
    notes = [note for note in read_notes(base.path, "witness") if note["factor"] == name and note["site"]]
    within = [note for note in notes if tuple(note.get("within", ())) == site.key]
    # Every worker tells of the same lines.
    shown = {_shown(note["what"], _site(note["site"]), note.get("cure", "")) for note in within}
    return tuple(sorted(shown, key=lambda one: one.site.key))


def _shown(what: str, site: Site, cure: str) -> Shown:
    return Shown(what, site, f"{cure} ({site.place})" if cure else "")


def _entries(base: Run) -> dict[str, list[Entry]]:
    """Factor → what was called and on which line, each line once, in the order of time.

    A factor that entered from library code alone is there with no line: it is a candidate all the same.
    """
    found: dict[str, list[Entry]] = {}
    for note in read_notes(base.path, "witness"):
        if "within" in note:
            continue
        entries = found.setdefault(note["factor"], [])
        if note["site"] is None:
            continue
        site = _site(note["site"])
        if all(other.key != site.key for _, other in entries):
            entries.append((note["what"], site))
    return found
