"""The sets of pins whose price is to be measured for one script. Plain data; nothing is run here."""

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
    """The request to measure one script, with the options of a check.

    Attributes:
        budget: seconds for the whole measurement.
        warm_up: steps at the beginning of each run that are recorded, to see whether they repeat, and not timed.
        factors: the factors to measure next to the default set; empty for all that may have a price.
        max_runs: so many that only the budget ends the measurement.
        jobs, as_fits: how many runs go on at once when the recorded steps are made again and nothing is timed.
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
    """One way to run the script, whose price is to be measured.

    Attributes:
        label: its name in the answer.
        settings: factor → how it is treated; the other factors are left alone.
    """

    label: str
    settings: dict[str, Setting] = field(default_factory=dict)

    @property
    @published()
    def pins(self) -> tuple[str, ...]:
        """The factors that are pinned."""
        return tuple(name for name, setting in self.settings.items() if setting.mode == "pinned")

    @property
    def words(self) -> tuple[str, ...]:
        """The values of `--pin` that ask for these pins."""
        return tuple(f"{name}={value}" if (value := self.settings[name].value) else name for name in self.pins)

    @property
    def replaces(self) -> bool:
        """Whether formulas of ours may replace operations for which torch has no deterministic kernel."""
        algorithms = self.settings.get(TorchAlgorithms.name, Setting())
        return algorithms.mode == "pinned" and algorithms.value in (None, "replace")

    @property
    def is_remedy(self) -> bool:
        """Whether a user could choose to run like this: varied factors are for comparison only."""
        return all(setting.mode == "pinned" for setting in self.settings.values())

    def plan(self, request: CostRequest, *, paced: bool) -> RunSpec:
        """Return the plan of a run: timed in turns (`paced`), or only the recorded first steps once more."""
        spec = RunSpec(self.label, self.settings, request.seed)
        return replace(spec, paced_from=request.warm_up) if paced else replace(spec, stop_after=request.warm_up - 1)


NATURAL = Candidate("nothing")


def default_set(leave: Iterable[str] = ()) -> Candidate:
    """Return everything that `samebits run` pins, without the factors in `leave`."""
    without = set(leave)
    pins = [factor.name for factor in CATALOG if factor.pinned_by_default and factor.name not in without]
    label = f"all but {', '.join(sorted(without))}" if without else DEFAULT_SET
    return Candidate(label, {name: Setting("pinned") for name in pins})


def candidates(request: CostRequest, used: Collection[str]) -> tuple[list[Candidate], list[tuple[str, str]]]:
    """Return what to measure next to nothing pinned, and the factors that cannot matter here, each with the reason."""
    wanted = [default_set()]
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
            wanted.append(Candidate(label, {factor.name: Setting(mode)}))
    return wanted, impossible


_LACKING = {
    "cuda": "no CUDA here",
    "ranks": "one process, no ranks",
    "compiled": "nothing is compiled before or in the first steps",
    "loader": "no DataLoader is iterated before or in the first steps",
}
