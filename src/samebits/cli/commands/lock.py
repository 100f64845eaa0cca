"""`samebits lock`: write down the bits that a command gives."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from samebits.cli.options import (
    COMMAND_LINE,
    answer_or_fail,
    command_argument,
    format_option,
    keep_answer,
    lockfile_option,
    out_option,
    pin_option,
    say,
    seed_option,
    timeout_option,
    workspace_options,
    write_in_ci_option,
)
from samebits.launch.config import read_config
from samebits.locking.making import LockRequest, lock, need_to_write
from samebits.locking.running import Around
from samebits.report.answers import kept
from samebits.report.forms import Form
from samebits.report.json import check_json
from samebits.report.progress import progress
from samebits.report.text import check_told
from samebits.runfolder.folder import new_home


@click.command(context_settings=COMMAND_LINE)
@click.option("--name", default="", metavar="NAME", help="Of the entry (default: the name of the script).")
@pin_option("Hold this factor still, and whenever it is verified (repeatable).")
@click.option("--data", multiple=True, metavar="PATH", help="A file or folder that has to stay as it is (repeatable).")
@click.option(
    "--artifact",
    "artifacts",
    multiple=True,
    metavar="PATH",
    help="A file that COMMAND makes, byte for byte; {run} is its own folder (repeatable).",
)
@click.option("--max-steps", type=click.IntRange(min=1), help="Lock the first so many steps only.")
@click.option("--quick", is_flag=True, help="Look at the first seconds of training only, to see whether it repeats.")
@click.option("--no-check", is_flag=True, help="Do not look whether it repeats; that is written down.")
@workspace_options
@click.option("--replace", is_flag=True, help="Throw away what is locked under that name, on every machine.")
@timeout_option
@seed_option
@lockfile_option
@write_in_ci_option
@out_option
@format_option("lock")
@command_argument
def command(
    form: Form, command: tuple[str, ...], lockfile: Path, write_in_ci: bool, out: Path | None, **options: Any
) -> None:
    """Write the bits that COMMAND gives into samebits.lock, for `samebits verify` to hold later runs against.

    \b
    samebits lock train.py --lr 3
    samebits lock --max-steps 50 --pin cpu-threads=2 train.py
    samebits lock --data data/train.npz --artifact "{run}/last.pt" train.py --out {run}
    samebits lock --name small --quick train.py --config small.yaml

    A check comes first: what does not repeat is not locked. Commit the file. Exit status: 0 locked, 1 it does not
    repeat, 2 undecided.
    """  # noqa: D301 - click wants the character itself
    need_to_write(os.environ, write_in_ci)
    config = read_config()
    request = LockRequest(command, lockfile, **config.filling(options))
    home = new_home(out, config.keep)
    found = lock(request, Around(home, say, progress))
    if found.check is not None:
        keep_answer(home, kept(check_json(found.check), check_told(found.check)))
    answer_or_fail(form, form.lock(found), found.error, is_partial=False)
    sys.exit(found.exit_code)
