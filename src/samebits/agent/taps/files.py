"""The tap of files: what a run looks for, what it leaves to the next run, and what it reaches outside its copy.

A path that was looked for and is written later is noted with both lines: the next run may behave differently there.
Ports, and files written outside the working folder, are noted, since no copy keeps them from other runs.

Sources are Python's audit events, and the files that torch, safetensors (`agent.taps.saving`) and HDF5
(`agent.taps.hdf5`) open in C. Files of the user's stay unchanged (`agent.taps.keeping`).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from samebits.agent.handlers import is_of_handler
from samebits.agent.taps.growth import GrowingFiles
from samebits.agent.taps.hdf5 import watch_hdf5
from samebits.agent.taps.keeping import RefusedError, refuse_to_change, refuse_to_look, replace_link_by_copy
from samebits.agent.taps.outside import OutsideNoted
from samebits.base.sites import Site, foreign_frame, user_site
from samebits.factors.file_order import KEEPERS
from samebits.factors.patching import PatchedFunction
from samebits.runfolder.notes import Carried, Journal, Logged, Reached, Wrote
from samebits.workspace.place import Place, is_in

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
# The file begins empty, whatever was there.
_ANEW = os.O_TRUNC | os.O_EXCL
# Paths that are not the script's own: of the system, of Python's compiled source files, and of compilers' caches, which
# are named by their source.
_ELSEWHERE = ("/dev/", "/proc/", "/sys/")
_SHARED_MEMORY = "/dev/shm/"
_MADE_UP, _WITHOUT_NAME = ("psm_", "pym-", "torch_", "sem."), " (deleted)"
_NOT_DATA = ("__pycache__", "torchinductor_", f"{os.sep}.triton{os.sep}", f"{os.sep}site-packages{os.sep}")
# So many paths that the run looked for are remembered; and so many notes of either sort are written.
_MOST_ASKED, MOST_NOTES = 10_000, 1_000

# Files whose content was digested as it was saved.
digested_files: set[str] = set()
_watching: list[FilesWatched] = []


class _ThreadActivity(threading.local):
    """The state of a thread: whether it is in this tap, and its saves and loads under way."""

    is_busy = False  # it runs code of this tap, which opens files, too

    def __init__(self) -> None:
        # Calls under way that save or load: whether the content is digested, and the `SaveOrLoad` to report.
        self.calls: list[tuple[bool, object]] = []

    @property
    def is_saving(self) -> bool:
        """Whether the thread is in a function that saves, which opens files itself."""
        return any(is_saving for is_saving, _ in self.calls)


activity = _ThreadActivity()


def look_into(path: str, is_opened: bool) -> bool:
    """Note that a library is about to write a file whose content is digested; it opens the file itself, or `is_opened`.

    True where the file is made before the first step, after something was missing: a run that finds it makes none, so
    it is what the script is going to work with, and no product of the training.
    """
    if not path:
        return False
    is_preparation = any(watched.misses_something and not watched.steps() for watched in _watching)
    digested_files.add(path)
    if not is_opened:
        writes(path)
    return is_preparation


def writes(path: str) -> None:
    """Note that a library is about to write a file without Python; OSError where that would change the user's own."""
    for watched in _watching:
        watched.heard("samebits.writes", (path,))


class FilesWatched:
    """Watches what this process does with files, from now on until it ends.

    If the place has no `home`, no other run looks there, and only files count whose content nobody digests. A run that
    `is_later` begins in what an earlier run has left, so whatever it reads is noted.
    """

    def __init__(self, journal: Journal, place: Place, is_later: bool) -> None:
        self._journal, self._place, self._is_later = journal, place, is_later
        # Folders in which a run may do as it likes, since no other run looks there.
        folders = (place.seen_home or place.home, place.temporary, place.files)
        self._own = tuple(folder + os.sep for folder in folders if folder)
        self._exists = os.path.lexists
        # How many steps were done; 0 before anybody counts them.
        self.steps: Callable[[], int] = lambda: 0
        self.misses_something = False
        # Files that the program's own lines opened to write to since recording began; None before that.
        self._opened_to_write: dict[str, None] | None = None
        self._unnamed = (str(journal.folder) + os.sep, "/dev/", "/proc/")
        self._asked: dict[str, tuple[str, Site | None, int]] = {}
        # Path → the line that wrote there first; and the paths whose whole content this run wrote.
        self._written: dict[str, Site | None] = {}
        self._written_whole, self._noted = set[str](), set[str]()
        self.growing = GrowingFiles()
        self._outside = OutsideNoted(journal, place)
        self._texts: dict[str, None] = {}
        self._acts = self._all_acts() if place.home else {"open": self._opens_to_write}

    def _all_acts(self) -> dict[str, Callable[..., None]]:
        """Return what is done at each audit event; `samebits.writes` is our own."""
        return {
            "open": self._opened,
            **dict.fromkeys(("os.listdir", "os.scandir"), self._lists),
            "os.mkdir": self._on((self._makes_folder, 0, 2)),
            "os.rename": self._on((self._moves, 0, 2), (self._names, 1, 3)),
            **dict.fromkeys(("os.remove", "os.rmdir"), self._on((self._removes, 0, 1))),
            "os.link": self._on((self._touches, 0, 2), (self._makes, 1, 3)),
            "os.symlink": self._on((self._makes, 1, 2)),
            "os.chmod": self._on((self._touches, 0, 2)),
            **dict.fromkeys(("os.utime", "os.chown"), self._on((self._touches, 0, 3))),
            **dict.fromkeys(("os.truncate", "os.setxattr", "os.removexattr"), self._on((self._touches, 0, None))),
            "sqlite3.connect": self._connects,
            "samebits.writes": self._on((self._change, 0, None)),
            "socket.bind": self._binds,
            "mmap.__new__": self._maps,
            "subprocess.Popen": self._outside.starts,
            "os.system": self._outside.starts,
        }

    def _on(self, *acts: tuple[Callable[[str], None], int, int | None]) -> Callable[..., None]:
        """Return a listener that does each act with the path at the given position, in the folder at the other one."""

        def heard(*given: Any) -> None:
            for act, at, folder_at in acts:
                folder = given[folder_at] if folder_at is not None and len(given) > folder_at else -1
                full = _absolute(given[at] if len(given) > at else None, folder)
                if full is not None:
                    act(full)

        return heard

    def install(self) -> None:
        """Begin to watch."""
        sys.addaudithook(self.heard)
        if not self._place.home:
            return
        _watching.append(self)
        watch_hdf5(partial(self.heard, "open"))
        for name in ("stat", "lstat"):
            self._watch_questions(name)
        self._outside.watch_timers(self._quietly)

    def begin_recording(self, steps: Callable[[], int]) -> None:
        """Begin to count steps, and to list files that the program opens to write to."""
        self.steps, self._opened_to_write = steps, {}

    def unseen(self) -> list[str]:
        """Return the files that were written, not digested and are still there, as one would type them."""
        paths = [path for path in self._opened_to_write or () if path not in digested_files and os.path.isfile(path)]
        return [self._as_typed(path) for path in paths]

    def logs(self) -> Logged | None:
        """Return a note of the files that grew while this process trained; None where none did, or nothing else did."""
        logs = self.growing.logs()
        return Logged(tuple(sorted(map(self._place.user_path, logs)))) if logs else None

    def _as_typed(self, path: str) -> str:
        folder = self._place.files
        if folder and is_in(path, folder):
            return "{run}" + path[len(folder) :]
        return os.path.relpath(path) if path.startswith(os.getcwd() + os.sep) else path

    def texts(self) -> list[str]:
        """Return files of the working folder that were there already and were read as text before the first step."""
        paths = [path for path in self._texts if path not in self._written and is_in(path, self._place.start)]
        return [self._place.user_path(path) for path in paths if os.path.isfile(path) and _is_text(path)]

    def heard(self, event: str, arguments: tuple[object, ...]) -> None:
        """Handle an audit event of Python's; OSError where it would change what is the user's own."""
        act = self._acts.get(event)
        if act is not None:
            self._quietly(act, *arguments)

    def _quietly(self, act: Callable[..., None], *arguments: object) -> None:
        if activity.is_busy:
            return
        activity.is_busy = True
        try:
            act(*arguments)
        except RefusedError as error:
            raise error.args[0] from None
        except Exception as error:  # an event that we cannot make sense of is the program's business
            if is_of_handler(error):
                raise
        finally:
            activity.is_busy = False

    # ---- what happens to files

    def _opened(self, path: object, mode: object = None, flags: int = 0, *_: object) -> None:
        full, is_writing = _absolute(path), bool(flags & _WRITING)
        self._opens_to_write(path, mode, flags)
        # A file without a name (O_TMPFILE) is opened by its folder.
        if full is None or (is_writing and os.path.isdir(full)):
            return
        if not flags & (_ANEW | os.O_WRONLY) and self._is_noted(full):
            self._ask("listed" if os.path.isdir(full) else "read", full)
            # `open` says that it reads, but not whether it reads text: the content shows that.
            if isinstance(mode, str) and full in self._asked and len(self._texts) < MOST_NOTES and not self.steps():
                self._texts[full] = None
        is_new = bool(flags & os.O_EXCL and flags & os.O_CREAT)
        if is_new:
            self._ask("made", full)
        # If the file is there already, the system refuses.
        if is_writing and not (is_new and self._exists(full)):
            self._change(full, is_anew=bool(flags & _ANEW))

    def _opens_to_write(self, path: object, mode: object = None, flags: int = 0, *_: object) -> None:
        opened = self._opened_to_write
        if opened is None or not flags & _WRITING or not isinstance(path, str | os.PathLike) or activity.is_saving:
            return
        name = os.path.abspath(os.fsdecode(path))
        if not name.startswith(self._unnamed) and name not in opened and user_site() is not None:
            opened[name] = None

    def _lists(self, path: object = None, *_: object) -> None:
        full = _absolute("." if path is None else path)
        if full is not None:
            refuse_to_look(self._place, full)
            self._ask("listed", full)

    def _makes(self, full: str) -> None:
        self._ask("made", full)
        self._names(full)

    def _names(self, full: str) -> None:
        self._change(full, follows=False)

    def _moves(self, full: str) -> None:
        self._change(full, is_anew=False, follows=False)

    def _makes_folder(self, full: str) -> None:
        self._ask("made", full)
        if not self._exists(full):
            self._change(full)

    def _removes(self, full: str) -> None:
        if self._exists(full):
            self._names(full)

    def _touches(self, full: str) -> None:
        self._change(full, is_anew=False)

    def _connects(self, path: object, *_: object) -> None:
        name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        if name.startswith("file:"):
            uri = urlsplit(name)
            name = "" if "mode=ro" in uri.query or "immutable=1" in uri.query else unquote(uri.path)
        full = None if name in ("", ":memory:") else _absolute(name)
        if full is not None:
            self._ask("read", full)
            self._touches(full)

    def _binds(self, _: object, address: Any) -> None:
        # Without a number or a name, the system chooses a port that nobody has.
        if isinstance(address, tuple):
            if len(address) > 1 and address[1]:
                self._reach(f"port {address[1]}")
        elif address and not os.fsdecode(address).startswith("\0"):
            self._acts["samebits.writes"](address)

    def _maps(self, fileno: int, *_: object) -> None:
        # Shared memory is opened in C. Names that Python made up are used by nobody else.
        path = os.readlink(f"/proc/self/fd/{fileno}") if fileno >= 0 else ""
        is_made_up = os.path.basename(path).startswith(_MADE_UP) or path.endswith(_WITHOUT_NAME)
        if path.startswith(_SHARED_MEMORY) and not is_made_up:
            self._reach(f"shared memory {os.path.basename(path)}")

    # ---- what is noted

    def _is_noted(self, full: str) -> bool:
        """Whether what is at a path matters to the script, or to other runs."""
        is_elsewhere = full.startswith(_ELSEWHERE) and not full.startswith(_SHARED_MEMORY)
        is_own = full.startswith(self._own) and not is_in(full, self._place.root)
        is_data = not full.endswith(".pyc") and not any(part in full for part in _NOT_DATA)
        return is_data and not is_elsewhere and not is_own

    def _ask(self, how: str, full: str) -> None:
        """Remember that the script looks for a path, unless this run wrote all that is there."""
        # If a path is tested and then read, the line that reads is the one that matters.
        is_known = full in self._asked and not (how == "read" and self._asked[full][0] == "tested")
        if is_known or full in self._written_whole or len(self._asked) >= _MOST_ASKED or not self._is_noted(full):
            return
        site = user_site()
        if site is None:
            return
        self._asked[full] = how, site, self.steps()
        if how == "listed" or (how != "made" and os.path.isfile(full)):
            self._outside.finds(full, site)
        if full in self._written:
            # A file that was appended to has more in it than this run has written.
            self._note(full, self._written[full])
        elif how == "read" and self._is_later:
            self._note(full, None)
        if how != "made" and not self._exists(full):
            self.misses_something = True
            # Others may write the file unseen: programs that the script starts, libraries in C.
            self._note(full, None)

    def _change(self, full: str, is_anew: bool = True, follows: bool = True) -> None:
        """Note or refuse a change that this run is about to make; put a copy where a link leads to the user's file."""
        if full not in self._written:
            refuse_to_change(self._place, full, follows)
        replace_link_by_copy(self._place, full, is_anew)
        if not self._is_noted(full):
            return
        if is_anew:
            self._written_whole.add(full)
        self.growing.opened(full, is_anew)
        if full in self._written:
            return
        self._written[full] = user_site()
        if _is_made_by_tempfile():
            return
        home = self._place.user_path(full)
        if self._written[full] is not None and len(self._written) < MOST_NOTES:
            self._journal.note(Wrote(home, self._written[full], self.steps()))
        if not self._place.copy or not is_in(full, self._place.start) or self._place.is_shared(home):
            self._reach(f"file {home}", goes_on=not is_anew)
        self._note(full, self._written[full])

    def _note(self, full: str, wrote: Site | None) -> None:
        """Note earlier looks at a path, or at the folder in which it lies, if there were any."""
        holder = os.path.dirname(full)
        for path in (full, holder):
            how, site, step = self._asked.get(path, ("", None, 0))
            if not how and len(self._asked) >= _MOST_ASKED:
                how, site = "tested", wrote
            is_due = path == full or how == "listed"
            if site is not None and is_due and len(self._noted) < MOST_NOTES and (wrote or path not in self._noted):
                self._noted.add(path)
                home_of = self._place.user_path
                self._journal.note(Carried(how, home_of(path), home_of(full), site, wrote, step))

    def _reach(self, what: str, goes_on: bool = False) -> None:
        """Note what other runs would meet, too, whatever folder they begin in."""
        if what not in self._noted and len(self._noted) < MOST_NOTES:
            self._noted.add(what)
            self._journal.note(Reached(what, user_site(), goes_on))

    def _watch_questions(self, name: str) -> None:
        """Watch `os.stat` or `os.lstat`, which `os.path.exists` and its like call without an audit event."""
        original = getattr(os, name)
        tests = self._on((lambda full: self._ask("tested", full), 0, 1))

        def asked(path: object, *args: object, **kwargs: Any) -> object:
            folder = kwargs.get("dir_fd")
            self._quietly(tests, path, -1 if folder is None else folder)
            return original(path, *args, **kwargs)

        patched = PatchedFunction("os", name, original, asked)
        setattr(os, name, patched)
        for module, keeper_name in KEEPERS:
            keeper = getattr(sys.modules.get(module), keeper_name, None)
            if getattr(keeper, name, None) is original:
                setattr(keeper, name, staticmethod(patched))


def _absolute(path: object, dir_fd: int = -1) -> str | None:
    """Return the absolute path of what names a path; None where it names none."""
    if isinstance(path, int) or not isinstance(path, str | bytes | os.PathLike):
        return None
    name = os.fsdecode(path)
    if dir_fd is not None and dir_fd >= 0 and not os.path.isabs(name):
        name = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), name)
    return os.path.abspath(name)


def _is_text(path: str) -> bool:
    """Whether a file is text by git's rule: data have a zero among their first bytes."""
    with suppress(OSError), open(path, "rb") as file:
        return b"\0" not in file.read(8000)
    return False


def _is_made_by_tempfile() -> bool:
    """Whether `tempfile` is making up a name right now, which no other run comes upon."""
    return foreign_frame().f_globals.get("__name__") == "tempfile"
