"""Calling one recorded operation again and again, in a fresh process that knows nothing of samebits."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from samebits.base.errors import RecordingError, SamebitsError
from samebits.launch.guard import guarded
from samebits.launch.signals import end_group, raise_if_signalled
from samebits.replay.reproducer import reproducer
from samebits.runfolder.folder import RunFolder, write_whole
from samebits.runfolder.notes import Started, read_notes
from samebits.runfolder.ops import OPERANDS, KeptCall

DEFAULT_TIMES = 20
TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class Condition:
    """One way to call the operation.

    Attributes:
        name: `as recorded`, `1 thread`, `other alignment` …
        calls: how often.
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
        script: the reproducer; plain torch, fit for a bug report. None for a custom operation: it was
            called again inside the program.
        conditions: in the order they were tried; empty if the operation could not be called.
        distinct: different results under all conditions together.
        gives_recorded: the result of the run was among them.
        failure: why the operation could not be called, as a clause; else empty.
    """

    script: Path | None
    conditions: tuple[Condition, ...] = ()
    distinct: int = 0
    gives_recorded: bool = False
    failure: str = ""

    @property
    def is_racy(self) -> bool:
        """Whether calls under the very same conditions differ."""
        return any(condition.results > 1 for condition in self.conditions)

    @property
    def is_confirmed(self) -> bool:
        """Whether the same inputs gave different results."""
        return self.distinct > 1


def operands_in(folder: Path) -> list[Path]:
    """The operations whose operands were kept in a run, in the runs of a check, or under `.samebits/`; newest last."""
    found = [path for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}{OPERANDS}/*.json")]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def replay(folder: RunFolder, operands: Path, times: int = DEFAULT_TIMES, python: str = "") -> Replay:
    """Write the reproducer beside the run's other files and run it with the run's own Python, or with another one.

    Raises:
        RecordingError: the operands cannot be read.
    """
    call = _read(operands)
    script = operands.with_name(f"reproduce-{operands.stem}.py")
    again = call.get("called_again")
    if again:
        calls, results = again["calls"], again["results"]
        return Replay(None, (Condition("in the program", calls, results, tuple(range(results))),), results)
    if not call["is_builtin"]:
        return Replay(None, failure=f"{call['op']} is a custom operation, unknown outside of the program")
    try:
        write_whole(script, reproducer(call, operands.with_suffix(".safetensors")))
    except ValueError as error:
        return Replay(script, failure=str(error))
    return _run(script, python or _interpreter(folder), times)


def _read(path: Path) -> KeptCall:
    try:
        return cast("KeptCall", dict(json.loads(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError) as error:
        raise RecordingError(f"{path} cannot be read: {error}", "was it edited?") from error


def _interpreter(folder: RunFolder) -> str:
    start = next(read_notes(folder.path, Started), None)
    if start is None:
        raise RecordingError(f"{folder.path} does not say which Python it ran", "was its journal removed?")
    return start.executable


def _run(script: Path, python: str, times: int) -> Replay:
    try:
        code, out, err = _called([python, str(script), "--json", "--times", str(times)], script)
    except subprocess.TimeoutExpired:
        return Replay(script, failure=f"calling it took more than {TIMEOUT_SECONDS:.0f} seconds")
    except OSError as error:
        raise SamebitsError(f"cannot start {python}: {error.strerror}", "was its environment removed?") from error
    if code:
        return Replay(script, failure=(err.strip().splitlines() or ["it failed"])[-1])
    answer = json.loads(out.splitlines()[-1])
    conditions = tuple(Condition(c["name"], c["calls"], c["results"], tuple(c["which"])) for c in answer["conditions"])
    return Replay(script, conditions, answer["distinct"], answer["gives_recorded"])


def _called(words: list[str], script: Path) -> tuple[int, str, str]:
    """Exit status and output of a process that does not outlive us."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with guarded(script) as guard:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            guard(process.pid)
            while True:
                raise_if_signalled()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    out, err = process.communicate(timeout=0.1)
                    return process.returncode, out, err
                if time.monotonic() > deadline:
                    raise subprocess.TimeoutExpired(words, TIMEOUT_SECONDS)
        finally:
            end_group(process)
