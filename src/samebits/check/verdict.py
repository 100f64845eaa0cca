"""What a check found, as plain data. Text and JSON are made from this in `report`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from samebits.compare.locate import Divergence
from samebits.compare.values import Distance
from samebits.errors import SamebitsError
from samebits.factors.sites import Site
from samebits.launch.plan import RunPlan
from samebits.launch.process import Outcome


@dataclass(frozen=True)
class Run:
    """One run of a check; ids count from 1."""

    id: int
    outcome: Outcome
    steps: int

    @property
    def plan(self) -> RunPlan:
        return self.outcome.plan

    @property
    def path(self) -> Path:
        return self.outcome.folder.path


@dataclass(frozen=True)
class Parting:
    """Two runs that differ, and where."""

    a: int
    b: int
    divergence: Divergence
    distance: Distance | None = None


@dataclass(frozen=True)
class Cause:
    """A factor that parts the runs when it alone is released.

    Attributes:
        factor: its name.
        site: the user's line where it entered; None where there is no call (a thread count).
        confirmed: shown by experiment, not only suspected.
        likely: the site was found by reading the code, not by watching it.
        drifts: it differs between two runs on this machine; otherwise it differs on other machines only.
        what: how it entered.
        evidence: what was run to know it.
        others: further sites that cannot be told apart from this one.
        distance: how far the first differing tensor lies from the pinned run's.
    """

    factor: str
    site: Site | None
    confirmed: bool
    drifts: bool
    what: str
    evidence: str
    likely: bool = False
    others: tuple[Site, ...] = ()
    distance: Distance | None = None


@dataclass(frozen=True)
class Remedy:
    """The smallest set of pins under which the runs agree, whether that was shown, and what to change in the code."""

    pins: tuple[str, ...]
    verified: bool
    code: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The answer of a check.

    Attributes:
        kind: `same`, `different` or `undecided`.
        parting: the first two runs that differ.
        varied: the factors that were changed on purpose without changing the bits, or in search of what does.
        unknown: the runs differ even with everything pinned; then this is where.
        untested: what was left out, and why.
        not_observed: what the recordings cannot see in this command.
    """

    kind: Literal["same", "different", "undecided"]
    command: str
    home: Path
    runs: tuple[Run, ...] = ()
    varied: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    parting: Parting | None = None
    causes: tuple[Cause, ...] = ()
    unknown: Parting | None = None
    remedy: Remedy | None = None
    untested: tuple[str, ...] = ()
    not_observed: tuple[str, ...] = ()
    error: SamebitsError | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        return {"same": 0, "different": 1, "undecided": 2}[self.kind]
