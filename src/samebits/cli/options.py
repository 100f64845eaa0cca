"""Options that several commands share, and how they print their answers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import click

from samebits.base.errors import SamebitsError, StorageError
from samebits.base.printable import printable
from samebits.report.answers import document_of, json_text
from samebits.report.forms import DEFAULT, answer_in, form_names

LOCKFILE = "samebits.lock"
F = TypeVar("F", bound=Callable[..., object])

# Options of samebits come first; the first word that is no option begins the user's command.
COMMAND_LINE: dict[str, object] = {"ignore_unknown_options": False, "allow_interspersed_args": False}


def jobs_given(word: str) -> int | str:
    """Return the number of runs in a word, or `auto`."""
    try:
        return word if word == "auto" else int(word)
    except ValueError:
        raise click.BadParameter(f"{word!r} is neither a number of runs nor auto") from None


# The user's command: everything from the first word that is no option of samebits.
command = click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND...")
strict = click.option(
    "--strict", is_flag=True, help="Count what else happened, too: data, outputs, extra calls, processes, logs."
)
out = click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the recording there instead of in .samebits/.",
)
seed = click.option("--seed", type=int, help="Root of all pinned streams (default 0).")
timeout = click.option("--timeout", type=float, metavar="S", help="Kill a run after S seconds.")
lockfile = click.option(
    "--lockfile",
    type=click.Path(path_type=Path, dir_okay=False),
    default=LOCKFILE,
    show_default=True,
    metavar="FILE",
    help="The lockfile.",
)
write_in_ci = click.option("--write-in-ci", is_flag=True, help="Write the lockfile although CI is set.")


def pin(text: str) -> Callable[[F], F]:
    """Return the option `--pin`, with the help text that fits the command."""
    return click.option("--pin", "pins", multiple=True, metavar="FACTOR[=VALUE]", help=text)


def workspace(function: F) -> F:
    """Add the options `--isolation` and `--share`."""
    share = "Show this path in the copies without copying it: data (repeatable)."
    isolation = "Begin every run in a copy of this folder, or let all share it (default copy)."
    there = click.Path(exists=True)
    function = click.option("--share", type=there, multiple=True, metavar="PATH", help=share)(function)
    return click.option("--isolation", type=click.Choice(["copy", "none"]), help=isolation)(function)


ignore = click.option(
    "--ignore", multiple=True, metavar="PATH", help="Do not compare this file or folder (`*` matches; repeatable)."
)


def form(kind: str) -> Callable[[F], F]:
    """Return the option `--format`, with every form in which answers of a kind can be printed."""
    return click.option("--format", "form", type=click.Choice(form_names(kind)), default=DEFAULT, show_default=True)


def answer(text: str, is_data: bool = False) -> None:
    """Print the answer; for people, wrap and colour it where stdout is a terminal (`NO_COLOR` is respected).

    The exit status stays the same if the reader has left (`| head`).
    """
    if sys.stdout is None:
        raise StorageError("cannot write the answer: standard output is closed")
    try:
        text = text if is_data else printable(text)
        if not is_data and sys.stdout.isatty():
            from samebits.report.terminal import draw_answer

            text = draw_answer(text, shutil.get_terminal_size().columns, "NO_COLOR" not in os.environ)
        click.echo(text)
    except OSError as error:
        # What is left in the buffer must not fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise StorageError(f"cannot write the answer: {error.strerror}") from error


def say(text: str) -> None:
    """Print to stderr what is not part of the answer."""
    click.echo(printable(text), err=True)


def print_and_exit(
    form: str,
    kind: str,
    found: object,
    status: int,
    error: SamebitsError | None = None,
    is_partial: bool = False,
    text: str = "",
) -> NoReturn:
    """Print an answer, or `text` in its place, and exit with a status.

    For people, an error is printed on stderr after a partial answer; without one, it is raised, and no answer printed.
    """
    is_data = form != DEFAULT
    if error is not None and not is_data and not is_partial:
        raise error
    try:
        answer(text or answer_in(form, kind, found), is_data)
    except StorageError:
        if status in (0, 1):  # nobody has read the verdict that this would stand for
            raise
    if error is not None and not is_data:
        say(f"\nerror: {error}")  # on a new line: a terminal has shown ^C for Ctrl-C
    sys.exit(status)


def keep_answer(home: Path, kind: str, record: object) -> None:
    """Keep an answer next to its runs; if that fails, say so: the answer can still be printed."""
    from samebits.runfolder.folder import write_answer

    try:
        write_answer(home, json_text(document_of(kind, record)))
    except StorageError as error:
        say(f"note: {error.message}, so there will be no page of it")
