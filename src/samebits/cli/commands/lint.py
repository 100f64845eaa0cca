"""`samebits lint`: what will not repeat, read off the code without running it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from samebits.base.errors import UsageError
from samebits.cli import options
from samebits.launch.config import read_config
from samebits.launch.machine import cores
from samebits.lint.linting import LintOptions, files_in, lint
from samebits.lint.rule import find_rule
from samebits.report.forms import DEFAULT
from samebits.report.lints import rule_page


@click.command()
@click.option("--select", multiple=True, metavar="CODE", help="Apply only rules whose code begins so (repeatable).")
@click.option("--ignore", multiple=True, metavar="CODE", help="Do not apply rules whose code begins so (repeatable).")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave out paths that match (repeatable).")
@click.option("--explain", metavar="CODE", help="Show the page of a rule, and look at nothing.")
@click.option("--fix", is_flag=True, help="Write the cures that change nothing but an order or a seed, and look again.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: those that change what a script does, too.")
@click.option("--diff", is_flag=True, help="Show what --fix would write, and write nothing.")
@options.form("lint")
@click.argument("paths", nargs=-1, metavar="PATHS...")
def command(
    form: str,
    paths: tuple[str, ...],
    explain: str | None,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    **given: Any,
) -> None:
    """Which lines of PATHS will not repeat? Neither torch nor the code is imported.

    \b
    samebits lint src train.py
    samebits lint --select SB2 .
    samebits lint --explain SB202
    samebits lint --diff src

    In folders, Python files and notebooks are read, but not tests, docs and environments. To take a finding back, say
    why in a comment at its line: # samebits: ignore[SB201] the order does not matter, files are deleted

    Exit status: 0 nothing found, 1 something found, 2 a file could not be read.
    """
    if explain is not None:
        options_given = {"--fix": fix, "--unsafe-fixes": unsafe_fixes, "--diff": diff, "--format": form != DEFAULT}
        if ignored := [word for word, is_given in options_given.items() if is_given]:
            raise UsageError("--explain shows a page, and looks at nothing", f"leave out {ignored[0]}")
        options.answer(rule_page(find_rule(explain)))
        return
    if diff and form != DEFAULT:
        raise UsageError("--diff prints a patch", "leave out --format")
    if unsafe_fixes and not (fix or diff):
        raise UsageError("--unsafe-fixes alone does nothing", "add --diff to see them, or --fix to write them")
    chosen, paths = LintOptions(**read_config().lint.filling(given)), paths or (".",)
    linted = lint(paths, chosen, cores())
    if fix or diff:
        from samebits.fixing.edits import write_all
        from samebits.fixing.findings import mend

        draft, mended = mend(linted.findings, unsafe_fixes, files_in(paths, chosen.exclude))
        if diff:
            options.answer(draft.diff, is_data=True)
            raise SystemExit(linted.exit_code)
        write_all(draft.changes)
        linted = replace(lint(paths, chosen, cores()), fixed=tuple(mended))
    options.print_and_exit(form, "lint", linted, linted.exit_code)
