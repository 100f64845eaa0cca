"""`samebits run`: run once with factors pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from samebits.base.errors import UsageError
from samebits.cli import options
from samebits.factors.catalog import CATALOG
from samebits.factors.pinning import parsed_settings, settings_for
from samebits.launch.command import parse_command
from samebits.launch.config import Config, read_config
from samebits.launch.process import Outcome, run_transparent
from samebits.launch.signals import end_like
from samebits.runfolder.folder import new_home
from samebits.runfolder.notes import Failed, Note, Overridden, Replaced, Started, read_notes
from samebits.runfolder.spec import OpWindow, RunSpec
from samebits.runfolder.steps import COMPARED


@click.command(context_settings=options.COMMAND_LINE)
@options.pin("Pin only these factors (repeatable). Without it: all that are pinned by default.")
@click.option("--no-pin", is_flag=True, help="Pin nothing, only record.")
@options.seed
@click.option("--per-rank", is_flag=True, help="Give every rank random streams of its own.")
@click.option("--no-record", is_flag=True, help="Pin only, record nothing.")
@click.option(
    "--keep-values", type=int, metavar="STEP", help="Keep the whole tensors of this step, for `samebits diff`."
)
@click.option(
    "--level", type=click.Choice(["step", "op"]), default="step", help="Record steps, or every operation too."
)
@click.option("--steps", metavar="FIRST[:LAST]", help="With --level op: of these steps only, both included.")
@click.option("-v", "--verbose", is_flag=True, help="Say afterwards what was pinned and where the recording is.")
@options.out
@options.command
def command(command: tuple[str, ...], verbose: bool, out: Path | None, **given: Any) -> None:
    """Run COMMAND once with factors pinned; its output, input and exit status are its own.

    Without --pin: every factor but {left_alone}.

    \b
    samebits run train.py --lr 3
    samebits run --pin torch-rng --pin hash-seed train.py
    samebits run --level op --steps 0:1 train.py
    samebits run torchrun --nproc-per-node 2 train.py

    Exit status: the command's own; 125 when samebits itself failed.
    """
    config = read_config()
    plan, understood = _plan(config, **given), parse_command(command)
    with new_home(out, config.keep) as home:
        outcome = run_transparent(understood, plan, home)
    _say_afterwards(outcome, verbose)
    end_like(outcome.exit_code)


_ALONE = [factor.name for factor in CATALOG if not factor.pinned_by_default]
command.help = str(command.help).format(left_alone=f"{', '.join(_ALONE[:-1])} and {_ALONE[-1]}")


def _plan(
    config: Config,
    *,
    pins: tuple[str, ...],
    no_pin: bool,
    seed: int | None,
    per_rank: bool,
    no_record: bool,
    keep_values: int | None,
    level: str,
    steps: str | None,
) -> RunSpec:
    """Return the run that the options ask for."""
    if no_pin and pins:
        raise UsageError("--no-pin and --pin contradict one another", "leave one of them out")
    chosen = pins or config.pin
    # The final state belongs to no step.
    kept = () if keep_values is None else tuple(one for one in COMPARED if one not in ("artifact", "end"))
    return RunSpec(
        "run",
        {} if no_pin else parsed_settings(chosen) if chosen else settings_for(None),
        config.seed if seed is None else seed,
        record=not no_record,
        per_rank=per_rank,
        keep_step=keep_values,
        keep_streams=kept,
        ops=_window(level, steps),
        as_run=True,
    )


def _window(level: str, steps: str | None) -> OpWindow | None:
    """Return the steps whose operations are recorded; None where none are."""
    if steps is None:
        return OpWindow() if level == "op" else None
    first, colon, last = steps.partition(":")
    if level != "op":
        raise UsageError("--steps chooses the steps whose operations are recorded", "add --level op")
    if not first.isdecimal() or (colon and not last.isdecimal()) or int(last or first) < int(first):
        raise UsageError(
            f"--steps takes a step or FIRST:LAST, counted from 0, got {steps!r}", "for example --steps 3:5"
        )
    return OpWindow(int(first), int(last or first))


def _say_afterwards(outcome: Outcome, verbose: bool) -> None:
    notes = list(read_notes(outcome.folder.path, Note))
    lines = [line for note in notes if (line := _worth_saying(note))]
    if outcome.unfinished is not None:
        lines.append(outcome.unfinished.message)
    elif not any(isinstance(note, (Started, Failed)) for note in notes):
        lines.append("did not get into any Python process of this command, so nothing was pinned inside")
    if replaced := Replaced.summary_of(outcome.folder.path):
        lines.append(f"replaced: {replaced}")
    if verbose:
        lines.append(f"pinned {', '.join(outcome.plan.named('pinned')) or 'nothing'}")
        lines.append(f"recorded in {outcome.folder.path}")
    # Every rank notes the same things, so each line is printed once.
    for line in dict.fromkeys(lines):
        options.say(f"samebits: {line}")


def _worth_saying(note: Note) -> str:
    if isinstance(note, Overridden):
        return f"{note.factor} was pinned, but {note.why}"
    return note.message if isinstance(note, Failed) else ""
