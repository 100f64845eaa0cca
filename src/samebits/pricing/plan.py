"""What is to be measured: the sets of pins that may have a price, for one script. Plain data; nothing is run here."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from samebits.base.errors import UsageError
from samebits.base.records import published
from samebits.checking.plan import MOST_UNASKED, CheckRequest
from samebits.factors.catalog import CATALOG
from samebits.factors.context import Setting
from samebits.factors.torch_algorithms import TorchAlgorithms
from samebits.launch.machine import cores
from samebits.runfolder.spec import RunSpec

DEFAULT_BUDGET = 80.0
DEFAULT_WARM_UP = 20
DEFAULT_SET = "default set"


@dataclass(frozen=True, kw_only=True)
class CostRequest(CheckRequest):
    """One measurement of a script, with what any check of it is asked besides.

    Attributes:
        budget: seconds for all of it.
        warm_up: steps at the beginning of each run that are recorded, to see whether they repeat, and not timed.
        factors: measure only these besides the default set; empty for all that may have a price.
        max_runs: no bound for a user; the budget ends it.
        jobs, as_fits: of the runs that are made once more, when nothing is timed.
    """

    budget: float = DEFAULT_BUDGET
    warm_up: int = DEFAULT_WARM_UP
    factors: tuple[str, ...] = ()
    max_runs: int | None = 10_000
    jobs: int = field(default_factory=lambda: min(cores(), MOST_UNASKED))
    as_fits: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget <= 0:
            raise UsageError(f"--budget must be more than 0 seconds, got {self.budget:g}")
        if self.warm_up < 2:
            raise UsageError(f"--warm-up must be at least 2 steps, got {self.warm_up}")


@dataclass(frozen=True)
class Candidate:
    """A way to run the script whose price is wanted.

    Attributes:
        label: how it is called in the answer.
        settings: how which factor is treated; the rest is left alone.
    """

    label: str
    settings: dict[str, Setting] = field(default_factory=dict)

    @property
    @published()
    def pins(self) -> tuple[str, ...]:
        """Factors that are held still."""
        return tuple(name for name, setting in self.settings.items() if setting.mode == "pinned")

    @property
    def words(self) -> tuple[str, ...]:
        """What `--pin` is given for them."""
        return tuple(f"{name}={value}" if (value := self.settings[name].value) else name for name in self.pins)

    @property
    def replaces(self) -> bool:
        """Whether formulas of ours may stand in the place of what torch has no deterministic kernel for."""
        own = self.settings.get(TorchAlgorithms.name, Setting())
        return own.mode == "pinned" and own.value in (None, "replace")

    @property
    def is_remedy(self) -> bool:
        """Whether one could choose to run like that: varied is for comparison only."""
        return all(setting.mode == "pinned" for setting in self.settings.values())

    def plan(self, request: CostRequest, *, paced: bool) -> RunSpec:
        """A run of it: timed in turns, or only its recorded beginning once more."""
        spec = RunSpec(self.label, self.settings, request.seed)
        return replace(spec, paced_from=request.warm_up) if paced else replace(spec, stop_after=request.warm_up - 1)


NATURAL = Candidate("nothing")


def default_set(leave: Iterable[str] = ()) -> Candidate:
    """Everything that `samebits run` pins, but for some."""
    left = set(leave)
    pins = [factor.name for factor in CATALOG if factor.pinned_by_default and factor.name not in left]
    label = f"all but {', '.join(sorted(left))}" if left else DEFAULT_SET
    return Candidate(label, {name: Setting("pinned") for name in pins})


def candidates(request: CostRequest, used: Collection[str]) -> tuple[list[Candidate], list[tuple[str, str]]]:
    """What is to be measured beside nothing, and which factors cannot matter here, with the reason."""
    found = [default_set()]
    impossible: list[tuple[str, str]] = []
    for factor in CATALOG:
        if not factor.priced or (request.factors and factor.name not in request.factors):
            continue
        lacking = [_LACKING[need] for need in factor.needs if need not in used]
        if lacking:
            impossible.append((factor.name, lacking[0]))
            continue
        for mode in factor.priced:
            label = factor.name if mode == "pinned" else f"{factor.name}, the other way"
            found.append(Candidate(label, {factor.name: Setting(mode)}))
    return found, impossible


_LACKING = {
    "cuda": "no CUDA here",
    "ranks": "one process, no ranks",
    "compiled": "nothing is compiled before or in the first steps",
    "loader": "no DataLoader is iterated before or in the first steps",
}
