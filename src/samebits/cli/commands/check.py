"""`samebits check`: same bits? If not: where, why, and what fixes it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click

from samebits.against.experiments import run_against, sides_of
from samebits.base.errors import UsageError
from samebits.checking.experiments import check_in
from samebits.checking.mending import assert_may_fix
from samebits.checking.plan import CheckRequest, check_request, first_runs
from samebits.checking.pool import PoolContext, pool_in
from samebits.checking.verdict import CheckVerdict
from samebits.cli import options
from samebits.launch.config import read_config
from samebits.report.experiment import experiment_in, experiment_text
from samebits.report.forms import DEFAULT, form_names
from samebits.report.progress import progress
from samebits.report.text import check_report, plan_text, so_far_text
from samebits.runfolder.folder import new_home


@click.command(context_settings=options.COMMAND_LINE)
@options.pin("Hold this factor still in every run (repeatable).")
@click.option("--vary", multiple=True, metavar="FACTOR", help="Vary this factor too (repeatable).")
@click.option("--runs", type=int, help="Runs before anything is judged: two controls, the rest varied (default 3).")
@click.option(
    "--max-runs", type=int, metavar="N", help="Make at most N runs in total (default 36, plus 12 per cause found)."
)
@click.option(
    "--jobs",
    type=options.jobs_given,
    metavar="N|auto",
    help="Make N runs at a time, or as many as fit (default: two where memory and cores allow).",
)
@click.option("--level", type=click.Choice(["step", "op"]), help="`op`: name the operation, too (default step).")
@click.option("--all", "all_origins", is_flag=True, help="With --level op: name further operations, too.")
@click.option("--max-steps", type=int, metavar="N", help="Check only the first N steps.")
@click.option("--quick", is_flag=True, help="Look at the first seconds of training only.")
@click.option(
    "--timeout",
    type=float,
    metavar="S",
    help="Kill a run after S seconds (default: ten times the first run, at least 60).",
)
@options.strict
@options.workspace
@options.ignore
@click.option(
    "--against", metavar="PYTHON", help="Compare with the same script under another Python: where do they differ?"
)
@click.option("--diff", is_flag=True, help="Print a patch for the causes, where the patched script repeats.")
@click.option("--fix", is_flag=True, help="Apply that patch to your files, too.")
@click.option("--fix-in-ci", is_flag=True, help="Apply it although CI is set.")
@click.option("-v", "--verbose", is_flag=True, help="Print every detail, and what was held and changed in each run.")
@click.option("--dry-run", is_flag=True, help="Print what would be run, and run nothing.")
@options.seed
@options.out
@options.form("check")
@options.command
def command(
    form: str,
    command: tuple[str, ...],
    dry_run: bool,
    verbose: bool,
    out: Path | None,
    against: str | None,
    diff: bool,
    fix: bool,
    fix_in_ci: bool,
    **given: Any,
) -> None:
    """Does COMMAND repeat bit for bit? If not: where the runs diverge, which line lets it in, and what fixes it.

    \b
    samebits check train.py --lr 3
    samebits check --quick train.py
    samebits check -m package.train
    samebits check --max-steps 50 --jobs 2 train.py
    samebits check -- torchrun --nproc-per-node 2 train.py
    samebits check train.py --out {run}
    samebits check --share data train.py
    samebits check --against old/bin/python --level op train.py
    samebits check --fix train.py

    Each run begins in a copy of the current folder; {run} in COMMAND is a folder of the run's own.
    Standard input is passed on when it is a file. Exit status: 0 same bits in what was trained, or a
    patch was applied that needs no pin, 1 different bits, 2 undecided.
    """
    _warn_of_options_behind(command)
    config = read_config()
    assert_may_fix(os.environ, fix, fix_in_ci)
    if against is not None:
        config = replace(config, vary=())
    request = check_request(command, config, patch="fix" if fix else "diff" if diff else "", **given)
    if against is not None:
        _check_against(against, request, form, out, config.keep, dry_run)
    if dry_run:
        if form != DEFAULT:
            raise UsageError("--dry-run prints a plan for people", "leave out --format")
        options.answer(plan_text(request, first_runs(request)))
        return
    with new_home(out, config.keep) as home:
        context = PoolContext(home, options.say, progress)
        verdict = check_in(context, request, lambda known: options.say(so_far_text(known)))
        options.keep_answer(home, "check", verdict)
    text = _shown(verdict, verbose) if form == DEFAULT else ""
    is_partial = verdict.signal is not None or (verdict.patch is not None and verdict.kind == "different")
    options.print_and_exit(form, "check", verdict, verdict.exit_code, verdict.error, is_partial, text)


def _shown(verdict: CheckVerdict, verbose: bool) -> str:
    """Return the text for people: brief, or with `verbose` everything and the experiment; then the patch, if proven."""
    told, patch = check_report(verdict), verdict.patch
    parts = [told.text if verbose else told.brief]
    if verbose and verdict.runs:
        parts.append(experiment_text(experiment_in(verdict.home, verdict.runs)))
    if patch is not None and patch.proven:
        parts.append(patch.diff.rstrip().replace("\r", ""))
    return "\n\n".join(parts)


def _check_against(
    given: str, request: CheckRequest, form: str, out: Path | None, keep: int, dry_run: bool
) -> NoReturn:
    """Compare two interpreters, instead of varying factors."""
    if dry_run or request.vary or request.all_origins or request.patch:
        conflicts = {"--dry-run": dry_run, "--vary": request.vary, "--all": request.all_origins}
        conflicting = next((word for word, is_given in conflicts.items() if is_given), f"--{request.patch}")
        raise UsageError(
            f"--against cannot be combined with {conflicting}", "it holds everything still, under both interpreters"
        )
    if form not in form_names("against"):
        raise UsageError(
            f"--format {form} has no form for the answer of `against`",
            f"take one of {', '.join(form_names('against'))}",
        )
    sides = sides_of(request, given)
    with new_home(out, keep) as home:
        with pool_in(PoolContext(home, options.say, progress), request) as pool:
            result = run_against(request, sides, pool)
        options.keep_answer(home, "against", result)
    is_partial = result.divergent is not None
    options.print_and_exit(form, "against", result, result.exit_code, result.error, is_partial)


# Options of samebits that hardly any script has.
_OURS = ("--quick", "--max-steps", "--max-runs", "--isolation", "--dry-run", "--vary")


def _warn_of_options_behind(words: tuple[str, ...]) -> None:
    """Note each samebits option that comes after the script and so goes to it: it may have been meant for samebits."""
    if "--" not in sys.argv:
        for word in _OURS:
            if word in words[1:]:
                options.say(f"note: {word} comes after {words[0]}, so the command gets it, not samebits")
