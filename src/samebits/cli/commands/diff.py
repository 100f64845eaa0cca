"""`samebits diff`: compare two recorded runs."""

from __future__ import annotations

from pathlib import Path

import click

from samebits.base.errors import UsageError
from samebits.cli import options
from samebits.comparison.runs import diff_runs
from samebits.report.rows import counted
from samebits.runfolder.folder import HOME, last_two_in, open_run


@click.command()
@options.strict
@options.form("diff")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN RUN]")
def command(form: str, runs: tuple[Path, ...], strict: bool) -> None:
    """Compare two recorded runs and name the first place at which they differ; unless named, the last two.

    \b
    samebits run train.py
    samebits run train.py
    samebits diff

    \b
    samebits run --out one train.py
    samebits run --out two train.py
    samebits diff one two

    Exit status: 0 same bits in what was trained, 1 different bits, 2 when a run cannot be read.
    """
    if len(runs) not in (0, 2):
        raise UsageError(
            f"two runs are compared, and {counted(len(runs), 'run')} {'was' if len(runs) == 1 else 'were'} named",
            "samebits diff RUN RUN",
        )
    a, b = map(open_run, runs) if runs else last_two_in(Path(HOME))
    diff = diff_runs(a, b, strict=strict)
    options.print_and_exit(form, "diff", diff, 0 if diff.same else 1)
