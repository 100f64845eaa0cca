"""The `samebits` program: finds the command, loads only that one, and prints errors as one sentence and a hint."""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import Any

import click

from samebits.base.errors import InterruptError, SamebitsError, UsageError
from samebits.base.version import __version__
from samebits.cli import commands
from samebits.cli.options import say
from samebits.report.forms import DEFAULT, failure_in

# `samebits run` exits with its command's status; this status says that samebits itself failed, as with env and nice.
OWN_FAILURE = 125
# The first line of a command's file: """`samebits check`: same bits? If not: ..."""
_HEAD = re.compile(r'"""`samebits [\w-]+`: (?P<help>.*?)(""")?$', re.MULTILINE)


@cache
def helps() -> dict[str, str]:
    """Return name → help in one line, for every file in `cli/commands`, by name, without importing any."""
    texts = {}
    for path in sorted(Path(commands.__file__).parent.glob("[a-z]*.py")):
        head = _HEAD.match(path.read_text(encoding="utf-8"))
        assert head is not None, f"{path} does not begin with its name and its help"
        texts[path.stem] = head["help"][:1].upper() + head["help"][1:]
    return texts


def find_command(name: str) -> click.Command:
    """Import the file of a command, and return the command."""
    command = importlib.import_module(f"{commands.__name__}.{name}").command
    assert isinstance(command, click.Command)
    return command


class _Lazy(click.Group):
    """A group that imports a command's module when it is called; the list of commands needs no import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(helps())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return find_command(name) if name in helps() else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in helps():
            raise UsageError(f"there is no command {args[0]!r}", _near(args))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(helps().items()))


def _near(words: list[str]) -> str:
    name = words[0]
    if os.path.exists(name) or name.endswith(".py") or name.startswith(("python", "torchrun")):
        return f"did you mean: samebits check {' '.join(words)}"
    near = difflib.get_close_matches(name, helps(), n=1)
    return f"did you mean {near[0]}?" if near else "samebits --help lists them"


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    subcommand_metavar="COMMAND ...",
)
@click.version_option(__version__, prog_name="samebits")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run your training twice and get the same bits, or be told which line broke them.

    \b
    samebits check train.py --lr 3      does it repeat, and if not, why not
    samebits run train.py --lr 3        run it with everything held still
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


class _Lossy(FileIO):
    """Standard error, where nothing fails when it cannot be written (a full disk, a closed terminal): status counts."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit; an error that a user can cause never shows a traceback."""
    words = list(sys.argv[1:] if args is None else args)
    if (stderr := sys.__stderr__) is not None and sys.stderr is stderr:
        sys.stderr = TextIOWrapper(_Lossy(2), stderr.encoding, "backslashreplace", write_through=True)
    if words[:1] != ["run"]:
        _open_closed_streams()
    try:
        status = _status(words)
    except Exception as raised:
        error = _understood(raised, words)
        _print_error(error, words)
        is_own = words[:1] == ["run"] and not isinstance(error, InterruptError)
        sys.exit(OWN_FAILURE if is_own else error.exit_code)
    sys.exit(status if isinstance(status, int) else 0)


def _status(words: list[str]) -> object:
    """Run a command line and return its status; `-m`, no option of samebits, begins the user's command as `--` does."""
    try:
        return cli.main(args=words, prog_name="samebits", standalone_mode=False)
    except click.NoSuchOption as unknown:
        starts_a_command = unknown.ctx is not None and any(one.name == "command" for one in unknown.ctx.command.params)
        if unknown.option_name != "-m" or "-m" not in words or not starts_a_command:
            raise
        at = words.index("-m")
        return cli.main(args=[*words[:at], "--", *words[at:]], prog_name="samebits", standalone_mode=False)


def _open_closed_streams() -> None:
    """Open the null device for each closed standard stream (`>&-`): the next file opened would get its number.

    This is not done for `samebits run`: its command finds the streams closed, as without samebits.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _understood(raised: Exception, words: list[str]) -> SamebitsError:
    if isinstance(raised, click.Abort) and raised.__cause__ is not None:
        # Click raises Abort for every KeyboardInterrupt, those of samebits included.
        interrupt = raised.__cause__
        return interrupt if isinstance(interrupt, InterruptError) else InterruptError("interrupted")
    if isinstance(raised, click.ClickException):
        message = raised.format_message().rstrip(".")
        command = [word for word in words[:1] if word in helps()]
        return UsageError(message[:1].lower() + message[1:], " ".join(["samebits", *command, "--help"]))
    if isinstance(raised, SamebitsError):
        return raised
    say("".join(traceback.format_exception(raised)).rstrip())
    return SamebitsError(f"samebits itself failed: {type(raised).__name__}: {raised}", "please report the lines above")


def _print_error(error: SamebitsError, words: list[str]) -> None:
    """Print an error in the form that was asked for, else in words on stderr."""
    form = _form(words)
    if form == DEFAULT:
        say(f"error: {error}")
    else:
        click.echo(failure_in(form, words[0], error))


def _form(words: list[str]) -> str:
    """Return the form that was asked for; the line may be wrong, so it is read as far as it can be understood."""
    if not words or words[0] not in helps() or not any(word.startswith("--format") for word in words):
        return DEFAULT
    params = find_command(words[0]).make_context(words[0], words[1:], resilient_parsing=True).params
    return str(params.get("form") or DEFAULT)
