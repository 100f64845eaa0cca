"""The request for a test of a resume, and the runs that it needs. Plain data; nothing is run here."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from samebits.base.errors import UsageError
from samebits.base.seeds import derive
from samebits.checking import plan as checks
from samebits.checking.plan import LOOK_STEPS
from samebits.launch.command import Command
from samebits.resuming.training_notes import SavePlace
from samebits.runfolder.spec import Restoration, ResumeSpec, RunSpec, StopSignal

# How many steps the first run takes after the first save, and how many steps after a save a run is killed.
STEPS_AFTER_SAVE, STEPS_BEFORE_KILL = 10, 3
# The first run looks for saves this long: saves later than the first ones show more.
LOOK_SECONDS = 20.0
# The late kill comes after a save in this part of the first run: counters have counted, and much is left to compare.
LATE = (0.5, 0.75)
# A test takes at most this many times the steps of the first run, without the runs that confirm a cause.
MOST_LENGTHS = 3.5


@dataclass(frozen=True, kw_only=True)
class ResumeRequest(checks.CheckRequest):
    """A request to test a resume: that of a check of the command, and where to kill.

    Attributes:
        again: the command to run after the kill: the same one, or one with further arguments.
        at: kill after these steps; empty chooses steps after a save.
        kills: kill instead after each of this many steps, chosen at random.
        during_save: kill instead within a save, and leave half of the file.
        saved_at: how many steps are done at each save of the script, where saves are not seen.
    """

    again: Command
    at: tuple[int, ...] = ()
    kills: int = 0
    signal: StopSignal = "KILL"
    during_save: bool = False
    saved_at: tuple[int, ...] = ()
    # In effect unlimited: more runs than anybody asks for.
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
        """A run in which every factor that moves by itself is pinned."""
        # Only a check tests whether what the first run prepares changes anything, so this begins as found.
        return replace(checks.pinned_run(self, checks.moving_factors(), None), witness=False, begins="found")


def uninterrupted_run(request: ResumeRequest) -> RunSpec:
    """Return the first run, which ends some steps after it has shown how it saves."""
    steps = max([LOOK_STEPS, *(step + 1 + STEPS_AFTER_SAVE for step in request.at)])
    resume = ResumeSpec(end_after_save=STEPS_AFTER_SAVE, saved_at=request.saved_at)
    looks = replace(request.pinned, look_seconds=LOOK_SECONDS, look_steps=steps)
    return replace(looks, role="uninterrupted", resume=resume)


def repeated_run(request: ResumeRequest, last: int) -> RunSpec:
    """Return the uninterrupted run once more, up to a step: it shows whether the script repeats."""
    return replace(request.pinned, role="uninterrupted again", stop_after=last, resume=ResumeSpec())


def killed_run(request: ResumeRequest, kill: KillPoint, follow: str) -> RunSpec:
    """Return the run that is killed; it ends early if it diverges from the uninterrupted run in `follow`."""
    spec = ResumeSpec(
        stop_after=None if request.during_save else kill.after,
        signal=request.signal,
        torn_save=kill.torn,
        keep_at=kill.saved,
        saved_at=request.saved_at,
    )
    return replace(request.pinned, role="killed", follow=follow, resume=spec, keeps=True)


def resumed_run(request: ResumeRequest, last_row: int | None, restored: Restoration, given: str = "") -> RunSpec:
    """Return the run that resumes, up to a row or to its end; `given` names what it is given back, if anything."""
    role, spec = f"resumed, {given} given back" if given else "resumed", ResumeSpec(restored=restored)
    return replace(request.pinned, role=role, stop_after=last_row, resume=spec, begins="left")


@dataclass(frozen=True)
class KillPoint:
    """The place at which a run is killed.

    Attributes:
        after: the last step that it does.
        saved: how many steps were done at the last save before the kill.
        torn: kill within the first save at which this many steps are done, instead of after a step.
        most: how many steps to compare; None compares all.
    """

    after: int
    saved: int
    torn: int | None = None
    most: int | None = None


def kills(request: ResumeRequest, saves: Mapping[int, SavePlace], steps: int) -> list[KillPoint]:
    """Choose where to kill a run of `steps` steps; `saves` has the place of each save by how many steps were done."""
    saved_at = sorted(saves)
    if request.during_save:
        # The first save stays whole, so that there is one to go back to.
        torn = saved_at[1] if len(saved_at) > 1 else saved_at[0]
        return [KillPoint(torn - 1, saved_at[0], torn)]
    if not (request.at or request.kills):
        return _chosen(saves, steps)
    possible = range(saved_at[0], steps - 1)
    generator = random.Random(derive(request.seed, "kills"))
    at = request.at or sorted(generator.sample(possible, min(request.kills, len(possible))))
    # A save after `step` + 1 steps comes too late: the kill comes at the end of that step.
    return [KillPoint(step, max((one for one in saved_at if one <= step), default=0)) for step in at]


def _chosen(saves: Mapping[int, SavePlace], steps: int) -> list[KillPoint]:
    """Choose kills a few steps after an early save and a late one, and after one that leaves files of different steps.

    Of the early and the late save, one lies within an epoch and one at an epoch's end, where both kinds are seen.
    """
    usable = [at for at in sorted(saves) if at < steps] or sorted(saves)[:1]
    # Prefer saves that another save follows: then the content of the next saved file is compared, too.
    followed = [at for at in usable if any(at < other < steps for other in saves)] or usable[:1]
    # What begins anew with an epoch does not show in the first one, and half an accumulation is lost only within a
    # step; of saves that are equally good, the earliest leaves the most to compare.
    early = min(followed, key=lambda at: (saves[at].epoch == 0, not saves[at].is_within_step, saves[at].is_end, at))
    later = [at for at in usable if at > early]
    inside = [at for at in later if LATE[0] * steps <= at <= LATE[1] * steps] or later[-1:]
    late = max(inside, key=lambda one: (saves[one].is_mixed, saves[one].is_end != saves[early].is_end, one), default=0)
    if not late:
        return [replace(_after(saves, early, steps), most=None)]
    chosen = [_after(saves, early, steps), replace(_after(saves, late, steps), most=None)]
    mixed = [at for at in usable if saves[at].is_mixed]
    if mixed and not (saves[early].is_mixed or saves[late].is_mixed):
        chosen.insert(1, _after(saves, mixed[-1], steps))
    lengths = sum(kill.after + 1 + (kill.most or steps - kill.saved) for kill in chosen)
    return chosen if steps + lengths <= MOST_LENGTHS * steps else [chosen[0], chosen[-1]]


def _after(saves: Mapping[int, SavePlace], one: int, steps: int) -> KillPoint:
    """Return the kill some steps after a save, and before the next save."""
    following = min((other for other in saves if other > one), default=steps)
    after = min(one + STEPS_BEFORE_KILL, following, steps - 1) - 1
    return KillPoint(max(after, one), one, most=max(STEPS_AFTER_SAVE, following - one + 2))
