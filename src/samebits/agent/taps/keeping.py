"""Keeps the user's own files as they are: a run changes copies of them, or is refused.

Before a large file that the copy only links to is written to, the link is replaced by a copy of the file. Where a run
has no mounts of its own, changes to the user's folder by its full path are refused.
"""

from __future__ import annotations

import errno
import os

from samebits.workspace.place import Place, is_in
from samebits.workspace.trees import copy_file

# The message to a program that would write to the user's folder by its full path.
KEPT = (
    "kept as it is by samebits: use a path relative to where the run began, "
    "or name what runs may write to with --share PATH"
)
HIDDEN = "belongs to samebits: a run does not see its own recording"


class RefusedError(Exception):
    """Raised where the program is about to do what a run must not; its argument is the error that the program gets."""


def refuse_to_change(place: Place, path: str, follows: bool = True) -> None:
    """Raise RefusedError where a path is in the user's folder itself, which a run without mounts reaches by full path.

    Links are followed: a link in the copy leads into the copy, unless it names the user's folder in another way.

    Args:
        place: of the run.
        path: absolute.
        follows: the target of a link changes, and not the link.
    """
    if not place.root:
        return
    folder, name = os.path.split(path)
    target = os.path.realpath(path) if follows else os.path.join(os.path.realpath(folder), name)
    if is_in(target, place.folder) and not is_in(target, place.home) and not place.is_shared(target):
        raise RefusedError(PermissionError(errno.EACCES, KEPT, target))


def refuse_to_look(place: Place, folder: str) -> None:
    """Raise RefusedError for our own folder in the user's, whose content differs from run to run.

    A plain run may find that there is such a folder. `os.walk`, `glob` and pathlib skip what they may not list.
    """
    if place.seen_home or not is_in(place.home, place.folder):
        return
    target = os.path.realpath(folder)
    if is_in(target, place.home) and not is_in(target, place.files):
        raise RefusedError(PermissionError(errno.EACCES, HIDDEN, folder))


def replace_link_by_copy(place: Place, path: str, is_anew: bool) -> None:
    """Replace a link that leads to the user's own file by a copy; RefusedError where there is no room for it.

    Args:
        place: of the run.
        path: absolute, as the run sees it.
        is_anew: the file is about to begin empty, whatever was there.
    """
    for _ in range(10):
        if not os.path.islink(path):
            return
        target = os.path.join(os.path.dirname(path), os.readlink(path))
        if _is_the_users(place, target):
            break
        path = os.path.normpath(target)
    else:
        return
    temporary = f"{path}.samebits-{os.getpid()}"
    try:
        if is_anew:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, os.stat(target).st_mode & 0o777))
        else:
            copy_file(target, temporary)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise RefusedError(error) from error


def _is_the_users(place: Place, path: str) -> bool:
    """Whether a link to this path leads to the user's own file, which is not shared."""
    is_original = any(is_in(path, prefix) for prefix in place.links) and not is_in(path, place.root)
    return is_original and not place.is_shared(place.user_path(path))
