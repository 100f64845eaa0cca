"""Run folders: where they lie, what is in them, how many are kept.

.samebits/20260131-120000-4711/        one check, one measurement, or one run
    answer.json                        what was answered, as with --format json
    1-control/                         one run of the command
        manifest.json                  command, settings, versions, outcome
        plan.json                      how the run is treated
        recording.sqlite               steps (one file per rank)
        journal.HOST.PID.jsonl         notes of each process
        values/*.safetensors           tensors kept at one step, where asked for
        stdout.log  stderr.log
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from samebits.base.errors import NewerSchemaError, RecordingError, StorageError, UnbegunError
from samebits.base.records import from_data
from samebits.runfolder.reading import read_bytes, read_json, safe_files
from samebits.runfolder.removal import MARK, OWN_NAME, remove
from samebits.runfolder.steps import Recording

HOME, BUSY = ".samebits", ".busy"
# What a check or a measurement answered, beside its runs.
ANSWER = "answer.json"
MANIFEST_SCHEMA = 1
KEPT = 20
_WHERE_RUNS_ARE = f"runs are kept under {HOME}/; `samebits run` and `samebits check` say where they put them"


class Manifest(TypedDict, total=False):
    """What is known of one run; while it is under way, what came last is missing.

    Attributes:
        command, typed: as it was started, and as the user typed it.
        status: `running`, `ended`, `stopped` or `timed out`.
        environment: as `runfolder.environment.Environment` names it; without what is not known.
        observed: factor → its `mode` and `value`, as they were in effect.
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
    """One run on disk."""

    path: Path

    @property
    def stdout(self) -> Path:
        return self.path / "stdout.log"

    @property
    def stderr(self) -> Path:
        return self.path / "stderr.log"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def is_recorded(self) -> bool:
        """Whether a process has come to the end of its first step."""
        return any(self.path.glob("recording*.sqlite"))

    def write_manifest(self, content: Manifest) -> None:
        """Replace the manifest in one move, so that a reader never sees half of it."""
        text = json.dumps({"schema": f"samebits.run/{MANIFEST_SCHEMA}", **content}, indent=2) + "\n"
        write_whole(self.path / "manifest.json", text)

    def manifest(self) -> Manifest:
        try:
            content = from_data(Manifest, read_json(self.path / "manifest.json", self.path))
            schema = int(content["schema"].partition("/")[2])
        except RecordingError:
            raise
        except (OSError, ValueError, LookupError) as error:
            raise RecordingError(f"{self.path}/manifest.json cannot be read: {error}", "was it edited?") from error
        if schema > MANIFEST_SCHEMA:
            raise NewerSchemaError(
                f"{self.path} has schema {schema}, and this samebits reads schemas up to {MANIFEST_SCHEMA}",
                "upgrade samebits: pip install --upgrade samebits",
            )
        return content

    def recordings(self) -> list[Recording]:
        """By rank, and within one in the order in which processes, threads and trainings were begun.

        Files that were only begun are left out; RecordingError where one is damaged, or made by a newer samebits.
        """
        begun = []
        for path in safe_files(self.path, "recording*.sqlite"):
            with contextlib.suppress(UnbegunError):
                begun.append(Recording(path))
        return sorted(begun, key=lambda one: (one.rank, one.lane_id.order, one.lane_id.training, one.sequence))


def write_whole(path: Path, text: str, option: str = "--out") -> None:
    """Write a file so that it is there in full or not at all; an option says where else it may be."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # A link that waits there under this name would be written through.
        beside.unlink(missing_ok=True)
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
        beside.replace(path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", f"choose another place with {option}") from error


def write_answer(home: Path, document: str) -> None:
    """Keep what a check or a measurement answered beside its runs."""
    write_whole(home / ANSWER, f"{document}\n")


def new_home(out: Path | None = None, kept: int = KEPT) -> Path:
    """A fresh folder for one check or run: `out` itself, if it is empty or can be made, or one under `.samebits/`."""
    if out is not None:
        return _given(out)
    home = Path(HOME)
    if home.is_symlink() and not home.exists():
        why = f"{HOME} is a link to {os.readlink(home)}, which does not exist"
        raise StorageError(why, "make that folder, or choose another place with --out")
    try:
        home.mkdir(exist_ok=True)
        ignore = home / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        for path in oldest_in(home, max(0, kept - 1)):
            remove(path)
        return _claimed(home, time.strftime("%Y%m%d-%H%M%S")).resolve()
    except OSError as error:
        why = f"cannot write {home.resolve()}: {error.strerror}"
        raise StorageError(why, "choose another place with --out") from error


def _given(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
        is_used = any(one.name != MARK for one in out.iterdir())
        if not is_used:
            (out / MARK).touch()
    except OSError as error:
        raise StorageError(f"cannot write --out {out}: {error.strerror}", "choose another place") from error
    if is_used:
        raise StorageError(f"--out {out} is not empty", "give a folder that does not exist yet, or an empty one")
    return out.resolve()


def _claimed(home: Path, name: str) -> Path:
    # One process may make several in one second.
    names = (f"{name}-{os.getpid()}{f'-{attempt}' if attempt else ''}" for attempt in itertools.count())
    path = next(home / one for one in names if not (home / one).exists())
    # Busy from its first moment on, or another samebits that begins now drops it as done.
    fresh = home / f".new-{path.name}"
    fresh.mkdir()
    mark_busy(fresh)
    return fresh.rename(path)


def oldest_in(home: Path, kept: int, older_than_days: float = 0.0) -> list[Path]:
    """The folders under `.samebits` that may go, the oldest first: not what is being written, or was put there by name.

    The newest `kept` stay, and those that are younger.
    """
    folders = sorted((path for path in home.iterdir() if OWN_NAME.fullmatch(path.name)), key=_age)
    done = [path for path in folders if not is_busy(path)]
    latest = time.time() - older_than_days * 86_400
    return [path for path in done[: max(0, len(folders) - kept)] if _age(path) <= latest]


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another samebits has just dropped it
        return 0.0


def mark_busy(home: Path) -> None:
    """Say that this process is still writing there, so that no other one drops the folder."""
    write_whole(home / BUSY, f"{os.getpid()} {platform.node()}")


def mark_done(home: Path) -> None:
    """The folder may be dropped when it is among the oldest."""
    with contextlib.suppress(OSError):
        (home / BUSY).unlink()


def is_busy(path: Path) -> bool:
    """Whether a process that lives is writing there."""
    try:
        pid, _, host = read_bytes(path / BUSY, path, 1 << 10).decode().partition(" ")
        # Only the host itself knows whether its processes live; the folder may lie on a shared file system.
        if host == platform.node():
            os.kill(int(pid), 0)
    except PermissionError:
        return True  # it lives, and is somebody else's
    except (OSError, ValueError, OverflowError):
        return False
    return True


def open_run(path: Path) -> RunFolder:
    """The run folder at `path`; a check's folder holding exactly one run will do."""
    if not path.exists():
        raise RecordingError(f"there is no run folder {path}", _WHERE_RUNS_ARE)
    if (path / "manifest.json").exists():
        return RunFolder(path)
    inside = sorted(found.parent for found in safe_files(path, "*/manifest.json"))
    if len(inside) == 1:
        return RunFolder(inside[0])
    if inside:
        raise RecordingError(f"{path} holds {len(inside)} runs", f"name one of them, for example {inside[0]}")
    raise RecordingError(f"{path} is not a run folder: it holds no manifest.json", _WHERE_RUNS_ARE)


def newest_in(path: Path) -> Path:
    """Where `path` holds many checks, measurements or runs, as `.samebits` does: the newest; else `path` itself."""
    if done := [child for child in _done_in(path) if (child / ANSWER).is_file() or _is_one_run(child)]:
        return max(done, key=_age)
    if path == Path(HOME):
        raise RecordingError(f"nothing was checked here yet: {HOME}/ holds no runs", "first: samebits check train.py")
    return path


def last_two_in(path: Path) -> tuple[RunFolder, RunFolder]:
    """The runs that were recorded last, each by itself, the older one first."""
    runs = [one for one in _done_in(path) if not (one / ANSWER).exists() and _is_one_run(one)]
    # A command that could not be started, or was to run unrecorded, left none.
    alone = sorted((one for one in runs if next(one.rglob("recording*.sqlite"), None)), key=_age)
    if len(alone) < 2:
        raise RecordingError(
            f"{path} holds {len(alone)} recorded runs, and two are compared", "first: samebits run train.py"
        )
    return open_run(alone[-2]), open_run(alone[-1])


def _done_in(path: Path) -> list[Path]:
    named = [child for child in path.iterdir() if OWN_NAME.fullmatch(child.name)] if path.is_dir() else []
    return [child for child in named if not is_busy(child)]


def _is_one_run(home: Path) -> bool:
    """Not so for a check that was interrupted."""
    return (home / "manifest.json").is_file() or len(list(home.glob("*/manifest.json"))) == 1
