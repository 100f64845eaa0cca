"""What is the user's own stays as it is: a run changes a copy of it, or is told that it must not.

Before a large file that the copy only links to is written to, the link is replaced by a copy of it. Where a run has no
mounts of its own, what would change the user's folder by its full path is refused.
"""

from __future__ import annotations

import errno
import os
import sys

from samebits.workspace.place import Place, is_in
from samebits.workspace.trees import copy_file

# What a program is told that would write to the user's folder by its full path.
KEPT = (
    "kept as it is by samebits: use a path relative to where the run began, "
    "or name what runs may write to with --share PATH"
)
HIDDEN = "samebits' own: what is recorded of a run is not shown to it"


class RefusedError(Exception):
    """What the program is about to do would change the user's own; its argument is what the program is told."""


def refuse_to_change(place: Place, path: str, follows: bool = True) -> None:
    """RefusedError where it lies in the user's folder itself, which a run without mounts reaches by its full path.

    Whatever the path leads through: a link in the copy is led into the copy, but where it names the folder otherwise.

    Args:
        place: of the run.
        path: absolute.
        follows: what a link leads to changes, and not the link.
    """
    if not place.root:
        return
    folder, name = os.path.split(path)
    own = os.path.realpath(path) if follows else os.path.join(os.path.realpath(folder), name)
    is_used = place.is_shared(own) or (is_in(sys.prefix, place.folder) and is_in(own, sys.prefix))
    if is_in(own, place.folder) and not is_in(own, place.home) and not is_used:
        raise RefusedError(PermissionError(errno.EACCES, KEPT, own))


def refuse_to_look(place: Place, folder: str) -> None:
    """RefusedError for our own folder in the user's: what is in it is another in every run.

    A plain run may find that there is such a folder. `os.walk`, `glob` and pathlib go on where they may not look.
    """
    if place.seen_home or not is_in(place.home, place.folder):
        return
    own = os.path.realpath(folder)
    if is_in(own, place.home) and not is_in(own, place.files):
        raise RefusedError(PermissionError(errno.EACCES, HIDDEN, folder))


def copy_what_is_linked(place: Place, path: str, is_anew: bool) -> None:
    """Where a link leads to the user's own file, put a copy in its place; RefusedError where there is no room for it.

    Args:
        place: of the run.
        path: absolute, as the run sees it.
        is_anew: the file is about to begin anew, whatever was there.
    """
    for _ in range(10):
        if not os.path.islink(path):
            return
        to = os.path.join(os.path.dirname(path), os.readlink(path))
        if _is_the_users(place, to):
            break
        path = os.path.normpath(to)
    else:
        return
    beside = f"{path}.samebits-{os.getpid()}"
    try:
        if is_anew:
            os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, os.stat(to).st_mode & 0o777))
        else:
            copy_file(to, beside)
        os.replace(beside, path)
    except OSError as error:
        if os.path.exists(beside):
            os.unlink(beside)
        raise RefusedError(error) from error


def _is_the_users(place: Place, path: str) -> bool:
    """Whether a link that leads there stands for the user's own file, which is not shared."""
    is_original = any(is_in(path, one) for one in place.links) and not is_in(path, place.root)
    return is_original and not place.is_shared(place.home_of(path))
