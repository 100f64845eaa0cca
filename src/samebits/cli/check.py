"""`samebits check`: several runs of the user's command → a verdict."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from samebits.base.errors import UsageError
from samebits.checking.experiments import run_check
from samebits.checking.places import MOST_UNASKED_BYTES
from samebits.checking.plan import Request, first_runs
from samebits.checking.pool import RunPool
from samebits.checking.verdict import Verdict
from samebits.cli.config import Config, read_config
from samebits.cli.options import (
    COMMAND_LINE,
    answer,
    command_argument,
    format_option,
    keep_answer,
    out_option,
    pin_option,
    report_interrupt,
    seed_option,
    settings_from,
    working_in,
)
from samebits.cli.progress import progress
from samebits.factors.catalog import find, held_by_copies, in_order
from samebits.launch.command import parse_command
from samebits.launch.copies import volume
from samebits.report.json import check_json, dumped
from samebits.report.text import check_text, plan_text
from samebits.runfolder.folder import new_home

LARGE_BYTES = 10**9


@click.command(context_settings=COMMAND_LINE, short_help="Same bits? If not: where, why, and what cures it.")
@pin_option("Hold this factor still in every run (repeatable).")
@click.option("--vary", multiple=True, metavar="FACTOR", help="Vary this factor too (repeatable).")
@click.option("--runs", type=int, help="Runs before anything is judged: two controls, the rest varied (default 3).")
@click.option("--max-runs", type=int, help="At most so many runs altogether (default 40).")
@click.option("--jobs", type=int, help="So many runs side by side (default 1).")
@click.option("--level", type=click.Choice(["step", "op"]), help="`op`: name the operation, too (default step).")
@click.option("--all", "all_origins", is_flag=True, help="With --level op: name further operations, too.")
@click.option("--max-steps", type=int, help="Look at the first so many steps only.")
@click.option(
    "--timeout",
    type=float,
    metavar="S",
    help="End a run after so many seconds (default ten times the first run, at least 60).",
)
@click.option(
    "--fresh-copy/--no-fresh-copy",
    default=None,
    help="Start every run in a copy of this folder of its own (default with --jobs above 1).",
)
@click.option("--share", multiple=True, metavar="PATH", help="Leave this out of the copies: data (repeatable).")
@click.option("--dry-run", is_flag=True, help="Print what would be run, and run nothing.")
@seed_option
@out_option
@format_option
@command_argument
def command(
    form: str, command: tuple[str, ...], dry_run: bool, all_origins: bool, out: Path | None, **options: Any
) -> None:
    """Does COMMAND repeat bit for bit? If not: where the runs diverge, which line lets it in, and what cures it.

    \b
    samebits check train.py --lr 3
    samebits check --max-steps 50 --jobs 2 train.py
    samebits check -- torchrun --nproc-per-node 2 train.py
    samebits check train.py --out {run}
    samebits check --fresh-copy --share data train.py

    Runs share the current folder unless they get copies of it; {run} in COMMAND is a folder of the run's own.
    Standard input is passed on when it is a file. Exit status: 0 same bits, 1 different bits, 2 undecided.
    """  # noqa: D301 - click wants the character itself
    config = read_config()
    request = replace(_request(command, config, **options), all_origins=all_origins)
    if all_origins and request.level != "op":
        raise UsageError("--all names operations", "add --level op")
    if dry_run:
        answer(plan_text(request, first_runs(request)))
        return
    verdict = _check(request, new_home(out, config.keep), bool(options["fresh_copy"] or config.fresh_copy))
    document = dumped(check_json(verdict))
    keep_answer(verdict.home, document)
    if form == "text" and verdict.error is not None and verdict.signal is None:
        raise verdict.error
    answer(document if form == "json" else check_text(verdict), form == "json")
    if form == "text" and verdict.error is not None:
        report_interrupt(verdict.error)
    sys.exit(verdict.exit_code)


def _request(
    command: tuple[str, ...],
    config: Config,
    pins: Any,
    vary: Any,
    fresh_copy: bool | None,
    share: tuple[str, ...],
    **options: Any,
) -> Request:
    chosen = {name: getattr(config, name) if value is None else value for name, value in options.items()}
    settings = settings_from(pins or config.pin)
    if fresh_copy is None:
        fresh_copy = config.fresh_copy or chosen["jobs"] > 1
    if fresh_copy:
        settings = settings_from([*held_by_copies(), *(pins or config.pin)])
    chosen["share"] = tuple(share) or config.share
    varied = in_order([find(name).name for name in vary or config.vary])
    return Request(parse_command(command), settings, tuple(varied), **chosen)


def _check(request: Request, home: Path, asks_for_copies: bool) -> Verdict:
    with working_in(home), progress(request) as watch:
        pool = RunPool(request, home, watch)
        try:
            _announce(pool, asks_for_copies)
            return run_check(request, pool)
        finally:
            pool.close()


def _announce(pool: RunPool, asks_for_copies: bool) -> None:
    """Say before it begins that much is going to be copied; raise UsageError where that was not asked for."""
    survey = pool.places.asked_survey()
    if survey is None or survey.bytes <= LARGE_BYTES:
        return
    size = volume(survey.bytes)
    if not asks_for_copies and survey.bytes > MOST_UNASKED_BYTES:
        raise UsageError(
            f"--jobs {pool.request.jobs} gives every run a copy of this folder, which holds {size}",
            "leave data where it is with --share PATH, or add --fresh-copy or --no-fresh-copy",
        )
    click.echo(f"note: copying {size} for every run; leave data where it is with --share PATH", err=True)
