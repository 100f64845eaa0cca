"""`samebits lock`: write down the bits that a command gives."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from samebits.checking.pool import PoolContext
from samebits.cli import options
from samebits.launch.config import read_config
from samebits.locking.making import LockRequest, lock, need_to_write
from samebits.report.progress import progress
from samebits.runfolder.folder import new_home


@click.command(context_settings=options.COMMAND_LINE)
@click.option("--name", default="", metavar="NAME", help="Name of the entry (default: the script's name).")
@options.pin("Pin this factor, now and whenever the entry is verified (repeatable).")
@click.option("--data", multiple=True, metavar="PATH", help="A file or folder that must not change (repeatable).")
@click.option(
    "--artifact",
    "artifacts",
    multiple=True,
    metavar="PATH",
    help="A file that COMMAND makes, byte for byte; {run} is its own folder (repeatable).",
)
@click.option("--max-steps", type=click.IntRange(min=1), metavar="N", help="Lock only the first N steps.")
@click.option("--quick", is_flag=True, help="Look at the first seconds of training only, to see whether it repeats.")
@click.option("--no-check", is_flag=True, help="Do not check whether it repeats; the lockfile says so.")
@options.workspace
@options.ignore
@click.option("--replace", is_flag=True, help="Discard what is locked under that name, on every machine.")
@options.timeout
@options.seed
@options.lockfile
@options.write_in_ci
@options.out
@options.form("lock")
@options.command
def command(
    form: str, command: tuple[str, ...], lockfile: Path, write_in_ci: bool, out: Path | None, **given: Any
) -> None:
    """Write the bits that COMMAND gives into samebits.lock, with which `samebits verify` compares later runs.

    \b
    samebits lock train.py --lr 3
    samebits lock --max-steps 50 --pin cpu-threads=2 train.py
    samebits lock --data data/train.npz --artifact "{run}/last.pt" train.py --out {run}
    samebits lock --name small --quick train.py --config small.yaml

    A check comes first: what does not repeat is not locked. Commit the file. Exit status: 0 locked, 1 it does not
    repeat, 2 undecided.
    """
    need_to_write(os.environ, write_in_ci)
    config = read_config()
    request = LockRequest(command, lockfile, **config.filling(given))
    with new_home(out, config.keep) as home:
        result = lock(request, PoolContext(home, options.say, progress))
        if result.check is not None:
            options.keep_answer(home, "check", result.check)
    options.print_and_exit(form, "lock", result, result.exit_code, result.error)
