"""The request of a check, and the specs of the runs that it may make. Plain data; nothing is run here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any, Literal

from samebits.base.errors import UsageError
from samebits.checking.verdict import Run
from samebits.factors.catalog import CATALOG, find, in_order
from samebits.factors.context import Setting, SiteKey
from samebits.factors.pinning import parsed_settings
from samebits.launch.command import Command, parse_command
from samebits.launch.config import LEAST, Config
from samebits.launch.machine import cores
from samebits.runfolder.spec import RunSpec
from samebits.workspace.place import ISOLATIONS, Isolation

# How many runs may follow the first ones, and how many more for each factor that is found to make runs diverge.
MAX_RUNS, MAX_RUNS_EACH = 33, 12
# The first look ends this long after the first step, but not before this many steps.
LOOK_SECONDS, LOOK_STEPS = 3.0, 20
# The variants of released factors: not 1, which was used by the varied run and may have changed nothing.
RELEASED, RELEASED_OTHERWISE = 2, 6
CONTROL, VARIED = "control", "varied"
# How many runs are made side by side unless `jobs` says.
MOST_UNASKED = 2

# Fields that do not change which causes a check can find, and those that take a list: `options` skips both.
_UNLISTED = {
    "command",
    "pins",
    "vary",
    "share",
    "ignore",
    "jobs",
    "as_fits",
    "level",
    "all_origins",
    "isolation",
    "patch",
}


@dataclass(frozen=True)
class CheckRequest:
    """The request of one check; `samebits.check` describes the fields that are not described here.

    Attributes:
        max_runs: None lets the limit follow from the number of causes found.
        as_fits: `jobs` is an upper limit: fewer run side by side where the first run shows that no more fit.
        timeout: None derives a limit from the first run.
        level: `op` locates the operation; `step` only where the cause is unknown or a choice of algorithms.
        patch: `diff` proves a patch where one can be made, `fix` also applies it; empty does neither.
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
    ignore: tuple[str, ...] = ()
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
        if self.timeout is not None and not self.timeout > 0:
            raise UsageError(f"--timeout must be more than 0 seconds, got {self.timeout:g}")
        for name in self.vary:
            if name in self.pins:
                raise UsageError(f"{name} cannot be both pinned and varied", f"leave out --pin {name} or --vary {name}")

    def most_runs(self, causes: int = 0) -> int:
        """Return how many runs may be made in total, given the number of causes found."""
        return self.runs + MAX_RUNS + MAX_RUNS_EACH * causes if self.max_runs is None else self.max_runs

    @property
    def last_step(self) -> int | None:
        return None if self.max_steps is None else self.max_steps - 1

    @property
    def controls(self) -> int:
        """The number of control runs among the first runs."""
        return 1 if self.runs == 2 else 2

    def base(self, role: str) -> RunSpec:
        """Return the spec of a run in which nothing is treated but what the user pinned."""
        return RunSpec(role, dict(self.pins), self.seed, stop_after=self.last_step, begins="prepared")

    @property
    def options(self) -> tuple[str, ...]:
        """The options, as they are typed, with which another check of the command asks the same."""
        pins = [name if setting.value is None else f"{name}={setting.value}" for name, setting in self.pins.items()]
        given = [("--pin", pin) for pin in pins] + [("--vary", name) for name in self.vary]
        given += [("--share", path) for path in self.share] + [("--ignore", path) for path in self.ignore]
        changed = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        flags = {f"--{name.replace('_', '-')}": value for name, value in changed.items() if name not in _UNLISTED}
        return (*chain(*given, *((flag,) if value is True else (flag, str(value)) for flag, value in flags.items())),)

    @property
    def varied(self) -> list[str]:
        """The factors that the varied run changes on purpose."""
        default = [factor.name for factor in CATALOG if factor.varied_by_default and factor.name not in self.pins]
        return in_order([*default, *self.vary])

    def pinnable(self) -> list[str]:
        """Return the factors to hold still to find a cause: those that change by themselves or are varied here."""
        return [name for name in in_order([*moving_factors(), *self.varied]) if name not in self.pins]


def check_request(words: Sequence[str], config: Config, **options: Any) -> CheckRequest:
    """Return the request of a check; open options (None or empty) come from `[tool.samebits]`, then from the defaults.

    Each of the `pins` is `NAME` or `NAME=VALUE`, and `jobs` may be `auto`: as many as fit.
    """
    values = config.filling(options)
    jobs = values.pop("jobs", None)
    as_fits = not isinstance(jobs, int)
    if as_fits:
        jobs = cores() if jobs == "auto" else min(cores(), MOST_UNASKED)
    pins, vary = parsed_settings(values.pop("pins", ())), in_order([find(name).name for name in values.pop("vary", ())])
    # An option that is typed overrides what is configured for the same factor.
    if not options.get("vary"):
        vary = [name for name in vary if name not in pins]
    elif not options.get("pins"):
        pins = {name: setting for name, setting in pins.items() if name not in vary}
    request = CheckRequest(parse_command(words), pins, tuple(vary), jobs=jobs, as_fits=as_fits, **values)
    if request.all_origins and request.level != "op":
        raise UsageError("--all needs the operations recorded", "add --level op")
    return request


def moving_factors() -> list[str]:
    """Return the factors that change by themselves from run to run and have a setting to pin."""
    return [factor.name for factor in CATALOG if factor.varies_between_runs and not factor.by_folder]


def look_run(request: CheckRequest) -> RunSpec:
    """Return the spec of the first run, which ends after the look and shows how many steps a look has."""
    return replace(request.base(CONTROL), look_seconds=LOOK_SECONDS, look_steps=LOOK_STEPS, keeps=True)


def first_runs(request: CheckRequest) -> list[RunSpec]:
    """Return the specs of the controls and the varied runs, each with other values; the first varied one is watched."""
    controls = [replace(request.base(CONTROL), keeps=True), request.base("control again")][: request.controls]
    first, *others = (varied_run(request, variant) for variant in range(1, request.runs - request.controls + 1))
    return [*controls, replace(first, witness=True), *others]


def varied_run(request: CheckRequest, variant: int = 1, leave: Iterable[str] = ()) -> RunSpec:
    """Return the spec of a run in which all varied factors are changed at once, except those in `leave`."""
    chosen = [name for name in request.varied if name not in set(leave)]
    return request.base(VARIED).with_settings({name: Setting("varied", variant=variant) for name in chosen})


def varied_alone_run(request: CheckRequest, names: Sequence[str], variant: int) -> RunSpec:
    """Return the spec of a run in which only these factors are varied."""
    return request.base(f"{names[0]} varied").with_settings(dict.fromkeys(names, Setting("varied", variant=variant)))


def pinned_run(request: CheckRequest, names: Iterable[str], last: int | None) -> RunSpec:
    """Return the spec of a watched run with these factors and the user's pins held still, ended after the step `last`.

    Whatever a pin leaves free is changed on purpose: runs that agree by luck would make any treatment look guilty.
    """
    settings = {**_pinned(names, probed=True), **request.pins}
    plan = replace(request.base("pinned"), settings=settings, witness=True)
    return stopping_after(plan, last)


def released_run(pinned: RunSpec, names: Sequence[str], variant: int) -> RunSpec:
    """Return the spec of the pinned run with some factors changed on purpose, in the same way in each such run.

    With variant 0 they are left alone, or varied by chance where they are varied by default.
    """
    by_chance = {name: Setting("varied" if find(name).varied_by_default else "natural") for name in names}
    settings = dict.fromkeys(names, Setting("varied", variant=variant, steady=True)) if variant else by_chance
    which = " and ".join(names) if len(names) < 3 else f"{len(names)} factors"
    how = "left alone" if Setting() in settings.values() else "released"
    return replace(pinned.with_settings(settings), role=f"{which} {how}")


def sites_released_run(pinned: RunSpec, factor: str, sites: Iterable[SiteKey], variant: int = RELEASED) -> RunSpec:
    """Return the spec of the pinned run with one factor changed at some call sites only."""
    held, chosen = pinned.settings[factor], tuple(sites)
    where = f"line {chosen[0][1]}" if len(chosen) == 1 else f"{len(chosen)} lines"
    plan = pinned.with_settings({factor: Setting("pinned", held.value, variant=variant, released=chosen)})
    return replace(plan, role=f"{factor} released at {where}")


def sites_held_run(released: RunSpec, factor: str, sites: Iterable[SiteKey]) -> RunSpec:
    """Return the spec of a run with one factor changed everywhere but at these call sites."""
    setting = replace(released.settings[factor], released=tuple(sites))
    return replace(released.with_settings({factor: setting}), role=f"{factor} released in libraries")


def remedy_run(request: CheckRequest, pins: Iterable[str], last: int | None = None) -> RunSpec:
    """Return the spec of a run in which these factors are pinned and the rest is left alone."""
    plan = replace(request.base("remedy").with_settings(_pinned(pins)), keeps=last is None)
    return stopping_after(plan, last)


def remedy_varied_run(request: CheckRequest, pins: Iterable[str], last: int | None = None) -> RunSpec:
    """Return the spec of a run with these pins: what cannot matter under them is changed, everything else varied."""
    held = {name: Setting("pinned", probed=True) for name in pins}
    plan = varied_run(request, leave=held).with_settings(held)
    return stopping_after(replace(plan, role="remedy, rest varied"), last)


def _pinned(names: Iterable[str], *, probed: bool = False) -> dict[str, Setting]:
    return {name: Setting("pinned", probed=probed and find(name).held_in_part) for name in names}


def stopping_after(plan: RunSpec, step: int | None) -> RunSpec:
    """Return the spec, ended after `step` at the latest; unchanged for None."""
    if step is None:
        return plan
    return replace(plan, stop_after=step if plan.stop_after is None else min(step, plan.stop_after))


def following(plan: RunSpec, known: Run | None) -> RunSpec:
    """Return the spec, ended soon after the run diverges from a known one, if that one succeeded."""
    return plan if known is None or not known.succeeded else replace(plan, follow=str(known.path))


def keeping_nothing(plan: RunSpec) -> RunSpec:
    """Return the spec with no tensors kept."""
    return replace(plan, keep_step=None, keep_streams=(), keep_names=())
