"""Runs one script under two interpreters: each has to repeat by itself; then they are compared, down to operations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from samebits.against.interpreters import Interpreter, differing_packages, find_interpreter, modules_imported
from samebits.against.operations import first_mismatch
from samebits.against.verdict import Across, Crossing
from samebits.base.errors import InterruptError, SamebitsError, UndecidedError, UsageError
from samebits.base.printable import listed
from samebits.checking.plan import LOOK_SECONDS, LOOK_STEPS, CheckRequest
from samebits.checking.pool import BudgetSpentError, RunPool, divergence_of
from samebits.checking.unjudgeable import why_unjudgeable
from samebits.checking.verdict import DivergentRuns, Run, VerdictKind
from samebits.comparison.locate import Divergence
from samebits.comparison.runs import distance_at
from samebits.comparison.streams import not_seen, streams_of
from samebits.comparison.values import distance_of_results
from samebits.factors.catalog import CATALOG, find, in_order
from samebits.factors.context import Setting
from samebits.launch.command import is_python
from samebits.replay.runner import replay
from samebits.runfolder.ops import OPERANDS, OpRow, Ops, operands_name
from samebits.runfolder.spec import OpWindow, RunSpec

# A variable for samebits in the process of the command: digest with the standard library, under both interpreters.
WITHOUT_XXHASH = "SAMEBITS_WITHOUT_XXHASH"
# Namespaces of torch's own operations; those of other packages have namespaces of their own.
_TORCHS = ("aten", "prims", "prim", "torch", "c10d", "quantized", "mkldnn", "onednn", "_c10d_functional", "inductor")

SideName = Literal["here", "there"]
Sides = dict[SideName, Interpreter]


def sides_of(request: CheckRequest, given: str) -> Sides:
    """Return the interpreter of the command, and the other one."""
    python = request.command.argv[0]
    if not is_python(python):
        raise UsageError(
            f"--against needs a command that starts Python, got {python!r}",
            "give a script, or python -m package: samebits check --against PYTHON train.py",
        )
    return {"here": find_interpreter(python), "there": find_interpreter(given)}


def run_against(request: CheckRequest, sides: Sides, pool: RunPool) -> Crossing:
    """Make the runs, and return what they show."""
    crossing = _Crossing(request, sides, pool)
    try:
        with _digesting_alike(sides):
            crossing.run()
    except BudgetSpentError as spent:
        if spent.signal is not None:
            return crossing.found(InterruptError.by(spent.signal, pool.home), spent.signal)
        why = f"stopped after {request.most_runs()} runs"
        return crossing.found(UndecidedError(why, "give more with --max-runs"))
    except SamebitsError as error:
        return crossing.found(error)
    finally:
        pool.drop_values()
    return crossing.found()


@contextmanager
def _digesting_alike(sides: Sides) -> Iterator[None]:
    """Have no side use xxhash where one lacks it: digests of two kinds cannot be compared."""
    if all(side.has_xxhash for side in sides.values()):
        yield
        return
    os.environ[WITHOUT_XXHASH] = "1"
    try:
        yield
    finally:
        del os.environ[WITHOUT_XXHASH]


class _Crossing:
    """One comparison of two interpreters, run by run."""

    def __init__(self, request: CheckRequest, sides: Sides, pool: RunPool) -> None:
        self.request, self.sides, self.pool = request, sides, pool
        # Everything that `samebits run` pins by default, and everything that a check can pin to find a cause.
        default = [factor.name for factor in CATALOG if factor.pinned_by_default and factor.name not in request.pins]
        self.pins = in_order([*default, *request.pinnable()])
        self.there_runs: list[int] = []
        self.divergent: DivergentRuns | None = None
        self.across: Across | None = None
        self.compared: tuple[Run, Run] | None = None
        self.notes: list[str] = []

    def run(self) -> None:
        """Make all runs: compare the beginning, then the whole, then find the operation."""
        first = self._first_run()
        ended, last = first.stopped_after, self.request.last_step
        self._both(first, last if ended is None else ended)
        if ended is not None and self.divergent is None:
            if self.request.quick:
                self.notes.append(f"only the first {ended + 1} steps were looked at")
            else:
                self._both(self._run("here", "here", last), last)
        if self.divergent is not None and self.request.level == "op":
            self._locate(self.divergent.divergence)

    def _first_run(self) -> Run:
        """Make the first run of this side, without those pins under which the script fails."""
        look: dict[str, Any] = {"look_seconds": LOOK_SECONDS, "look_steps": LOOK_STEPS}
        run = self._run("here", "here", self.request.last_step, must_work=False, **look)
        harsh = [name for name in self.pins if find(name).may_raise]
        if run.succeeded or not harsh:
            self._need_work(run, "here")
            return run
        self.pins = [name for name in self.pins if name not in harsh]
        again = self._run("here", "here", self.request.last_step, **look)
        self.notes.append(f"left out, because the script fails with it: {', '.join(harsh)}")
        return again

    def _both(self, here: Run, last: int | None) -> None:
        """Make three more runs: each side has to repeat; then compare the first runs of both sides."""
        self._need_repeat(here, self._run("here", "here again", last), "here")
        there = self._run("there", "there", last)
        self._need_repeat(there, self._run("there", "there again", last), "there")
        place = divergence_of(here, there, across=True)
        self.compared = here, there
        self.notes += [note for note in _only_one_keeps(here, there, self.sides) if note not in self.notes]
        if place is not None:
            self.divergent = DivergentRuns(here.id, there.id, place, distance_at(here.path, there.path, place))

    def _need_repeat(self, a: Run, b: Run, side: SideName) -> None:
        place = self.pool.compare(a, b)
        if place is not None:
            raise UndecidedError(
                f"under {self.sides[side].path} the script does not repeat by itself: runs {a.id} and {b.id} diverge "
                f"at step {place.step}, in {place.stream}, with everything held still",
                "first: samebits check, with that interpreter, says why",
            )

    def _run(self, side: SideName, role: str, last: int | None, must_work: bool = True, **more: Any) -> Run:
        held = {name: Setting("pinned") for name in self.pins}
        spec = RunSpec(role, {**held, **self.request.pins}, self.request.seed, stop_after=last, **more)
        command = self.request.command
        run = self.pool.run(spec, replace(command, argv=(self.sides[side].path, *command.argv[1:])))
        if side == "there":
            self.there_runs.append(run.id)
        if must_work:
            self._need_work(run, side)
        return run

    def _need_work(self, run: Run, side: SideName) -> None:
        trouble = why_unjudgeable([run])
        if trouble is not None:
            raise type(trouble)(f"under {self.sides[side].path} {trouble.message}", trouble.hint)

    # ---- the operation

    def _locate(self, place: Divergence) -> None:
        if place.stream in ("outcome", "length") or place.process:
            return
        window = OpWindow(place.step, place.step, by_value=True)
        runs = [self._run(side, f"operations {side}", place.step, ops=window) for side in self.sides]
        mismatch, aligned = first_mismatch(*(_rows(run, place.rank, place.step) for run in runs))
        if mismatch is None:
            self.notes.append("every recorded operation of that step agrees, so the divergent operation is unknown")
            return
        self.across = Across(mismatch, aligned)
        if mismatch.finding == "op":
            self.across = self._replayed(self.across, place.rank)

    def _replayed(self, across: Across, rank: int) -> Across:
        """Make the call of this side again in both interpreters, and add what it gave to `across`."""
        step, kept = across.mismatch.step, list[tuple[Run, Path]]()
        for side, row in zip(self.sides, (across.mismatch.a, across.mismatch.b), strict=True):
            assert row is not None
            window = OpWindow(step, step, keep=((step, row.index),), by_value=True)
            run = self._run(side, f"operands {side} kept", step, ops=window)
            kept.append((run, run.path / OPERANDS / f"{operands_name(rank, step, row.index)}.json"))
        (run, operands), (_, others) = kept
        if not operands.exists():
            return across
        apart = distance_of_results(operands, others) if others.exists() else None
        here, there = (replay(run.folder, operands, python=self.sides[side].path) for side in self.sides)
        return replace(across, distance=apart, here=here, there=there)

    # ---- the answer

    def found(self, error: SamebitsError | None = None, signal: int | None = None) -> Crossing:
        """Return what is known by now."""
        runs = self.pool.runs
        here, there = self.sides.values()
        streams = streams_of(run.folder.recordings() for run in self.compared) if self.compared else ()
        steps = 0 if self.compared is None else min(run.steps for run in self.compared)
        kind: VerdictKind = "different" if self.divergent is not None else "undecided" if error is not None else "same"
        return Crossing(
            kind,
            str(self.request.command),
            self.pool.home,
            here,
            there,
            tuple(run.record for run in runs),
            tuple(self.there_runs),
            self.divergent,
            self.across,
            differing_packages(here, there, self._owners(), self._imported()),
            tuple(in_order([*self.pins, *self.request.pins])),
            steps,
            streams,
            tuple(self.notes),
            not_seen((run.path for run in runs), streams, steps),
            error,
            signal,
        )

    def _owners(self) -> tuple[str, ...]:
        """Return the packages that the operation belongs to; none where the data differ, whose owner is unknown."""
        if self.across is None or self.across.mismatch.finding == "input":
            return ()
        namespace = self.across.mismatch.row.kind.op.partition("::")[0]
        if namespace in _TORCHS:
            return ("torch",)
        return tuple(name for side in self.sides.values() for name in side.imports.get(namespace, ()))

    def _imported(self) -> set[str]:
        files = {path for run in self.pool.runs for path in (*run.facts.files, run.facts.script) if path}
        return modules_imported(sorted(files))


def _only_one_keeps(here: Run, there: Run, sides: Sides) -> Iterator[str]:
    """Notes on optimizer state that only one of the two torch versions keeps, as it was first recorded."""
    a, b = _names_in_optimizer(here), _names_in_optimizer(there)
    for side, names, other in ((sides["here"], a, b), (sides["there"], b, a)):
        if other and (extra := [name for name in names if name not in other]):
            yield f"only {side.path} keeps {listed(extra)} of an optimizer; that is not compared"


def _names_in_optimizer(run: Run) -> tuple[str, ...]:
    rows = (recording.columns(row) for recording in run.folder.recordings() for row in range(len(recording)))
    return next((columns["optimizer"].names for columns in rows if "optimizer" in columns), ())


def _rows(run: Run, rank: int, step: int) -> list[OpRow]:
    recordings = [recording for recording in run.folder.recordings() if recording.rank == rank]
    return [*takewhile(lambda row: row.step <= step, Ops(recordings[0]).rows())] if recordings else []
