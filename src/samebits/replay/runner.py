"""Calling one recorded operation again and again, in a fresh process that knows nothing of samebits."""

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
# An operation of the program's own is called less often.
MOST_CALLS = 1_000


@dataclass(frozen=True)
class Condition:
    """One way to call the operation.

    Attributes:
        name: `as recorded`, `1 thread`, `other alignment` …
        results: how many different results that gave.
        which: numbers that tell the results apart, also between conditions.
    """

    name: str
    calls: int
    results: int
    which: tuple[int, ...] = ()


@dataclass(frozen=True)
class Replay:
    """What came of it.

    Attributes:
        script: the reproducer. None for a custom operation: it was called again inside the program.
        conditions: in the order they were tried; empty if the operation could not be called.
        distinct: different results under all conditions together.
        gives_recorded: the result of the run was among them.
        failure: why the operation could not be called, as a clause; else empty.
        other_python: the Python of the run, where it is called again by another one; else empty.
        operands: the file that holds the call, where it was asked for by `samebits replay`.
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
        """Whether calls under the very same conditions differ."""
        return any(condition.results > 1 for condition in self.conditions)

    @property
    @published()
    def is_confirmed(self) -> bool:
        """Whether the same inputs gave different results."""
        return self.distinct > 1


def operands_in(folder: Path) -> list[Path]:
    """The operations whose operands were kept in a run, in the runs of a check, or under `.samebits/`; newest last."""
    found = [path for depth in ("", "*/", "*/*/") for path in safe_files(folder, f"{depth}{OPERANDS}/*.json")]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def replay(folder: RunFolder, operands: Path, times: int = DEFAULT_TIMES, python: str = "") -> Replay:
    """Write the reproducer beside the run's other files and run it.

    Args:
        folder: of the run.
        operands: one of the files in its `operands/`.
        times: how often it is called as it was recorded.
        python: that runs it; this one, or the one called python, where none is named. What a folder names is not run.
    """
    call = read_call(operands, folder.path)
    script = operands.with_name(f"reproduce-{operands.stem}.py")
    if call.called_again is not None:
        calls, results = call.called_again.calls, call.called_again.results
        if not 0 < results <= calls <= MOST_CALLS:
            raise RecordingError(f"{operands} tells of {results} results in {calls} calls", "was it edited?")
        return Replay(None, (Condition("in the program", calls, results, tuple(range(results))),), results)
    if not call.is_builtin:
        return Replay(None, failure=f"{call.op} is a custom operation, unknown outside of the program")
    try:
        write_whole(safe_path(script, folder.path), reproducer(call, operands.with_suffix(".safetensors"), folder.path))
    except RecordingError:
        raise
    except ValueError as error:
        return Replay(script, failure=str(error))
    python = python or this_python()
    other = next((note.executable for note in read_notes(folder.path, Started) if note.executable != python), "")
    return replace(_run(script, python, times), other_python=other)


def _run(script: Path, python: str, times: int) -> Replay:
    try:
        code, out, err = _called([python, str(script), "--json", "--times", str(times)])
    except subprocess.TimeoutExpired:
        return Replay(script, failure=f"calling it took more than {TIMEOUT_SECONDS:.0f} seconds")
    except OSError as error:
        raise SamebitsError(f"cannot start {python}: {error.strerror}", "was its environment removed?") from error
    if code:
        return Replay(script, failure=(err.strip().splitlines() or ["it failed"])[-1])
    return from_data(Replay, {"script": str(script), **json.loads(out.splitlines()[-1])})


def _called(words: list[str]) -> tuple[int, str, str]:
    """Exit status and output of a process that does not outlive us."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with supervised(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while True:
            raise_if_signalled()
            with contextlib.suppress(subprocess.TimeoutExpired):
                out, err = process.communicate(timeout=0.1)
                return process.returncode, out, err
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(words, TIMEOUT_SECONDS)
