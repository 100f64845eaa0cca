"""Copies of folders: files are copied, the smallest first, and those beyond a limit are linked; folders are no links.

A link in a copy leads to where the original can be read. Before a run writes to a linked file, the link is replaced by
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

with suppress(ImportError):  # on Windows, where answers can be read, but no runs can be made
    import fcntl

# Files beyond this many files or bytes are linked.
MOST_FILES, MOST_BYTES = 10_000, 10**9
# In a tree with more entries than this, the folders that come last are mounted as a whole.
MOST_ENTRIES = 20_000
OWN = ".samebits"
SHARE = "leave data where it is with --share PATH"
_FICLONE = 0x40049409
_PIECE = 4 * 1024**2


@dataclass
class Survey:
    """The content of a copy, and the form in which it is there.

    Attributes:
        files, bytes: how many files and bytes are copied.
        linked: files that are links → their sizes in bytes.
        whole: folders that are used in place, because they are too large to be copied.
        used: environments and shared paths, which are meant to be used in place.
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
    """The copying of one folder: from where, to where, and how.

    Attributes:
        source, target: absolute paths; the target is created.
        links: path at which a run in the copy can read the source; empty where nothing of it may be linked.
        left_out: absolute paths in the source that are not copied.
        shared: absolute paths in the source that are used in place.
        mounted: whether paths that are used in place will be mounted in the copy; if not, links lead to them.
        link_target: gives the target of a symbolic link in the copy, from its path in the source and its target there.
        announce: called with a note before a copy that takes long.
    """

    source: str
    target: str
    links: str
    left_out: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    mounted: bool = True
    link_target: Callable[[str, str], str] = lambda _, to: to
    announce: Callable[[str], None] = lambda _: None

    def copy_tree(self) -> Survey:
        """Copy, and return what the copy contains; what cannot be read is left out and named in `lost`.

        Raises:
            OSError: the disk is full, or the target cannot be made.
        """
        survey, entries = Survey(), 0
        os.mkdir(self.target)
        waiting, folders = deque([self.source]), []
        files: list[tuple[int, str, str]] = []
        while waiting:
            folder = waiting.popleft()
            target = self.target + folder[len(self.source) :]
            try:
                scanned = os.scandir(folder)
                children = [entry for entry in scanned if entry.name != OWN and entry.path not in self.left_out]
            except OSError as error:
                survey.lost.append(f"{folder}: {error.strerror}")
                continue
            # Only by a mount: code that walks through all folders does not follow links.
            is_too_much = self.mounted and entries + len(children) > MOST_ENTRIES
            is_environment = any(entry.name in ENVIRONMENTS for entry in children)
            if folder != self.source and (is_too_much or is_environment):
                os.rmdir(target)
                self._show(folder, target)
                (survey.used if is_environment else survey.whole).append(folder)
                continue
            entries += len(children)
            folders.append((folder, target))
            for entry in children:
                path_in_copy = os.path.join(target, entry.name)
                if entry.path in self.shared:
                    self._show(entry.path, path_in_copy)
                    survey.used.append(entry.path)
                elif entry.is_symlink():
                    os.symlink(self.link_target(entry.path, os.readlink(entry.path)), path_in_copy)
                elif entry.is_dir(follow_symlinks=False):
                    os.mkdir(path_in_copy)
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):  # removed since it was listed
                        files.append((entry.stat(follow_symlinks=False).st_size, entry.path, path_in_copy))
                else:
                    survey.lost.append(f"{entry.path}: neither a file nor a folder")
        clones = _can_clone(self.source, os.path.dirname(self.target))
        needed, is_whole = sum(size for size, _, _ in files), not self.links and not clones
        if is_whole and needed > shutil.disk_usage(self.target).free:
            raise OSError(errno.ENOSPC, f"{shown_bytes(needed)} are more than the disk has left")
        if is_whole and needed > MOST_BYTES:
            self.announce(f"note: copying the folder, {shown_bytes(needed)}; {SHARE}")
        for size, path, path_in_copy in sorted(files):
            self._file(size, path, path_in_copy, survey, is_copied=is_whole or clones)
        # Last, and the inner folders first: writing in a folder changes its time.
        for folder, target in reversed(folders):
            _copy_attributes(folder, target)
        return survey

    def _show(self, path: str, own: str) -> None:
        """Make a link to a path that is used in place, or an empty file or folder to mount it at."""
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
        except (PermissionError, FileNotFoundError) as error:
            if os.path.lexists(path):  # else it was removed since it was listed
                found.lost.append(f"{path}: {error.strerror}")
            return
        found.files += 1
        found.bytes += size


def copy_file(source: str, target: str) -> None:
    """Copy a file with its mode and its times; holes in it stay holes."""
    with open(source, "rb") as content, open(target, "xb") as copy:
        _copy_content(content.fileno(), copy.fileno())
    _copy_attributes(source, target)


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
    """Whether copies of a folder's files can share blocks with their originals (reflinks) in another folder."""
    with suppress(OSError, StopIteration), tempfile.TemporaryFile(dir=target) as copy:
        path = next(entry.path for entry in os.scandir(source) if entry.is_file(follow_symlinks=False))
        with open(path, "rb") as content:
            fcntl.ioctl(copy.fileno(), _FICLONE, content.fileno())
        return True
    return False


def _copy_attributes(source: str, target: str) -> None:
    with suppress(OSError):
        shutil.copystat(source, target, follow_symlinks=False)


def copy_paths(source: str, target: str, paths: Iterable[str]) -> None:
    """Make some paths of one tree equal to those of another: copied, or removed where the source lacks them.

    Args:
        source: the tree that is copied from.
        target: the tree that is changed.
        paths: relative to both trees; a folder whose path ends with a separator is copied without its content.
    """
    for path in sorted(paths):
        original, copy = (os.path.join(tree, path.rstrip(os.sep)) for tree in (source, target))
        if not is_in(os.path.normpath(copy), target):
            continue
        remove(copy)
        if os.path.lexists(original):
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            if path.endswith(os.sep) and os.path.isdir(original):
                os.mkdir(copy)
            elif os.path.isdir(original) and not os.path.islink(original):
                shutil.copytree(original, copy, symlinks=True)
            else:
                shutil.copy2(original, copy, follow_symlinks=False)


def changed_since(paths: Iterable[str], moment: float) -> str | None:
    """Return the first of these files that has changed since a moment (seconds, as `time.time`); None where none has.

    By the time of the last status change, which programs cannot set (stat(3type)).
    """
    for path in paths:
        with suppress(OSError):
            if os.lstat(path).st_ctime > moment:
                return path
    return None


def shown_size(survey: Survey) -> str:
    """Return what runs use in place, the largest first, as in `data/train.bin (50.0 GB) and 3 folders`."""
    files = sorted(survey.linked, key=lambda path: -survey.linked[path])
    parts = []
    if files:
        first = f"{shown_path(files[0])} ({shown_bytes(survey.linked[files[0]])})"
        parts.append(listed([first, *files[1:]], noun="file"))
    if survey.whole:
        parts.append(listed([shown_path(path) for path in survey.whole], noun="folder"))
    return " and ".join(parts)


def shown_bytes(count: int) -> str:
    """Return a number of bytes as text, such as `12.3 GB`."""
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB"):
        if size >= 1000:
            size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit in ("bytes", "kB") else f"{size:.1f} {unit}"
