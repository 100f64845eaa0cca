"""Workspace: the user's working folder as a command found it, and a copy of it for every run.

    trees/found       as the command found it; every run begins with a copy of this
    trees/prepared    the same, with what the first run made before its first step, if that took long
    trees/left        as one run left its copy
    work-1, work-2 …  a run's copy, its folder `{run}`, and a list of its mounts

Where the system lets a process have mounts of its own, each run sees its copy at the path of the original, and nothing
of samebits in it, so that simultaneous runs behave as if each were alone. Elsewhere the copies lie outside the folder,
where a run that walks through all of the folder does not find them, and `Place` translates the paths.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from itertools import chain
from pathlib import Path

from samebits.base.errors import StorageError
from samebits.base.sites import shown_path
from samebits.runfolder.folder import is_busy
from samebits.runfolder.removal import MARK, OWN_NAME, is_own, remove
from samebits.runfolder.spec import RunSpec
from samebits.workspace import enter
from samebits.workspace.place import FILES, Isolation, Place, is_in
from samebits.workspace.trees import (
    MOST_BYTES,
    MOST_ENTRIES,
    MOST_FILES,
    OWN,
    SHARE,
    Copying,
    Survey,
    changed_since,
    copy_paths,
    shown_bytes,
)

# Where this variable is set, runs in copies have no mounts of their own: for scripts that call sudo or ssh, say.
WITHOUT_MOUNTS = "SAMEBITS_NO_MOUNTS"
# Copies of more bytes than this are announced.
LARGE_BYTES = 5 * 10**8
TREES, _ROOT, _COPY, _MOUNTS, _BEGAN = "trees", "root", "copy", "mounts.json", "began"
FOUND, PREPARED, LEFT = "found", "prepared", "left"


class Workspace:
    """Gives every run of a command a place, and removes the place afterwards.

    Args:
        home: the folder for the runs, which belongs to samebits.
        isolation: `copy` gives each run a copy of the working folder; `none` lets all of them begin in the folder.
        share: paths in the folder that runs use in place, without a copy.
        replaced: files in the folder → the content that they have in copies instead.
        announce: called with a note for people where much is copied.

    Attributes:
        folder: the working folder.
        temporary: the folder for temporary files and mounts of runs; outside the working folder.
        store: the folder with the copies.
        survey: what a copy contains.
        left_by: number of the run whose copy was kept; None where none was.
        names: paths that whole runs without our pins left; None before there is one.
        prepared: files that the first run has prepared and that copies begin with, as paths in the user's folder.
    """

    def __init__(
        self,
        home: Path,
        isolation: Isolation = "copy",
        share: Sequence[str] = (),
        replaced: Mapping[str, bytes] | None = None,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.home, self.isolation, self.folder, self._began = home, isolation, os.getcwd(), time.time()
        self.shared = shared_paths(self.folder, share)
        self.left_by: int | None = None
        self.names: frozenset[str] | None = None
        self.prepared = frozenset[str]()
        self.survey = Survey()
        self._slots = set[int]()
        self._lock = threading.Lock()
        # Short paths: names of sockets have 108 bytes at most (unix(7)).
        paths = list(filter(is_own, temporary_of(home)))
        # Where the folder is `/`, all of them lie in it, but `/` is never copied.
        self.temporary = next((path for path in paths if not is_in(str(path), self.folder)), paths[0])
        is_unseen = isolation == "none" or self.is_mounted or not is_in(str(home), self.folder)
        self.store = home if is_unseen else self.temporary
        if home.parent.name == OWN:
            clear_others(home.parent)
        if not any(map(is_own, (home, *home.parents))):
            (home / MARK).touch()
        if isolation == "copy":
            self._find(announce)
            for path, content in (replaced or {}).items():
                self._replace(path, content)

    @property
    def is_mounted(self) -> bool:
        """Whether runs see their copies at the path of the working folder."""
        return self.isolation == "copy" and can_mount()

    def _find(self, announce: Callable[[str], None]) -> None:
        """Copy the folder, as it is now, to `trees/found`."""
        if os.path.dirname(self.folder) == self.folder:
            raise StorageError(
                f"{self.folder} is not a folder that can be copied", "change into a project, or --isolation none"
            )
        self.temporary.mkdir(mode=0o700, exist_ok=True)
        (self.store / TREES).mkdir(parents=True, exist_ok=True)
        left_out = frozenset(map(str, filter(is_own, self.home.parents))) | {str(self.home)}
        tree, (links, _) = self._tree(FOUND), self._links()
        copying = Copying(self.folder, tree, links, left_out, self.shared, self.is_mounted, announce=announce)
        try:
            self.survey = self._copied(copying)
        except BaseException:
            self.close()
            raise
        copied, linked = min(self.survey.bytes, MOST_BYTES), len(self.survey.linked)
        if copied > LARGE_BYTES or linked > MOST_ENTRIES:
            links = f", and links to {linked} file{'s' * (linked > 1)}" if linked else ""
            announce(f"note: every run gets a copy of {shown_bytes(copied)}{links}; {SHARE}")

    def found(self, path: str) -> bytes | None:
        """Return the content of a file as the command found it; None where copies contain no copy of it."""
        copy = Path(self._tree(FOUND) + path[len(self.folder) :])
        is_used = any(is_in(path, used) for used in (*self.survey.used, *self.survey.whole))
        is_there = self.isolation == "copy" and is_in(path, self.folder) and not is_used
        return copy.read_bytes() if is_there and copy.is_file() and not copy.is_symlink() else None

    def changed_meanwhile(self) -> str | None:
        """Return a file that runs read in place, and somebody else has changed since the command began; else None."""
        walks = (one for folder in self.survey.whole for one in os.walk(folder))
        inside = (os.path.join(where, name) for where, _, names in walks for name in names)
        return changed_since(chain(self.survey.linked, inside), self._began)

    def _replace(self, path: str, content: bytes) -> None:
        """Replace the content of a file in all copies."""
        copy = Path(self._tree(FOUND) + path[len(self.folder) :])
        remove(copy)
        copy.write_bytes(content)
        shutil.copymode(path, copy)

    def _copied(self, copying: Copying) -> Survey:
        try:
            return copying.copy_tree()
        except OSError as error:
            raise StorageError(
                f"cannot copy {self.folder} to {copying.target}: {error.strerror}",
                "leave what is large where it is with --share PATH, or choose another place with --out",
            ) from error

    def _tree(self, name: str) -> str:
        return str(self.store / TREES / name)

    def _links(self) -> tuple[str, str]:
        """Return where runs read what is too large to be copied: of the user's folder, and of our own trees.

        Without mounts, a program that a script starts could write to any file that a link leads to. So no link leads to
        the folder: the first copy contains all of it, and runs have links to that copy.
        """
        if self.is_mounted:
            return str(self.temporary / "origin"), str(self.temporary / TREES)
        return "", str(self.store / TREES)

    # ---- the place of a run

    @contextmanager
    def place_for(self, spec: RunSpec) -> Iterator[Place]:
        """Yield the place in which a run is to happen; afterwards its copy is removed, unless it was kept."""
        with self._lock:
            slot = next(number for number in range(1, 1000) if number not in self._slots)
            self._slots.add(slot)
        work = self.store / f"work-{slot}"
        try:
            remove(work)
            work.mkdir(parents=True)
            place = self._place(work, spec)
            yield place
            self._need_first_copy_unchanged(place)
        finally:
            for path in (work, self.temporary / f"tmp-{slot}"):
                remove(path)
            with self._lock:
                self._slots.remove(slot)

    def _place(self, work: Path, spec: RunSpec) -> Place:
        (work / FILES).mkdir()
        place = Place(self.folder, str(work / FILES), home=str(self.home), work=str(work))
        if self.isolation == "none":
            return place
        temporary = self.temporary / f"tmp-{work.name.removeprefix('work-')}"
        remove(temporary)
        temporary.mkdir(mode=0o700)
        origin, trees = self._links()
        links = {origin: self.folder, **{f"{trees}/{name}": self.folder for name in (FOUND, PREPARED, LEFT)}}
        place = replace(place, temporary=str(temporary), links=links, shared=tuple(sorted(self.shared)))
        place = self._mounted(place) if self.is_mounted else _surrounded_by_links(place)
        self._fill(place, spec)
        (work / _BEGAN).touch()
        return place

    def _mounted(self, place: Place) -> Place:
        """Write the list of mounts for a run that sees its copy at the path of the folder; return its place."""
        copy = os.path.join(place.work, _COPY)
        seen = {name: str(self.temporary / name) for name in ("origin", TREES, "home", FILES, "tmp")}
        for point in seen.values():
            Path(point).mkdir(exist_ok=True)
        mounts = [
            (self.folder, seen["origin"], True),
            (str(self.home / TREES), seen[TREES], True),
            (str(self.home), seen["home"], False),
            (str(place.own_files), seen[FILES], False),
            (place.temporary, seen["tmp"], False),
            *((path, copy + path[len(self.folder) :], True) for path in (*self.survey.whole, *self.survey.used)),
            # After these: a shared path may lie in one of them.
            *((path, copy + path[len(self.folder) :], False) for path in sorted(self.shared)),
            # Last: this mount hides the folder itself.
            (copy, self.folder, False),
        ]
        Path(place.work, _MOUNTS).write_text(json.dumps({"mounts": mounts, "start": self.folder}), encoding="utf-8")
        return replace(place, files=seen[FILES], copy=copy, seen_home=seen["home"], temporary=seen["tmp"])

    def _fill(self, place: Place, spec: RunSpec) -> None:
        """Make the copy with which the run begins."""
        is_left = spec.begins == LEFT and self.left_by is not None
        name = LEFT if is_left and not spec.brought else PREPARED if spec.begins != "found" and self.prepared else FOUND
        # Paths that copies contain as a link, or as a place to mount them at.
        in_place = (*self.survey.linked, *self.survey.whole, *self.survey.used)
        own_links = {os.path.relpath(path, self.folder) for path in in_place}
        tree = self._tree(name)

        def led(path: str, to: str) -> str:
            if not os.path.isabs(to) or os.path.relpath(path, tree) in own_links:
                return to
            before, root, rest = to.partition(f"/{_ROOT}{self.folder}")
            to = f"{self.folder}{rest}" if root and is_in(before, str(self.store)) else to
            return place.redirect(to)

        self._copied(Copying(tree, place.copy, f"{self._links()[1]}/{name}", mounted=False, link_target=led))
        if is_left:
            if spec.brought:
                paths = [path[len(self.folder) + 1 :] for path in spec.brought if is_in(path, self.folder)]
                copy_paths(self._tree(LEFT), place.copy, paths)
            shutil.copytree(self._tree(f"{LEFT}-{FILES}"), place.own_files, symlinks=True, dirs_exist_ok=True)

    def _need_first_copy_unchanged(self, place: Place) -> None:
        """Raise StorageError if a run without mounts wrote, past Python, through a link to the copy that all share."""
        for path in _newer(self._tree(FOUND), self.began(place), self.folder) if place.root else ():
            raise StorageError(
                f"a program or library in C wrote to {shown_path(path)}, of which all runs share one copy: "
                f"the folder has more than {MOST_FILES:,} files, or {shown_bytes(MOST_BYTES)}",
                "leave what is large where it is with --share PATH, so that the rest is copied for every run",
            )

    def prefix(self, place: Place) -> list[str]:
        """Return the words before the command that give it mounts of its own; empty where it has none."""
        has_mounts = place.copy and not place.root
        return [*enter.PROGRAM, os.path.join(place.work, _MOUNTS)] if has_mounts else []

    # ---- what runs leave

    def keep(self, place: Place, number: int) -> None:
        """Keep the files that a run has left, instead of those kept before."""
        if not place.copy:
            return
        left, files = self._tree(LEFT), self._tree(f"{LEFT}-{FILES}")
        for path in (left, files):
            remove(path)
        os.rename(place.copy, left)
        # As hard links: the run folder keeps these files, too.
        shutil.copytree(place.own_files, files, symlinks=True, copy_function=os.link)
        self.left_by = number

    def note_names(self, place: Place) -> None:
        """Note the names of what a whole run without our pins has left."""
        self.names = frozenset(_paths_below(place.copy)).union(self.names or ())

    def remove_left(self, paths: Collection[str]) -> None:
        """Remove some of the files that are kept for later runs."""
        for path in paths:
            remove(self._tree(LEFT) + path[len(self.folder) :])

    def prepare(self, place: Place, made: Collection[str]) -> None:
        """Let later runs begin with these files, as this run has left them, in addition to those of the folder."""
        prepared = self._tree(PREPARED)
        self._copied(Copying(self._tree(FOUND), prepared, f"{self._links()[1]}/{FOUND}", mounted=False))
        for path in made:
            target = prepared + path[len(self.folder) :]
            remove(target)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.link(place.copy + path[len(self.folder) :], target, follow_symlinks=False)
        self.prepared = frozenset(made)

    def forget_prepared(self) -> None:
        """Let later runs begin with the folder as the command found it."""
        self.prepared = frozenset()
        remove(self._tree(PREPARED))

    def began(self, place: Place) -> float:
        """Return when the copy of a run was complete (seconds, as `time.time`): the run made every later change."""
        # By the ctime, which no program can set: the mtime of a copy is that of its original.
        return os.lstat(os.path.join(place.work, _BEGAN)).st_ctime

    def changed(self, place: Place) -> list[str]:
        """Return the files that a run has made or changed in its copy, as paths in the user's folder."""
        return list(_newer(place.copy, self.began(place), self.folder)) if place.copy else []

    def products(self, place: Place, reached: Collection[str]) -> dict[str, Path]:
        """Return the files that a run has made: path for the user → where it lies while the place of the run exists.

        `reached` are files outside its copy that the run wrote.
        """
        files = {path: Path(place.copy + path[len(self.folder) :]) for path in self.changed(place)}
        own_files = place.own_files
        files |= {f"{{run}}/{path.relative_to(own_files)}": path for path in own_files.rglob("*")}
        # Without mounts, a new file next to the folder lies next to the copy.
        outside = {path: Path(place.root + path) for path in reached}
        return files | {path: copy if copy.exists() else Path(path) for path, copy in outside.items()}

    def changed_before(self, place: Place, moment: float) -> dict[str, float]:
        """Return those changed files that were last written before a moment → the time (seconds, as `time.time`)."""
        times = {path: os.lstat(place.path_outside(place.root + path)).st_mtime for path in self.changed(place)}
        return {path: time for path, time in times.items() if time < moment}

    def close(self) -> None:
        """Remove everything but the recordings."""
        clear(self.home)


def _newer(copy: str, began: float, folder: str) -> Iterator[str]:
    for where, _, names in os.walk(copy):
        for name in names:
            path = os.path.join(where, name)
            with suppress(OSError):
                if os.lstat(path).st_ctime > began and "__pycache__" not in path:
                    yield folder + path[len(copy) :]


def _paths_below(folder: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*")}


def clear(home: Path) -> None:
    """Remove what only running runs need from a folder whose command has ended, in whatever way."""
    for path in (*home.glob("work-*"), home / TREES, *temporary_of(home)):
        remove(path)


def clear_others(homes: Path) -> None:
    """Call `clear` for every folder of ours whose command does not run any more."""
    for home in homes.iterdir():
        if OWN_NAME.fullmatch(home.name) and not home.is_symlink() and not is_busy(home):
            clear(home)


def temporary_of(home: Path) -> list[Path]:
    """Return where the runs in this home may have their folder for temporary files, in order of preference."""
    name = blake2b(os.fsencode(os.path.abspath(home)), digest_size=8).hexdigest()
    places = dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", str(home)))
    return [Path(os.path.realpath(place)) / f"samebits-{name}" for place in places]


def shared_paths(folder: str, given: Collection[str]) -> frozenset[str]:
    """Return the absolute paths in the folder that are shared; what lies outside it is never copied anyway.

    Raises:
        StorageError: one of them does not exist.
    """
    paths = frozenset(os.path.normpath(os.path.join(folder, path)) for path in given)
    for path in sorted(paths):
        if not os.path.lexists(path):
            raise StorageError(f"--share {path}: there is no such file or folder", "name one in the working folder")
    return frozenset(path for path in paths if is_in(path, folder))


@cache
def can_mount() -> bool:
    """Whether this system lets a process have mounts of its own; tested only once."""
    if not sys.platform.startswith("linux") or os.environ.get(WITHOUT_MOUNTS):
        return False
    trial = json.dumps({"mounts": [("/tmp", "/tmp", True)], "start": "/"}).encode()
    with suppress(OSError, subprocess.TimeoutExpired):
        words = [*enter.PROGRAM, "/dev/stdin", "true"]
        return not subprocess.run(words, input=trial, capture_output=True, timeout=30, check=False).returncode
    return False


def _surrounded_by_links(place: Place) -> Place:
    """Return the place of a run without mounts: around its copy, links lead to what lies around the folder.

    So `../data` is found from the copy, too.
    """
    root, path = os.path.join(place.work, _ROOT), place.folder
    os.makedirs(f"{root}{os.path.dirname(path)}")
    while path != os.sep:
        parent, base = os.path.split(path)
        with suppress(OSError):
            for name in os.listdir(parent):
                if name != base:
                    os.symlink(os.path.join(parent, name), f"{root}{os.path.join(parent, name)}")
        path = parent
    return replace(place, copy=f"{root}{place.folder}", root=root)
