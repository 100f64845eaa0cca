"""Options that several commands share, and the words `--pin F=VALUE` is made of."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from samebits.base.errors import InterruptError, SamebitsError, StorageError
from samebits.factors.catalog import in_order
from samebits.factors.context import Setting
from samebits.factors.pinning import settings_for
from samebits.launch.signals import signals_end_runs
from samebits.runfolder.folder import ANSWER, mark_busy, mark_done, write_whole

F = TypeVar("F", bound=Callable[..., Any])

# Our options come first; from the first word that is none on, everything is the user's command.
COMMAND_LINE: dict[str, Any] = {"ignore_unknown_options": False, "allow_interspersed_args": False}


def command_argument(function: F) -> F:
    """The user's command: everything from the first word that is not an option of ours."""
    return click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND...")(function)


def pin_option(text: str) -> Callable[[F], F]:
    """`--pin`, with the help text that fits the command."""
    return click.option("--pin", "pins", multiple=True, metavar="FACTOR[=VALUE]", help=text)


def out_option(function: F) -> F:
    """`--out DIR`."""
    return click.option(
        "--out",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Keep the recording there instead of in .samebits/.",
    )(function)


def seed_option(function: F) -> F:
    """`--seed N`."""
    return click.option("--seed", type=int, help="Root of all pinned streams (default 0).")(function)


def format_option(function: F) -> F:
    """`--format text|json`."""
    return click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)(
        function
    )


def answer(text: str, is_data: bool = False) -> None:
    """Print the answer; a reader that has left (`| head`) changes nothing about the exit status.

    Args:
        text: what to print. On a terminal it is wrapped and coloured (`NO_COLOR` is respected).
        is_data: for programs: print it as it is, also on a terminal.
    """
    if sys.stdout is None:
        raise StorageError("cannot write the answer: standard output is closed")
    try:
        if not is_data and sys.stdout.isatty():
            from samebits.report.terminal import drawn

            text = drawn(text, shutil.get_terminal_size().columns, "NO_COLOR" not in os.environ)
        click.echo(text)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise StorageError(f"cannot write the answer: {error.strerror}") from error


def keep_answer(home: Path, document: str) -> None:
    """Keep the answer beside its runs; where that fails, it can still be printed."""
    try:
        write_whole(home / ANSWER, f"{document}\n")
    except StorageError as error:
        click.echo(f"note: {error.message}, so there will be no page of it", err=True)


def report_interrupt(error: SamebitsError) -> None:
    """Say on stderr that this is not all; below what a terminal shows of Ctrl-C."""
    with suppress(OSError):
        click.echo(f"\nerror: {error.message}\n\nhint: {error.hint}", err=True)


@contextmanager
def working_in(home: Path) -> Iterator[None]:
    """Runs are made in a folder; a signal ends all of them, and what was recorded is kept.

    Raises:
        InterruptError: with the status that a shell gives for the signal.
    """
    mark_busy(home)
    try:
        with signals_end_runs():
            yield
    except KeyboardInterrupt as interrupt:
        raise InterruptError.by(interrupt.args[0] if interrupt.args else signal.SIGINT, home) from interrupt
    finally:
        mark_done(home)


def settings_from(words: Iterable[str]) -> dict[str, Setting]:
    """`["clock", "cpu-threads=4"]` → pinned settings, checked, in catalogue order."""
    pairs = [word.partition("=") for word in words]
    values = {name: value for name, equals, value in pairs if equals}
    settings = settings_for([name for name, _, _ in pairs], values)
    return {name: settings[name] for name in in_order(settings)}
