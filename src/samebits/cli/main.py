"""`samebits`: finds the command, loads only that one, and turns errors into one sentence and a hint."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

import samebits
from samebits.errors import InterruptError, SamebitsError

COMMANDS = {
    "run": "Run once with every factor pinned.",
    "check": "Same bits? If not: where, why, and what cures it.",
    "diff": "Compare two recorded runs.",
    "factors": "What can change bits here, and what is in effect.",
}


class _Lazy(click.Group):
    """Imports a command's module when it is called; the list of commands needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"samebits.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and (name.endswith(".py") or name in ("python", "torchrun")):
            raise click.UsageError(f"there is no command {name!r}; did you mean: samebits check {' '.join(args)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(samebits.__version__, prog_name="samebits")
def cli() -> None:
    r"""Run your training twice and get the same bits, or be told which line broke them.

    \b
    samebits check train.py --lr 3      does it repeat, and if not, why not
    samebits run train.py --lr 3        run it with everything held still
    """


def main(args: list[str] | None = None) -> None:
    """Entry point; never shows a traceback for what a user can cause."""
    try:
        cli.main(args=args, prog_name="samebits", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        _say(error.format_message(), _usage_hint(error))
        sys.exit(2)
    except click.Abort:
        sys.exit(InterruptError.exit_code)
    except InterruptError as error:
        _say(error.message, error.hint)
        sys.exit(error.exit_code)
    except SamebitsError as error:
        _say(error.message, error.hint)
        sys.exit(error.exit_code)


def _usage_hint(error: click.ClickException) -> str:
    context: Any = getattr(error, "ctx", None)
    return f"{context.command_path} --help" if context is not None else "samebits --help"


def _say(message: str, hint: str) -> None:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"\nhint: {hint}", err=True)
