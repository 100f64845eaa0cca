"""From what was asked for to a verdict: what was left open gets its default, and the runs are made in one folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

from samebits.base.errors import UsageError
from samebits.checking.abreast import MOST_UNASKED
from samebits.checking.experiments import run_check
from samebits.checking.machine import cores
from samebits.checking.patience import Patience
from samebits.checking.places import MOST_UNASKED_BYTES
from samebits.checking.plan import Request
from samebits.checking.pool import RunPool, Watch
from samebits.checking.verdict import Verdict
from samebits.factors.catalog import find, held_by_copies, in_order
from samebits.factors.pinning import settings_from
from samebits.launch.command import parse_command
from samebits.launch.config import Config
from samebits.launch.copies import volume
from samebits.launch.working import working_in

LARGE_BYTES = 10**9

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """What a check was asked for; None and empty leave it to `[tool.samebits]`, and then to samebits.

    Attributes:
        pins: factors held still in every run, each `NAME` or `NAME=VALUE`.
        vary: factors to vary besides those varied by default.
        jobs: how many runs side by side, in copies of the working folder; `auto`, as many as fit.
        seed, runs, max_runs, max_steps, timeout, level, all_origins, quick, share: as in `Request`.
        fresh_copy: start every run in a copy of the working folder of its own.
    """

    pins: Sequence[str] = ()
    vary: Sequence[str] = ()
    seed: int | None = None
    runs: int | None = None
    max_runs: int | None = None
    jobs: int | Literal["auto"] | None = None
    max_steps: int | None = None
    timeout: float | None = None
    level: str | None = None
    all_origins: bool = False
    quick: bool = False
    fresh_copy: bool | None = None
    share: Sequence[str] = ()

    def request(self, words: Sequence[str], config: Config) -> Request:
        """The check of a command, with nothing left open.

        Raises:
            UsageError: what was asked for makes no sense together.
        """
        asked_jobs = _or(self.jobs, config.jobs)
        is_unasked = asked_jobs is None
        as_fits = is_unasked or asked_jobs == "auto"
        most = cores() if asked_jobs == "auto" else min(cores(), MOST_UNASKED)
        jobs = asked_jobs if isinstance(asked_jobs, int) else most
        level = _or(self.level, config.level)
        pins = [*(self.pins or config.pin)]
        fresh_copy = config.fresh_copy or (jobs > 1 and not is_unasked) if self.fresh_copy is None else self.fresh_copy
        request = Request(
            parse_command(words),
            settings_from([*held_by_copies(), *pins] if fresh_copy else pins),
            tuple(in_order([find(name).name for name in self.vary or config.vary])),
            _or(self.seed, config.seed),
            _or(self.runs, config.runs),
            _or(self.max_runs, config.max_runs),
            jobs,
            _or(self.max_steps, config.max_steps),
            _or(self.timeout, config.timeout),
            level,
            self.all_origins,
            tuple(self.share) or config.share,
            self.quick,
            as_fits,
            is_unasked,
        )
        if self.all_origins and level != "op":
            raise UsageError("--all names operations", "add --level op")
        return request

    def wants_copies(self, config: Config) -> bool:
        """Whether copies of the working folder were asked for by name, however large they are."""
        return bool(self.fresh_copy or config.fresh_copy)


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def check_in(
    home: Path,
    request: Request,
    announce: Callable[[str], None],
    wants_copies: bool = False,
    watching: AbstractContextManager[Watch | None] | None = None,
    so_far: Callable[[Verdict], None] | None = None,
) -> Verdict:
    """Make the runs in a folder, and say what they show.

    Args:
        home: the folder of the check.
        request: what to check.
        announce: called with a note when much is going to be copied.
        wants_copies: copies were asked for by name.
        watching: what shows how far the runs are.
        so_far: called with what is known, whenever more is.

    Raises:
        UsageError: copies were not asked for, and would be large.
    """
    with working_in(home), watching or nullcontext() as drawing:
        watch = Patience(announce, drawing).watch
        pool = RunPool(request, home, watch)
        if request.as_fits and not wants_copies and _is_large(pool):
            # Nobody asked for copies: one run after the other shares the folder.
            own = {name: setting for name, setting in request.pins.items() if name not in held_by_copies()}
            request = replace(request, jobs=1, pins=own)
            pool = RunPool(request, home, watch)
        try:
            _announce(pool, announce, wants_copies)
            return run_check(request, pool, so_far)
        finally:
            pool.close()


def _is_large(pool: RunPool) -> bool:
    survey = pool.places.asked_survey()
    return survey is not None and survey.bytes > MOST_UNASKED_BYTES


def _announce(pool: RunPool, announce: Callable[[str], None], wants_copies: bool) -> None:
    survey = pool.places.asked_survey()
    if survey is None or survey.bytes <= LARGE_BYTES:
        return
    size = volume(survey.bytes)
    if not wants_copies and _is_large(pool):
        raise UsageError(
            f"--jobs {pool.request.jobs} gives every run a copy of this folder, which holds {size}",
            "leave data where it is with --share PATH, or add --fresh-copy or --no-fresh-copy",
        )
    announce(f"note: copying {size} for every run; leave data where it is with --share PATH")
