"""Copies of folders: files are copied, the smallest first, and what is too much is linked; folders are folders.

A link in a copy leads to where the original can be read. Before a run writes to what is linked, the link is replaced by
a copy of its own (`agent/taps/keeping.py`), so that no run reaches the original. Where the file system has reflinks,
large files are copied, too: that takes neither time nor space (ioctl_ficlone(2)).
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from samebits.base.printable import listed
from samebits.base.sites import shown_path
from samebits.runfolder.removal import remove
from samebits.workspace.place import ENVIRONMENTS, is_in

with suppress(ImportError):  # on Windows, where answers can be read, and no runs be made
    import fcntl

# What comes after this many files or bytes is linked.
MOST_FILES, MOST_BYTES = 10_000, 10**9
# In a tree with more entries than this, the folders that come last are shown as a whole.
MOST_ENTRIES = 20_000
OWN = ".samebits"
SHARE = "leave data where it is with --share PATH"
_FICLONE = 0x40049409
_PIECE = 4 * 1024**2


@dataclass
class Survey:
    """What a copy holds.

    Attributes:
        files, bytes: that are copied.
        linked: files that are links, with their sizes in bytes.
        whole: folders that are shown as they are, because they are too much to be copied.
        used: environments, and what is shared: shown as they are, because they are meant to be used.
        lost: what cannot be copied, as `path: why`.
    """

    files: int = 0
    bytes: int = 0
    linked: dict[str, int] = field(default_factory=dict)
    whole: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Copying:
    """How a folder is copied.

    Attributes:
        source, target: absolute; the target is made.
        links: where the source can be read by whoever is in the copy; empty where nothing of it may be linked.
        left_out: absolute paths in the source that the copy does without.
        shared: absolute paths in the source that are shown as they are.
        mounted: what is shown as it is will be mounted there; otherwise links lead to it.
        led: what a symbolic link is to say in the copy, given its path in the source and what it says there.
        announce: is told of a copy that takes long, before it begins.
    """

    source: str
    target: str
    links: str
    left_out: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    mounted: bool = True
    led: Callable[[str, str], str] = lambda _, to: to
    announce: Callable[[str], None] = lambda _: None

    def made(self) -> Survey:
        """Copy; what cannot be read is said, and left out.

        Raises:
            OSError: the disk is full, or the target cannot be made.
        """
        found, entries = Survey(), 0
        os.mkdir(self.target)
        waiting, made = deque([self.source]), []
        files: list[tuple[int, str, str]] = []
        while waiting:
            folder = waiting.popleft()
            target = self.target + folder[len(self.source) :]
            try:
                entries_here = os.scandir(folder)
                listed = [entry for entry in entries_here if entry.name != OWN and entry.path not in self.left_out]
            except OSError as error:
                found.lost.append(f"{folder}: {error.strerror}")
                continue
            is_too_much = self.mounted and entries + len(listed) > MOST_ENTRIES
            is_environment = any(entry.name in ENVIRONMENTS for entry in listed)
            if folder != self.source and (is_too_much or is_environment):
                # A mere link would be no folder to those who go through all folders.
                os.rmdir(target)
                self._show(folder, target)
                (found.used if is_environment else found.whole).append(folder)
                continue
            entries += len(listed)
            made.append((folder, target))
            for entry in listed:
                own = os.path.join(target, entry.name)
                if entry.path in self.shared:
                    self._show(entry.path, own)
                    found.used.append(entry.path)
                elif entry.is_symlink():
                    os.symlink(self.led(entry.path, os.readlink(entry.path)), own)
                elif entry.is_dir(follow_symlinks=False):
                    os.mkdir(own)
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    files.append((entry.stat(follow_symlinks=False).st_size, entry.path, own))
                else:
                    found.lost.append(f"{entry.path}: neither a file nor a folder")
        clones = _can_clone(self.source, os.path.dirname(self.target))
        needed, is_whole = sum(size for size, _, _ in files), not self.links and not clones
        if is_whole and needed > shutil.disk_usage(self.target).free:
            raise OSError(errno.ENOSPC, f"{volume(needed)} are more than the disk has left")
        if is_whole and needed > MOST_BYTES:
            self.announce(f"note: copying the folder, {volume(needed)}; {SHARE}")
        for size, path, own in sorted(files):
            self._file(size, path, own, found, is_copied=is_whole or clones)
        # The inner ones first, and last of all: writing in a folder changes its time.
        for folder, target in reversed(made):
            _like(folder, target)
        return found

    def _show(self, path: str, own: str) -> None:
        """A path that is shown as it is: a link, or a place to mount it at."""
        if not self.mounted:
            os.symlink(path, own)
        elif os.path.isdir(path):
            os.mkdir(own)
        else:
            open(own, "xb").close()

    def _file(self, size: int, path: str, own: str, found: Survey, is_copied: bool) -> None:
        if not is_copied and (found.files >= MOST_FILES or found.bytes + size > MOST_BYTES):
            os.symlink(self.links + path[len(self.source) :], own)
            found.linked[path] = size
            return
        try:
            copy_file(path, own)
        except PermissionError as error:
            found.lost.append(f"{path}: {error.strerror}")
            return
        found.files += 1
        found.bytes += size


def copy_file(source: str, target: str) -> None:
    """A new file with the content, the mode and the times of another one; what is not there takes no room."""
    with open(source, "rb") as content, open(target, "xb") as copy:
        _copy_content(content.fileno(), copy.fileno())
    _like(source, target)


def _copy_content(source: int, target: int) -> None:
    with suppress(OSError):
        fcntl.ioctl(target, _FICLONE, source)
        return
    size, at = os.fstat(source).st_size, 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            break
        end = os.lseek(source, at, os.SEEK_HOLE)
        os.lseek(target, at, os.SEEK_SET)
        while at < end:
            piece = os.pread(source, min(_PIECE, end - at), at)
            if not piece:  # it was made shorter meanwhile
                return
            at += os.write(target, piece)
    os.ftruncate(target, size)


def _can_clone(source: str, target: str) -> bool:
    """Whether files of one folder can share their blocks with copies in another one."""
    with suppress(OSError, StopIteration), tempfile.TemporaryFile(dir=target) as copy:
        one = next(entry.path for entry in os.scandir(source) if entry.is_file(follow_symlinks=False))
        with open(one, "rb") as content:
            fcntl.ioctl(copy.fileno(), _FICLONE, content.fileno())
        return True
    return False


def _like(source: str, target: str) -> None:
    with suppress(OSError):
        shutil.copystat(source, target, follow_symlinks=False)


def bring(source: str, target: str, paths: Iterable[str]) -> None:
    """Make some paths of one tree as they are in another one, there or not.

    Args:
        source: the tree that is copied from.
        target: the tree that is changed.
        paths: relative to both; of a folder whose name ends with a separator, not what is in it.
    """
    for path in sorted(paths):
        there, here = (os.path.join(tree, path.rstrip(os.sep)) for tree in (source, target))
        if not is_in(os.path.normpath(here), target):
            continue
        remove(here)
        if os.path.lexists(there):
            os.makedirs(os.path.dirname(here), exist_ok=True)
            if path.endswith(os.sep) and os.path.isdir(there):
                os.mkdir(here)
            elif os.path.isdir(there) and not os.path.islink(there):
                shutil.copytree(there, here, symlinks=True)
            else:
                shutil.copy2(there, here, follow_symlinks=False)


def shown_size(survey: Survey) -> str:
    """`data/train.bin (50.0 GB) and 3 folders`: what copies show as it is, the largest first."""
    files = sorted(survey.linked, key=lambda path: -survey.linked[path])
    parts = []
    if files:
        first = f"{shown_path(files[0])} ({volume(survey.linked[files[0]])})"
        parts.append(listed([first, *files[1:]], noun="file"))
    if survey.whole:
        parts.append(listed([shown_path(path) for path in survey.whole], noun="folder"))
    return " and ".join(parts)


def volume(count: int) -> str:
    """`12.3 GB`."""
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB"):
        if size >= 1000:
            size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit in ("bytes", "kB") else f"{size:.1f} {unit}"
