"""Starting the user's command with samebits inside it, waiting for it, ending it, and describing its end."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from samebits.base.errors import CommandNotFoundError, RecordingError, StorageError, storing
from samebits.base.records import to_data
from samebits.base.version import __version__
from samebits.launch.command import Command
from samebits.launch.signals import raise_if_signalled, signals_passed_on
from samebits.launch.streams import streams_of
from samebits.launch.supervised import UnenteredProcesses, supervised
from samebits.runfolder.folder import Manifest, RunFolder
from samebits.runfolder.notes import Ended, Observed, noted_environment, read_notes
from samebits.runfolder.spec import PLAN, VARIABLE, RunSpec
from samebits.workspace.place import FILES, Place, asks_for_run_folder, with_run_folder
from samebits.workspace.workspace import Workspace

# Seconds, or a function that is asked for them while the command runs; None is no limit.
Limit: TypeAlias = float | Callable[[], float | None]
INJECTED = str(Path(__file__).parents[1] / "agent" / "inject")
# A check makes a dozen runs: experiment trackers keep them to themselves, and say nothing that differs between runs.
TRACKERS = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "SWANLAB_MODE": "offline"}


@dataclass(frozen=True)
class Outcome:
    """How one run ended.

    Attributes:
        exit_code: the command's exit status; negative for the signal that ended it.
        stopped_after: the step after which samebits ended the run; None where it ended by itself.
        limit_seconds: the time limit that the run exceeded, so that samebits ended it; None where it did not.
        unfinished: the error that kept the run folder from being completed, if there was one.
    """

    folder: RunFolder
    plan: RunSpec
    exit_code: int
    wall_seconds: float
    stopped_after: int | None = None
    limit_seconds: float | None = None
    unfinished: StorageError | None = None

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def stopped(self) -> bool:
        return self.stopped_after is not None

    @property
    def timed_out(self) -> bool:
        return self.limit_seconds is not None

    @property
    def succeeded(self) -> bool:
        return not self.timed_out and (self.exit_code == 0 or self.stopped)

    @property
    def described(self) -> str:
        """How the run ended, as a clause, which says so where samebits ended it."""
        if self.limit_seconds is not None:
            return f"was ended by samebits after {self.limit_seconds:g} s, its time limit"
        if self.exit_code >= 0:
            return f"ended with exit status {self.exit_code}"
        names = {number.value: number.name for number in signal.Signals}
        return f"was killed by {names.get(-self.exit_code, f'signal {-self.exit_code}')}"


def run_in(
    workspace: Workspace,
    command: Command,
    spec: RunSpec,
    path: Path,
    limit: Limit | None = None,
    waiting: Callable[[], None] | None = None,
    at_end: Callable[[Outcome, Place], None] | None = None,
) -> Outcome:
    """Run a command in a session of its own, with its output in the run folder. None of its processes outlives it.

    Args:
        workspace: gives the run a place of its own.
        command: the command to run.
        spec: the instructions for the run.
        path: the run folder to make.
        limit: seconds after which all of its processes are ended; what was recorded stays. A function is asked
            again and again: the limit may be known only when another run has ended.
        waiting: called about ten times a second while the command runs.
        at_end: called after the command has ended, while the place of the run still exists.
    """
    raise_if_signalled()
    with workspace.place_for(spec) as place:
        argv = [*workspace.prefix(place), *place.words(command.argv)]
        try:
            with _begun(path, spec, command, place) as (folder, manifest):
                outcome = _ended(argv, spec, folder, place, limit, waiting)
            folder.write_manifest({**manifest, **_ending(outcome)})
            if at_end is not None:
                at_end(outcome, place)
            return outcome
        finally:
            if asks_for_run_folder(command.argv):
                _keep_files(place, path / FILES)


def _keep_files(place: Place, target: Path) -> None:
    try:
        place.own_files.rename(target)
    except OSError:  # on another disk, where runs have no mounts
        with contextlib.suppress(OSError):
            shutil.copytree(place.own_files, target, symlinks=True)


def _ended(
    argv: list[str],
    spec: RunSpec,
    folder: RunFolder,
    place: Place,
    limit: Limit | None,
    waiting: Callable[[], None] | None,
) -> Outcome:
    environ = {**TRACKERS, **os.environ}
    options = {"env": environment_of(spec, folder, place, environ), "cwd": place.copy if place.root else None}
    with streams_of(folder) as streams, contextlib.ExitStack() as stack:
        start = time.perf_counter()
        with spec.starting():
            process = stack.enter_context(supervised(argv, **options, **streams))
        unentered = UnenteredProcesses(folder, Path(place.path_inside(str(folder.plan))), process.pid)
        exceeded = _wait(process, limit, waiting, unentered)
        seconds = time.perf_counter() - start
    return _outcome(folder, spec, process.returncode, seconds, exceeded)


def run_transparent(command: Command, plan: RunSpec, path: Path) -> Outcome:
    """Run the command as if it had been typed without us: same terminal, same input and output, same signals.

    Once it has run, its own exit status takes precedence: a StorageError is then part of the outcome.
    """
    place = Place(os.getcwd(), str(path.absolute() / FILES))
    with _begun(path, plan, command, place) as (folder, manifest), signals_passed_on() as pass_signals_to:
        start = time.perf_counter()
        # Files that the shell opened for the command, such as <(...), have to stay open for it.
        argv = place.words(command.argv)
        try:
            with plan.starting():
                process = subprocess.Popen(argv, env=environment_of(plan, folder, place, os.environ), close_fds=False)
        except OSError as error:
            raise CommandNotFoundError(f"cannot start {argv[0]!r}: {error.strerror}") from error
        pass_signals_to(process)
        exit_code = process.wait()
    outcome = _outcome(folder, plan, exit_code, time.perf_counter() - start)
    try:
        folder.write_manifest({**manifest, **_ending(outcome)})
    except StorageError as error:
        return replace(outcome, unfinished=error)
    return outcome


def environment_of(spec: RunSpec, folder: RunFolder, place: Place, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the command: the user's, those of the treatment, and those that bring samebits in."""
    variables = place.environment(environ)
    path, seen = variables.get("PYTHONPATH", ""), Path(place.path_inside(str(folder.path.absolute())))
    inside = {VARIABLE: str(seen / PLAN), "PYTHONPATH": f"{INJECTED}{os.pathsep}{path}" if path else INJECTED}
    return {**variables, **spec.environment(environ), **inside}


@contextlib.contextmanager
def _begun(path: Path, spec: RunSpec, command: Command, place: Place) -> Iterator[tuple[RunFolder, Manifest]]:
    """Make the folder of a run, yield it and its first manifest; an error in the block marks the run interrupted."""
    folder = RunFolder(path)
    with storing(path):
        path.mkdir(parents=True, exist_ok=True)
        if asks_for_run_folder(command.argv) and not place.home:
            Path(place.files).mkdir(parents=True, exist_ok=True)
        place.write(path)
        folder.plan.write_text(json.dumps(_as_seen(to_data(spec), place), indent=1) + "\n", encoding="utf-8")
    manifest = _manifest(command, spec, place)
    folder.write_manifest({**manifest, "status": "running"})
    try:
        yield folder, manifest
    except BaseException:
        with contextlib.suppress(StorageError):
            folder.write_manifest({**manifest, "status": "interrupted"})
        raise


def _as_seen(data: object, place: Place) -> object:
    """Return plain data in which the paths of other runs are as this run sees them."""
    if isinstance(data, dict):
        return {name: _as_seen(value, place) for name, value in data.items()}
    if isinstance(data, list):
        return [_as_seen(item, place) for item in data]
    return place.path_inside(data) if isinstance(data, str) else data


def _wait(
    process: subprocess.Popen[bytes],
    limit: Limit | None,
    waiting: Callable[[], None] | None,
    unentered_processes: UnenteredProcesses,
) -> float | None:
    """Wait for the process; return the limit in seconds that it exceeded, None where it ended in time."""
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
            seconds = limit() if callable(limit) else limit
            if seconds is not None and time.monotonic() >= start + seconds:
                return seconds


def _outcome(folder: RunFolder, plan: RunSpec, exit_code: int, seconds: float, limit: float | None = None) -> Outcome:
    return Outcome(folder, plan, exit_code, seconds, stopped_after(folder), limit)


def stopped_after(folder: RunFolder) -> int | None:
    """Return the step after which samebits ended a run, the last of all processes; None if all ended by themselves."""
    stops = (note.stopped_after for note in read_notes(folder.path, Ended))
    return max((stop for stop in stops if stop is not None), default=None)


def _manifest(command: Command, plan: RunSpec, place: Place) -> Manifest:
    return {
        "command": with_run_folder(command.argv, place.files),
        "typed": list(command.typed),
        "cwd": place.folder,
        "samebits": __version__,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "plan": cast("dict[str, Any]", to_data(plan)),
    }


def _ending(outcome: Outcome) -> Manifest:
    status = "timed out" if outcome.timed_out else "stopped" if outcome.stopped else "ended"
    try:
        recordings = outcome.folder.recordings()
    except RecordingError:  # a comparison reports the error
        recordings = []
    observed = next(read_notes(outcome.path, Observed), Observed())
    return {
        "status": status,
        "exit_code": outcome.exit_code,
        "wall_seconds": round(outcome.wall_seconds, 3),
        "steps": max((recording.steps for recording in recordings), default=0),
        "ranks": sorted({recording.rank for recording in recordings}),
        "complete": bool(recordings) and all(recording.complete for recording in recordings),
        "versions": dict(observed.versions),
        "environment": {name: value for name, value in asdict(noted_environment(outcome.path)).items() if value},
        "observed": {name: {"mode": one.mode, "value": one.value} for name, one in observed.factors.items()},
    }
