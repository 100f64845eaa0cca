"""Checkpoints in a folder: each is written whole or not at all, is verified by digests, and the last few are kept.

    FOLDER/step-500/rank-0.pt        what `torch.load(weights_only=True)` reads; one for each rank
    FOLDER/step-500/manifest.json    the names, sizes and digests of these files
    FOLDER/.step-1000.7/             the seventh checkpoint while it is written; renamed when all of it is on the disk

So a folder called `step-500` was whole once; if it is not whole now, it was damaged later. Nothing is written into it
again: a step that is saved a second time gets a folder of its own, `step-500.8`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import torch
import xxhash

from samebits.base.errors import StateError, StateWarning, StorageError
from samebits.base.ranks import current_world
from samebits.state.ranks import RankGroup

SCHEMA = "samebits.checkpoint/1"
MANIFEST = "manifest.json"
_FILE = re.compile(r"rank-\d+.*\.pt|manifest\.json")
_WHOLE, _UNFINISHED = re.compile(r"step-(\d+)(?:\.(\d+))?"), re.compile(r"\.step-\d+\.\d+")
_CHUNK = 1 << 22


class Checkpoint(NamedTuple):
    """A checkpoint as its folder describes it.

    Attributes:
        home: name of the folder.
        number: counts the checkpoints of a training, so the highest was written last; -1 if it is lost.
        files: name, size, and digest of the bytes (XXH3, 128 bits) of each rank's file.
        damage: why the manifest cannot be used; empty if it is intact.
    """

    home: str
    step: int
    number: int
    files: Sequence[dict[str, Any]] = ()
    damage: str = ""


class CheckpointFolder:
    """The checkpoints of one training, in a folder that every rank has to see."""

    def __init__(self, path: Path, ranks: RankGroup) -> None:
        self.path, self.ranks = path, ranks

    def save(self, step: int, make_state: Callable[[], object], keep: int) -> Path:
        """Write a checkpoint and remove all but the last `keep`; raise StorageError if a rank could not write."""
        number = self.ranks.done_by_first(self._next_number)
        home = self.path / f".step-{step}.{number}"
        try:
            files = self.ranks.done_by_all(lambda: self._write_own(home, step, make_state()))
            name: str = self.ranks.done_by_first(lambda: self._publish(home, step, number, files))
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
        if current_world().rank == 0:
            self._prune(keep)
        return self.path / name

    def newest_states(self) -> list[Any]:
        """Return the state of this rank from the newest intact checkpoint, in a list; empty if there is no checkpoint.

        Saved by another number of ranks: the states of all of them. StateError if there are some and none is intact.
        """
        checkpoints: list[Checkpoint] = self.ranks.done_by_first(self._found)
        newest, rejected = None, list[str]()
        # Checkpoints without an intact manifest come first, so that they are named whichever checkpoint is used.
        for checkpoint in sorted(checkpoints, key=lambda one: (not one.damage, -one.number, -one.step)):
            if not (reason := checkpoint.damage or self._reason_against(checkpoint)):
                newest = checkpoint
                break
            rejected.append(f"{checkpoint.home}: {reason}")
        if rejected and newest is None:
            raise StateError(
                f"none of the {len(rejected)} checkpoints in {self.path} is intact: {'; '.join(rejected)}",
                "restore one from a backup, or move them elsewhere to start from scratch",
            )
        if current_world().rank == 0:
            why = "unfinished: its process ended before all of it was written"
            why += "; none is left, so the training starts from scratch" if newest is None else ""
            for text in [*rejected, *(f"{home}: {why}" for home in self._left())]:
                warnings.warn(f"checkpoint passed over in {self.path}: {text}", StateWarning, stacklevel=3)
        return [] if newest is None else self._states(newest)

    # ---- writing

    def _next_number(self) -> int:
        """Return the number of the next checkpoint; remove what killed processes left of unfinished ones."""
        for home in self._left():
            shutil.rmtree(self.path / home, ignore_errors=True)
        return 1 + max((one.number for one in self._found()), default=0)

    def _write_own(self, home: Path, step: int, state: object) -> dict[str, Any]:
        """Write the state of this rank to the disk; return name, digest and size of its file."""
        path = home / f"rank-{current_world().rank}.pt"
        with self._storing(step):
            home.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                digesting = _Digesting(file)
                torch.save(state, cast("IO[bytes]", digesting))
                if digesting.failure is not None:
                    raise digesting.failure
                _sync(file)
        return {"name": path.name, "digest": digesting.digest.hexdigest(), "size": digesting.size}

    def _publish(self, home: Path, step: int, number: int, files: list[dict[str, Any]]) -> str:
        """Write the manifest, and give the folder its final name, which is returned."""
        content = {"schema": SCHEMA, "step": step, "number": number, "files": files}
        name = f"step-{step}" if not (self.path / f"step-{step}").exists() else f"step-{step}.{number}"
        with self._storing(step):
            with open(home / MANIFEST, "w", encoding="utf-8") as file:
                json.dump({**content, "digest": _digest_of(content)}, file, indent=1)
                _sync(file)
            _sync_folder(home)
            os.rename(home, self.path / name)
            _sync_folder(self.path)
        return name

    def _prune(self, keep: int) -> None:
        """Remove all but the last `keep` checkpoints."""
        for checkpoint in sorted(self._found(), key=lambda one: (one.number, one.step))[:-keep]:
            home = self.path / checkpoint.home
            with suppress(OSError):
                # The manifest last: half removed, this is an old checkpoint with damaged files, which nobody reads.
                for path in sorted(home.iterdir(), reverse=True):
                    if _FILE.fullmatch(path.name):
                        path.unlink()
                home.rmdir()

    @contextmanager
    def _storing(self, step: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"the checkpoint {self.path / f'step-{step}'} could not be written: {error.strerror or error}",
                "free some space, or give another folder; earlier checkpoints are unchanged",
            ) from error

    # ---- reading

    def _homes(self, name: re.Pattern[str]) -> list[Path]:
        if not self.path.is_dir():
            return []
        return [one for one in self.path.iterdir() if name.fullmatch(one.name) and one.is_dir()]

    def _found(self) -> list[Checkpoint]:
        return [found for home in self._homes(_WHOLE) if (found := _read_checkpoint(home)) is not None]

    def _left(self) -> list[str]:
        return [home.name for home in self._homes(_UNFINISHED)]

    def _reason_against(self, found: Checkpoint) -> str:
        """Return why a checkpoint cannot be used, as all ranks together found it; empty if it can."""
        rank, world_size = current_world()
        files = found.files[rank::world_size]
        reasons = self.ranks.gathered([text for one in files if (text := _damage(self.path / found.home, **one))])
        return "; ".join(text for texts in reasons for text in texts)

    def _states(self, found: Checkpoint) -> list[Any]:
        world, paths = current_world(), [self.path / found.home / one["name"] for one in found.files]
        needed = [paths[world.rank]] if len(paths) == world.size else paths
        return [torch.load(path, map_location="cpu", weights_only=True) for path in needed]


def _read_checkpoint(home: Path) -> Checkpoint | None:
    """Read the checkpoint in a folder; None if the folder has no file of a checkpoint."""
    try:
        content = json.loads((home / MANIFEST).read_bytes())
        if content.pop("digest") != _digest_of(content):
            raise ValueError("edited")
        files = [{key: one[key] for key in ("name", "digest", "size")} for one in content["files"]]
        return Checkpoint(home.name, content["step"], content["number"], files)
    except OSError as error:
        reason = _unread(MANIFEST, error)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        reason = f"{MANIFEST} is damaged"
    if not any(_FILE.fullmatch(one.name) for one in home.iterdir()):
        return None
    step, number = _WHOLE.fullmatch(home.name).groups(default=-1)  # type: ignore[union-attr]
    return Checkpoint(home.name, int(step), int(number), (), reason)


def _digest_of(content: object) -> str:
    return xxhash.xxh3_128(json.dumps(content).encode()).hexdigest()


# ---- files


def _damage(home: Path, name: str, digest: str, size: int) -> str:
    """Return what is wrong with a file; empty if it is as it was written."""
    digesting = xxhash.xxh3_128()
    try:
        with open(home / name, "rb") as file:
            if (present := os.fstat(file.fileno()).st_size) != size:
                return f"{name} is truncated: {present} bytes of {size}"
            while chunk := file.read(_CHUNK):
                digesting.update(chunk)
    except OSError as error:
        return _unread(name, error)
    return "" if digesting.hexdigest() == digest else f"{name} is damaged: its digest differs"


def _unread(name: str, error: OSError) -> str:
    return f"{name} is missing" if isinstance(error, FileNotFoundError) else f"{name} cannot be read: {error.strerror}"


class _Digesting:
    """A file to write to, which digests what is written.

    An OSError is kept, not raised: torch's writer would turn it into another error, and then write the file's end.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.size, self.digest = file, 0, xxhash.xxh3_128()
        self.failure: OSError | None = None

    @property
    def name(self) -> str:
        """The path of the file, for who watches `torch.save`."""
        return self.file.name

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self.failure is None:
            try:
                self.file.write(data)
            except OSError as error:
                self.failure = error
            self.digest.update(data)
            self.size += size
        return size

    def flush(self) -> None:
        """Do nothing: the file is flushed at the end."""


def _sync(file: IO[bytes] | IO[str]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk as well; Windows does so by itself."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
