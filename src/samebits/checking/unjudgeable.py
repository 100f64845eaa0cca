"""Reasons why runs cannot be judged: they hang, fail or train nothing, or samebits did not get in."""

from __future__ import annotations

import errno
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from samebits.base.errors import (
    InjectionError,
    NothingTrainedError,
    NoTorchError,
    SamebitsError,
    ScriptFailedError,
    ScriptHangsError,
    StorageError,
)
from samebits.checking.verdict import Run
from samebits.launch.command import python_word
from samebits.launch.streams import input_is_lost
from samebits.runfolder.notes import Failed, Observed, Started, read_notes

NO_PIPE = "standard input from a pipe is not passed on to runs: give a file, samebits check ... < FILE"
NO_TORCH = "ModuleNotFoundError: No module named 'torch'"

_KINDS = {one.kind: one for one in (StorageError, InjectionError, NoTorchError, ScriptFailedError)}


def why_unjudgeable(runs: Sequence[Run], final: bool = True) -> SamebitsError | None:
    """Return why these runs cannot be judged; None where they can.

    Unless it is `final`, a command that failed once gets a second chance: if it then succeeds, that is an answer.
    """
    broken = next((run.trouble for run in runs if run.trouble is not None), None)
    if broken is not None:
        return broken
    first = runs[0]
    if all(run.timed_out for run in runs):
        return _hangs(first)
    failed = [run for run in runs if not run.succeeded]
    if len(failed) == len(runs):
        # No run gets what was to be read through a pipe, so a second chance would change nothing.
        return _failed(first, len(runs)) if final or len(runs) > 1 or input_is_lost() else None
    return None if first in failed else first.nothing_recorded


def recording_error(folder: Path, steps: int) -> SamebitsError | None:
    """Return what ended a recording; a helper process that could not be entered does not count if another trained."""
    for note in read_notes(folder, Failed):
        if note.kind == "not_injected" and steps:
            continue
        if note.kind not in _KINDS:
            return SamebitsError(
                f"recording a run failed, which is samebits' mistake and says nothing about the script: {note.message}",
                f"please report this, and send {folder}",
            )
        return _KINDS[note.kind](note.message, note.hint)
    return None


def _hangs(run: Run) -> SamebitsError:
    return ScriptHangsError(
        f"the command {run.described}; by then, {run.steps} steps had been written to disk",
        f"give it more time with --timeout, or fewer steps; what it printed is in {run.path}",
    )


def _failed(run: Run, count: int) -> SamebitsError:
    lines = run.facts.stderr_tail
    if NO_TORCH in lines:
        python = python_word() if importlib.util.find_spec("torch") is not None else "PYTHON"
        hint = f"name a Python that has torch: samebits check {python} ..."
        return NoTorchError(f"{run.facts.interpreter} has no torch", hint)
    printed = "\n".join(f"  {line}" for line in lines) or "  (it printed nothing on stderr)"
    how = f"exit status {run.exit_code}" if run.exit_code > 0 else run.described
    ended = f"the command failed in {count} of {count} runs ({how})"
    return ScriptFailedError(
        f"{ended}; the end of its output:\n{printed}",
        f"{_check_conditions_hint(printed)}; the whole output is in {run.folder.stderr}",
    )


def _check_conditions_hint(printed: str) -> str:
    """Return what differs under a check and makes scripts fail that work without it."""
    if os.strerror(errno.EROFS) in printed:
        return "an environment, and what is too large to be copied, can only be read: name what is written with --share"
    if input_is_lost():
        return f"{NO_PIPE}; and each run has a copy of the folder"
    return "does it work without samebits? Under a check nothing can be typed in, and each run has a copy of the folder"


def why_nothing_recorded(folder: Path, steps: int) -> SamebitsError | None:
    """Return why nothing was recorded; None where something was."""
    if steps:
        return None
    if next(read_notes(folder, Started), None) is None:
        return InjectionError(
            "the command ran, but samebits did not get into any Python process of it",
            _with_pipe_hint(
                "is Python started with -I, -E or -S, or without PYTHONPATH? Give the python command itself"
            ),
        )
    if next(read_notes(folder, Observed), None) is None:
        return NoTorchError(
            "the command never imported torch",
            _with_pipe_hint("check the script that trains, with the Python that has torch installed"),
        )
    return NothingTrainedError(
        "the command ended without one training step: no optimizer step, no backward, no call of a module",
        _with_pipe_hint("check the script that trains, with arguments that make it take a few steps"),
    )


def _with_pipe_hint(hint: str) -> str:
    """Return the hint, after another explanation where it applies: the program or its data came through a pipe."""
    return f"{NO_PIPE}; or else: {hint}" if input_is_lost() else hint
