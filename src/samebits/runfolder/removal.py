"""The only code of samebits that deletes files: only those that it made itself, in folders of its own."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from samebits.base.errors import StorageError

# The names of our own folders: under `.samebits`, and for temporary files.
OWN_NAME = re.compile(r"\d{8}-\d{6}-\d+(-\d+)?")
TEMPORARY = re.compile(r"samebits-[0-9a-f]{16}")
# Marks a folder that `--out` names: it was empty, so everything in it since then is ours.
MARK = ".samebits-runs"


def is_own(folder: Path) -> bool:
    """Whether everything in this folder was made by samebits."""
    if folder.is_symlink():
        return False
    is_home = OWN_NAME.fullmatch(folder.name) is not None and folder.parent.name == ".samebits"
    is_temporary = TEMPORARY.fullmatch(folder.name) is not None and _is_mine(folder)
    return is_home or is_temporary or (folder / MARK).is_file()


def remove(path: str | os.PathLike[str]) -> None:
    """Delete a file or a folder of ours; what cannot be deleted stays, and links are deleted without their targets."""
    target = Path(os.path.abspath(path))
    if not any(is_own(folder) for folder in (target, *target.parents)) or not _stays_inside(target):
        raise StorageError(f"{target} was not made by samebits, so it is not removed", "please report this")
    if target.is_symlink() or target.is_file():
        with suppress(OSError):
            target.unlink()
    elif target.exists():
        shutil.rmtree(target, onerror=_make_writable)


def _stays_inside(own: Path) -> bool:
    """Whether the path from our own folder to the file passes no link that leads out of the folder."""
    home = next(folder for folder in (*reversed(own.parents), own) if is_own(folder))
    return own == home or Path(os.path.realpath(own.parent)).is_relative_to(os.path.realpath(home))


def _is_mine(folder: Path) -> bool:
    with suppress(OSError):
        return folder.lstat().st_uid == os.getuid()
    return not folder.exists()


def _make_writable(function: Callable[..., object], path: str, error: object) -> None:
    with suppress(OSError):
        for locked in (os.path.dirname(path), path):
            if not os.path.islink(locked):
                os.chmod(locked, os.stat(locked).st_mode | stat.S_IRWXU)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
