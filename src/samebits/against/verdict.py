"""The answer of `samebits check --against`, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from samebits.against.interpreters import Interpreter, Package
from samebits.against.operations import OpMismatch, Pairing
from samebits.base.errors import SamebitsError, exit_code_of
from samebits.base.records import published
from samebits.checking.verdict import DivergentRuns, RunRecord, VerdictKind
from samebits.comparison.values import Distance
from samebits.replay.runner import Replay


@dataclass(frozen=True)
class Across:
    """The operation at which two environments differ, and what calling it in both showed.

    Attributes:
        mismatch: the operation.
        aligned: how far the operations of both could be paired.
        distance: how far apart the results are; None where that could not be measured.
        here, there: the call of the first side, made again in each interpreter; None where it was not made again.
    """

    mismatch: OpMismatch
    aligned: Pairing
    distance: Distance | None = None
    here: Replay | None = None
    there: Replay | None = None

    @property
    @published()
    def confirmed(self) -> bool:
        """Whether the same call gave the recorded result here, and never there."""
        if self.here is None or self.there is None or self.here.failure or self.there.failure:
            return False
        return self.here.gives_recorded and not self.there.gives_recorded and self.there.distinct > 0


@dataclass(frozen=True)
class Crossing:
    """The answer of `samebits check --against`.

    Attributes:
        kind: same, different or undecided.
        command: the command as it was typed.
        home: the folder of the runs.
        here, there: the two interpreters.
        runs: all runs that were made; those of `there` are in `there_runs`.
        there_runs: numbers of the runs under the other interpreter.
        divergent: the first run of each side, where they differ.
        across: the operation; None where it was not looked for, or not found.
        packages: the packages that differ, those of the operation first.
        pinned: the factors that were pinned on both sides.
        steps: how many steps were compared.
        streams: the streams that were compared.
        notes: what else is worth knowing.
        not_observed: what the recordings lack.
        error: why nothing could be decided.
        signal: the signal that ended the comparison; None where none did.
    """

    kind: VerdictKind = field(metadata={"key": "verdict"})
    command: str
    home: Path = field(metadata={"key": "folder"})
    here: Interpreter
    there: Interpreter
    runs: tuple[RunRecord, ...] = ()
    there_runs: tuple[int, ...] = ()
    divergent: DivergentRuns | None = None
    across: Across | None = None
    packages: tuple[Package, ...] = ()
    pinned: tuple[str, ...] = ()
    steps: int = 0
    streams: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    not_observed: tuple[str, ...] = ()
    error: SamebitsError | None = None
    signal: int | None = None

    @property
    def exit_code(self) -> int:
        return exit_code_of(self.kind, self.error if self.kind == "undecided" else None)
