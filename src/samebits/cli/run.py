"""`samebits run`: the user's command, once, with factors pinned, as if it had been typed without us."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from samebits.cli.config import read_config
from samebits.cli.options import COMMAND_LINE, command_argument, out_option, pin_option, seed_option, settings_from
from samebits.errors import SamebitsError
from samebits.launch.command import understand
from samebits.launch.plan import RunPlan
from samebits.launch.process import Outcome, run_transparent
from samebits.pinning import settings_for
from samebits.record.folder import mark_busy, mark_done, new_home
from samebits.record.journal import read_notes

OWN_FAILURE = 125


@click.command(context_settings=COMMAND_LINE, short_help="Run once with every factor pinned.")
@pin_option("Pin only these factors (repeatable). Without it: all that are pinned by default.")
@click.option("--no-pin", is_flag=True, help="Pin nothing, only record.")
@seed_option
@click.option("--per-rank", is_flag=True, help="Give every rank random streams of its own.")
@click.option("--no-record", is_flag=True, help="Pin only, record nothing.")
@click.option(
    "--keep-values", type=int, metavar="STEP", help="Keep the whole tensors of this step, for `samebits diff`."
)
@click.option("-v", "--verbose", is_flag=True, help="Say afterwards what was pinned and where the recording is.")
@out_option
@command_argument
def command(
    pins: tuple[str, ...],
    no_pin: bool,
    seed: int | None,
    per_rank: bool,
    no_record: bool,
    keep_values: int | None,
    verbose: bool,
    out: Path | None,
    command: tuple[str, ...],
) -> None:
    r"""Run COMMAND once with every factor pinned; its output, input and exit status are its own.

    \b
    samebits run train.py --lr 3
    samebits run --pin torch-rng --pin hash-seed train.py
    samebits run torchrun --nproc-per-node 2 train.py
    """
    try:
        outcome = _run(pins, no_pin, seed, per_rank, no_record, keep_values, out, command)
    except SamebitsError as error:
        # The script's statuses are its own; ours must not be mistaken for one of them.
        error.exit_code = OWN_FAILURE
        raise
    _say_afterwards(outcome, verbose)
    if outcome.exit_code < 0:
        # Die of the same signal, so that the shell sees what it would have seen.
        signal.signal(-outcome.exit_code, signal.SIG_DFL) if -outcome.exit_code not in (9, 19) else None
        signal.raise_signal(-outcome.exit_code)
    sys.exit(outcome.exit_code)


def _run(
    pins: tuple[str, ...],
    no_pin: bool,
    seed: int | None,
    per_rank: bool,
    no_record: bool,
    keep_values: int | None,
    out: Path | None,
    words: tuple[str, ...],
) -> Outcome:
    config = read_config()
    understood = understand(words)
    chosen = pins or config.pin
    settings = {} if no_pin else settings_from(chosen) if chosen else settings_for(None)
    streams = () if keep_values is None else ("init", "batch", "loss", "grad", "param", "optimizer")
    plan = RunPlan(
        "run",
        settings,
        config.seed if seed is None else seed,
        record=not no_record,
        per_rank=per_rank,
        keep_step=keep_values,
        keep_streams=streams,
    )
    home = new_home(out, config.keep)
    mark_busy(home)
    try:
        return run_transparent(understood, plan, home)
    finally:
        mark_done(home)


def _say_afterwards(outcome: Outcome, verbose: bool) -> None:
    notes = list(read_notes(outcome.folder.path))
    for note in notes:
        if note["note"] == "overridden":
            click.echo(f"samebits: {note['factor']} was pinned, but {note['why']}", err=True)
        elif note["note"] == "error":
            click.echo(f"samebits: {note['message']}", err=True)
    if not any(note["note"] == "start" for note in notes):
        click.echo(
            "samebits: did not get into any Python process of this command, so nothing was pinned inside", err=True
        )
    if verbose:
        click.echo(f"samebits: pinned {', '.join(outcome.plan.named('pinned')) or 'nothing'}", err=True)
        click.echo(f"samebits: recorded in {outcome.folder.path}", err=True)
