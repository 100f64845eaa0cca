"""What is asked of a resume, and the runs that follow from it. Plain data; nothing is run here."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from samebits.base.errors import UsageError
from samebits.base.seeds import derive
from samebits.checking import plan as checks
from samebits.checking.plan import LOOK_STEPS
from samebits.launch.command import Command
from samebits.resuming.seen import SavedIn
from samebits.runfolder.spec import Restored, ResumeSpec, RunSpec, StopSignal

# How many steps are looked at after the first save, and how long after a save the run is killed.
STEPS_AFTER_SAVE, STEPS_BEFORE_KILL = 10, 3
# So long is looked for saves: a training of which they are seen later than the first ones shows more.
LOOK_SECONDS = 20.0
# The late kill comes at a save in this part of what is looked at: counters count by then, and much is left.
LATE = (0.5, 0.75)
# A test takes no more than this many lengths of what is looked at, what it confirms aside.
MOST_LENGTHS = 3.5


@dataclass(frozen=True, kw_only=True)
class ResumeRequest(checks.CheckRequest):
    """One test of a resume, with what any check of the command is asked besides.

    Attributes:
        again: what to run after the kill; the same command, or one with further arguments.
        at: kill after these steps; empty chooses a step after a save.
        kills: kill after this many steps chosen at random instead.
        during_save: stop it within a save instead, and leave half of the file.
        saved_at: steps that are done when the script saves, where that is not seen.
    """

    again: Command
    at: tuple[int, ...] = ()
    kills: int = 0
    signal: StopSignal = "KILL"
    during_save: bool = False
    saved_at: tuple[int, ...] = ()
    # No bound for a user: more trials than anybody asks for.
    max_runs: int | None = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(step < 1 for step in self.saved_at):
            raise UsageError(f"--saved-at must be a number of steps, 1 or more, got {min(self.saved_at)}")
        if any(step < 0 for step in self.at):
            raise UsageError(f"--at must be a step, 0 or more, got {min(self.at)}")
        if self.kills < 0:
            raise UsageError(f"--kills must be 1 or more, got {self.kills}")
        if self.at and self.kills:
            raise UsageError("--at says after which steps to kill, and --kills asks for random ones", "leave one out")
        if self.during_save and self.signal == "TERM":
            raise UsageError("--during-save kills at once, and --signal TERM lets the script end", "leave one out")

    @property
    def pinned(self) -> RunSpec:
        """A run of which nothing moves by itself."""
        # Whether what the first one prepares changes anything is asked by a check only.
        return replace(checks.pinned_run(self, checks.moving_factors(), None), witness=False, begins="found")


def uninterrupted_run(request: ResumeRequest) -> RunSpec:
    """The first run: it ends when it has shown how it saves, and some steps later."""
    steps = max([LOOK_STEPS, *(step + 1 + STEPS_AFTER_SAVE for step in request.at)])
    resume = ResumeSpec(end_after_save=STEPS_AFTER_SAVE, saved_at=request.saved_at)
    looks = replace(request.pinned, look_seconds=LOOK_SECONDS, look_steps=steps)
    return replace(looks, role="uninterrupted", resume=resume)


def again_run(request: ResumeRequest, last: int) -> RunSpec:
    """The same once more, up to a step: does the script repeat at all?"""
    return replace(request.pinned, role="uninterrupted again", stop_after=last, resume=ResumeSpec())


def killed_run(request: ResumeRequest, kill: Kill, follow: str) -> RunSpec:
    """The run that is killed; it ends early where it does not even repeat."""
    spec = ResumeSpec(
        stop_after=None if request.during_save else kill.after,
        signal=request.signal,
        torn_save=kill.torn,
        keep_at=kill.saved,
        saved_at=request.saved_at,
    )
    return replace(request.pinned, role="killed", follow=follow, resume=spec, keeps=True)


def resumed_run(request: ResumeRequest, last_row: int | None, restored: Restored, given: str = "") -> RunSpec:
    """The run that resumes, up to a row or to its end, with something given back to it where that is asked."""
    role, spec = f"resumed, {given} given back" if given else "resumed", ResumeSpec(restored=restored)
    return replace(request.pinned, role=role, stop_after=last_row, resume=spec, begins="left")


@dataclass(frozen=True)
class Kill:
    """Where a run is killed.

    Attributes:
        after: the last step that it does.
        saved: steps that were done when it saved last before.
        torn: it is killed in the first save from then on for which `torn` steps are done.
        most: how many steps to compare; None compares all.
    """

    after: int
    saved: int
    torn: int | None = None
    most: int | None = None


def kills(request: ResumeRequest, saves: Mapping[int, SavedIn], steps: int) -> list[Kill]:
    """Where to kill an uninterrupted run of `steps`, from how many were done at each save, and where that was."""
    known = sorted(saves)
    if request.during_save:
        # The first save is whole, so that there is one to go back to.
        torn = known[1] if len(known) > 1 else known[0]
        return [Kill(torn - 1, known[0], torn)]
    if not (request.at or request.kills):
        return _chosen(saves, steps)
    possible = range(known[0], steps - 1)
    luck = random.Random(derive(request.seed, "kills"))
    at = request.at or sorted(luck.sample(possible, min(request.kills, len(possible))))
    # What is done by the end of that step is not saved yet.
    return [Kill(step, max((one for one in known if one <= step), default=0)) for step in at]


def _chosen(saves: Mapping[int, SavedIn], steps: int) -> list[Kill]:
    """A few steps after an early save and after a late one, and where the files saved are of different steps.

    Of the two, one lies in the middle of an epoch and one at the end of one, where both are seen.
    """
    usable = [one for one in sorted(saves) if one < steps] or sorted(saves)[:1]
    # Where another save follows, what is only saved is compared, too.
    followed = [one for one in usable if any(one < other < steps for other in saves)] or usable[:1]
    # What begins anew does not show in the first epoch, and half an accumulation is lost only in the middle of one; the
    # earliest of the rest leaves the most to compare.
    early = min(followed, key=lambda at: (saves[at].epoch == 0, not saves[at].is_within_step, saves[at].is_end, at))
    later = [one for one in usable if one > early]
    inside = [one for one in later if LATE[0] * steps <= one <= LATE[1] * steps] or later[-1:]
    late = max(inside, key=lambda one: (saves[one].is_mixed, saves[one].is_end != saves[early].is_end, one), default=0)
    if not late:
        return [replace(_after(saves, early, steps), most=None)]
    chosen = [_after(saves, early, steps), replace(_after(saves, late, steps), most=None)]
    mixed = [one for one in usable if saves[one].is_mixed]
    if mixed and not (saves[early].is_mixed or saves[late].is_mixed):
        chosen.insert(1, _after(saves, mixed[-1], steps))
    lengths = sum(kill.after + 1 + (kill.most or steps - kill.saved) for kill in chosen)
    return chosen if steps + lengths <= MOST_LENGTHS * steps else [chosen[0], chosen[-1]]


def _after(saves: Mapping[int, SavedIn], one: int, steps: int) -> Kill:
    """Some steps after a save, and before the next."""
    following = min((other for other in saves if other > one), default=steps)
    after = min(one + STEPS_BEFORE_KILL, following, steps - 1) - 1
    return Kill(max(after, one), one, most=max(STEPS_AFTER_SAVE, following - one + 2))
