"""Starting the user's command with samebits inside it, waiting for it, ending it, and saying how it went."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import samebits
from samebits.base.errors import CommandNotFoundError, RecordingError, StorageError
from samebits.launch.command import Command
from samebits.launch.guard import guarded
from samebits.launch.signals import end_group, end_strays, raise_if_signalled, signals_passed_on
from samebits.launch.streams import streams_of
from samebits.launch.unentered_processes import UnenteredProcesses
from samebits.runfolder.folder import Manifest, PlanDocument, RunFolder
from samebits.runfolder.notes import Ended, Observed, noted_environment, read_notes
from samebits.runfolder.place import FILES, Place, asks_for_run_folder, with_run_folder
from samebits.runfolder.plan import VARIABLE, RunPlan

# Seconds, or what is asked for them while the run goes on; None is no limit.
Limit: TypeAlias = float | Callable[[], float | None]
INJECTED = str(Path(__file__).parents[1] / "agent" / "inject")


@dataclass(frozen=True)
class Outcome:
    """How one run ended.

    Attributes:
        folder: its run folder.
        plan: how it was treated.
        exit_code: the command's status; negative for the signal that ended it.
        wall_seconds: from start to end.
        timed_out: ended by us because it ran too long.
        stopped: ended by us after the step it was asked to stop after.
        limit_seconds: that it went past, where it timed out.
        unfinished: why the run folder could not be finished, if it could not.
    """

    folder: RunFolder
    plan: RunPlan
    exit_code: int
    wall_seconds: float
    timed_out: bool = False
    stopped: bool = False
    limit_seconds: float | None = None
    unfinished: StorageError | None = None

    @property
    def succeeded(self) -> bool:
        return not self.timed_out and (self.exit_code == 0 or self.stopped)

    @property
    def described(self) -> str:
        """How it ended, as a clause: what we did is named as ours."""
        if self.timed_out:
            return f"was ended by samebits after {self.limit_seconds:g} s, its time limit"
        if self.exit_code < 0:
            return f"was killed by {_signal_name(-self.exit_code)}"
        return f"ended with exit status {self.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def run_recorded(
    command: Command,
    plan: RunPlan,
    path: Path,
    limit: Limit | None = None,
    waiting: Callable[[], None] | None = None,
    place: Place | None = None,
) -> Outcome:
    """Run the command in a session of its own, its output in the run folder. None of its processes outlives it, or us.

    Args:
        command: what to run.
        plan: how to treat it.
        path: the run folder to make.
        limit: seconds after which all of its processes are ended; what was recorded stays. A function is asked again
            and again: it may be known only when another run has ended.
        waiting: called about ten times a second meanwhile.
        place: where it happens; None for the current folder.

    Raises:
        StorageError: the run folder cannot be made.
        KeyboardInterrupt: passed on after its processes have been ended.
    """
    raise_if_signalled()
    place = place or place_in(path)
    folder = _made(path, plan, command, place)
    manifest = _manifest(command, plan, place)
    folder.write_manifest({**manifest, "status": "running"})
    with streams_of(folder) as streams, guarded(folder.plan) as guard:
        start = time.perf_counter()
        process = _started(command, folder, plan, place, start_new_session=True, **streams.options)
        seconds, exceeded = 0.0, None
        try:
            guard(process.pid)
            streams.started()
            exceeded = _wait(process, limit, waiting, UnenteredProcesses(folder, process.pid))
            seconds = time.perf_counter() - start
        except BaseException:
            with contextlib.suppress(StorageError):
                folder.write_manifest({**manifest, "status": "interrupted"})
            raise
        finally:
            end_group(process)
            end_strays(folder.plan, process.pid)
    outcome = _outcome(folder, plan, process.returncode, seconds, exceeded)
    folder.write_manifest({**manifest, **_ending(outcome)})
    return outcome


def run_transparent(command: Command, plan: RunPlan, path: Path) -> Outcome:
    """Run the command as if it had been typed without us: same terminal, same input and output, same signals.

    Raises:
        StorageError: the run folder cannot be made. Once the command has run, its own status counts for more than ours:
            then the error is in the outcome.
    """
    place = place_in(path)
    folder = _made(path, plan, command, place)
    manifest = _manifest(command, plan, place)
    folder.write_manifest({**manifest, "status": "running"})
    start = time.perf_counter()
    with signals_passed_on() as relay:
        # What the shell opened for the command, such as <(...), is the command's.
        with plan.starting():
            process = _started(command, folder, plan, place, close_fds=False)
        relay.to(process)
        exit_code = process.wait()
    outcome = _outcome(folder, plan, exit_code, time.perf_counter() - start)
    try:
        folder.write_manifest({**manifest, **_ending(outcome)})
    except StorageError as error:
        return replace(outcome, unfinished=error)
    return outcome


def environment_of(plan: RunPlan, folder: RunFolder, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the command: the user's, what the plan asks for, and the way in."""
    path = environ.get("PYTHONPATH", "")
    inside = {VARIABLE: str(folder.plan), "PYTHONPATH": f"{INJECTED}{os.pathsep}{path}" if path else INJECTED}
    return {**environ, **plan.environment(environ, folder.path.absolute()), **inside}


def place_in(path: Path) -> Place:
    """The current folder, with the run's own one in its run folder."""
    return Place(os.getcwd(), str(path.absolute() / FILES))


def _made(path: Path, plan: RunPlan, command: Command, place: Place) -> RunFolder:
    folder = RunFolder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if asks_for_run_folder(command.argv):
            Path(place.files).mkdir(parents=True, exist_ok=True)
        place.write(path)
        plan.write(folder.plan)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "choose another place with --out") from error
    return folder


def _started(
    command: Command, folder: RunFolder, plan: RunPlan, place: Place, **options: Any
) -> subprocess.Popen[bytes]:
    environment = environment_of(plan, folder, place.environment(os.environ))
    if place.copy:
        options["cwd"] = place.copy
    try:
        return subprocess.Popen(place.words(command.argv), env=environment, **options)
    except OSError as error:
        raise CommandNotFoundError(f"cannot start {command.argv[0]!r}: {error.strerror}") from error


def _wait(
    process: subprocess.Popen[bytes],
    limit: Limit | None,
    waiting: Callable[[], None] | None,
    unentered_processes: UnenteredProcesses,
) -> float | None:
    """The limit that the process went past, in seconds; None where it ended by itself, and in time."""
    start = time.monotonic()
    while True:
        raise_if_signalled()
        try:
            process.wait(0.1)
            return None
        except subprocess.TimeoutExpired:
            unentered_processes.look()
            if waiting is not None:
                waiting()
            most = limit() if callable(limit) else limit
            if most is not None and time.monotonic() >= start + most:
                return most


def _outcome(
    folder: RunFolder, plan: RunPlan, exit_code: int, seconds: float, exceeded: float | None = None
) -> Outcome:
    stopped = any(note.stopped_after is not None for note in read_notes(folder.path, Ended))
    return Outcome(folder, plan, exit_code, seconds, exceeded is not None, stopped, exceeded)


def _manifest(command: Command, plan: RunPlan, place: Place) -> Manifest:
    return {
        "command": with_run_folder(command.argv, place.files),
        "typed": list(command.typed),
        "cwd": place.folder,
        "samebits": samebits.__version__,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "plan": cast("PlanDocument", asdict(plan)),
    }


def _ending(outcome: Outcome) -> Manifest:
    status = "timed out" if outcome.timed_out else "stopped" if outcome.stopped else "ended"
    try:
        recordings = outcome.folder.recordings()
    except RecordingError:  # comparing it says so
        recordings = []
    observed = next(read_notes(outcome.folder.path, Observed), Observed())
    return {
        "status": status,
        "exit_code": outcome.exit_code,
        "wall_seconds": round(outcome.wall_seconds, 3),
        "steps": max((recording.steps for recording in recordings), default=0),
        "ranks": sorted({recording.rank for recording in recordings}),
        "complete": bool(recordings) and all(recording.complete for recording in recordings),
        "versions": dict(observed.versions),
        "environment": {name: value for name, value in asdict(noted_environment(outcome.folder.path)).items() if value},
        "observed": {name: {"mode": one.mode, "value": one.value} for name, one in observed.factors.items()},
    }
