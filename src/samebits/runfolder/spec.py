"""RunSpec: the instructions for one run of the command: its treatment, its recording, its beginning and its end.

Plain data, written to a file outside and read by the process of the run.
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
# The name of the file with the spec; the variable holds its path.
PLAN = "plan.json"
# Two named pipes next to it, where a run is paced: `go` brings a number of steps to take, or 0 to end there; `done`
# takes one JSON object when the run is ready, and one for each block of steps that it has taken.
GO, DONE = "go", "done"

# Where a resume is watched: the prefix of the names of models that no optimizer trains, such as averages and copies.
AVERAGED = "averaged "
# The signal that stops a training; the moment at which generators are restored in the run that resumes it.
StopSignal = Literal["KILL", "TERM"]
Moment = Literal["iter", "batch"]
# What the working folder of a run holds at its start: what the command found there; that and what the first run
# prepared before its first step; or what an earlier run has left.
Beginning = Literal["found", "prepared", "left"]


@dataclass(frozen=True)
class OpWindow:
    """A window of steps that are recorded operation by operation.

    Attributes:
        first, last: the steps of the window, both included; `last=None` extends it to the end of the run.
        against: run folder to compare with while running; the operands of the first operation that differs are kept.
        keep: operations whose operands are kept, each (step, index in the step).
        grafts: files with the operands and results of another run's operations; they replace this run's own, so that it
            continues as if those operations had not differed.
        by_value: the evidence covers elements alone, not where an input came from or how it lies in memory, so that two
            different programs can be compared.
    """

    first: int = 0
    last: int | None = None
    against: str | None = None
    keep: tuple[tuple[int, int], ...] = ()
    grafts: tuple[str, ...] = ()
    by_value: bool = False


@dataclass(frozen=True)
class Restoration:
    """The kept state that a resumed run is compared with, and which of it is restored to see whether that was missing.

    Attributes:
        folder: folder of the run that kept the state.
        slots: paths of the values that are restored where the resumed run reaches a line that the killed one reached.
        moment: when generators are restored: before the first `iter` of a loader, or before a `batch` is made; or None.
        batch: number of that batch, from 0, among all that the process gets.
        names: the generators that are restored; empty for all.
        skip: how many batches to skip at that moment, instead of restoring generators.
        undone: how many steps the resumed run takes that are undone before it continues.
    """

    folder: str
    slots: tuple[str, ...] = ()
    moment: Moment | None = None
    batch: int = 0
    names: tuple[str, ...] = ()
    skip: int = 0
    undone: int = 0


@dataclass(frozen=True)
class ResumeSpec:
    """Instructions for a run whose checkpoints are watched, and that may be stopped in the middle.

    Attributes:
        end_after_save: the first look lasts until this many steps after the first save, and then until the second save
            or until that is overdue; None where it waits for no save.
        stop_after, signal: stop the process at the end of this step, by this signal.
        torn_save: kill it within the first save after at least this many steps, and leave half of the file.
        keep_at: keep the values that the program holds when it saves after this many steps.
        restored: the state that the run is compared with, and what of it is restored.
        saved_at: numbers of steps after which the program saves, as the user says, in a way that samebits cannot see.
    """

    end_after_save: int | None = None
    stop_after: int | None = None
    signal: StopSignal = "KILL"
    torn_save: int | None = None
    keep_at: int | None = None
    restored: Restoration | None = None
    saved_at: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunSpec:
    """The instructions for one run.

    Attributes:
        role: the purpose of the run, in words: `control`, `varied`, `pinned` …
        settings: factor → its treatment; factors without an entry are natural.
        seed: root of the seeds of all pinned random streams.
        witness: note the call sites at which factors enter.
        record: record the steps.
        per_rank: give every rank random streams of its own.
        stop_after: end the process once this step has been written; None lets it run to its end.
        keep_step, keep_streams, keep_names: keep whole tensors of this step, streams and names; no names are all names.
        ops: the steps to record operation by operation; None for no step.
        look_seconds, look_steps: end the process this long after its first step, and after this many steps; or None.
        follow: folder of another run: end the process soon after it diverges from that run.
        along: folders of runs made at the same time, followed likewise; whoever starts these runs fills the folders in.
        paced_from: record this many steps, then take further ones only when asked to (`agent.pacer`).
        resume: how checkpoints are watched and where the run is stopped; None for neither.
        begins: what its working folder holds at the start.
        brought: of the files that a run has left, those to begin with, as in the user's own folder; empty for all.
        keeps: keep the files that this run leaves for later runs.
        as_run: start the command under the same conditions as `samebits run` does.
        shares_cores: other runs are made at the same time: threads that wait leave their core to them.
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
    shares_cores: bool = False

    def named(self, mode: str) -> list[str]:
        """Return the names of the factors whose treatment is `mode`, in catalogue order."""
        return [f.name for f in CATALOG if self.settings.get(f.name, Setting()).mode == mode]

    def with_settings(self, settings: Mapping[str, Setting]) -> RunSpec:
        """Return a copy of this spec in which some factors are treated differently."""
        return replace(self, settings={**self.settings, **settings})

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that must be set before the interpreter starts."""
        variables: dict[str, str] = {}
        for factor in CATALOG:
            variables |= factor.environment(self.settings.get(factor.name, Setting()), self.seed, environ)
        return variables

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Establish the conditions that factors need while the command starts; does nothing without `as_run`."""
        with ExitStack() as stack:
            for factor in CATALOG if self.as_run else ():
                stack.enter_context(factor.starting(self.settings.get(factor.name, Setting())))
            yield


def read_spec(path: str | Path) -> RunSpec:
    """Read the spec that was written for a run; ValueError where the file holds something else."""
    return from_data(RunSpec, json.loads(Path(path).read_text(encoding="utf-8")))
