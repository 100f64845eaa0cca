"""What a check found, as plain data. Text and JSON are made from this in `report`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from samebits.comparison.locate import Divergence
from samebits.comparison.ops import OpDivergence, is_collective
from samebits.comparison.values import Distance
from samebits.errors import SamebitsError
from samebits.launch.plan import RunPlan
from samebits.launch.process import Outcome
from samebits.launch.replay import Replay
from samebits.sites import Site


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
class OriginOnRank:
    """Where the operations of one rank part first.

    Attributes:
        place: the operation.
        producer: with an input that arrived different, the operation that wrote there last, as plain data; None if no
            recorded one did.
    """

    place: OpDivergence
    producer: dict[str, Any] | None = None

    @property
    def is_received(self) -> bool:
        """Whether the difference came from another rank."""
        return self.producer is not None and is_collective(self.producer["op"])

    @property
    def is_unwritten(self) -> bool:
        """Whether memory was read that nobody had written."""
        return self.producer is not None and bool(self.producer["unwritten"])


@dataclass(frozen=True)
class Origin:
    """The first operation at which two runs part.

    Attributes:
        a, b: the runs.
        pairs: how many pairs it took until one parted.
        ranks: for each rank that parts, where.
        distance: how far the results lie apart; None where that could not be measured.
        changed_unseen: inputs that something changed past the dispatcher; then that is the origin, not the operation.
        changed_meanwhile: inputs that another process or thread changed while the operation ran.
        shared: operands in memory that other processes may write to.
        replay: what calling the operation again showed.
        operands: the file that holds the call.
    """

    a: int
    b: int
    pairs: int
    ranks: tuple[OriginOnRank, ...]
    distance: Distance | None = None
    changed_unseen: tuple[str, ...] = ()
    replay: Replay | None = None
    operands: Path | None = None
    changed_meanwhile: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    @property
    def is_accused(self) -> bool:
        """Whether the operation itself made the difference, as far as was measured."""
        if self.first.place.finding != "op" or self.changed_unseen or self.changed_meanwhile:
            return False
        # What other processes share, they may have written between two looks; by itself it has to differ, too.
        return not self.shared or (self.replay is not None and self.replay.is_confirmed)

    @property
    def first(self) -> OriginOnRank:
        """The rank to speak of: one whose difference was not received from another."""
        own = [rank for rank in self.ranks if not rank.is_received] or list(self.ranks)
        return min(own, key=lambda rank: (rank.place.step, rank.place.index, rank.place.rank))


@dataclass(frozen=True)
class Shown:
    """A line that shows how a factor enters at another one: a transform that draws, for the loader that fetches.

    Attributes:
        what: happens there.
        cure: what to change, where pinning the factor does not help.
    """

    what: str
    site: Site
    cure: str = ""


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
        shown_by: lines that show how it enters there.
        distance: how far the first differing tensor lies from the pinned run's.
        parting: the runs that showed it.
    """

    factor: str
    site: Site | None
    confirmed: bool
    drifts: bool
    what: str
    evidence: str
    likely: bool = False
    others: tuple[Site, ...] = ()
    shown_by: tuple[Shown, ...] = ()
    distance: Distance | None = None
    parting: Parting | None = None


@dataclass(frozen=True)
class Remedy:
    """The smallest set of pins under which the runs agree.

    Attributes:
        pins: factors.
        verified: they do, shown by runs.
        code: what to change in the code instead.
        parted: two runs that part all the same.
    """

    pins: tuple[str, ...]
    verified: bool
    code: tuple[str, ...] = ()
    parted: tuple[int, int] | None = None


@dataclass(frozen=True)
class Verdict:
    """The answer of a check.

    Attributes:
        kind: `same`, `different` or `undecided`.
        parting: the first two runs that differ.
        varied: the factors that were changed on purpose without changing the bits, or in search of what does.
        unknown: the runs differ even with everything pinned; then this is where.
        origins: the operations at which they part, where that was looked for, the first one first.
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
    origins: tuple[Origin, ...] = ()
    remedy: Remedy | None = None
    untested: tuple[str, ...] = ()
    not_observed: tuple[str, ...] = ()
    error: SamebitsError | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def origin(self) -> Origin | None:
        """The first operation at which runs part."""
        return self.origins[0] if self.origins else None

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        return {"same": 0, "different": 1, "undecided": 2}[self.kind]
