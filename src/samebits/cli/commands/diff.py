"""`samebits diff`: compare two recorded runs."""

from __future__ import annotations

from pathlib import Path

import click

from samebits.cli import options
from samebits.comparison.runs import diff_runs
from samebits.report.forms import Form
from samebits.runfolder.folder import open_run


@click.command()
@options.strict
@options.form("diff")
@click.argument("a", type=click.Path(path_type=Path), metavar="RUN")
@click.argument("b", type=click.Path(path_type=Path), metavar="RUN")
def command(form: Form, a: Path, b: Path, strict: bool) -> None:
    """Compare two recorded runs and name the first place at which they differ.

    \b
    samebits run --out one train.py
    samebits run --out two train.py
    samebits diff one two

    Exit status: 0 same bits in what was trained, 1 different bits, 2 when a run cannot be read.
    """
    found = diff_runs(open_run(a), open_run(b), strict=strict)
    options.end(form, form.answer("diff", found), 0 if found.same else 1)
