"""The experiment with what a run leaves for the next one: a short run in the folder that a whole run has left.

The run is made where the recording shows that the script asked for a path which it wrote later. Every other run of a
check begins in a folder of its own, so that runs are alike whatever they leave.
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
# How many steps the run goes on after the script last asked for something that it had not written yet.
STEPS = 20
_ASKED = {
    "read": "reads {path} (an earlier run wrote it{where})",
    "listed": "lists {path} (an earlier run wrote {written} there{where})",
    "made": "tries to make {path} (an earlier run made it{where})",
    "tested": "asks whether {path} is there (an earlier run wrote it{where})",
}


@dataclass
class LeftBehind:
    """The result of the experiment.

    Attributes:
        base: runs that began in a folder of their own, and agree.
        after: runs that began in the folder that the first run of `base` has left.
        divergent: one run of each kind, where the two kinds differ; None where they agree.
        unsteady: two runs that began alike and still differ; then the experiment says nothing, and this difference has
            to be explained.
        guilty: what was carried from one run to the next and matters, line by line.
        named_alike: what the script asked for under a name that only the pins of these runs make alike.
        is_outside: the files lie outside the folder, so no run could be kept from them.
        chance: that the files left behind do nothing, and the runs came out like this by luck.
        limit: the chance must be below this.
    """

    base: list[Run] = field(default_factory=list)
    after: list[Run] = field(default_factory=list)
    divergent: DivergentRuns | None = None
    unsteady: DivergentRuns | None = None
    guilty: list[list[Carried]] = field(default_factory=list)
    named_alike: list[Carried] = field(default_factory=list)
    is_outside: bool = False
    chance: float = 1.0
    limit: float = LIMIT

    @property
    def causes(self) -> list[Cause]:
        """The causes: one for each line that asks, as each needs one fix."""
        return [self._cause(group) for group in self.guilty if self.divergent is not None]

    def _cause(self, own: Sequence[Carried]) -> Cause:
        first = own[0]
        ids = tuple(run.id for run in self.base), tuple(run.id for run in self.after)
        words = next((run.facts.last_words for run in self.after if not run.succeeded), "")
        return Cause(
            FACTOR,
            first.asked,
            varies_between_runs=True,
            what=described(first, len({note.path for note in own})),
            evidence=Evidence(*ids, len(self.after), self.chance, self.limit, last_words=words),
            called=OUTSIDE if self.is_outside else first.how,
            source=first.asked.source,
            others=tuple(dict.fromkeys(note.asked for note in own if note.asked.key != first.asked.key)),
            divergent=self.divergent,
        )


def described(one: Carried, count: int = 1) -> str:
    """Return a clause such as `reads cache.pt (an earlier run wrote it at train.py:7)`."""
    where = "" if one.wrote is None or one.wrote.key == one.asked.key else f" at {one.wrote.place}"
    asks = _ASKED[one.how].format(path=shown_path(one.path), written=os.path.basename(one.written), where=where)
    return f"{asks}{f', and {count - 1} more' if count > 1 else ''}"


def outside(run: Run, folder: str) -> list[Carried]:
    """Return what a run has carried in other folders than the working folder."""
    return [note for note in run.facts.carried if not is_in(note.written, folder)]


def left_behind(inquiry: Inquiry, base: Sequence[Run]) -> Asking[LeftBehind | None]:
    """Test whether a run differs in the folder that one of these agreeing runs has left; None if no test is needed."""
    kept = next((run for run in base if run.id == inquiry.pool.workspace.left_by), None)
    carried = [] if kept is None else [note for note in kept.facts.carried if is_in(note.written, inquiry.folder)]
    if kept is None or not carried or not inquiry.left:
        return None
    spec = replace(
        kept.plan, role=f"in what run {kept.id} left", begins="left", keeps=False, follow=None, along=None,
        look_seconds=None,
    )  # fmt: skip
    spec = stopping_after(spec, max(note.step for note in carried) + STEPS)
    (after,) = yield [spec]
    unnamed = (yield from _unnamed(inquiry, carried)) if inquiry.compare(kept, after) is not None else []
    if unnamed:
        inquiry.pool.workspace.remove_left([one.path for one in unnamed])
        (after,) = yield [spec]
    asked, others = {note.path for note in after.facts.carried}, [run for run in base if run is not kept]
    named_alike = [one for one in unnamed if one.path in asked]
    place = inquiry.compare(kept, after)
    if place is None:
        return LeftBehind([kept, *others], [after], named_alike=named_alike)
    # The other runs say something about this place only if they reached it.
    others = [run for run in others if run.stopped_after is None or run.steps > place.step]
    divergent = DivergentRuns(kept.id, after.id, place)
    result = LeftBehind(
        [kept, *others], [after], divergent, named_alike=named_alike, limit=limit_after(inquiry.failures)
    )
    fresh = replace(spec, role="in a folder of its own", begins=kept.plan.begins)
    draws, released = list[Draw](), (FACTOR, 1)
    while result.chance >= result.limit and inquiry.left:
        lots = [inquiry.lot_rng.choice([released, HELD]) for _ in range(inquiry.room)]
        runs = yield [fresh if lot == HELD else spec for lot in lots]
        for lot, run in zip(lots, runs, strict=True):
            divergence = inquiry.compare(kept, run)
            is_after = lot == released
            position, expected = divergence and divergence.position, place.position if is_after else None
            if position != expected:
                inquiry.failures += 1
                like = after if is_after else kept
                where = inquiry.compare(like, run)
                result.unsteady = None if where is None else DivergentRuns(like.id, run.id, where)
                return replace(result, divergent=None)
            (result.after if is_after else result.base).append(run)
            draws.append(Draw({HELD: 0.5, released: 0.5}, lot, lot if is_after else UNCHANGED))
        result.chance = chance_changed(FACTOR, draws, {released: released})
    result.guilty = [_read(group, after) for group in (yield from _lines(inquiry, kept, after, carried))]
    return result


def _unnamed(inquiry: Inquiry, carried: Sequence[Carried]) -> Asking[list[Carried]]:
    """Return what was asked for under a name that only pins make alike, so that nobody's next run meets it."""
    workspace = inquiry.pool.workspace
    if workspace.names is None:
        yield [inquiry.request.base("control to the end")]
    names = workspace.names
    return [one for one in carried if names is not None and os.path.relpath(one.path, inquiry.folder) not in names]


def _read(own: list[Carried], after: Run) -> list[Carried]:
    """Return the notes, with the later run's reads of the same paths in front, and in place of notes at their lines."""
    wrote = {one.path: one.wrote for one in own}
    reading = [
        replace(one, wrote=wrote[one.path]) for one in after.facts.carried if one.how == "read" and one.path in wrote
    ]
    return [*reading, *(one for one in own if one.asked.key not in {other.asked.key for other in reading})]


def _lines(inquiry: Inquiry, kept: Run, after: Run, carried: Sequence[Carried]) -> Asking[list[list[Carried]]]:
    """Return the lines whose paths matter, grouped by their paths; all in one group where none matters by itself."""
    lines: dict[tuple[str, int], list[Carried]] = {}
    for one in sorted(carried, key=lambda one: one.step):
        lines.setdefault(one.asked.key, []).append(one)
    by_paths: dict[frozenset[str], list[Carried]] = {}
    for group in lines.values():  # lines that ask for the same paths are tested together
        by_paths.setdefault(frozenset(one.path for one in group), []).extend(group)
    groups = list(by_paths.values())
    if len(groups) < 2 or inquiry.left < len(groups):
        return groups
    guilty = []
    for group in groups:
        paths = tuple(dict.fromkeys(map(_path_to_bring, group)))
        (run,) = yield [replace(after.plan, role=f"with {shown_path(paths[0].rstrip(os.sep))} left", brought=paths)]
        # A part of the files may make a run fail where all of them do not: nobody would ever meet that part alone.
        if inquiry.compare(kept, run) is not None and run.succeeded == after.succeeded:
            guilty.append(group)
    return guilty or [list(carried)]


def _path_to_bring(one: Carried) -> str:
    """Return the path to leave for a line: of a folder, only that it exists, as its files are asked for separately."""
    return {"listed": one.written, "read": one.path}.get(one.how, f"{one.path}{os.sep}")


def first_run_effect(inquiry: Inquiry, first: Run) -> Asking[LeftBehind | None]:
    """Suspect the files outside the folder where only the first run differs, which met none of its own there.

    Nobody removes these files, so no experiment can show it. Returns None where they are not suspected.
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
