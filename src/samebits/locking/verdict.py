"""The results of locking and verifying, as plain data; `report` makes text and documents from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from samebits.base.errors import SamebitsError, exit_code_of
from samebits.base.records import published
from samebits.checking.verdict import CheckVerdict as CheckVerdict
from samebits.locking.code import CodeChange
from samebits.locking.entries import Locked
from samebits.runfolder.environment import Environment

VerifyKind = Literal["same", "different", "unknown", "undecided"]
LockKind = Literal["locked", "different", "undecided"]
What = Literal["stream", "length", "artifact", "data"]
# The verdict on several entries together is the first of these that any entry has.
_WORST: tuple[VerifyKind, ...] = ("different", "undecided", "unknown", "same")


@dataclass(frozen=True)
class LockDivergence:
    """The place at which a run diverges from what is locked.

    Attributes:
        what: what differs: a recorded stream, the number of steps, an artifact, or a file of the data.
        step: the first step at which it is seen, counted from 0; None for artifacts and data.
        agreed: the last step that is known to agree; None where none is.
        streams: the streams that differ in the row `seen`, in their order; empty where the difference is in no stream
            that is locked there.
        seen: the first row from there on whose streams are locked: a step, or `end`.
        losses: the locked losses of that row and those found, as hex floats; None where they agree.
        lengths: how many steps were locked, and how many were taken, where these differ.
        path: the path of the artifact or the data.
        why: what is wrong with the path, as a clause.
        recordings: how many trainings of how many differ; None where there is one, or too many were locked.
    """

    what: What
    step: int | None = None
    agreed: int | None = None
    streams: tuple[str, ...] = ()
    seen: str = ""
    losses: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    lengths: tuple[int, int] | None = None
    path: str = ""
    why: str = ""
    recordings: tuple[int, int] | None = None

    @property
    @published()
    def is_exact(self) -> bool:
        """Whether the step before the first one seen is known to agree."""
        return self.step is not None and (self.step == 0 or self.agreed == self.step - 1)


@dataclass(frozen=True)
class EnvironmentDifference:
    """A field in which two environments differ.

    Attributes:
        name: the name of its factor where it has one (`cpu-threads`), else of the field.
        locked, here: the locked value, and the value here.
        can_change_bits: whether the field can change bits.
        why: how it can, or why it cannot, as a clause.
    """

    name: str
    locked: str
    here: str
    can_change_bits: bool
    why: str


@dataclass(frozen=True)
class Verified:
    """The result of verifying one entry.

    Attributes:
        name, command: the name and the command of the entry.
        kind: the verdict; `unknown` where the environment was never locked.
        environment: the environment of the run; all of it unknown where the run took no step.
        home: the locked environment that the run was compared with: its own, or where that is unknown, the nearest.
        differences: the differences between the two environments, the likeliest to change bits first.
        divergences: the data that differ, then where the recording diverges, then the artifacts that differ.
        is_steady: where bits differ, whether a second run gave the same as the first; None where none was made.
        agrees_with: where the environment is unknown, a locked one that has the same bits anyway.
        steps, streams: how many steps agree, and the streams that were compared.
        code: what has changed in the code since it was locked.
        variables: the environment variables that the script asks for and whose values have changed since it was locked.
        locked: what was expected.
        folder: the folder of the run; None where there was none.
        not_observed: what the recording cannot see.
        notes: what else to know.
        error: why nothing was decided.
        written: `added` or `changed`, where the lockfile was written.
        wall_seconds: how long its runs took; 0 where a recording was compared.
    """

    name: str
    command: str
    kind: VerifyKind = field(metadata={"key": "verdict"})
    environment: Environment = field(default_factory=Environment)
    home: str = ""
    differences: tuple[EnvironmentDifference, ...] = ()
    divergences: tuple[LockDivergence, ...] = ()
    is_steady: bool | None = None
    agrees_with: str = ""
    steps: int = 0
    streams: tuple[str, ...] = ()
    code: tuple[CodeChange, ...] = ()
    variables: tuple[str, ...] = ()
    locked: Locked | None = None
    folder: Path | None = None
    not_observed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: SamebitsError | None = None
    written: Literal["", "added", "changed"] = ""
    wall_seconds: float = 0.0


@dataclass(frozen=True)
class EntriesVerified:
    """The answer of `samebits verify`.

    Attributes:
        lockfile: its path.
        entries: the result for each entry, in the order in which they were asked for.
    """

    lockfile: Path
    entries: tuple[Verified, ...] = ()

    @property
    @published("verdict")
    def kind(self) -> VerifyKind:
        """The verdict on all entries together: one that differs makes it `different`."""
        kinds = {entry.kind for entry in self.entries}
        return next((kind for kind in _WORST if kind in kinds), "undecided")

    @property
    def exit_code(self) -> int:
        signalled = (one.error for one in self.entries if one.error is not None and one.error.exit_code > 2)
        return exit_code_of(self.kind, next(signalled, None))


@dataclass(frozen=True)
class EntryLocked:
    """The answer of `samebits lock`.

    Attributes:
        name, command: the name and the command of the entry.
        lockfile: its path.
        kind: the verdict; `different` where the command does not repeat: then nothing is written.
        environment, home: the environment of the run, and its name.
        locked: what was locked; None where nothing was.
        changed: where the run diverges from what was locked before; None where nothing was, or it is the same.
        is_new: nothing was locked for this environment before.
        check: the result of the check before it; None where there was none.
        folder: the folder of the run that was locked; None where there was none.
        notes: what else to know.
        not_observed: what the recording cannot see.
        error: why nothing was decided.
    """

    name: str
    command: str
    lockfile: Path
    kind: LockKind = field(metadata={"key": "verdict"})
    environment: Environment = field(default_factory=Environment)
    home: str = ""
    locked: Locked | None = None
    changed: LockDivergence | None = None
    is_new: bool = True
    check: CheckVerdict | None = None
    folder: Path | None = None
    notes: tuple[str, ...] = ()
    not_observed: tuple[str, ...] = ()
    error: SamebitsError | None = None

    @property
    def exit_code(self) -> int:
        return exit_code_of(self.kind, self.error)
