"""What a test of a resume found, as plain data. Text and JSON are made from this in `report`."""

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
        state: which.
        evidence: what shows it, as a clause.
        rank: of the process that lacks it.
        confirmed: with this given back, the run continues with the same bits where it did not before.
        location: the line that saved the checkpoint, or else the one that loaded it.
    """

    state: State
    evidence: str
    rank: int = 0
    confirmed: bool = False
    location: Site | None = None


@dataclass(frozen=True)
class SavedCheckpoint:
    """Where the training was saved, and where that was loaded again.

    Attributes:
        path: of the file or folder; empty where it is not known.
        saved_at, loaded_at: the lines.
    """

    path: str = ""
    saved_at: Site | None = None
    loaded_at: Site | None = None


@dataclass(frozen=True)
class Trial:
    """One training that was stopped and resumed.

    Attributes:
        signal: that stopped it.
        killed_after: the last step that it did; -1 before the first.
        torn: it was killed in a save, and half of this file was left.
        saved_step: steps that were done when the checkpoint was saved that it resumed from.
        resumed_step: the first step that it did again; None where it did none.
        compared: how many steps were compared with those of the uninterrupted run.
        is_to_the_end: and what was saved after the last one.
        loaded: what it loaded that had been saved, and how many steps were done then.
        divergence: the first place at which they differ.
        missing: why, the first cause first.
        lacks: what the resumed run held otherwise than the killed one, and was not found to matter.
        checkpoint: what it resumed from.
        runs: numbers of the killed and the resumed run, and of those that confirmed a cause.
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
        command, again: as they were typed; what was started after the kill.
        home: the folder of its runs.
        runs: all that were made.
        steps: that the uninterrupted run took; it ended there by itself if `is_whole`.
        trials: those that were made.
        seed: of the steps that were chosen at random; None where none were.
        error: why nothing could be decided.
        signal: that ended it.
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
        """Why it is not all decided."""
        return self.error or next((trial.error for trial in self.trials if trial.error is not None), None)

    @property
    def failing(self) -> Trial | None:
        """The first resume that failed, where another one continued: from there it cannot be resumed."""
        went_on = any(one.compared for one in self.trials)
        failed = (one for one in self.trials if isinstance(one.error, ScriptFailedError) and not one.torn)
        return next(failed, None) if went_on else None

    @property
    @published()
    def first(self) -> Trial | None:
        """The trial to speak of: the first that differs or fails, or else the first."""
        speaking = (one for one in self.trials if one.differs or one is self.failing)
        return next(speaking, self.trials[0] if self.trials else None)

    @property
    def exit_code(self) -> int:
        return exit_code_of(self.kind, self.trouble if self.kind == "undecided" else None)
