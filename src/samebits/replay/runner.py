"""Calls one recorded operation again and again, in a fresh process that does not use samebits."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from samebits.base.errors import RecordingError, SamebitsError
from samebits.base.records import from_data, published
from samebits.launch.command import this_python
from samebits.launch.signals import raise_if_signalled
from samebits.launch.supervised import supervised
from samebits.replay.reproducer import reproducer
from samebits.runfolder.folder import RunFolder, write_whole
from samebits.runfolder.notes import Started, read_notes
from samebits.runfolder.ops import OPERANDS, read_call
from samebits.runfolder.reading import safe_files, safe_path

DEFAULT_TIMES = 20
TIMEOUT_SECONDS = 300.0
# A custom operation is called again inside the program, and never more often than this.
MOST_CALLS = 1_000


@dataclass(frozen=True)
class Condition:
    """One way to call the operation.

    Attributes:
        name: `as recorded`, `1 thread`, `other alignment` …
        results: how many different results the calls gave.
        which: the numbers of these results; one number means the same result under every condition.
    """

    name: str
    calls: int
    results: int
    which: tuple[int, ...] = ()


@dataclass(frozen=True)
class Replay:
    """The results of calling a recorded operation again.

    Attributes:
        script: the reproducer. None for a custom operation: it was called again inside the program.
        conditions: in the order they were tried; empty if the operation could not be called.
        distinct: how many different results all conditions gave together.
        gives_recorded: whether the result of the run was among them.
        failure: why the operation could not be called, as a clause; else empty.
        other_python: the Python of the run, where another one calls the operation again; else empty.
        operands: the file that holds the call, where `samebits replay` asked for it.
    """

    script: Path | None
    conditions: tuple[Condition, ...] = ()
    distinct: int = 0
    gives_recorded: bool = False
    failure: str = ""
    other_python: str = ""
    operands: Path | None = None

    @property
    @published("verdict")
    def kind(self) -> Literal["same", "different", "undecided"]:
        """Whether all calls gave one result; undecided where the operation could not be called."""
        return "undecided" if self.failure else "different" if self.is_confirmed else "same"

    @property
    @published()
    def is_racy(self) -> bool:
        """Whether calls under one and the same condition gave different results."""
        return any(condition.results > 1 for condition in self.conditions)

    @property
    @published()
    def is_confirmed(self) -> bool:
        """Whether the same inputs gave different results."""
        return self.distinct > 1


def operands_in(folder: Path) -> list[Path]:
    """Return the kept calls in a run folder, in the runs of a check, or under `.samebits/`, as files; newest last."""
    paths = [path for depth in ("", "*/", "*/*/") for path in safe_files(folder, f"{depth}{OPERANDS}/*.json")]
    return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))


def replay(folder: RunFolder, operands: Path, times: int = DEFAULT_TIMES, python: str = "") -> Replay:
    """Write the reproducer next to the operands, run it, and return what its calls gave.

    Args:
        folder: the folder of the run.
        operands: one of the files in its `operands/`.
        times: how often the operation is called as it was recorded.
        python: the interpreter to use; by default this one, or the one called python. One named in a folder is not run.
    """
    call = read_call(operands, folder.path)
    script = operands.with_name(f"reproduce-{operands.stem}.py")
    if call.called_again is not None:
        calls, distinct = call.called_again.calls, call.called_again.results
        if not 0 < distinct <= calls <= MOST_CALLS:
            raise RecordingError(f"{operands} records {distinct} results in {calls} calls", "was it edited?")
        return Replay(None, (Condition("in the program", calls, distinct, tuple(range(distinct))),), distinct)
    if not call.is_builtin:
        return Replay(None, failure=f"{call.op} is a custom operation, unknown outside of the program")
    try:
        write_whole(safe_path(script, folder.path), reproducer(call, operands.with_suffix(".safetensors"), folder.path))
    except RecordingError:
        raise
    except ValueError as error:
        return Replay(script, failure=str(error))
    python = python or this_python()
    original = next((note.executable for note in read_notes(folder.path, Started) if note.executable != python), "")
    return replace(_run(script, python, times), other_python=original)


def _run(script: Path, python: str, times: int) -> Replay:
    try:
        code, out, err = _output_of([python, str(script), "--json", "--times", str(times)])
    except subprocess.TimeoutExpired:
        return Replay(script, failure=f"calling it took more than {TIMEOUT_SECONDS:.0f} seconds")
    except OSError as error:
        raise SamebitsError(f"cannot start {python}: {error.strerror}", "was its environment removed?") from error
    if code:
        return Replay(script, failure=(err.strip().splitlines() or ["it failed"])[-1])
    return from_data(Replay, {"script": str(script), **json.loads(out.splitlines()[-1])})


def _output_of(words: list[str]) -> tuple[int, str, str]:
    """Run a command that cannot outlive us, and return its exit status and its output."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with supervised(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while True:
            raise_if_signalled()
            with contextlib.suppress(subprocess.TimeoutExpired):
                out, err = process.communicate(timeout=0.1)
                return process.returncode, out, err
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(words, TIMEOUT_SECONDS)
