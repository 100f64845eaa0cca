"""What a check is asked to do, and the runs that it may take. Plain data; nothing is run here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.base.errors import UsageError
from samebits.checking.verdict import Run
from samebits.factors.catalog import CATALOG, find, in_order
from samebits.factors.context import Setting, SiteKey
from samebits.factors.pinning import settings_from
from samebits.launch.command import Command, parse_command
from samebits.launch.config import Config
from samebits.launch.machine import cores
from samebits.runfolder.spec import RunSpec
from samebits.workspace.workspace import Isolation

DEFAULT_RUNS = 3
# Besides the first ones; and for each factor that is found to make runs diverge.
MAX_RUNS, MAX_RUNS_EACH = 33, 12
# A first look: so long after the first step, and at least so many steps.
LOOK_SECONDS, LOOK_STEPS = 3.0, 20
# What is released takes its second other value: the first one was used by the varied run, and may have changed nothing.
RELEASED, RELEASED_OTHERWISE = 2, 6
CONTROL, VARIED = "control", "varied"
# Where nobody says how many go on side by side.
MOST_UNASKED = 2


@dataclass(frozen=True)
class CheckRequest:
    """One check.

    Attributes:
        command: what to run.
        pins: factors held still in every run.
        vary: factors to vary besides those varied by default.
        seed: root of every derived value.
        runs: how many runs before anything is judged: two controls, the rest varied.
        max_runs: how many runs altogether; None leaves it to what is found.
        jobs: how many side by side.
        as_fits: `jobs` is the most; fewer where the first run shows that no more fit.
        isolation: `copy` begins each run in a copy of the working folder, `none` all in the folder itself.
        max_steps: look at so many steps only; None looks at all.
        timeout: seconds for one run; None derives a limit from the first one.
        level: `op` locates the operation wherever runs diverge; `step` only where the operation alone is to blame.
        all_origins: go on after the first such operation and name the others too.
        share: paths that copies of the working folder show as they are.
        quick: the first look is all.
        strict: what else happened counts as much as what was trained.
    """

    command: Command
    pins: dict[str, Setting] = field(default_factory=dict)
    vary: tuple[str, ...] = ()
    seed: int = 0
    runs: int = DEFAULT_RUNS
    max_runs: int | None = None
    jobs: int = 1
    max_steps: int | None = None
    timeout: float | None = None
    level: str = "step"
    all_origins: bool = False
    share: tuple[str, ...] = ()
    quick: bool = False
    as_fits: bool = False
    isolation: Isolation = "copy"
    strict: bool = False

    def __post_init__(self) -> None:
        for name, value, least in (
            ("--runs", self.runs, 2),
            ("--max-runs", 2 if self.max_runs is None else self.max_runs, 2),
            ("--jobs", self.jobs, 1),
            ("--max-steps", 1 if self.max_steps is None else self.max_steps, 1),
        ):
            if value < least:
                raise UsageError(f"{name} must be at least {least}, got {value}")
        if self.max_runs is not None and self.max_runs < self.runs:
            raise UsageError(
                f"--max-runs {self.max_runs} leaves no room for the first {self.runs} runs",
                f"give --max-runs {self.runs} or more, or fewer --runs",
            )
        if self.level not in ("step", "op"):
            raise UsageError(f"--level takes step or op, got {self.level!r}")
        if self.timeout is not None and self.timeout <= 0:
            raise UsageError(f"--timeout must be more than 0 seconds, got {self.timeout:g}")
        both = [name for name in self.vary if name in self.pins]
        if both:
            raise UsageError(
                f"{both[0]} cannot be both pinned and varied", f"leave out --pin {both[0]} or --vary {both[0]}"
            )

    def most_runs(self, causes: int = 0) -> int:
        """How many runs may be made altogether, where so many causes were found."""
        return self.runs + MAX_RUNS + MAX_RUNS_EACH * causes if self.max_runs is None else self.max_runs

    @property
    def last_step(self) -> int | None:
        return None if self.max_steps is None else self.max_steps - 1

    @property
    def controls(self) -> int:
        """How many of the first runs are left alone."""
        return 1 if self.runs == 2 else 2

    def base(self, role: str) -> RunSpec:
        """A run in which nothing is treated but what the user pinned."""
        return RunSpec(role, dict(self.pins), self.seed, stop_after=self.last_step, begins="prepared")

    @property
    def varied(self) -> list[str]:
        """The factors that are changed on purpose."""
        default = [factor.name for factor in CATALOG if factor.varied_by_default and factor.name not in self.pins]
        return in_order([*default, *self.vary])

    def pinnable(self) -> list[str]:
        """The factors held still to find a cause: those that move by themselves, and those that are varied here."""
        return [name for name in in_order([*moving_factors(), *self.varied]) if name not in self.pins]


def check_request(words: Sequence[str], config: Config, **options: Any) -> CheckRequest:
    """The check of a command; what is left open, None or empty, is taken from `[tool.samebits]`, then from samebits.

    Args:
        words: the command.
        config: what is configured.
        options: as in `CheckRequest`; but `pins` each `NAME` or `NAME=VALUE`, and `jobs` also `auto`, as many as fit.

    Raises:
        UsageError: what was asked for makes no sense together.
    """
    own = config.filling(options)
    jobs = own.pop("jobs", None)
    most = cores() if jobs == "auto" else min(cores(), MOST_UNASKED)
    own |= {"command": parse_command(words), "pins": settings_from(own.get("pins", ()))}
    own |= {"vary": tuple(in_order([find(name).name for name in own.get("vary", ())]))}
    is_given = isinstance(jobs, int)
    request = CheckRequest(**own, jobs=jobs if is_given else most, as_fits=not is_given)
    if request.all_origins and request.level != "op":
        raise UsageError("--all names operations", "add --level op")
    return request


def moving_factors() -> list[str]:
    """The factors that move by themselves from run to run."""
    return [factor.name for factor in CATALOG if factor.varies_between_runs and not factor.by_folder]


# ---- the runs of a check


def look_run(request: CheckRequest) -> RunSpec:
    """The first run: it ends when it has shown how many steps a look has."""
    return replace(request.base(CONTROL), look_seconds=LOOK_SECONDS, look_steps=LOOK_STEPS, keeps=True)


def first_runs(request: CheckRequest) -> list[RunSpec]:
    """Control, control again, and the rest varied, each with other values; the first of them tells what entered."""
    controls = [replace(request.base(CONTROL), keeps=True), request.base("control again")][: request.controls]
    first, *others = (varied_run(request, variant) for variant in range(1, request.runs - request.controls + 1))
    return [*controls, replace(first, witness=True), *others]


def varied_run(request: CheckRequest, variant: int = 1, leave: Iterable[str] = ()) -> RunSpec:
    """Everything that is varied here is changed at once, except for the factors left alone."""
    chosen = [name for name in request.varied if name not in set(leave)]
    return request.base(VARIED).with_settings({name: Setting("varied", variant=variant) for name in chosen})


def pinned_run(request: CheckRequest, names: Iterable[str], last: int | None) -> RunSpec:
    """These factors held still and watched, besides those that the user pinned; ended after the step `last`."""
    plan = replace(request.base("pinned"), settings={**_pinned(names), **request.pins}, witness=True)
    return stopping_after(plan, last)


def released_run(pinned: RunSpec, names: Sequence[str], variant: int) -> RunSpec:
    """The pinned run with some factors changed on purpose, in the same way each time."""
    plan = pinned.with_settings({name: Setting("varied", variant=variant, steady=True) for name in names})
    return replace(plan, role=f"{_together(names)} released")


def natural_run(pinned: RunSpec, names: Sequence[str]) -> RunSpec:
    """The pinned run with some factors left alone, for those whose settings have bits of their own."""
    plan = pinned.with_settings({name: Setting() for name in names})
    return replace(plan, role=f"{_together(names)} left alone")


def _together(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{len(names)} factors"


def sites_released_run(pinned: RunSpec, factor: str, sites: Iterable[SiteKey], variant: int = RELEASED) -> RunSpec:
    """The pinned run with one factor changed at some call sites only."""
    held, chosen = pinned.settings[factor], tuple(sites)
    where = f"line {chosen[0][1]}" if len(chosen) == 1 else f"{len(chosen)} lines"
    plan = pinned.with_settings({factor: Setting("pinned", held.value, variant=variant, released=chosen)})
    return replace(plan, role=f"{factor} released at {where}")


def remedy_run(request: CheckRequest, pins: Iterable[str], last: int | None = None) -> RunSpec:
    """These pins and nothing else."""
    plan = replace(request.base("remedy").with_settings(_pinned(pins)), keeps=last is None)
    return stopping_after(plan, last)


def remedy_varied_run(request: CheckRequest, pins: Iterable[str], last: int | None = None) -> RunSpec:
    """These pins, what then no longer matters changed on purpose, and everything else varied."""
    held = {name: Setting("pinned", probed=True) for name in pins}
    plan = varied_run(request, leave=held).with_settings(held)
    return stopping_after(replace(plan, role="remedy, rest varied"), last)


def _pinned(names: Iterable[str]) -> dict[str, Setting]:
    return {name: Setting("pinned") for name in names}


# ---- what is changed of any run


def stopping_after(plan: RunSpec, step: int | None) -> RunSpec:
    """The same run, ended after `step` at the latest."""
    if step is None:
        return plan
    return replace(plan, stop_after=step if plan.stop_after is None else min(step, plan.stop_after))


def following(plan: RunSpec, known: Run | None) -> RunSpec:
    """The same run, ended soon after it diverges from one that is known."""
    return plan if known is None or not known.succeeded else replace(plan, follow=str(known.path))


def keeping_nothing(plan: RunSpec) -> RunSpec:
    """The same run, which keeps no tensors."""
    return replace(plan, keep_step=None, keep_streams=(), keep_names=())
