"""Where the runs of a check happen: in the working folder, or in copies of it put back to the start of the check."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from samebits.checking.facts import Left
from samebits.checking.leftovers import found_at
from samebits.checking.plan import Request
from samebits.checking.verdict import Run
from samebits.factors.catalog import held_by_copies
from samebits.factors.context import Setting
from samebits.launch.copies import Folder, Survey, copy_at, copy_folder, remove, shared_paths
from samebits.runfolder.ledger import FOLDER, Changed, Ledger
from samebits.runfolder.place import FILES, Place, asks_for_run_folder
from samebits.runfolder.plan import RunPlan

# Without being asked, so much is copied for one run to find a cause; more only with --fresh-copy.
MOST_UNASKED_BYTES = 4 * 10**9
MOST_UNASKED_FILES = 200_000
# In the check's folder: what was taken out of the working folder.
ASIDE = "halfway"


class Places:
    """Gives every run its place, and takes it back.

    Runs that do not go on side by side have the same paths, one after the other: a program may make something of them.

    Args:
        request: the check.
        home: its folder.
    """

    def __init__(self, request: Request, home: Path) -> None:
        self.request, self.home = request, home
        self.ledger = Ledger(home / FOLDER)
        self.ledger.folder.mkdir(exist_ok=True)
        self.folder = os.getcwd()
        self.lost: dict[str, None] = {}
        self._free = list(range(request.jobs, 0, -1))
        self._lock = threading.Lock()

    @contextmanager
    def place_for(self, plan: RunPlan, path: Path, runs: Sequence[Run]) -> Iterator[Place]:
        """Where a run is to happen; afterwards its own files are in its run folder, and its copy is gone.

        Args:
            plan: of the run.
            path: its run folder.
            runs: those made so far; what they found says what a copy is to hold.
        """
        with self._lock:
            slot = self._free.pop()
        files = self.home / f"run-{slot}" / FILES
        place = Place(self.folder, str(files), ledger=str(self.ledger.folder))
        setting = setting_of(plan)
        try:
            if setting.mode != "natural":
                place = replace(place, copy=copy_at(self.home, slot, self.folder))
                self._copy(place, setting, runs)
            yield place
        finally:
            if place.copy:
                remove(os.path.dirname(place.copy))
            if asks_for_run_folder(self.request.command.argv):
                _hand_over(files, path / FILES)
            with self._lock:
                self._free.append(slot)

    def judged(self, found: Sequence[Left]) -> tuple[Left, ...]:
        """The same, each with what keeps a copy from being without it."""
        changed = self.ledger.read() if found else {}
        return tuple(replace(left, obstacle=self._obstacle(left.path, changed.get(left.path))) for left in found)

    def written(self) -> list[str]:
        """What runs have made or changed in the working folder, relative to it, and what is there still."""
        found = (os.path.relpath(path, self.folder) for path in self.ledger.read() if os.path.lexists(path))
        return sorted(path for path in found if not path.startswith(os.pardir + os.sep))

    def put_back(self, found: Collection[str] = ()) -> None:
        """The working folder as the check found it, as far as that was kept; what runs have made goes to `ASIDE`.

        Args:
            found: paths elsewhere; what was made there goes away, too.
        """
        changed = self.ledger.read()
        for path, entry in changed.items():
            if not entry.was_there and (self._is_own(path) or path in found):
                self._put_aside(path)
                if not os.path.lexists(path):
                    self.ledger.forget(entry)
        # A folder comes back before what was in it.
        for path in sorted(changed):
            entry = changed[path]
            if not entry.was_there or not self._is_own(path):
                continue
            with suppress(OSError):
                if entry.was == "folder":
                    os.makedirs(path, exist_ok=True)
                elif entry.kept:
                    shutil.copy2(entry.kept, path)
                    self.ledger.forget(entry)

    def _put_aside(self, path: str) -> None:
        """What only seems to be a run's is not lost; what comes to the same path again takes no more of the disk."""
        inside = path.startswith(self.folder + os.sep)
        name = os.path.relpath(path, self.folder) if inside else os.path.basename(path)
        target = self.home / ASIDE / name
        with suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                for one in os.listdir(path):
                    self._put_aside(os.path.join(path, one))
                os.rmdir(path)
            elif os.path.lexists(target):
                os.unlink(path)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, target)

    def _is_own(self, path: str) -> bool:
        """Whether it is in the working folder, and not shared by all runs."""
        is_shared = any(path == one or path.startswith(one + os.sep) for one in self.source.shared)
        return path.startswith(self.folder + os.sep) and not is_shared

    def close(self) -> None:
        """Take away what was kept to put copies back to the start."""
        shutil.rmtree(self.ledger.folder, ignore_errors=True)
        for number in range(1, self.request.jobs + 1):
            remove(str(self.home / f"copy-{number}"))
            with suppress(OSError):
                (self.home / f"run-{number}").rmdir()

    # ---- copies

    @cached_property
    def source(self) -> Folder:
        shared = shared_paths(self.folder, self.request.share)
        return Folder(self.folder, shared, frozenset([str(self.home)]))

    @cached_property
    def survey(self) -> Survey:
        """What one copy takes."""
        return self.source.survey()

    def asked_survey(self) -> Survey | None:
        """What one copy takes, where copies were asked for."""
        return self.survey if any(name in self.request.pins for name in held_by_copies()) else None

    def _copy(self, place: Place, setting: Setting, runs: Sequence[Run]) -> None:
        undo = _Undo(self.ledger.read(), _kept(setting, runs))
        if setting.mode == "varied":
            undo = _Undo({}, ())
        survey = copy_folder(self.source, place.copy, undo.is_absent, undo.before)
        undo.bring_back(place)
        self.lost.update(dict.fromkeys(survey.lost))

    def _obstacle(self, path: str, changed: Changed | None) -> str:
        if not path.startswith(self.folder + os.sep):
            return "it lies outside the working folder, so no copy goes without it"
        if not self._is_own(path):
            return "it is shared by all runs"
        if self.ledger.is_full:
            return "runs changed too many files to put them back; start with --fresh-copy"
        if changed is not None and not changed.can_be_undone:
            return f"the {changed.was} that stood there before was not kept; start with --fresh-copy"
        if self.survey.bytes > MOST_UNASKED_BYTES or self.survey.files > MOST_UNASKED_FILES:
            return "the folder is too large to be copied without being asked; start with --fresh-copy --share DATA"
        return ""


class _Undo:
    """The state of the folder before the check, but for some paths that stay as runs left them."""

    def __init__(self, changed: dict[str, Changed], left: Sequence[str]) -> None:
        self.changed, self.left = changed, set(left)
        # What leads there has to be there, too.
        self._paths = {parent for path in left for parent in _parents(path)}

    def is_absent(self, path: str) -> bool:
        """Whether a run made it, and it is not among those that stay."""
        is_made = any(one in self.changed and not self.changed[one].was_there for one in (path, *_parents(path)))
        return is_made and not self._stays(path) and path not in self._paths

    def before(self, path: str) -> str | None:
        """Where its content from before the check lies, if a run has changed it."""
        changed = self.changed.get(path)
        return changed.kept or None if changed is not None and not self._stays(path) else None

    def bring_back(self, place: Place) -> None:
        """Put there what runs have taken away."""
        for path, changed in self.changed.items():
            target = place.led(path)
            if target == path or self._stays(path) or os.path.lexists(target):
                continue
            if changed.was == "folder":
                os.makedirs(target, exist_ok=True)
            elif changed.kept:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy2(changed.kept, target)

    def _stays(self, path: str) -> bool:
        return path in self.left or os.path.dirname(path) + _INSIDE in self.left


_INSIDE = f"{os.sep}*"


def _kept(setting: Setting, runs: Sequence[Run]) -> list[str]:
    """The paths that were found on the lines that are released; of a folder that was listed, what it holds."""
    found = found_at(runs, setting.released)
    return [one.path + _INSIDE if one.how == "listed" else one.path for one in found]


def _parents(path: str) -> list[str]:
    found, parent = [], os.path.dirname(path)
    while parent not in (os.sep, ""):
        found.append(parent)
        parent = os.path.dirname(parent)
    return found


def _hand_over(files: Path, target: Path) -> None:
    with suppress(OSError):
        files.rename(target)


def setting_of(plan: RunPlan) -> Setting:
    """How a plan treats the folder in which its run starts."""
    return next((plan.settings[name] for name in held_by_copies() if name in plan.settings), Setting())
