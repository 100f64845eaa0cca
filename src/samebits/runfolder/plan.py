"""RunPlan: how one run of the command is treated, as plain data that travels through a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from samebits.base.records import from_data
from samebits.factors.catalog import CATALOG
from samebits.factors.context import Setting
from samebits.runfolder.spec import OpWindow, ResumeSpec

VARIABLE = "SAMEBITS_PLAN"


@dataclass(frozen=True)
class RunPlan:
    """One run.

    Attributes:
        role: what the run is for, in words: `control`, `varied`, `pinned` …
        settings: how to treat which factor; those not named are natural.
        seed: root of every derived value.
        witness: note the call sites at which factors enter.
        record: write a recording.
        per_rank: give every rank streams of its own.
        stop_after: end the run after this step.
        keep_step, keep_streams, keep_names: keep whole tensors of one step; no names are all names.
        ops: record every operation of some steps.
        look_seconds, look_steps, follow: end the run earlier; see `RecordSpec`.
        along: the same by runs that it is made with; whoever makes them fills in their folders.
        paced_from: record so many steps, then take further ones only when asked to (`agent.pacer`).
        resume: watch checkpoints, and stop the run in the middle.
    """

    role: str = "run"
    settings: Mapping[str, Setting] = field(default_factory=dict)
    seed: int = 0
    witness: bool = False
    record: bool = True
    per_rank: bool = False
    stop_after: int | None = None
    keep_step: int | None = None
    keep_streams: tuple[str, ...] = ()
    keep_names: tuple[str, ...] = ()
    ops: OpWindow | None = None
    look_seconds: float | None = None
    look_steps: int = 0
    follow: str | None = None
    along: tuple[str, ...] | None = None
    paced_from: int | None = None
    resume: ResumeSpec | None = None

    def named(self, mode: str) -> list[str]:
        """The factors treated so, in catalogue order."""
        return [f.name for f in CATALOG if self.settings.get(f.name, Setting()).mode == mode]

    def with_settings(self, settings: Mapping[str, Setting]) -> RunPlan:
        """The same run with some factors treated otherwise."""
        return replace(self, settings={**self.settings, **settings})

    def environment(self, environ: Mapping[str, str], folder: Path) -> dict[str, str]:
        """Variables that must be set before the interpreter starts; `folder` is the run's own."""
        found: dict[str, str] = {}
        for factor in CATALOG:
            setting = self.settings.get(factor.name, Setting())
            found |= factor.environment(setting, self.seed, environ)
            if setting.mode != "natural":
                found |= {name: str(folder / factor.name) for name in factor.fresh_folders}
        return found

    @contextmanager
    def starting(self) -> Iterator[None]:
        """What must hold around the start of a command that is run once."""
        with ExitStack() as stack:
            for factor in CATALOG:
                stack.enter_context(factor.starting(self.settings.get(factor.name, Setting())))
            yield

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read_plan(path: str | Path) -> RunPlan:
    """The plan that `RunPlan.write` wrote."""
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    settings = {name: _setting(given) for name, given in content.pop("settings").items()}
    for name in ("keep_streams", "keep_names"):
        content[name] = tuple(content[name])
    along = content.pop("along", None)
    spec = content.pop("ops", None)
    given = content.pop("resume", None)
    resume = None if given is None else from_data(ResumeSpec, given)
    return RunPlan(
        settings=settings,
        ops=None if spec is None else _op_window(spec),
        along=None if along is None else tuple(along),
        resume=resume,
        **content,
    )


def _op_window(given: dict[str, Any]) -> OpWindow:
    keep = tuple((step, index) for step, index in given["keep"])
    return OpWindow(**{**given, "keep": keep, "grafts": tuple(given["grafts"])})


def _setting(given: dict[str, object]) -> Setting:
    released = given.pop("released")
    assert isinstance(released, list)
    return Setting(released=tuple((path, line) for path, line in released), **given)  # type: ignore[arg-type]
