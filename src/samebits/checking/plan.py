"""What a check is asked to do, and the runs that it may take. Plain data; nothing is run here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any, Literal

from samebits.base.errors import UsageError
from samebits.checking.verdict import Run
from samebits.factors.catalog import CATALOG, find, in_order
from samebits.factors.context import Setting, SiteKey
from samebits.factors.pinning import settings_from
from samebits.launch.command import Command, parse_command
from samebits.launch.config import LEAST, Config
from samebits.launch.machine import cores
from samebits.runfolder.spec import RunSpec
from samebits.workspace.place import ISOLATIONS, Isolation

# Besides the first ones; and for each factor that is found to make runs diverge.
MAX_RUNS, MAX_RUNS_EACH = 33, 12
# A first look: how long after the first step, and how many steps at least.
LOOK_SECONDS, LOOK_STEPS = 3.0, 20
# What is released takes its second other value: the first one was used by the varied run, and may have changed nothing.
RELEASED, RELEASED_OTHERWISE = 2, 6
CONTROL, VARIED = "control", "varied"
# How many are made side by side unless asked otherwise.
MOST_UNASKED = 2

# What decides nothing about the causes that a check can find, and the options that take a list.
_ASIDE = {"command", "pins", "vary", "share", "jobs", "as_fits", "level", "all_origins", "isolation", "patch"}


@dataclass(frozen=True)
class CheckRequest:
    """One check; what its fields mean, `samebits.check` says.

    Attributes:
        max_runs: None leaves it to what is found.
        as_fits: `jobs` is the most; fewer where the first run shows that no more fit.
        timeout: None derives a limit from the first run.
        level: `step` locates the operation only where it alone is to blame.
        patch: `diff` proves a patch where one can be made, `fix` applies it, too; empty does neither.
    """

    command: Command
    pins: dict[str, Setting] = field(default_factory=dict)
    vary: tuple[str, ...] = ()
    seed: int = 0
    runs: int = Config.runs
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
    patch: Literal["", "diff", "fix"] = ""

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name.replace("-", "_"), None)
            if value is not None and value < least:
                raise UsageError(f"--{name} must be at least {least}, got {value}")
        if self.max_runs is not None and self.max_runs < self.runs:
            raise UsageError(
                f"--max-runs {self.max_runs} leaves no room for the first {self.runs} runs",
                f"give --max-runs {self.runs} or more, or fewer --runs",
            )
        for name, word, known in (("level", self.level, ("step", "op")), ("isolation", self.isolation, ISOLATIONS)):
            if word not in known:
                raise UsageError(f"--{name} takes {' or '.join(known)}, got {word!r}")
        if self.patch and self.isolation == "none":
            raise UsageError(
                f"--{self.patch} cannot be combined with --isolation none",
                "a patch is proved in copies of the folder",
            )
        if self.timeout is not None and self.timeout <= 0:
            raise UsageError(f"--timeout must be more than 0 seconds, got {self.timeout:g}")
        for name in self.vary:
            if name in self.pins:
                raise UsageError(f"{name} cannot be both pinned and varied", f"leave out --pin {name} or --vary {name}")

    def most_runs(self, causes: int = 0) -> int:
        """How many runs may be made in total, given the number of causes found."""
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
    def options(self) -> tuple[str, ...]:
        """With these another check of the command asks the same, as they are typed."""
        pins = [name if own.value is None else f"{name}={own.value}" for name, own in self.pins.items()]
        given = [("--pin", one) for one in pins] + [("--vary", one) for one in self.vary]
        given += [("--share", one) for one in self.share]
        own = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        asked = {f"--{name.replace('_', '-')}": value for name, value in own.items() if name not in _ASIDE}
        return (*chain(*given, *((flag,) if value is True else (flag, str(value)) for flag, value in asked.items())),)

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

    Of the options, `pins` are each `NAME` or `NAME=VALUE`, and `jobs` may be `auto`: as many as fit.
    """
    own = config.filling(options)
    jobs = own.pop("jobs", None)
    as_fits = not isinstance(jobs, int)
    if as_fits:
        jobs = cores() if jobs == "auto" else min(cores(), MOST_UNASKED)
    pins, vary = settings_from(own.pop("pins", ())), in_order([find(name).name for name in own.pop("vary", ())])
    # What is typed counts, whatever is configured for the same factor.
    if not options.get("vary"):
        vary = [name for name in vary if name not in pins]
    elif not options.get("pins"):
        pins = {name: setting for name, setting in pins.items() if name not in vary}
    request = CheckRequest(parse_command(words), pins, tuple(vary), jobs=jobs, as_fits=as_fits, **own)
    if request.all_origins and request.level != "op":
        raise UsageError("--all needs the operations recorded", "add --level op")
    return request


def moving_factors() -> list[str]:
    """The factors that move by themselves from run to run."""
    return [factor.name for factor in CATALOG if factor.varies_between_runs and not factor.by_folder]


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


def varied_alone_run(request: CheckRequest, names: Sequence[str], variant: int) -> RunSpec:
    """Vary only these factors."""
    others = [name for name in request.varied if name not in names]
    return replace(varied_run(request, variant, leave=others), role=f"{names[0]} varied")


def pinned_run(request: CheckRequest, names: Iterable[str], last: int | None) -> RunSpec:
    """These factors held still and watched, besides those that the user pinned; ended after the step `last`.

    What a pin leaves free is changed on purpose: runs that agree by luck would make any treatment look guilty.
    """
    settings = {**_pinned(names, probed=True), **request.pins}
    plan = replace(request.base("pinned"), settings=settings, witness=True)
    return stopping_after(plan, last)


def released_run(pinned: RunSpec, names: Sequence[str], variant: int) -> RunSpec:
    """The pinned run with some factors changed on purpose, in the same way each time.

    With variant 0 they are left alone, as those are whose settings have bits of their own.
    """
    own = Setting("varied", variant=variant, steady=True) if variant else Setting()
    which = " and ".join(names) if len(names) < 3 else f"{len(names)} factors"
    return replace(
        pinned.with_settings(dict.fromkeys(names, own)), role=f"{which} {'released' if variant else 'left alone'}"
    )


def sites_released_run(pinned: RunSpec, factor: str, sites: Iterable[SiteKey], variant: int = RELEASED) -> RunSpec:
    """The pinned run with one factor changed at some call sites only."""
    held, chosen = pinned.settings[factor], tuple(sites)
    where = f"line {chosen[0][1]}" if len(chosen) == 1 else f"{len(chosen)} lines"
    plan = pinned.with_settings({factor: Setting("pinned", held.value, variant=variant, released=chosen)})
    return replace(plan, role=f"{factor} released at {where}")


def remedy_run(request: CheckRequest, pins: Iterable[str], last: int | None = None) -> RunSpec:
    """Pin these factors, leave the rest alone."""
    plan = replace(request.base("remedy").with_settings(_pinned(pins)), keeps=last is None)
    return stopping_after(plan, last)


def remedy_varied_run(request: CheckRequest, pins: Iterable[str], last: int | None = None) -> RunSpec:
    """These pins, what then no longer matters changed on purpose, and everything else varied."""
    held = {name: Setting("pinned", probed=True) for name in pins}
    plan = varied_run(request, leave=held).with_settings(held)
    return stopping_after(replace(plan, role="remedy, rest varied"), last)


def _pinned(names: Iterable[str], *, probed: bool = False) -> dict[str, Setting]:
    return {name: Setting("pinned", probed=probed and find(name).held_in_part) for name in names}


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
