"""`samebits verify`: compare runs with the bits in the lockfile."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from samebits.checking.pool import PoolContext
from samebits.cli import options
from samebits.launch.config import read_config
from samebits.locking.making import need_to_write
from samebits.locking.verifying import VerifyRequest, verify
from samebits.report.progress import progress
from samebits.runfolder.folder import new_home, open_run


@click.command()
@click.option("--recording", type=click.Path(path_type=Path), metavar="RUN", help="Run nothing: take this recording.")
@click.option("--update", is_flag=True, help="Write the bits of this run where they differ or are new.")
@click.option("--update-new-only", is_flag=True, help="Write only what was never locked for this environment.")
@click.option("--allow-unknown", is_flag=True, help="End with 0, not 2, where this environment was never locked.")
@options.timeout
@options.workspace
@options.ignore
@options.lockfile
@options.write_in_ci
@options.out
@options.form("verify")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def command(
    form: str,
    names: tuple[str, ...],
    recording: Path | None,
    allow_unknown: bool,
    lockfile: Path,
    write_in_ci: bool,
    out: Path | None,
    **given: Any,
) -> None:
    """Run locked commands again: the same bits? Without a NAME, all of them.

    \b
    samebits verify
    samebits verify train --format github
    samebits verify --update-new-only
    samebits verify train --recording .samebits/20260131-120000-4711

    An environment that was never locked is unknown, not a failure of the code. Exit status: 0 same bits, 1
    different bits, 2 unknown here, or undecided.
    """
    config = read_config()
    recorded = None if recording is None else open_run(recording)
    request = VerifyRequest(lockfile, names, recorded, **config.filling(given))
    if request.writes:
        need_to_write(os.environ, write_in_ci)
    with nullcontext(Path()) if recorded else new_home(out, config.keep) as home:
        verified = verify(request, PoolContext(home, options.say, progress))
    only_error = verified.entries[0].error if len(verified.entries) == 1 else None
    status = 0 if allow_unknown and verified.kind == "unknown" else verified.exit_code
    options.print_and_exit(form, "verify", verified, status, only_error)
