"""What a recording is asked to hold; plain data that survives JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# What the names of models begin with that no optimizer trains, where a resume is watched: averages, copies.
AVERAGED = "averaged "
# How a training is stopped, what of it is put back to see whether that was missing, and when.
StopSignal = Literal["KILL", "TERM"]
Put = Literal["generators", "optimizer"]
Moment = Literal["load", "iter", "batch", "step"]


@dataclass(frozen=True)
class OpWindow:
    """Every operation of a window of steps.

    Attributes:
        first, last: the steps of the window, both included; `last=None` is up to the end.
        against: run folder to compare with while running: the operands of the first operation that differs are kept.
        keep: keep the operands of these operations, each (step, index in the step).
        grafts: files with operands; their results are put in place of this run's own, so that the run goes on as if
            that operation had not differed.
        by_value: the evidence is of elements alone, not of where an input came from, or of how it lies in memory: so
            two programs can be compared that are not the same.
    """

    first: int = 0
    last: int | None = None
    against: str | None = None
    keep: tuple[tuple[int, int], ...] = ()
    grafts: tuple[str, ...] = ()
    by_value: bool = False


@dataclass(frozen=True)
class Restored:
    """What a resumed run is given back from outside, to see whether that is what it lacks.

    Attributes:
        folder: of the run that kept it.
        what: the global generators, or the state and the groups of optimizers.
        moment: when: after the first `load`, before the first `iter` of a loader, before a `batch` is made, or before
            the first `step` of an optimizer.
        batch: which batch, counted from 0 over all that the process gets.
        names: of the generators; empty for all.
    """

    folder: str
    what: Put
    moment: Moment
    batch: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResumeSpec:
    """A run whose checkpoints are watched, and that may be stopped in the middle.

    Attributes:
        end_after_save: a look goes on until so many steps after the first save, and to the second one where that comes
            when the first lets one expect it; None for a run that is not ended so.
        stop_after: stop the process at the end of this step.
        signal: by which signal.
        torn_save: stop it within the first save for which so many steps are done, and leave half of the file.
        keep_at: keep generators and optimizers as they are when so many steps are done and were saved.
        restored: what is given back to the run.
        saved_at: the program is said to save when so many steps are done, in a way that is not seen.
    """

    end_after_save: int | None = None
    stop_after: int | None = None
    signal: StopSignal = "KILL"
    torn_save: int | None = None
    keep_at: int | None = None
    restored: Restored | None = None
    saved_at: tuple[int, ...] = ()


@dataclass(frozen=True)
class RecordSpec:
    """What to record.

    Attributes:
        stop_after: end the process once this step has been written; None lets it run to its end.
        keep_step: keep whole tensors of this step; None keeps none.
        keep_streams: of these streams.
        keep_names: those with these names; empty for all of them.
        ops: record operations too.
        look_seconds: end the process so long after its first step, once it has taken `look_steps` steps; None does not.
        look_steps: see there.
        follow: folder of another run: end the process soon after it diverged from that one.
        along: folders of runs that are being made: the same with each of them; None does not.
        resume: watch checkpoints, and stop the process in the middle; None does not.
    """

    stop_after: int | None = None
    keep_step: int | None = None
    keep_streams: tuple[str, ...] = ()
    keep_names: tuple[str, ...] = ()
    ops: OpWindow | None = None
    look_seconds: float | None = None
    look_steps: int = 0
    follow: str | None = None
    along: tuple[str, ...] | None = None
    resume: ResumeSpec | None = None
