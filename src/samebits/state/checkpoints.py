"""Checkpoints in a folder: each is written whole or not at all, is known by its digests, and the last few are kept.

    FOLDER/step-500/rank-0-5b0c….pt     what `torch.load(weights_only=True)` reads; one for each rank
    FOLDER/step-500/manifest.json       written last: without it there is no checkpoint

Names of files hold their digests, so that a step that is saved again leaves what was there alone until all is there.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import xxhash

from samebits.base.errors import SamebitsError, StateError, StateWarning, StorageError
from samebits.state.together import Together, error_of

SCHEMA = "samebits.checkpoint/1"
MANIFEST = "manifest.json"
_OURS = re.compile(r"rank-\d+-[0-9a-f]{32}\.pt|manifest\.json|\..*\.writing")
_CHUNK = 1 << 22


class Written(NamedTuple):
    """One file: its name, the digest of its bytes (XXH3, 128 bits), and how many they are."""

    name: str
    digest: str
    size: int


class Manifest(NamedTuple):
    """What a checkpoint consists of.

    Attributes:
        step: how many steps were done.
        number: counts the checkpoints of a folder; the highest was written last.
        files: one for each rank.
    """

    step: int
    number: int
    files: tuple[Written, ...]

    def text(self) -> str:
        """As it stands in the file: exactly so, or it was damaged."""
        content = {
            "schema": SCHEMA,
            "step": self.step,
            "number": self.number,
            "files": [one._asdict() for one in self.files],
        }
        digest = xxhash.xxh3_128(json.dumps(content).encode()).hexdigest()
        return json.dumps({**content, "digest": digest}, indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest in a file.

        Raises:
            ValueError: it is damaged, or of a newer samebits.
            OSError: there is none.
        """
        text = path.read_text(errors="surrogateescape")
        try:
            content = json.loads(text)
            manifest = cls(content["step"], content["number"], tuple(Written(**one) for one in content["files"]))
            is_whole = manifest.text() == text
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path.name} is damaged") from error
        if not is_whole:
            raise ValueError(f"{path.name} is damaged")
        return manifest


class Found(NamedTuple):
    """The folder of a checkpoint, and its manifest or why it has none."""

    home: str
    manifest: Manifest | None
    reason: str = ""

    @property
    def age(self) -> tuple[int, int]:
        """In which order they were written; of damaged ones that is not known any more."""
        return (self.manifest.number, self.manifest.step) if self.manifest else (-1, _step_of(self.home))


class Folder:
    """The checkpoints of one training.

    Args:
        path: where they lie; every rank has to see it.
        together: the ranks that write and read them.
    """

    def __init__(self, path: Path, together: Together) -> None:
        self.path, self.together = path, together

    def save(self, step: int, make_state: Callable[[], Any], keep: int) -> Path:
        """Write a checkpoint, and remove those that are too many; all ranks, in the same step.

        Raises:
            StorageError: a file could not be written, on this rank or another.
        """
        home = self.path / f"step-{step}"
        written, error = self._write_own(home, make_state)
        answers = self.together.said((written, None if error is None else str(error)))
        if any(text for _, text in answers):
            self._remove_leftovers(home)
        self.together.raise_together(error)
        failed = None
        if self.together.rank == 0:
            failed = self._write_manifest(home, step, tuple(own for own, _ in answers))
        self.together.raise_together(failed)
        if self.together.rank == 0:
            self._prune(keep, home)
        return home

    def newest_states(self) -> list[Any]:
        """The state of this rank in the newest checkpoint that is intact; none if there is no checkpoint.

        If it is of another number of ranks, the states of all of them.

        Raises:
            StateError: there are checkpoints, and none of them is intact.
        """
        candidates: list[Found] = self.together.said(self._found() if self.together.rank == 0 else None)[0]
        passed: list[str] = []
        for found in sorted((one for one in candidates if not one.reason.startswith("unfinished")), key=_newest_first):
            reason = self._reason_against(found)
            if not reason and found.manifest is not None:
                self._say(passed, candidates, found.manifest.step)
                return self._states(found.home, found.manifest)
            passed.append(f"{found.home}: {reason}")
        if passed:
            raise StateError(
                f"none of the {len(passed)} checkpoints in {self.path} is intact: {'; '.join(passed)}",
                "bring one back from elsewhere, or move them away to begin anew",
            )
        self._say(passed, candidates, -1)
        return []

    # ---- writing

    def _write_own(self, home: Path, make_state: Callable[[], Any]) -> tuple[Written | None, SamebitsError | None]:
        try:
            state = make_state()
            with _storage(home, "written"):
                home.mkdir(parents=True, exist_ok=True)
                return write_state(home, self.together.rank, state), None
        except Exception as error:
            return None, error_of(error)

    def _write_manifest(self, home: Path, step: int, files: tuple[Written, ...]) -> SamebitsError | None:
        number = 1 + max((one.age[0] for one in self._found()), default=0)
        try:
            with _storage(home, "written"):
                text = Manifest(step, max(number, 1), files).text()
                with _whole(home / MANIFEST) as file:
                    file.write(text.encode())
                _sync_folder(home)
                _sync_folder(self.path)
        except StorageError as error:
            return error
        return None

    def _prune(self, keep: int, newest: Path) -> None:
        """Remove what is older than the last few, and what killed processes left behind."""
        found = sorted(self._found(), key=lambda one: one.age)
        whole = [one.home for one in found if one.manifest is not None]
        for one in found:
            home = self.path / one.home
            if one.home not in whole[-keep:] and home != newest:
                # First what makes it a checkpoint.
                (home / MANIFEST).unlink(missing_ok=True)
            self._remove_leftovers(home)

    def _remove_leftovers(self, home: Path) -> None:
        """Of our files, those that no manifest names; of a folder, one that is empty then."""
        with suppress(OSError):
            kept = set()
            with suppress(OSError):
                try:
                    kept = {MANIFEST, *(one.name for one in Manifest.read(home / MANIFEST).files)}
                except ValueError:
                    # Damaged: whoever wants to look at it finds it as it is.
                    return
            for path in home.iterdir():
                if _OURS.fullmatch(path.name) and path.name not in kept:
                    path.unlink(missing_ok=True)
            home.rmdir()

    # ---- reading

    def _found(self) -> list[Found]:
        if not self.path.is_dir():
            return []
        homes = [one for one in self.path.iterdir() if re.fullmatch(r"step-\d+", one.name) and one.is_dir()]
        return [found for home in homes if (found := _looked_at(home)) is not None]

    def _reason_against(self, found: Found) -> str:
        """Why a checkpoint cannot be used, as all ranks see it together; empty if it can."""
        manifest = found.manifest
        if manifest is None:
            return found.reason
        ranks, own = self.together.world_size, self.together.rank
        mine = [one for number, one in enumerate(manifest.files) if number % ranks == own]
        reasons = self.together.said([text for one in mine if (text := damage(self.path / found.home, one))])
        return "; ".join(text for texts in reasons for text in texts)

    def _states(self, home: str, manifest: Manifest) -> list[Any]:
        is_same = len(manifest.files) == self.together.world_size
        files = [manifest.files[self.together.rank]] if is_same else list(manifest.files)
        return [read_state(self.path / home / one.name) for one in files]

    def _say(self, passed: list[str], candidates: list[Found], step: int) -> None:
        unfinished = [
            f"{one.home}: {one.reason}"
            for one in candidates
            if one.reason.startswith("unfinished") and _step_of(one.home) > step
        ]
        anew = "" if step >= 0 else "; none is left, so the training begins anew"
        for text in [*passed, *unfinished] if self.together.rank == 0 else ():
            warnings.warn(f"checkpoint passed over in {self.path}: {text}{anew}", StateWarning, stacklevel=4)


def _newest_first(found: Found) -> tuple[bool, int, int]:
    number, step = found.age
    # Those whose manifest is damaged come first, so that they are named whatever is used in the end.
    return found.manifest is not None, -number, -step


def _step_of(home: str) -> int:
    return int(home.rpartition("-")[2])


def _looked_at(home: Path) -> Found | None:
    try:
        return Found(home.name, Manifest.read(home / MANIFEST))
    except ValueError as error:
        return Found(home.name, None, str(error))
    except FileNotFoundError:
        is_ours = any(_OURS.fullmatch(one.name) for one in home.iterdir())
        return Found(home.name, None, "unfinished: it was being written when its process ended") if is_ours else None
    except OSError as error:
        return Found(home.name, None, f"{MANIFEST} cannot be read: {error.strerror}")


# ---- files


def write_state(home: Path, rank: int, state: object) -> Written:
    """Write the state of one rank, whole or not at all."""
    import torch

    temporary = home / f".rank-{rank}.{os.getpid()}.writing"
    with _removed_unless_renamed(temporary), open(temporary, "xb") as file:
        digesting = _Digesting(file)
        torch.save(state, cast("IO[bytes]", digesting))
        digesting.raise_failure()
        _sync(file)
        written = Written(f"rank-{rank}-{digesting.digest}.pt", digesting.digest, digesting.size)
        os.replace(temporary, home / written.name)
    _sync_folder(home)
    return written


def read_state(path: Path) -> Any:
    """The state in a file, on the CPU."""
    import torch

    return torch.load(path, map_location="cpu", weights_only=True)


def damage(home: Path, written: Written) -> str:
    """What is wrong with a file; empty if it is what was written."""
    path = home / written.name
    digest = xxhash.xxh3_128()
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != written.size:
                return f"{path.name} is truncated: {size} bytes of {written.size}"
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except FileNotFoundError:
        return f"{path.name} is missing"
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    return "" if digest.hexdigest() == written.digest else f"{path.name} is damaged: its digest differs"


class _Digesting:
    """A file that is written to, and the digest of what was written.

    An error is kept: torch's writer would make another one of it, and then write its end.
    """

    def __init__(self, file: Any) -> None:
        self.file, self.size = file, 0
        self._digest = xxhash.xxh3_128()
        self._failure: OSError | None = None

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._failure is None:
            try:
                self.file.write(data)
            except OSError as error:
                self._failure = error
            self._digest.update(data)
            self.size += size
        return size

    def flush(self) -> None:
        """Nothing: it is flushed at the end."""

    def raise_failure(self) -> None:
        """Raise what failed."""
        if self._failure is not None:
            raise self._failure


@contextmanager
def _whole(path: Path) -> Iterator[Any]:
    """A file that appears under its name when it is on the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    with _removed_unless_renamed(temporary), open(temporary, "xb") as file:
        yield file
        _sync(file)
        os.replace(temporary, path)


@contextmanager
def _removed_unless_renamed(temporary: Path) -> Iterator[None]:
    # Of a process that was killed, and had the same number.
    temporary.unlink(missing_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _storage(home: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"the checkpoint {home} could not be {what}: {error.strerror or error}",
            "make room, or give another folder; earlier checkpoints are as they were",
        ) from error


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk as well; Windows does so by itself."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
