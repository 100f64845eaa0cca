"""`samebits cost`: what each pin costs, and the cheapest set that repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from samebits.base.errors import UsageError
from samebits.cli import options
from samebits.factors.catalog import find, in_order
from samebits.launch.command import parse_command
from samebits.launch.config import read_config
from samebits.launch.signals import interruptible
from samebits.pricing.experiments import run_cost
from samebits.pricing.plan import DEFAULT_BUDGET, DEFAULT_WARM_UP, CostRequest
from samebits.report.progress import progress_line
from samebits.runfolder.folder import new_home


@click.command(context_settings=options.COMMAND_LINE)
@click.option("--budget", type=float, default=DEFAULT_BUDGET, show_default=True, metavar="S", help="Seconds for all.")
@click.option(
    "--warm-up",
    type=int,
    default=DEFAULT_WARM_UP,
    show_default=True,
    metavar="STEPS",
    help="Record the first STEPS steps to see whether they repeat; do not time them.",
)
@click.option("--factor", "factors", multiple=True, metavar="FACTOR", help="Measure only this one (repeatable).")
@options.workspace
@options.seed
@options.out
@options.form("cost")
@options.command
def command(form: str, command: tuple[str, ...], factors: tuple[str, ...], out: Path | None, **given: Any) -> None:
    """What does each pin cost COMMAND's own steps, and which is the cheapest set of pins under which it repeats?

    \b
    samebits cost train.py --lr 3
    samebits cost --budget 300 train.py
    samebits cost --factor torch-algorithms train.py

    Blocks of steps with and without a pin alternate, so that a drifting machine slows both.

    Exit status: 0 measured, 2 not.
    """
    config = read_config()
    chosen = in_order([find(name).name for name in factors])
    unpriced = [name for name in chosen if not find(name).priced]
    if unpriced:
        raise UsageError(f"{unpriced[0]} has no effect on the time of a step", "`samebits factors` says what each does")
    request = CostRequest(parse_command(command), factors=tuple(chosen), **config.filling(given))
    with new_home(out, config.keep) as home:
        with interruptible(home), progress_line() as announce:
            costs = run_cost(request, home, announce)
        options.keep_answer(home, "cost", costs)
    options.print_and_exit(form, "cost", costs, costs.exit_code, costs.error, is_partial=costs.signal is not None)
