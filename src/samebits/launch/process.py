"""Starting the user's command with samebits inside it, waiting for it, ending it, and saying how it went."""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import samebits
from samebits.errors import CommandNotFoundError, StorageError
from samebits.launch.command import Command
from samebits.launch.ending import end_group, end_strays, raise_if_signalled, signals_passed_on
from samebits.launch.place import FILES, Place, asks_for_run_folder, with_run_folder
from samebits.launch.plan import VARIABLE, RunPlan
from samebits.launch.strangers import Strangers
from samebits.recording.folder import RunFolder
from samebits.recording.journal import read_notes

INJECTED = str(Path(__file__).parent / "inject")


@dataclass(frozen=True)
class Outcome:
    """How one run ended.

    Attributes:
        folder: its run folder.
        plan: what it was told.
        exit_code: the command's status; negative for the signal that ended it.
        wall_seconds: from start to end.
        timed_out: ended by us because it ran too long.
        stopped: ended by us after the step it was asked to stop after.
        unfinished: why the run folder could not be finished, if it could not.
    """

    folder: RunFolder
    plan: RunPlan
    exit_code: int
    wall_seconds: float
    timed_out: bool = False
    stopped: bool = False
    unfinished: StorageError | None = None

    @property
    def succeeded(self) -> bool:
        return not self.timed_out and (self.exit_code == 0 or self.stopped)


def run_recorded(
    command: Command,
    plan: RunPlan,
    path: Path,
    timeout: float | None = None,
    waiting: Callable[[], None] | None = None,
    place: Place | None = None,
) -> Outcome:
    """Run the command in a process group of its own, its output in the run folder.

    Args:
        command: what to run.
        plan: how to treat it.
        path: the run folder to make.
        timeout: seconds after which the whole group is ended; what was recorded stays.
        waiting: called about ten times a second meanwhile.
        place: where it happens; None for the current folder.

    Raises:
        StorageError: the run folder cannot be made.
        KeyboardInterrupt: passed on after the group has been ended.
    """
    raise_if_signalled()
    place = place or place_in(path)
    folder = _made(path, plan, command, place)
    manifest = _manifest(command, plan, place)
    folder.write_manifest({**manifest, "status": "running"})
    start = time.perf_counter()
    with _log(folder.stdout) as out, _log(folder.stderr) as err, _input() as source:
        process = _started(command, folder, plan, place, stdin=source, stdout=out, stderr=err, start_new_session=True)
        has_ended = False
        try:
            has_ended = _wait(process, timeout, waiting, Strangers(folder, process.pid))
        except BaseException:
            with contextlib.suppress(StorageError):
                folder.write_manifest({**manifest, "status": "interrupted"})
            raise
        finally:
            end_group(process)
            if not has_ended:
                end_strays(folder.plan)
    outcome = _outcome(folder, plan, process.returncode, time.perf_counter() - start, timed_out=not has_ended)
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
    return {**environ, **plan.environment(environ), **inside}


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


def _log(path: Path) -> IO[bytes]:
    try:
        return path.open("wb")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "choose another place with --out") from error


@contextlib.contextmanager
def _input() -> Iterator[Any]:
    """A file on standard input is given to every run from its start; a terminal or a pipe cannot be."""
    try:
        is_file = stat.S_ISREG(os.fstat(0).st_mode)
    except OSError:
        is_file = False
    if not is_file or not os.path.exists("/dev/fd/0"):
        yield subprocess.DEVNULL
        return
    with open("/dev/fd/0", "rb") as source:
        yield source


def _wait(
    process: subprocess.Popen[bytes],
    timeout: float | None,
    waiting: Callable[[], None] | None,
    strangers: Strangers,
) -> bool:
    """Whether the process ended by itself, and in time."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        raise_if_signalled()
        try:
            process.wait(0.1)
            return True
        except subprocess.TimeoutExpired:
            strangers.look()
            if waiting is not None:
                waiting()
            if deadline is not None and time.monotonic() >= deadline:
                return False


def _outcome(folder: RunFolder, plan: RunPlan, exit_code: int, seconds: float, *, timed_out: bool = False) -> Outcome:
    stopped = any("stopped_after" in note for note in read_notes(folder.path, "end"))
    return Outcome(folder, plan, exit_code, seconds, timed_out, stopped)


def _manifest(command: Command, plan: RunPlan, place: Place) -> dict[str, Any]:
    return {
        "command": with_run_folder(command.argv, place.files),
        "typed": list(command.typed),
        "cwd": place.folder,
        "samebits": samebits.__version__,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "plan": asdict(plan),
    }


def _ending(outcome: Outcome) -> dict[str, Any]:
    status = "timed out" if outcome.timed_out else "stopped" if outcome.stopped else "ended"
    recordings = outcome.folder.recordings()
    observed = next(read_notes(outcome.folder.path, "observed"), {})
    return {
        "status": status,
        "exit_code": outcome.exit_code,
        "wall_seconds": round(outcome.wall_seconds, 3),
        "steps": max((recording.steps for recording in recordings), default=0),
        "ranks": sorted({recording.rank for recording in recordings}),
        "complete": bool(recordings) and all(recording.complete for recording in recordings),
        "versions": observed.get("versions", {}),
        "observed": observed.get("factors", {}),
    }
