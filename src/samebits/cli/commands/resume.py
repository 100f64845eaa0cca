"""`samebits resume`: killed and started again: same bits? If not: what is missing."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from samebits.base.errors import UsageError
from samebits.checking.pool import PoolContext, pool_in
from samebits.cli import options
from samebits.factors.pinning import parsed_settings
from samebits.launch.command import Command, parse_command
from samebits.launch.config import read_config
from samebits.report.progress import progress
from samebits.resuming.experiments import run_resume
from samebits.resuming.plan import ResumeRequest
from samebits.runfolder.folder import new_home


@click.command(context_settings=options.COMMAND_LINE)
@click.option("--at", type=int, multiple=True, metavar="STEP", help="Kill after this step (repeatable).")
@click.option(
    "--kills", type=int, default=0, metavar="N", help="Kill after N steps chosen at random, one run for each."
)
@click.option(
    "--with", "more", default="", metavar="ARGS", help="Arguments that the command needs to resume, as one word."
)
@click.option(
    "--signal",
    type=click.Choice(["KILL", "TERM"]),
    default="KILL",
    show_default=True,
    help="TERM lets the script save and end by itself.",
)
@click.option(
    "--saved-at",
    type=int,
    multiple=True,
    metavar="STEPS",
    help="The script saves after STEPS steps in a way that samebits cannot see (repeatable).",
)
@click.option("--during-save", is_flag=True, help="Kill within a save, and leave half of its file.")
@options.workspace
@options.timeout
@options.pin("Hold this factor still, too (repeatable).")
@options.seed
@options.out
@options.form("resume")
@options.command
def command(
    form: str, command: tuple[str, ...], more: str, pins: tuple[str, ...], out: Path | None, **given: Any
) -> None:
    """Does COMMAND, killed and started again, continue with the same bits? If not: which state does it not restore?

    \b
    samebits resume train.py --out {run}
    samebits resume --with "--resume {run}/last.pt" train.py --out {run}
    samebits resume --at 120 --at 250 train.py
    samebits resume --signal TERM -- torchrun --nproc-per-node 2 train.py

    It is run once uninterrupted, once more until it is killed some steps after a save, and started again in the same
    folder. Every factor that changes between runs is held still, and each of the two has a copy of the current
    folder; {run} in COMMAND is the run's own folder. Exit status: 0 same bits, 1 different bits, 2 undecided.
    """
    config = read_config()
    held = parsed_settings([*(pins or config.pin)])
    request = ResumeRequest(parse_command(command), held, again=_again(command, more), **config.filling(given))
    with new_home(out, config.keep) as home:
        with pool_in(PoolContext(home, options.say, progress), request) as pool:
            resumption = run_resume(request, pool)
        options.keep_answer(home, "resume", resumption)
    is_partial = any(trial.compared for trial in resumption.trials)
    options.print_and_exit(form, "resume", resumption, resumption.exit_code, resumption.trouble, is_partial)


def _again(words: tuple[str, ...], more: str) -> Command:
    """Return the command that is started after the kill."""
    try:
        further = shlex.split(more)
    except ValueError as error:
        raise UsageError(f"--with {more!r} cannot be read: {error}", "quote it as a shell would read it") from error
    return parse_command([*words, *further])
