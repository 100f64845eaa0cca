"""What locking and verifying found, as plain data. Text and documents are made from this in `report`."""

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
# Of several entries, what the answer as a whole is: the first of these that any of them is.
_WORST: tuple[VerifyKind, ...] = ("different", "undecided", "unknown", "same")


@dataclass(frozen=True)
class LockDivergence:
    """Where a run parts from what is locked.

    Attributes:
        what: a recorded stream, the number of steps, an artifact, or a file of the data.
        step: the first at which it is seen, counted from 0; None for artifacts and data.
        agreed: the last step that is known to agree; None where none is.
        streams: those that differ in the first row of which streams are locked, in their order; empty where the
            difference is in none that is locked there.
        seen: that row: a step, or `end`.
        losses: locked and found there, as hex floats; empty where they agree.
        lengths: the steps that were locked and that were taken, where those differ.
        path: of the artifact or the data.
        why: what is to say of the path, as a clause.
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
        name: of the factor where there is one (`cpu-threads`), else of the field.
        locked, here: its values.
        can_change_bits: whether it can.
        why: how, as a clause.
    """

    name: str
    locked: str
    here: str
    can_change_bits: bool
    why: str


@dataclass(frozen=True)
class Verified:
    """What verifying one entry found.

    Attributes:
        name, command: of the entry.
        kind: `unknown` where the environment was never locked.
        environment: this one; all of it unknown where the run came to no step.
        home: the locked environment that it was held against: this one, or where it is unknown, the nearest.
        differences: between the two, what can change bits first.
        divergences: the first is where the run parts, or what of the data does; then artifacts.
        is_steady: where bits are other ones, whether a second run gave the same as the first; None where none was made.
        agrees_with: with an unknown environment, a locked one that has the same bits anyway.
        steps, streams: that agree.
        code: what has changed since it was locked.
        variables: of the environment that the script asks for, and that have another value than when it was locked.
        locked: what was expected.
        folder: of the run; None where there was none.
        not_observed: what the recording cannot see.
        notes: what else to know.
        error: why nothing was decided.
        written: `added` or `changed`, where the lockfile was written.
        wall_seconds: its runs took; 0 where a recording was held against it.
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
        entries: what was found of each, in the order in which they were asked for.
    """

    lockfile: Path
    entries: tuple[Verified, ...] = ()

    @property
    @published("verdict")
    def kind(self) -> VerifyKind:
        """Of all of them together: one that differs makes the answer `different`."""
        found = {entry.kind for entry in self.entries}
        return next((kind for kind in _WORST if kind in found), "undecided")

    @property
    def exit_code(self) -> int:
        signalled = (one.error for one in self.entries if one.error is not None and one.error.exit_code > 2)
        return exit_code_of(self.kind, next(signalled, None))


@dataclass(frozen=True)
class EntryLocked:
    """The answer of `samebits lock`.

    Attributes:
        name, command: of the entry.
        lockfile: its path.
        kind: `different` where the command does not repeat: then nothing is written.
        environment, home: this one, and its name.
        locked: what was locked; None where nothing was.
        changed: where it parts from what was locked before; None where nothing was, or it is the same.
        is_new: nothing was locked for this environment before.
        check: what the check before it found; None where there was none.
        folder: of the run that was locked; None where there was none.
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
