"""`samebits replay`: call a recorded operation again and again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from samebits.base.errors import RecordingError, UsageError
from samebits.cli import options
from samebits.replay.runner import DEFAULT_TIMES, operands_in, replay
from samebits.runfolder.folder import RunFolder, open_run


@click.command()
@click.option("--times", type=int, default=DEFAULT_TIMES, show_default=True, help="Calls as they were recorded.")
@options.form("replay")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
def command(times: int, form: str, run: Path) -> None:
    """Call the operation whose operands RUN kept again and again, and say whether its bits repeat.

    \b
    samebits replay .samebits/20260131-120000-4711/12-operations-again
    samebits replay --times 100 RUN/operands/rank0.step0.op10.json

    RUN is a run folder whose operands were kept, or one file of its `operands/`; of a check's folder, and of .samebits,
    the newest ones are taken. A script that does the same with plain
    torch is written next to them, ready for a bug report.

    Exit status: 0 one result, 1 different results, 2 when nothing can be replayed.
    """
    if times < 1:
        raise UsageError(f"--times must be at least 1, got {times}")
    folder, operands = _found(run)
    replayed = replace(replay(folder, operands, times), operands=operands)
    options.print_and_exit(form, "replay", replayed, 2 if replayed.failure else int(replayed.is_confirmed))


def _found(run: Path) -> tuple[RunFolder, Path]:
    if run.suffix in (".json", ".safetensors") and run.exists():
        return open_run(run.parent.parent), run.with_suffix(".json")
    kept = operands_in(run)
    if not kept:
        raise RecordingError(
            f"{open_run(run).path} holds the operands of no operation",
            "`samebits check --level op` keeps those of the operation at which runs diverge",
        )
    return open_run(kept[-1].parent.parent), kept[-1]
