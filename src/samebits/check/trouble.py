"""Why runs cannot be judged at all: they hang, fail, train nothing, or samebits did not get in."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.check.verdict import Run
from samebits.errors import (
    InjectionError,
    NothingTrainedError,
    NoTorchError,
    SamebitsError,
    ScriptFailedError,
    ScriptHangsError,
    StorageError,
)
from samebits.recording.journal import read_notes

STDERR_LINES = 8
NO_TORCH = "ModuleNotFoundError: No module named 'torch'"

_KINDS = {"storage": StorageError, "not_injected": InjectionError, "no_torch": NoTorchError}


def trouble_with(runs: Sequence[Run], final: bool = True) -> SamebitsError | None:
    """Why these runs cannot be judged; None when they can.

    Args:
        runs: at least one.
        final: no further run will be made. A command that failed once gets a second chance before: if it then succeeds,
            the difference in outcome is itself an answer.
    """
    broken = next((error for run in runs if (error := _broken(run)) is not None), None)
    if broken is not None:
        return broken
    first = runs[0]
    if all(run.outcome.timed_out for run in runs):
        return _hangs(first)
    failed = [run for run in runs if not run.outcome.succeeded]
    if len(failed) == len(runs):
        return _failed(first) if final or len(runs) > 1 else None
    return None if first in failed else _nothing_seen(first)


def _broken(run: Run) -> SamebitsError | None:
    """What went wrong on our side. A helper process that samebits could not enter is no trouble if another trained."""
    for note in read_notes(run.path, "error"):
        if note["kind"] == "not_injected" and run.steps:
            continue
        return _KINDS.get(note["kind"], SamebitsError)(note["message"], note["hint"])
    return None


def _hangs(run: Run) -> SamebitsError:
    return ScriptHangsError(
        f"the command was ended after {run.outcome.wall_seconds:.0f} seconds and {run.steps} steps, its time limit",
        f"give it more with --timeout, or less to do with --max-steps; what it printed is in {run.path}",
    )


def _failed(run: Run) -> SamebitsError:
    lines = run.outcome.folder.stderr.read_text(errors="replace").strip().splitlines()[-STDERR_LINES:]
    if NO_TORCH in lines:
        return NoTorchError(f"{_interpreter(run)} has no torch", "name the Python that has: samebits check PYTHON ...")
    tail = "\n".join(f"  {line}" for line in lines) or "  (it printed nothing on stderr)"
    return ScriptFailedError(
        f"the command failed in every run (exit status {run.outcome.exit_code}); the end of its output:\n{tail}",
        f"make it run without samebits first; the whole output is in {run.outcome.folder.stderr}",
    )


def _interpreter(run: Run) -> str:
    return str(next(read_notes(run.path, "start"), {}).get("executable", "the command's Python"))


def _nothing_seen(run: Run) -> SamebitsError | None:
    if run.steps:
        return None
    if next(read_notes(run.path, "start"), None) is None:
        return InjectionError(
            "the command ran, but samebits did not get into any Python process of it",
            "is Python started with -I, -E or -S, or without PYTHONPATH? Give the python command itself",
        )
    if next(read_notes(run.path, "observed"), None) is None:
        return NoTorchError(
            "the command never imported torch",
            "check the script that trains, with the Python that has torch installed",
        )
    return NothingTrainedError(
        "the command ended without one training step: no optimizer step, no backward, no call of a module",
        "check the script that trains, with arguments that make it take a few steps",
    )
