"""The one way in which samebits takes files away: nothing but what it has made itself, in folders of its own."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from samebits.base.errors import StorageError

# A folder of our own, under `.samebits`, or for temporary files.
OWN_NAME = re.compile(r"\d{8}-\d{6}-\d+(-\d+)?")
TEMPORARY = re.compile(r"samebits-[0-9a-f]{16}")
# In a folder that `--out` names: it was empty, and what is in it since then is ours.
MARK = ".samebits-runs"


def is_own(folder: Path) -> bool:
    """Whether all in this folder is ours."""
    if folder.is_symlink():
        return False
    is_home = OWN_NAME.fullmatch(folder.name) is not None and folder.parent.name == ".samebits"
    is_temporary = TEMPORARY.fullmatch(folder.name) is not None and _is_mine(folder)
    return is_home or is_temporary or (folder / MARK).is_file()


def remove(path: str | os.PathLike[str]) -> None:
    """Take away a file or a folder, if it is ours; what cannot be removed stays, and so does what links lead to."""
    own = Path(os.path.abspath(path))
    if not any(is_own(folder) for folder in (own, *own.parents)) or not _is_straight(own):
        raise StorageError(f"{own} was not made by samebits, so it is not removed", "please report this")
    if own.is_symlink() or own.is_file():
        with suppress(OSError):
            own.unlink()
    elif own.exists():
        shutil.rmtree(own, onerror=_make_writable)


def _is_straight(own: Path) -> bool:
    """Whether no link below our own folder leads elsewhere on the way to it."""
    home = next(folder for folder in (*reversed(own.parents), own) if is_own(folder))
    return own == home or Path(os.path.realpath(own.parent)).is_relative_to(os.path.realpath(home))


def _is_mine(folder: Path) -> bool:
    with suppress(OSError):
        return folder.lstat().st_uid == os.getuid()
    return not folder.exists()


def _make_writable(function: Callable[..., object], path: str, error: object) -> None:
    with suppress(OSError):
        for one in (os.path.dirname(path), path):
            if not os.path.islink(one):
                os.chmod(one, os.stat(one).st_mode | stat.S_IRWXU)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
