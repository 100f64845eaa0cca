"""Workspace: the user's working folder as a command found it, and a copy of it for every run.

    trees/found       as the command found it; every run begins with a copy of this
    trees/prepared    the same with what the first run made before its first step, where that took long
    trees/left        as one run left its copy
    work-1, work-2 …  a run's copy, its folder `{run}`, what has mounts

Where the system lets a process have mounts of its own, each run sees its copy at the path of the original, and nothing
of samebits in it; so runs made at once are as if each were alone. Elsewhere copies lie outside the folder, where a run
that goes through all of it does not come upon them, and `Place` says what they are called there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from pathlib import Path

from samebits.base.errors import StorageError
from samebits.base.sites import shown_path
from samebits.runfolder.folder import is_busy
from samebits.runfolder.removal import MARK, OWN_NAME, is_own, remove
from samebits.runfolder.spec import RunSpec
from samebits.workspace import enter
from samebits.workspace.place import FILES, Isolation, Place, is_in
from samebits.workspace.trees import MOST_BYTES, MOST_ENTRIES, MOST_FILES, OWN, SHARE, Copying, Survey, bring, volume

# Set to anything, runs in copies have no mounts of their own: for scripts that call sudo or ssh, say.
WITHOUT_MOUNTS = "SAMEBITS_NO_MOUNTS"
# Copies of more bytes than this are worth a word.
LARGE_BYTES = 5 * 10**8
TREES, _ROOT, _COPY, _MOUNTS, _BEGAN = "trees", "root", "copy", "mounts.json", "began"
FOUND, PREPARED, LEFT = "found", "prepared", "left"


class Workspace:
    """Gives every run of a command its place, and takes it back.

    Args:
        home: the folder for the runs; ours.
        isolation: `copy` gives each run a copy of the working folder; `none` lets all of them begin in the folder.
        share: paths in the folder that copies show as they are.
        replaced: files in the folder → what copies hold in their place.
        announce: is called with what people should know while much is copied.

    Attributes:
        folder: the working folder.
        temporary: where runs have their temporary files, and mounts; outside the folder.
        store: where copies lie.
        survey: what a copy holds.
        left_by: number of the run whose folder was kept; None where none was.
        prepared: the files of the user's folder that the first run has prepared, and that copies begin with.
    """

    def __init__(
        self,
        home: Path,
        isolation: Isolation = "copy",
        share: Sequence[str] = (),
        replaced: Mapping[str, bytes] | None = None,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.home, self.isolation, self.folder = home, isolation, os.getcwd()
        self.shared = shared_paths(self.folder, share)
        self.left_by: int | None = None
        self.prepared = frozenset[str]()
        self.survey = Survey()
        self._slots = set[int]()
        self._lock = threading.Lock()
        # Short: names of sockets have 108 bytes at most (unix(7)).
        places = list(filter(is_own, temporary_of(home)))
        # Everything lies in the root folder, of which there are no copies.
        self.temporary = next((path for path in places if not is_in(str(path), self.folder)), places[0])
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
        """Whether runs see their copies at the path of the folder."""
        return self.isolation == "copy" and can_mount()

    def _find(self, announce: Callable[[str], None]) -> None:
        """Keep the folder as it is now."""
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
            announce(f"note: every run gets a copy of {volume(copied)}{links}; {SHARE}")

    def found(self, path: str) -> bytes | None:
        """A file of the folder as the command found it; None where copies hold no copy of it."""
        own = Path(self._tree(FOUND) + path[len(self.folder) :])
        is_used = any(is_in(path, one) for one in (*self.survey.used, *self.survey.whole))
        is_there = self.isolation == "copy" and is_in(path, self.folder) and not is_used
        return own.read_bytes() if is_there and own.is_file() and not own.is_symlink() else None

    def _replace(self, path: str, content: bytes) -> None:
        """Let copies hold something else in the place of a file."""
        own = Path(self._tree(FOUND) + path[len(self.folder) :])
        remove(own)
        own.write_bytes(content)
        shutil.copymode(path, own)

    def _copied(self, copying: Copying) -> Survey:
        try:
            return copying.made()
        except OSError as error:
            raise StorageError(
                f"cannot copy {self.folder} to {copying.target}: {error.strerror}",
                "leave what is large where it is with --share PATH, or choose another place with --out",
            ) from error

    def _tree(self, name: str) -> str:
        return str(self.store / TREES / name)

    def _links(self) -> tuple[str, str]:
        """Where runs read what is too large to be copied: of the user's folder, and of our own trees.

        Without mounts a program that a script starts could write to whatever a link leads to: no link leads to the
        folder, so the first copy holds all of it, and runs have links to that.
        """
        if self.is_mounted:
            return str(self.temporary / "origin"), str(self.temporary / TREES)
        return "", str(self.store / TREES)

    # ---- the place of a run

    @contextmanager
    def place_for(self, spec: RunSpec) -> Iterator[Place]:
        """Where a run is to happen; afterwards its copy is gone, unless it was kept."""
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
        place = self._mounted(place) if self.is_mounted else _linked(place)
        self._fill(place, spec)
        (work / _BEGAN).touch()
        return place

    def _mounted(self, place: Place) -> Place:
        """The place of a run that sees its copy at the path of the folder."""
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
            *((path, copy + path[len(self.folder) :], True) for path in self.survey.whole),
            *((path, copy + path[len(self.folder) :], False) for path in self.survey.used),
            # Last: it hides the folder itself.
            (copy, self.folder, False),
        ]
        Path(place.work, _MOUNTS).write_text(json.dumps({"mounts": mounts, "start": self.folder}), encoding="utf-8")
        return replace(place, files=seen[FILES], copy=copy, seen_home=seen["home"], temporary=seen["tmp"])

    def _fill(self, place: Place, spec: RunSpec) -> None:
        """The copy, as the run is to find it."""
        is_left = spec.begins == LEFT and self.left_by is not None
        name = LEFT if is_left and not spec.brought else PREPARED if spec.begins != "found" and self.prepared else FOUND
        # What copies hold a link to, or a place to mount it at.
        shown = (*self.survey.linked, *self.survey.whole, *self.survey.used)
        ours = {os.path.relpath(path, self.folder) for path in shown}
        tree = self._tree(name)

        def led(path: str, to: str) -> str:
            if not os.path.isabs(to) or os.path.relpath(path, tree) in ours:
                return to
            before, found, own = to.partition(f"/{_ROOT}{self.folder}")
            to = f"{self.folder}{own}" if found and is_in(before, str(self.store)) else to
            return place.led(to)

        self._copied(Copying(tree, place.copy, f"{self._links()[1]}/{name}", mounted=False, led=led))
        if is_left:
            if spec.brought:
                paths = [path[len(self.folder) + 1 :] for path in spec.brought if is_in(path, self.folder)]
                bring(self._tree(LEFT), place.copy, paths)
            shutil.copytree(self._tree(f"{LEFT}-{FILES}"), place.own_files, symlinks=True, dirs_exist_ok=True)

    def _need_first_copy_unchanged(self, place: Place) -> None:
        """Without mounts a run that wrote through a link, past Python, has changed what later ones would begin with."""
        for path in _newer(self._tree(FOUND), self.began(place), self.folder) if place.root else ():
            raise StorageError(
                f"a program or library in C wrote to {shown_path(path)}, which all runs read from one copy: "
                f"the folder has more than {MOST_FILES:,} files, or {volume(MOST_BYTES)}",
                "leave what is large where it is with --share PATH, so that the rest is copied for every run",
            )

    def prefix(self, place: Place) -> list[str]:
        """What stands before the command, so that it has mounts of its own."""
        has_mounts = place.copy and not place.root
        return [*enter.PROGRAM, os.path.join(place.work, _MOUNTS)] if has_mounts else []

    # ---- what runs leave

    def keep(self, place: Place, number: int) -> None:
        """Keep what this run has left, in place of what another one left."""
        if not place.copy:
            return
        left, files = self._tree(LEFT), self._tree(f"{LEFT}-{FILES}")
        for path in (left, files):
            remove(path)
        os.rename(place.copy, left)
        # The run has them, too.
        shutil.copytree(place.own_files, files, symlinks=True, copy_function=os.link)
        self.left_by = number

    def prepare(self, place: Place, made: Collection[str]) -> None:
        """From now on runs begin with these files as this one has left them, besides those of the folder."""
        prepared = self._tree(PREPARED)
        self._copied(Copying(self._tree(FOUND), prepared, f"{self._links()[1]}/{FOUND}", mounted=False))
        for path in made:
            own = prepared + path[len(self.folder) :]
            remove(own)
            os.makedirs(os.path.dirname(own), exist_ok=True)
            os.link(place.copy + path[len(self.folder) :], own, follow_symlinks=False)
        self.prepared = frozenset(made)

    def forget_prepared(self) -> None:
        """Runs begin as the command found the folder."""
        self.prepared = frozenset()
        remove(self._tree(PREPARED))

    def began(self, place: Place) -> float:
        """When the copy of a run was whole (seconds, as `time.time`): what has become what it is later, it has made."""
        # Copies have the times of what they are copies of; when a file became what it is nobody can set.
        return os.lstat(os.path.join(place.work, _BEGAN)).st_ctime

    def changed(self, place: Place) -> list[str]:
        """The files that a run has made or changed in its copy, as paths in the user's folder."""
        return list(_newer(place.copy, self.began(place), self.folder)) if place.copy else []

    def products(self, place: Place, reached: Collection[str]) -> dict[str, Path]:
        """What a run has made and left, as the user calls it → where it lies as long as its place is there.

        Args:
            place: of the run.
            reached: files outside its copy that it wrote.
        """
        found = {path: Path(place.copy + path[len(self.folder) :]) for path in self.changed(place)}
        own = place.own_files
        found |= {f"{{run}}/{path.relative_to(own)}": path for path in own.rglob("*")}
        # Without mounts, what is new beside the folder lies beside the copy.
        beside = {path: Path(place.root + path) for path in reached}
        return found | {path: own if own.exists() else Path(path) for path, own in beside.items()}

    def changed_before(self, place: Place, moment: float) -> dict[str, float]:
        """Those among them that were last written before a moment, each with its time (seconds, as `time.time`)."""
        times = {path: os.lstat(place.outside(place.root + path)).st_mtime for path in self.changed(place)}
        return {path: time for path, time in times.items() if time < moment}

    def close(self) -> None:
        """Take away everything but the recordings."""
        clear(self.home)


def _newer(copy: str, began: float, folder: str) -> Iterator[str]:
    for where, _, names in os.walk(copy):
        for name in names:
            path = os.path.join(where, name)
            with suppress(OSError):
                if os.lstat(path).st_ctime > began and "__pycache__" not in path:
                    yield folder + path[len(copy) :]


def clear(home: Path) -> None:
    """Remove what only running runs need, from a folder whose command has ended, however it did."""
    for path in (*home.glob("work-*"), home / TREES, *temporary_of(home)):
        remove(path)


def clear_others(homes: Path) -> None:
    """`clear` every folder of ours whose command was killed."""
    for home in homes.iterdir():
        if OWN_NAME.fullmatch(home.name) and not home.is_symlink() and not is_busy(home):
            clear(home)


def temporary_of(home: Path) -> list[Path]:
    """Where the folder for temporary files of the runs in this home may be; the first one that is not in the way."""
    name = blake2b(os.fsencode(os.path.abspath(home)), digest_size=8).hexdigest()
    places = dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", str(home)))
    return [Path(os.path.realpath(place)) / f"samebits-{name}" for place in places]


def shared_paths(folder: str, given: Collection[str]) -> frozenset[str]:
    """The paths in the folder that are shared, absolute; what lies beside it is never copied anyway.

    Raises:
        StorageError: one of them is not there.
    """
    found = frozenset(os.path.normpath(os.path.join(folder, path)) for path in given)
    for path in sorted(found):
        if not os.path.lexists(path):
            raise StorageError(f"--share {path}: there is no such file or folder", "name one in the working folder")
    return frozenset(path for path in found if is_in(path, folder))


@cache
def can_mount() -> bool:
    """Whether this system lets a process have mounts of its own; tried once."""
    if not sys.platform.startswith("linux") or os.environ.get(WITHOUT_MOUNTS):
        return False
    trial = json.dumps({"mounts": [("/tmp", "/tmp", True)], "start": "/"}).encode()
    with suppress(OSError, subprocess.TimeoutExpired):
        words = [*enter.PROGRAM, "/dev/stdin", "true"]
        return not subprocess.run(words, input=trial, capture_output=True, timeout=30, check=False).returncode
    return False


def _linked(place: Place) -> Place:
    """The place of a run that has no mounts: links lead to what stands beside the folder, and what it lies in.

    So `../data` is found from the copy, too.
    """
    root, path = os.path.join(place.work, _ROOT), place.folder
    os.makedirs(f"{root}{os.path.dirname(path)}")
    while path != os.sep:
        parent, own = os.path.split(path)
        with suppress(OSError):
            for name in os.listdir(parent):
                if name != own:
                    os.symlink(os.path.join(parent, name), f"{root}{os.path.join(parent, name)}")
        path = parent
    return replace(place, copy=f"{root}{place.folder}", root=root)
