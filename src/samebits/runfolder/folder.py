"""Run folders: where they lie, what is in them, how many are kept.

.samebits/20260131-120000-4711/        one check, one measurement, or one run
    answer.json                        the answer of the command, as with --format json
    1-control/                         one run of the command
        manifest.json                  command, settings, versions, outcome
        plan.json                      how the run is treated
        recording.sqlite               steps (one file per rank)
        journal.HOST.PID.jsonl         notes of each process
        values/*.safetensors           tensors kept at one step, where asked for
        stdout.log  stderr.log
        messages.log                   what Python code wrote to stderr, except warnings (one file per rank)
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from samebits.base.errors import NewerSchemaError, RecordingError, StorageError, UnbegunError, storing
from samebits.base.records import from_data
from samebits.runfolder.reading import damage_described, read_json, safe_files
from samebits.runfolder.removal import MARK, OWN_NAME, remove
from samebits.runfolder.steps import Recording

with contextlib.suppress(ImportError):  # on Windows, where answers can be read, but no runs can be made
    import fcntl

HOME, BUSY = ".samebits", ".busy"
# The answer of a check or a measurement, next to the folders of its runs.
ANSWER = "answer.json"
MANIFEST_SCHEMA = 1
KEPT = 20
_WHERE_RUNS_ARE = f"runs are kept under {HOME}/; `samebits run` and `samebits check` print their folders"


class Manifest(TypedDict, total=False):
    """The facts about one run; until it has ended, those that only its end shows are missing.

    Attributes:
        command, typed: the command as it was started, and as the user typed it.
        status: `running`, `ended`, `stopped`, `timed out` or `interrupted`.
        environment: the fields of `runfolder.environment.Environment` that are known.
        observed: factor → its `mode` and `value` when torch was imported.
    """

    schema: str
    command: list[str]
    typed: list[str]
    cwd: str
    samebits: str
    python: str
    platform: str
    machine: str
    cores: int | None
    started: str | float
    plan: dict[str, Any]
    status: str
    exit_code: int
    wall_seconds: float
    steps: int
    ranks: list[int]
    complete: bool
    versions: dict[str, str | None]
    environment: dict[str, str]
    observed: dict[str, dict[str, str]]


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run on disk."""

    path: Path

    @property
    def stdout(self) -> Path:
        return self.path / "stdout.log"

    @property
    def stderr(self) -> Path:
        return self.path / "stderr.log"

    def messages_of(self, process: Sequence[object] = ()) -> Path:
        """Return the file for what Python code of a process writes to standard error; `process` names its rank."""
        return self.path / ".".join(["messages", *map(str, process), "log"])

    @property
    def messages(self) -> list[Path]:
        """The files of what processes wrote to standard error."""
        return sorted(safe_files(self.path, "messages.*log"))

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def is_recorded(self) -> bool:
        """Whether a recording exists; a process makes it at the end of its first step."""
        return any(self.path.glob("recording*.sqlite"))

    def write_manifest(self, content: Manifest) -> None:
        """Replace the manifest atomically, so that a reader never sees half of it."""
        text = json.dumps({"schema": f"samebits.run/{MANIFEST_SCHEMA}", **content}, indent=2) + "\n"
        write_whole(self.path / "manifest.json", text)

    def manifest(self) -> Manifest:
        with damage_described(f"{self.path}/manifest.json"):
            content = from_data(Manifest, read_json(self.path / "manifest.json", self.path))
            schema = int(content["schema"].partition("/")[2])
        if schema > MANIFEST_SCHEMA:
            raise NewerSchemaError(
                f"{self.path} has schema {schema}, and this samebits reads schemas up to {MANIFEST_SCHEMA}",
                "upgrade samebits: pip install --upgrade samebits",
            )
        return content

    def recordings(self) -> list[Recording]:
        """Return the recordings by rank, and within one in the order in which processes, threads and trainings began.

        Files without tables yet are left out; RecordingError where one is damaged, or made by a newer samebits.
        """
        recordings = []
        for path in safe_files(self.path, "recording*.sqlite"):
            with contextlib.suppress(UnbegunError):
                recordings.append(Recording(path))
        return sorted(recordings, key=lambda one: (one.rank, one.lane_id.order, one.lane_id.training, one.sequence))


def write_whole(path: Path, text: str, option: str = "--out") -> None:
    """Write a file so that it exists in full or not at all; an error names the `option` that chooses another place."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with storing(path, f"choose another place with {option}"):
        # If somebody put a link there under this name, we would write to the file that it leads to.
        temporary.unlink(missing_ok=True)
        try:
            with temporary.open("x", encoding="utf-8") as file:
                file.write(text)
            temporary.replace(path)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_answer(home: Path, document: str) -> None:
    """Write the answer of a check or a measurement next to its runs."""
    write_whole(home / ANSWER, f"{document}\n")


@contextlib.contextmanager
def new_home(out: Path | None = None, kept: int = KEPT) -> Iterator[Path]:
    """Make the folder for one check or run, which is busy until the block ends: nobody drops it, or clears it up.

    It is `out`, which must be empty or missing, else a new one under `.samebits/`.
    """
    home = _under_samebits(max(0, kept - 1)) if out is None else _given(out)
    with _busy(home) as path:
        yield path.resolve()


def _under_samebits(kept: int) -> Path:
    """Return a path for a new folder under `.samebits`, where of earlier folders the newest stay."""
    home = Path(HOME)
    if home.is_symlink() and not home.exists():
        why = f"{HOME} is a link to {os.readlink(home)}, which does not exist"
        raise StorageError(why, "make that folder, or choose another place with --out")
    with storing(home.resolve()):
        home.mkdir(exist_ok=True)
        ignore = home / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        for path in oldest_in(home, kept):
            remove(path)
    # One process may make several folders in one second.
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    names = (f"{name}{f'-{attempt}' if attempt else ''}" for attempt in itertools.count())
    return next(home / free for free in names if not (home / free).exists())


def _given(out: Path) -> Path:
    with storing(f"--out {out}", "choose another place"):
        out.mkdir(parents=True, exist_ok=True)
        is_used = any(path.name != MARK for path in out.iterdir())
        if not is_used:
            (out / MARK).touch()
    if is_used:
        raise StorageError(f"--out {out} is not empty", "give a folder that does not exist yet, or an empty one")
    return out


@contextlib.contextmanager
def _busy(home: Path) -> Iterator[Path]:
    """Make a folder if it is missing, and hold a lock in it, which the system releases however this process ends.

    So the living are told from the dead across containers, and when a process number was given anew (flock(2)).
    """
    with storing(home):
        # Busy before it has its name, or another samebits that starts now drops it as one that is done.
        fresh = home if home.exists() else home.with_name(f".new-{home.name}")
        fresh.mkdir(exist_ok=True)
        held = (fresh / BUSY).open("xb")
        with contextlib.suppress(OSError):  # the file system may have no locks: see `is_busy`
            fcntl.flock(held, fcntl.LOCK_EX)
        fresh.rename(home)
    with held:
        try:
            yield home
        finally:
            with contextlib.suppress(OSError):
                (home / BUSY).unlink()
                home.rmdir()  # only if nothing was kept in it


def oldest_in(home: Path, kept: int, older_than_days: float = 0.0) -> list[Path]:
    """Return the folders under `.samebits` that may be deleted, the oldest first.

    The newest `kept` stay, and so do those still being written, those not old enough, and those with other names.
    """
    folders, latest = _homes_in(home), time.time() - older_than_days * 86_400
    old = folders[: max(0, len(folders) - kept)]
    return [path for path in old if _modified_at(path) <= latest and not is_busy(path)]


def _homes_in(path: Path) -> list[Path]:
    """The folders of checks, measurements and runs in `path`, the oldest first."""
    homes = [child for child in path.iterdir() if OWN_NAME.fullmatch(child.name)] if path.is_dir() else []
    return sorted(homes, key=_modified_at)


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another samebits has just dropped the folder
        return 0.0


def is_busy(path: Path) -> bool:
    """Whether a living command has this folder; where the file system has no locks, whether one has not ended well."""
    try:
        handle = os.open(path / BUSY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except PermissionError:
        return True  # it belongs to another user
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (OSError, NameError):  # on Windows there is no such lock
        return True
    finally:
        os.close(handle)
    return False


def open_run(path: Path) -> RunFolder:
    """Return the run folder at `path`, or the only run in `path` if that is the folder of a check."""
    if not path.exists():
        raise RecordingError(f"there is no run folder {path}", _WHERE_RUNS_ARE)
    if (path / "manifest.json").exists():
        return RunFolder(path)
    inside = sorted(manifest.parent for manifest in safe_files(path, "*/manifest.json"))
    if len(inside) == 1:
        return RunFolder(inside[0])
    if inside:
        raise RecordingError(f"{path} holds {len(inside)} runs", f"name one of them, for example {inside[0]}")
    raise RecordingError(f"{path} is not a run folder: it holds no manifest.json", _WHERE_RUNS_ARE)


def newest_in(path: Path) -> Path:
    """Return the newest check, measurement or run in `path` if it holds any, as `.samebits` does; else `path`."""
    if done := [home for home in _done_in(path) if (home / ANSWER).is_file() or _is_one_run(home)]:
        return done[-1]
    if path == Path(HOME):
        raise RecordingError(f"nothing was checked here yet: {HOME}/ holds no runs", "first: samebits check train.py")
    return path


def last_two_in(path: Path) -> tuple[RunFolder, RunFolder]:
    """Return the last two recorded runs that belong to no check or measurement, the older one first."""
    runs = [home for home in _done_in(path) if not (home / ANSWER).exists() and _is_one_run(home)]
    # A command that could not be started, or that ran unrecorded, left no recording.
    recorded = [home for home in runs if next(home.rglob("recording*.sqlite"), None)]
    if len(recorded) < 2:
        raise RecordingError(
            f"{path} holds {len(recorded)} recorded runs, and a comparison needs two", "first: samebits run train.py"
        )
    return open_run(recorded[-2]), open_run(recorded[-1])


def _done_in(path: Path) -> list[Path]:
    return [home for home in _homes_in(path) if not is_busy(home)]


def _is_one_run(home: Path) -> bool:
    """Whether a folder holds exactly one run; an interrupted check may hold several."""
    return (home / "manifest.json").is_file() or len(list(home.glob("*/manifest.json"))) == 1
