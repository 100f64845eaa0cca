"""What the runs of a check found on disk before they changed it: enough to put a copy of the folder back to the start.

    before/KEY.json     what stood at one path when the first run came to change it, and which run that was
    before/KEY          its content, where it was a file in the working folder and not too large

The first to come makes the entry: runs and their processes need no lock. A run that changes anything says so in its own
folder besides, before it does: runs beside it are not to find that.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

FOLDER = "before"
_CHANGED, _TEMPORARY = "changed", "temporary"
# Larger files are not kept: it would fill the disk, and hold up the run that is about to overwrite one.
LARGEST_KEPT = 256 * 1024**2
MOST_KEPT = 1024**3
MOST_ENTRIES = 5_000
_FULL = "full"


def key_of(path: str) -> str:
    """A name of fixed length for a path."""
    return blake2b(os.fsencode(path), digest_size=16).hexdigest()


def note_change(run: Path) -> None:
    """A run is about to change something that others would find."""
    (run / _CHANGED).touch()


def has_changed(run: Path) -> bool:
    """Whether any process of a run has changed something that others would find."""
    return (run / _CHANGED).exists()


def note_temporary(run: Path, path: str) -> None:
    """A run that may be ended at any time is about to make something that it would take away itself."""
    with (run / _TEMPORARY).open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(json.dumps(path) + "\n")


def remove_temporary(run: Path) -> None:
    """Take away what a run that was ended has left of that."""
    with suppress(OSError):
        for line in (run / _TEMPORARY).read_text(encoding="utf-8").splitlines():
            path = json.loads(line)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    os.unlink(path)


@dataclass(frozen=True)
class Changed:
    """A path that a run changed.

    Attributes:
        path: absolute.
        was: what stood there before: `nothing`, `file`, `folder` or `other`.
        run: name of the run folder of the run that came first.
        kept: where its content lies; empty where it is not kept, or was none.
        bytes: it had.
    """

    path: str
    was: str
    run: str
    kept: str = ""
    bytes: int = 0

    @property
    def was_there(self) -> bool:
        return self.was != "nothing"

    @property
    def can_be_undone(self) -> bool:
        return self.was == "nothing" or bool(self.kept)

    @property
    def number(self) -> int:
        """Of the run."""
        first = self.run.partition("-")[0]
        return int(first) if first.isdecimal() else 0


class Ledger:
    """The entries of one check."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made = 0

    def enter(self, path: str, run: str, keep: bool) -> None:
        """Make the entry of a path that is about to be changed, unless there is one.

        Args:
            path: absolute.
            run: the run that changes it.
            keep: also its content.
        """
        if self._made >= MOST_ENTRIES:
            (self.folder / _FULL).touch()
            return
        key = key_of(path)
        try:
            handle = os.open(self.folder / f"{key}.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except OSError:  # somebody was here before, or nothing can be written any more
            return
        self._made += 1
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(asdict(self._found(path, run, key, keep))) + "\n")

    def read(self) -> dict[str, Changed]:
        """Path → entry; empty where no run has changed anything."""
        found = (_parsed(path) for path in sorted(self.folder.glob("*.json")))
        return {entry.path: entry for entry in found if entry is not None}

    def forget(self, entry: Changed) -> None:
        """Take an entry away: the path is as it was before."""
        (self.folder / f"{key_of(entry.path)}.json").unlink(missing_ok=True)
        if entry.kept:
            Path(entry.kept).unlink(missing_ok=True)

    @property
    def is_full(self) -> bool:
        """Whether more was changed than was entered."""
        return (self.folder / _FULL).exists()

    def _found(self, path: str, run: str, key: str, keep: bool) -> Changed:
        try:
            status = os.lstat(path)
        except OSError:
            return Changed(path, "nothing", run)
        if stat.S_ISDIR(status.st_mode):
            return Changed(path, "folder", run)
        if not stat.S_ISREG(status.st_mode):
            return Changed(path, "other", run)
        kept = self._kept(path, status, key) if keep else ""
        return Changed(path, "file", run, kept, status.st_size)

    def _kept(self, path: str, status: os.stat_result, key: str) -> str:
        total = sum(one.stat().st_size for one in os.scandir(self.folder))
        if status.st_size > LARGEST_KEPT or total + status.st_size > MOST_KEPT:
            return ""
        target = str(self.folder / key)
        try:
            with open(path, "rb") as source, open(target, "wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
            shutil.copystat(path, target)
        except OSError:
            return ""
        return target


def _parsed(path: Path) -> Changed | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Changed(**content)
    except (OSError, ValueError, TypeError):
        return None
