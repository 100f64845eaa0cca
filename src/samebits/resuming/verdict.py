"""The result of a test of a resume, as plain data; `report` makes text and JSON from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from samebits.base.errors import SamebitsError, ScriptFailedError, exit_code_of
from samebits.base.records import published
from samebits.base.sites import Site
from samebits.checking.verdict import RunRecord, VerdictKind
from samebits.comparison.locate import Divergence
from samebits.runfolder.notes import Lacks

State = Literal[
    "not-resumed",
    "parameters",
    "buffers",
    "averaged",
    "position",
    "order",
    "sample-generators",
    "generators",
    "optimizer",
    "scheduler",
    "scaler",
    "accumulation",
    "rank-state",
    "look-ahead",
    "snapshot",
    "epoch",
    "mode",
    "carried",
    "counter",
    "replay",
]


@dataclass(frozen=True)
class Missing:
    """A state that was not saved, or not restored.

    Attributes:
        state: the name of the state.
        evidence: what shows that it is missing, as a clause.
        rank: the rank of the process that lacks it.
        confirmed: with this state given back, and all others that are confirmed, no difference is left.
        location: the line that saved the checkpoint, or else the one that loaded it.
        moves_to: the step to which the first difference moves with this state given back; None where one is confirmed.
    """

    state: State
    evidence: str
    rank: int = 0
    confirmed: bool = False
    location: Site | None = None
    moves_to: int | None = None


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint: where it was saved, and where it was loaded again.

    Attributes:
        path: the path of the file or folder; empty where it is not known.
        saved_at, loaded_at: the lines that saved and loaded it.
    """

    path: str = ""
    saved_at: Site | None = None
    loaded_at: Site | None = None


@dataclass(frozen=True)
class Trial:
    """One training that was stopped and resumed.

    Attributes:
        signal: the signal that stopped it.
        killed_after: the last step before the stop; -1 where it was stopped before the first step.
        torn: the file that was left half written by a stop within a save; empty where none was.
        saved_step: how many steps were done when the checkpoint was saved that it resumed from.
        resumed_step: the first step of the resumed run; None where it took none.
        compared: how many steps were compared with those of the uninterrupted run.
        is_to_the_end: all remaining steps were compared, and what was saved after the last one.
        loaded: the saved files that it loaded, and how many steps were done when each was saved.
        divergence: the first place at which the resumed run differs from the uninterrupted one.
        missing: why it differs, the first cause first.
        lacks: what differs between the resumed run and the killed one, and was not found to matter.
        checkpoint: the checkpoint that it resumed from.
        runs: the numbers of the killed run, of the resumed run, and of the runs that tested causes.
        error: why it could not be judged.
    """

    signal: str
    killed_after: int
    torn: str = ""
    saved_step: int | None = None
    resumed_step: int | None = None
    compared: int = 0
    is_to_the_end: bool = False
    loaded: tuple[tuple[str, int], ...] = ()
    divergence: Divergence | None = None
    missing: tuple[Missing, ...] = ()
    lacks: tuple[Lacks, ...] = ()
    checkpoint: SavedCheckpoint = SavedCheckpoint()
    runs: tuple[int, ...] = ()
    error: SamebitsError | None = None

    @property
    def differs(self) -> bool:
        return self.divergence is not None or bool(self.missing)


@dataclass(frozen=True)
class Resumption:
    """The answer of `samebits resume`.

    Attributes:
        command, again: the command, and the one that was started after the kill, as they were typed.
        home: the folder of its runs.
        runs: all runs that were made.
        steps: how many steps the uninterrupted run took; it ended there by itself if `is_whole`.
        trials: the trials that were made.
        seed: the seed by which steps to kill at were chosen at random; None where none were.
        error: why nothing could be decided.
        signal: the signal that ended the test early; None where none did.
        not_observed: what the recordings do not hold.
    """

    command: str
    again: str
    home: Path = field(metadata={"key": "folder"})
    runs: tuple[RunRecord, ...] = ()
    steps: int = 0
    is_whole: bool = False
    trials: tuple[Trial, ...] = ()
    seed: int | None = None
    error: SamebitsError | None = None
    signal: int | None = None
    not_observed: tuple[str, ...] = ()

    @property
    @published("verdict")
    def kind(self) -> VerdictKind:
        """Whether every resume continued with the same bits."""
        if any(trial.differs for trial in self.trials) or self.failing is not None:
            return "different"
        if self.trouble is not None or not self.trials:
            return "undecided"
        return "same"

    @property
    @published()
    def trouble(self) -> SamebitsError | None:
        """Why not everything could be decided."""
        return self.error or next((trial.error for trial in self.trials if trial.error is not None), None)

    @property
    def failing(self) -> Trial | None:
        """The first resume that failed, if another one worked: the training cannot be resumed from there."""
        went_on = any(one.compared for one in self.trials)
        failed = (one for one in self.trials if isinstance(one.error, ScriptFailedError) and not one.torn)
        return next(failed, None) if went_on else None

    @property
    @published()
    def first(self) -> Trial | None:
        """The trial to report: the first that differs or fails, or else the first."""
        to_report = (one for one in self.trials if one.differs or one is self.failing)
        return next(to_report, self.trials[0] if self.trials else None)

    @property
    def exit_code(self) -> int:
        return exit_code_of(self.kind, self.trouble if self.kind == "undecided" else None)
