"""`samebits factors`: what can change bits here, and what is in effect."""

from __future__ import annotations

import click

from samebits.cli import options
from samebits.factors.context import import_if_installed
from samebits.factors.pinning import status


@click.command()
@options.form("factors")
def command(form: str) -> None:
    """Show every factor: what is in effect, whether it is pinned, and why it matters.

    \b
    samebits factors
    samebits factors --format json
    """
    # Only torch itself knows what is in effect for torch; where it is not installed, the answer says so.
    import_if_installed("torch")
    options.print_and_exit(form, "factors", status(), 0)
