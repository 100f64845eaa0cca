"""RunSpec: what one run of the command is asked: how it is treated, what it records, when it ends, where it begins.

Plain data that travels through a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from samebits.base.records import from_data
from samebits.factors.catalog import CATALOG
from samebits.factors.context import Setting

VARIABLE = "SAMEBITS_PLAN"
# The name of the file.
PLAN = "plan.json"
# Two named pipes beside it, where a run is paced: `go` brings a number of steps to take, or 0 to end there; `done`
# takes one JSON object when the run is ready, and one for each block of steps that it took.
GO, DONE = "go", "done"

# What the names of models begin with that no optimizer trains, where a resume is watched: averages, copies.
AVERAGED = "averaged "
# How a training is stopped, what of it is given back to see whether that was missing.
StopSignal = Literal["KILL", "TERM"]
Moment = Literal["iter", "batch"]
# What the folder of a run holds: what the command found there; besides, what the first run prepared before its first
# step; or what a whole run has left.
Beginning = Literal["found", "prepared", "left"]


@dataclass(frozen=True)
class OpWindow:
    """Every operation of a window of steps.

    Attributes:
        first, last: the steps of the window, both included; `last=None` is up to the end.
        against: run folder to compare with while running: the operands of the first operation that differs are kept.
        keep: keep the operands of these operations, each (step, index in the step).
        grafts: files with operands; their results are put in place of this run's own, so that the run continues as if
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
    """What a resumed run is compared with, and given back from outside, to see whether that is what it lacks.

    Attributes:
        folder: of the run that kept it.
        slots: paths of what is given back where the resumed run comes to a line that the killed one came to.
        moment: of the generators: before the first `iter` of a loader, or before a `batch` is made; None for none.
        batch: which batch, counted from 0 over all that the process gets.
        names: of the generators; empty for all.
        skip: pass this many batches over at that moment, instead of giving generators back.
    """

    folder: str
    slots: tuple[str, ...] = ()
    moment: Moment | None = None
    batch: int = 0
    names: tuple[str, ...] = ()
    skip: int = 0


@dataclass(frozen=True)
class ResumeSpec:
    """A run whose checkpoints are watched, and that may be stopped in the middle.

    Attributes:
        end_after_save: a look ends this many steps after the first save, and to the second one where that comes
            when the first lets one expect it; None for a run that is not ended so.
        stop_after, signal: stop the process at the end of this step, by this signal.
        torn_save: stop it within the first save for which this many steps are done, and leave half of the file.
        keep_at: keep what the program holds when this many steps are done and were saved.
        restored: what the run is compared with, and given back.
        saved_at: the program is said to save when this many steps are done, in a way that is not seen.
    """

    end_after_save: int | None = None
    stop_after: int | None = None
    signal: StopSignal = "KILL"
    torn_save: int | None = None
    keep_at: int | None = None
    restored: Restored | None = None
    saved_at: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunSpec:
    """One run.

    Attributes:
        role: what it is for, in words: `control`, `varied`, `pinned` …
        settings: how to treat which factor; those not named are natural.
        seed: root of all pinned streams.
        witness: note the call sites at which factors enter.
        record: record the steps.
        per_rank: give every rank streams of its own.
        stop_after: end the process once this step has been written; None lets it run to its end.
        keep_step, keep_streams, keep_names: keep whole tensors of one step; no names are all names.
        ops: record these steps operation by operation; None does not.
        look_seconds, look_steps: end the process this long after its first step, once it took this many; None does not.
        follow: folder of another run: end the process soon after it diverged from that one.
        along: folders of runs that are being made: the same with each of them. Whoever makes them fills in the folders.
        paced_from: record this many steps, then take further ones only when asked to (`agent.pacer`).
        resume: watch checkpoints, and stop the run as this says; None does not.
        begins: what its folder holds at the start.
        brought: of what a run has left only these paths, as in the user's own folder; empty for all of it.
        keeps: what this run leaves is kept for later ones.
        as_run: what `samebits run` holds around the start of its command is held here, too.
    """

    role: str = "run"
    settings: Mapping[str, Setting] = field(default_factory=dict)
    seed: int = 0
    witness: bool = False
    record: bool = True
    per_rank: bool = False
    stop_after: int | None = None
    keep_step: int | None = None
    keep_streams: tuple[str, ...] = ()
    keep_names: tuple[str, ...] = ()
    ops: OpWindow | None = None
    look_seconds: float | None = None
    look_steps: int = 0
    follow: str | None = None
    along: tuple[str, ...] | None = None
    paced_from: int | None = None
    resume: ResumeSpec | None = None
    begins: Beginning = "found"
    brought: tuple[str, ...] = ()
    keeps: bool = False
    as_run: bool = False

    def named(self, mode: str) -> list[str]:
        """The factors treated so, in catalogue order."""
        return [f.name for f in CATALOG if self.settings.get(f.name, Setting()).mode == mode]

    def with_settings(self, settings: Mapping[str, Setting]) -> RunSpec:
        """The same run with some factors treated otherwise."""
        return replace(self, settings={**self.settings, **settings})

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables that must be set before the interpreter starts."""
        found: dict[str, str] = {}
        for factor in CATALOG:
            found |= factor.environment(self.settings.get(factor.name, Setting()), self.seed, environ)
        return found

    @contextmanager
    def starting(self) -> Iterator[None]:
        """What must hold around the start of a command that is run as by `samebits run`."""
        with ExitStack() as stack:
            for factor in CATALOG if self.as_run else ():
                stack.enter_context(factor.starting(self.settings.get(factor.name, Setting())))
            yield


def read_spec(path: str | Path) -> RunSpec:
    """What whoever starts a run wrote for it; ValueError where it is something else."""
    return from_data(RunSpec, json.loads(Path(path).read_text(encoding="utf-8")))
