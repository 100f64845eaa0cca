"""What a run leaves for the next one: one short run in the folder that a whole run has left, as an experiment.

It is made where the recording shows that the script asked for a path which it wrote later. Every other run of a check
begins in a folder of its own, so that runs are alike whatever they leave.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from samebits.base.sites import shown_path
from samebits.checking.evidence import HELD, LIMIT, UNCHANGED, Draw, chance_changed, limit_after
from samebits.checking.inquiry import Asking, Inquiry
from samebits.checking.plan import stopping_after
from samebits.checking.verdict import Cause, DivergentRuns, Evidence, Run
from samebits.factors.files_left_behind import OUTSIDE
from samebits.runfolder.notes import Carried
from samebits.workspace.place import is_in

FACTOR = "files-left-behind"
# So many steps more than were done when the script last asked for something that it had not written yet.
STEPS = 20
_ASKED = {
    "read": "reads {path} (an earlier run wrote it{where})",
    "listed": "lists {path} (an earlier run wrote {written} there{where})",
    "made": "tries to make {path} (an earlier run made it{where})",
    "tested": "asks whether {path} is there (an earlier run wrote it{where})",
}


@dataclass
class LeftBehind:
    """What the experiment has shown.

    Attributes:
        base: runs that began in a folder of their own, and agree.
        after: those that began in the folder that the first of them has left.
        divergent: one of each, where they differ; None where they agree.
        unsteady: two that began alike and still differ; then the experiment says nothing, and this has to be
            explained.
        guilty: what was carried from one to the next, line by line.
        is_outside: the files lie outside the folder, so no run could be kept from them.
        chance: that what they have left does nothing, and runs came out so anyway.
        limit: below which that has to be.
    """

    base: list[Run] = field(default_factory=list)
    after: list[Run] = field(default_factory=list)
    divergent: DivergentRuns | None = None
    unsteady: DivergentRuns | None = None
    guilty: list[list[Carried]] = field(default_factory=list)
    is_outside: bool = False
    chance: float = 1.0
    limit: float = LIMIT

    @property
    def causes(self) -> list[Cause]:
        """Each line that asks needs one fix."""
        return [self._cause(own) for own in self.guilty if self.divergent is not None]

    def _cause(self, own: Sequence[Carried]) -> Cause:
        first = own[0]
        ids = tuple(run.id for run in self.base), tuple(run.id for run in self.after)
        words = next((run.facts.last_words for run in self.after if not run.succeeded), "")
        return Cause(
            FACTOR,
            first.asked,
            varies_between_runs=True,
            what=described(first, len({one.path for one in own})),
            evidence=Evidence(*ids, len(self.after), self.chance, self.limit, last_words=words),
            called=OUTSIDE if self.is_outside else first.how,
            source=first.asked.source,
            others=tuple(dict.fromkeys(one.asked for one in own if one.asked.key != first.asked.key)),
            divergent=self.divergent,
        )


def described(one: Carried, count: int = 1) -> str:
    """`reads cache.pt (an earlier run wrote it at train.py:7)`."""
    where = "" if one.wrote is None or one.wrote.key == one.asked.key else f" at {one.wrote.place}"
    asks = _ASKED[one.how].format(path=shown_path(one.path), written=os.path.basename(one.written), where=where)
    return f"{asks}{f', and {count - 1} more' if count > 1 else ''}"


def outside(run: Run, folder: str) -> list[Carried]:
    """What a run has carried in other folders."""
    return [one for one in run.facts.carried if not is_in(one.written, folder)]


def left_behind(inquiry: Inquiry, base: Sequence[Run]) -> Asking[LeftBehind | None]:
    """Whether a run does something else where one of these, which agree, was; None if it need not be asked."""
    kept = next((run for run in base if run.id == inquiry.pool.workspace.left_by), None)
    carried = [] if kept is None else [one for one in kept.facts.carried if is_in(one.written, inquiry.folder)]
    if kept is None or not carried or not inquiry.left:
        return None
    spec = replace(
        kept.plan, role=f"in what run {kept.id} left", begins="left", keeps=False, follow=None, along=None,
        look_seconds=None,
    )  # fmt: skip
    spec = stopping_after(spec, max(one.step for one in carried) + STEPS)
    (after,) = yield [spec]
    others = [run for run in base if run is not kept]
    place = inquiry.compare(kept, after)
    if place is None:
        return LeftBehind([kept, *others], [after])
    # The others only say something about this place if they came to it.
    others = [run for run in others if run.stopped_after is None or run.steps > place.step]
    divergent = DivergentRuns(kept.id, after.id, place)
    found = LeftBehind([kept, *others], [after], divergent, limit=limit_after(inquiry.failures))
    own = replace(spec, role="in a folder of its own", begins=kept.plan.begins)
    draws, released = list[Draw](), (FACTOR, 1)
    while found.chance >= found.limit and inquiry.left:
        lots = [inquiry.luck.choice([released, HELD]) for _ in range(inquiry.room)]
        runs = yield [own if lot == HELD else spec for lot in lots]
        for lot, run in zip(lots, runs, strict=True):
            again = inquiry.compare(kept, run)
            is_after = lot == released
            seen, expected = again and again.position, place.position if is_after else None
            if seen != expected:
                inquiry.failures += 1
                like = after if is_after else kept
                where = inquiry.compare(like, run)
                found.unsteady = None if where is None else DivergentRuns(like.id, run.id, where)
                return replace(found, divergent=None)
            (found.after if is_after else found.base).append(run)
            draws.append(Draw({HELD: 0.5, released: 0.5}, lot, lot if is_after else UNCHANGED))
        found.chance = chance_changed(FACTOR, draws, {released: released})
    found.guilty = [_read(own, after) for own in (yield from _lines(inquiry, kept, after, carried))]
    return found


def _read(own: list[Carried], after: Run) -> list[Carried]:
    """The same; first the lines that read in the later run what was only asked for in the first one."""
    wrote = {one.path: one.wrote for one in own}
    reading = [
        replace(one, wrote=wrote[one.path]) for one in after.facts.carried if one.how == "read" and one.path in wrote
    ]
    return [*reading, *(one for one in own if one.asked.key not in {other.asked.key for other in reading})]


def _lines(inquiry: Inquiry, kept: Run, after: Run, carried: Sequence[Carried]) -> Asking[list[list[Carried]]]:
    """The lines that ask for something which matters; all of them where none does so by itself."""
    lines: dict[tuple[str, int], list[Carried]] = {}
    for one in sorted(carried, key=lambda one: one.step):
        lines.setdefault(one.asked.key, []).append(one)
    by_paths: dict[frozenset[str], list[Carried]] = {}
    for own in lines.values():  # those that ask for the same paths are asked about together
        by_paths.setdefault(frozenset(one.path for one in own), []).extend(own)
    groups = list(by_paths.values())
    if len(groups) < 2 or inquiry.left < len(groups):
        return groups
    guilty = []
    for own in groups:
        paths = tuple(dict.fromkeys(map(_brought, own)))
        (run,) = yield [replace(after.plan, role=f"with {shown_path(paths[0].rstrip(os.sep))} left", brought=paths)]
        # A part may fail where the whole does not: then nobody would ever meet that part alone.
        if inquiry.compare(kept, run) is not None and run.succeeded == after.succeeded:
            guilty.append(own)
    return guilty or [list(carried)]


def _brought(one: Carried) -> str:
    """What of it matters to that line: of a folder, only that it is there; what is in it is asked for by itself."""
    return {"listed": one.written, "read": one.path}.get(one.how, f"{one.path}{os.sep}")


def first_run_effect(inquiry: Inquiry, first: Run) -> Asking[LeftBehind | None]:
    """Whether only the first run differs, which met no files of its own outside the folder: then these are suspected.

    Nobody takes them away, so no experiment can show it.
    """
    carried = outside(first, inquiry.folder)
    if not carried or inquiry.left < 2:
        return None
    spec = replace(first.plan, role="left alone", look_seconds=None, stop_after=max(first.steps - 1, 0), keeps=False)
    others = [run for run in inquiry.first[1:] if not run.plan.named("varied")][:2]
    others += yield [spec] * (2 - len(others))
    a, b = others
    place = inquiry.compare(first, a)
    if place is None or inquiry.compare(a, b) is not None:
        return None
    return LeftBehind([a, b], [first], DivergentRuns(first.id, a.id, place), guilty=[carried], is_outside=True)
