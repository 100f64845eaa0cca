"""Copies of the working folder, one for each run: what a run writes there no other run reads.

Files are copied as reflinks where the file system has them, which takes neither time nor space; elsewhere in full,
because a hard link would let a run that writes in place reach the user's own file, and it is unknown which one does.
Each run in turn has its copy at the same path: what a program makes of its own path is the same in all of them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from samebits.base.errors import StorageError

# Not copied: history, recordings, and what Python makes again.
LEFT_OUT = frozenset((".git", ".hg", ".samebits", "__pycache__"))
# A virtual environment stays where it is: its own scripts name it by its absolute path.
_ENVIRONMENT = "pyvenv.cfg"
# `ioctl` that lets one file share the blocks of another until either is written to (linux/fs.h).
_FICLONE = 0x40049409
# `../data` leads out of a copy: what stands beside the folder is shown beside the copy, if it is not too much.
_MOST_BESIDE = 1000
_CODE = (".py", ".ipynb", ".md", "~", ".swp", ".swo")
_EDITORS = (".#", ".nfs", ".DS_Store", ".ipynb_checkpoints")
_PIECE = 4 * 1024**2

# What stood at a path before the check, and lies now elsewhere; None where nothing stood there.
Before = Callable[[str], "str | None"]


@dataclass
class Survey:
    """What a copy of a folder holds.

    Attributes:
        files: how many.
        bytes: in them.
        lost: what cannot be copied, as `path: why`.
    """

    files: int = 0
    bytes: int = 0
    lost: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Folder:
    """The working folder as it is copied.

    Attributes:
        path: absolute.
        shared: what stays where it is, absolute; the copies hold links to it.
        skipped: further paths that are not copied.
    """

    path: str
    shared: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()

    def survey(self) -> Survey:
        """How much a copy takes."""
        found = Survey()
        for entry in self._walk(self.path, found):
            if entry.is_file(follow_symlinks=False) and not self.is_linked(entry):
                found.files += 1
                found.bytes += entry.stat(follow_symlinks=False).st_size
        return found

    def stamp(self, most: int) -> int | None:
        """A number that is another one when a file in it was made, changed or taken away; None for more than so many.

        Code, and what editors make beside it, does not count.
        """
        found = 0
        for number, entry in enumerate(self._walk(self.path, Survey())):
            if number >= most:
                return None
            if entry.name.startswith(_EDITORS) or entry.name.endswith(_CODE):
                continue
            what: tuple[object, ...] = (entry.path,)
            with suppress(OSError):  # gone meanwhile
                if entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    what = entry.path, status.st_mtime_ns, status.st_size
            found ^= hash(what)
        return found

    def is_linked(self, entry: os.DirEntry[str]) -> bool:
        """Whether the copies hold a link to it."""
        return entry.path in self.shared or (
            entry.is_dir(follow_symlinks=False) and os.path.exists(os.path.join(entry.path, _ENVIRONMENT))
        )

    def entries(self, path: str) -> list[os.DirEntry[str]]:
        """What a folder holds and a copy shows, in the order in which the file system gives it."""
        with os.scandir(path) as listing:
            return [entry for entry in listing if entry.name not in LEFT_OUT and entry.path not in self.skipped]

    def _walk(self, path: str, found: Survey) -> Iterator[os.DirEntry[str]]:
        try:
            entries = self.entries(path)
        except OSError as error:
            found.lost.append(f"{path}: {error.strerror}")
            return
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False) and not self.is_linked(entry):
                yield from self._walk(entry.path, found)


def copy_folder(folder: Folder, copy: str, is_absent: Callable[[str], bool], before: Before) -> Survey:
    """Make a fresh copy of a folder.

    Args:
        folder: to copy.
        copy: path of the copy; whatever is there is removed first.
        is_absent: whether the copy is to do without a path, because a run has made it.
        before: where the content lies that a file had before runs changed it; None to take it as it is.

    Raises:
        StorageError: the disk is full, or the place cannot be written.
    """
    remove(copy)
    found = Survey()
    try:
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        _show_beside(folder, copy)
        _Copying(folder, copy, is_absent, before, found).folder(folder.path, copy)
    except OSError as error:
        remove(copy)
        raise StorageError(
            f"cannot copy {folder.path} to {copy}: {error.strerror}",
            "share what is large with --share PATH, or choose another place with --out",
        ) from error
    return found


def remove(copy: str) -> None:
    """Take a copy away; what cannot be removed stays."""

    def make_writable(function: Callable[..., None], path: str, error: object) -> None:
        with suppress(OSError):
            os.chmod(os.path.dirname(path), stat.S_IRWXU)
            function(path)

    if os.path.lexists(copy):
        shutil.rmtree(copy, onerror=make_writable)


class _Copying:
    def __init__(
        self, folder: Folder, copy: str, is_absent: Callable[[str], bool], before: Before, found: Survey
    ) -> None:
        self.source, self.copy, self.is_absent, self.before, self.found = folder, copy, is_absent, before, found

    def folder(self, source: str, target: str) -> None:
        os.mkdir(target)
        try:
            entries = self.source.entries(source)
        except OSError as error:
            self.found.lost.append(f"{source}: {error.strerror}")
            return
        for entry in entries:
            if not self.is_absent(entry.path):
                self._entry(entry, os.path.join(target, entry.name))
        # Last, because writing in it changes its time.
        _like(source, target)

    def _entry(self, entry: os.DirEntry[str], target: str) -> None:
        if self.source.is_linked(entry):
            os.symlink(entry.path, target)
        elif entry.is_symlink():
            os.symlink(self._led(entry.path), target)
        elif entry.is_dir():
            self.folder(entry.path, target)
        elif entry.is_file():
            self._file(self.before(entry.path) or entry.path, target)
        else:
            self.found.lost.append(f"{entry.path}: neither a file nor a folder")

    def _file(self, source: str, target: str) -> None:
        try:
            with open(source, "rb") as content:
                self.found.files += 1
                self.found.bytes += os.fstat(content.fileno()).st_size
                with open(target, "wb") as copied:
                    copy_content(content.fileno(), copied.fileno())
        except PermissionError as error:
            self.found.lost.append(f"{source}: {error.strerror}")
            return
        _like(source, target)

    def _led(self, link: str) -> str:
        """Where a link leads to, from the copy: inside it stays inside, outside it is the same place."""
        to = os.readlink(link)
        full = os.path.normpath(os.path.join(os.path.dirname(link), to))
        is_inside = full == self.source.path or full.startswith(self.source.path + os.sep)
        if os.path.isabs(to):
            return self.copy + full[len(self.source.path) :] if is_inside else to
        return to if is_inside else full


def copy_content(source: int, target: int) -> None:
    """All bytes of one open file into another one, without reading them where that can be."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
        return
    except OSError:
        pass
    with open(source, "rb", closefd=False) as content, open(target, "wb", closefd=False) as copy:
        shutil.copyfileobj(content, copy, _PIECE)


def _like(source: str, target: str) -> None:
    with suppress(OSError):
        shutil.copystat(source, target, follow_symlinks=False)


def _show_beside(folder: Folder, copy: str) -> None:
    """Links to what stands beside the folder, beside its copy."""
    parent, beside = os.path.dirname(folder.path), os.path.dirname(copy)
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for name in names if len(names) <= _MOST_BESIDE else ():
        with suppress(FileExistsError):
            if name != os.path.basename(copy):
                os.symlink(os.path.join(parent, name), os.path.join(beside, name))


def shared_paths(folder: str, given: Collection[str]) -> frozenset[str]:
    """The paths that are shared, absolute.

    Raises:
        StorageError: one of them is not there.
    """
    found = frozenset(os.path.normpath(os.path.join(folder, path)) for path in given)
    for path in sorted(found):
        if not os.path.lexists(path):
            raise StorageError(f"--share {path}: there is no such file or folder", "name one in the working folder")
    return found


def volume(count: int) -> str:
    """`12.3 GB`."""
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB"):
        if size >= 1000:
            size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit in ("bytes", "kB") else f"{size:.1f} {unit}"


def copy_at(home: Path, slot: int, folder: str) -> str:
    """The path at which the copies of one slot lie, run after run."""
    return str(home / f"copy-{slot}" / (os.path.basename(folder) or "folder"))
