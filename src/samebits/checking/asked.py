"""From what was asked for to a verdict: what was left open gets its default, and the runs are made in one folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from samebits.base.errors import UsageError
from samebits.checking.experiments import run_check
from samebits.checking.patience import Patience
from samebits.checking.plan import CheckRequest
from samebits.checking.pool import RunPool, Watch
from samebits.checking.verdict import CheckVerdict
from samebits.factors.catalog import find, in_order
from samebits.factors.pinning import settings_from
from samebits.launch.command import parse_command
from samebits.launch.config import Config
from samebits.launch.machine import cores
from samebits.launch.signals import working_in
from samebits.workspace.trees import MOST_ENTRIES
from samebits.workspace.workspace import Isolation, volume

LARGE_BYTES = 5 * 10**8
# Where nobody says how many go on side by side.
MOST_UNASKED = 2

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """What a check was asked for; None and empty leave it to `[tool.samebits]`, and then to samebits.

    Attributes:
        pins: factors held still in every run, each `NAME` or `NAME=VALUE`.
        vary: factors to vary besides those varied by default.
        jobs: how many runs side by side; `auto`, as many as fit.
        seed, runs, max_runs, max_steps, timeout, level, all_origins, quick, isolation, share, strict: as in
            `CheckRequest`.
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
    isolation: Isolation | None = None
    share: Sequence[str] = ()
    strict: bool = False

    def request(self, words: Sequence[str], config: Config) -> CheckRequest:
        """The check of a command, with nothing left open.

        Raises:
            UsageError: what was asked for makes no sense together.
        """
        jobs = _or(self.jobs, config.jobs)
        most = cores() if jobs == "auto" else min(cores(), MOST_UNASKED)
        level = _or(self.level, config.level)
        request = CheckRequest(
            parse_command(words),
            settings_from(self.pins or config.pin),
            tuple(in_order([find(name).name for name in self.vary or config.vary])),
            _or(self.seed, config.seed),
            _or(self.runs, config.runs),
            _or(self.max_runs, config.max_runs),
            jobs if isinstance(jobs, int) else most,
            _or(self.max_steps, config.max_steps),
            _or(self.timeout, config.timeout),
            level,
            self.all_origins,
            tuple(self.share) or config.share,
            self.quick,
            not isinstance(jobs, int),
            _or(self.isolation, config.isolation),
            self.strict,
        )
        if self.all_origins and level != "op":
            raise UsageError("--all names operations", "add --level op")
        return request


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


@contextmanager
def pool_in(
    home: Path,
    request: CheckRequest,
    announce: Callable[[str], None],
    watching: AbstractContextManager[Watch | None] | None = None,
) -> Iterator[RunPool]:
    """What makes the runs of a command in a folder; afterwards only their recordings are left there.

    Args:
        home: the folder.
        request: what to run.
        announce: called with a note where much is going to be copied, or a run does not come to a step for long.
        watching: what shows how far the runs are.
    """
    with working_in(home), watching or nullcontext() as drawing:
        pool = RunPool(request, home, Patience(announce, drawing).watch)
        try:
            survey = pool.workspace.survey
            if survey.bytes > LARGE_BYTES or len(survey.linked) > MOST_ENTRIES:
                size = f"{volume(survey.bytes)}, and links to {len(survey.linked)} files"
                announce(f"note: every run gets a copy of {size}; leave data where it is with --share PATH")
            yield pool
        finally:
            pool.close()


def check_in(
    home: Path,
    request: CheckRequest,
    announce: Callable[[str], None],
    watching: AbstractContextManager[Watch | None] | None = None,
    so_far: Callable[[CheckVerdict], None] | None = None,
) -> CheckVerdict:
    """Make the runs in a folder, and say what they show; `so_far` is called with what is known, whenever more is."""
    with pool_in(home, request, announce, watching) as pool:
        return run_check(request, pool, so_far)
