"""`samebits factors`: the catalogue, as it stands in this environment."""

from __future__ import annotations

import click

from samebits.cli.options import answer, format_option
from samebits.factors.context import import_if_installed
from samebits.factors.pinning import status
from samebits.report.json import dumped, factors_json
from samebits.report.text import factors_text


@click.command(short_help="What can change bits here, and what is in effect.")
@format_option
def command(form: str) -> None:
    """Show every factor: what is in effect, whether it is held still, and why it matters.

    \b
    samebits factors
    samebits factors --format json
    """  # noqa: D301 - click wants the character itself
    # What is in effect for torch can only be read from torch itself; where it is not installed, that is said.
    import_if_installed("torch")
    found = status()
    answer(dumped(factors_json(found)) if form == "json" else factors_text(found), form == "json")
