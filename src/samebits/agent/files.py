"""Files that one run writes and a later one reads: noticed as they are opened, listed and asked for.

What a run changes goes into the check's ledger, by any process. What an earlier run has changed and this one looks
at, before it has made it anew itself, is noted with the user's line. Libraries written in C open files unseen, but for
those that `agent.saves` knows.

Before a run changes anything that one beside it would find (a file, a port, whatever another program does), it says so.
A guest, beside which another run goes on in the same folder, ends there.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from samebits.base.sites import is_own_file, user_site
from samebits.factors.file_order import KEEPERS
from samebits.factors.imports import when_loaded
from samebits.factors.patching import PatchedFunction
from samebits.runfolder.ledger import Changed, Ledger, key_of, note_change, note_temporary
from samebits.runfolder.notes import Journal, LeftBehind

_WRITING = os.O_WRONLY | os.O_RDWR
# The file begins anew, whatever was there.
_ANEW = os.O_TRUNC | os.O_EXCL
# Not the script's own: the system's, what Python makes of source files, and compilers' caches, which are distinguished
# from their own source.
_ELSEWHERE = ("/dev/", "/proc/", "/sys/")
# A file system like any other, and people keep data there.
_SHARED_MEMORY = "/dev/shm/"
_MADE_UP, _WITHOUT_NAME = ("psm_", "pym-", "torch_"), " (deleted)"
_NOT_DATA = ("__pycache__", "torchinductor_", f"{os.sep}.triton{os.sep}", f"{os.sep}site-packages{os.sep}")
_MARKS = "anew"
MOST_NOTES = 1_000
_LOCKS = ("fcntl.flock", "fcntl.lockf")
# What another program does is not seen; these tell about the machine, as Python's own `platform` asks.
_TELLING = frozenset(("uname", "hostname", "lscpu", "nproc", "getconf", "ldconfig", "/sbin/ldconfig", "which"))
_PROGRAMS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn")

_busy = threading.local()
_watching: list[FilesWatched] = []


def writes_unseen(path: str) -> None:
    """A library is about to write a file past Python: reported where that is known."""
    for watched in _watching:
        watched.heard("samebits.writes", (path,))


def is_looking() -> bool:
    """Whether this thread is noting what it saw, and opens files of samebits' own."""
    return bool(getattr(_busy, "is_busy", False))


class FilesWatched:
    """Watches what this process does with files, from now on until it ends.

    Args:
        journal: of the process.
        folder: the working folder, the content of whose files is kept before it is overwritten.
        ledger: of the check.
        own: folders in which a run may do as it likes: no other run looks there.
        is_guest: end before anything is changed.
    """

    def __init__(
        self, journal: Journal, folder: str, ledger: Ledger, own: tuple[str, ...], is_guest: bool = False
    ) -> None:
        self._journal, self._folder, self._ledger = journal, folder + os.sep, ledger
        self._own = tuple(one + os.sep for one in own if one)
        self._run = journal.folder.name
        self._exists = os.path.lexists
        self._earlier = {path: one for path, one in ledger.read().items() if one.run != self._run}
        self._holders = {os.path.dirname(path) for path in self._earlier}
        self._known = set(self._earlier)
        self._made = {path for path, one in self._earlier.items() if not one.was_there}
        self._anew: set[str] = set()
        self._temporary: set[str] = set()
        self._is_guest, self._has_said = is_guest, False
        self._noted: set[tuple[str, str]] = set()
        self._acts: dict[str, Callable[..., None]] = {
            "open": self._opened,
            "os.listdir": self._listed,
            "os.scandir": self._listed,
            "os.mkdir": self._makes_folder,
            "os.rename": self._renames,
            "os.remove": self._removes,
            "os.rmdir": self._removes,
            "os.link": self._links,
            "os.symlink": self._links,
            "os.truncate": self._changes,
            "sqlite3.connect": self._connects,
            "samebits.writes": self._writes,
            "socket.bind": self._binds,
            "mmap.__new__": self._maps,
            "subprocess.Popen": self._starts,
            **dict.fromkeys((*_LOCKS, *_PROGRAMS), self._takes),
        }

    def install(self) -> None:
        """Begin; what is asked for without being opened is watched only where an earlier run left something."""
        (self._ledger.folder).mkdir(parents=True, exist_ok=True)
        sys.addaudithook(self.heard)
        _watching.append(self)
        when_loaded("h5py.h5f", self._watch_hdf5)
        if self._earlier:
            for name in ("stat", "lstat"):
                self._watch_questions(name)

    def heard(self, event: str, arguments: tuple[object, ...]) -> None:
        """Whatever Python says it is about to do."""
        act = self._acts.get(event)
        if act is None or getattr(_busy, "is_busy", False):
            return
        _busy.is_busy = True
        try:
            act(*arguments)
        except Exception:  # what we cannot make sense of is the program's business, and goes on
            return
        finally:
            _busy.is_busy = False

    # ---- what happens to files

    def _opened(self, path: object, mode: object = None, flags: Any = 0, *_: Any) -> None:
        is_writing = bool(flags & _WRITING)
        if not (is_writing or self._earlier):
            return
        full = self._full(path)
        # A file without a name is opened by its folder.
        if full is None or (is_writing and os.path.isdir(full)):
            return
        if not flags & (_ANEW | os.O_WRONLY):
            self._note("listed" if os.path.isdir(full) else "read", full)
        if flags & os.O_EXCL and flags & os.O_CREAT:
            self._note("made", full)
        if is_writing:
            self._change(full, is_anew=bool(flags & _ANEW))

    def _listed(self, path: object = None, *_: object) -> None:
        full = self._full("." if path is None or path == "" else path) if self._earlier else None
        if full is not None and (full in self._holders or self._left(full) is not None):
            self._note("listed", full)

    def _makes_folder(self, path: object, mode: object = 0, dir_fd: int = -1, *_: object) -> None:
        full = self._full(path, dir_fd)
        if full is None:
            return
        self._note("made", full)
        if not self._exists(full):
            self._change(full)

    def _renames(self, source: object, target: object, source_fd: int = -1, target_fd: int = -1, *_: object) -> None:
        old, new = self._full(source, source_fd), self._full(target, target_fd)
        if old is not None:
            self._note("read", old)
        for full in (old, new):
            if full is not None:
                self._change(full)

    def _removes(self, path: object, dir_fd: int = -1, *_: object) -> None:
        full = self._full(path, dir_fd)
        if full is not None and self._exists(full):
            self._change(full)

    def _links(self, source: object, target: object, *_: object) -> None:
        full = self._full(target)
        if full is not None:
            self._note("made", full)
            self._change(full)

    def _changes(self, path: object, *_: object) -> None:
        full = self._full(path)
        if full is not None:
            self._change(full, is_anew=False)

    def _connects(self, path: object, *_: object) -> None:
        full = None if path == ":memory:" else self._full(path)
        if full is not None:
            self._note("read", full)
            self._change(full, is_anew=False)

    def _writes(self, path: object) -> None:
        full = self._full(path)
        if full is not None:
            self._change(full)

    def _binds(self, _: object, address: Any) -> None:
        # Without a number or a name, the system chooses what nobody has.
        if isinstance(address, tuple):
            is_chosen = len(address) > 1 and bool(address[1])
        else:
            is_chosen = bool(address) and not self._is_temporary(os.path.abspath(os.fsdecode(address)))
        if is_chosen:
            self._say()

    def _takes(self, *_: object) -> None:
        self._say()

    def _starts(self, program: object, *_: object) -> None:
        if program not in _TELLING:
            self._say()

    def _maps(self, fileno: int, *_: object) -> None:
        # Shared memory is opened in C. Names that Python made up are nobody else's.
        path = os.readlink(f"/proc/self/fd/{fileno}") if fileno >= 0 else ""
        is_made_up = os.path.basename(path).startswith(_MADE_UP) or path.endswith(_WITHOUT_NAME)
        if path.startswith(_SHARED_MEMORY) and not is_made_up:
            self._say()

    # ---- what is made of it

    def _full(self, path: object, dir_fd: int = -1) -> str | None:
        """The absolute path; None where it does not concern us."""
        if isinstance(path, int) or not isinstance(path, str | bytes | os.PathLike):
            return None
        name = os.fsdecode(path)
        if dir_fd is not None and dir_fd >= 0 and not os.path.isabs(name):
            name = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), name)
        full = os.path.abspath(name)
        is_elsewhere = full.startswith(_ELSEWHERE) and not full.startswith(_SHARED_MEMORY)
        if is_elsewhere or full.startswith(self._own):
            return None
        if full.endswith(".pyc") or any(part in full for part in _NOT_DATA):
            return None
        return full

    def _change(self, full: str, is_anew: bool = True) -> None:
        """This run changes what stands there; made anew, it is the run's own from now on."""
        if not self._is_temporary(full):
            self._say()
        if full not in self._known and not self._is_in_made(full):
            self._known.add(full)
            if not self._exists(full):
                self._made.add(full)
            self._ledger.enter(full, self._run, keep=full.startswith(self._folder))
        if is_anew and full not in self._anew:
            self._anew.add(full)
            if self._earlier and self._writer(full) is not None:
                marks = self._journal.folder / _MARKS
                marks.mkdir(exist_ok=True)
                (marks / key_of(full)).touch()

    def _say(self) -> None:
        """Runs beside this one would find what it is about to change."""
        if self._has_said:
            return
        self._has_said = True
        with suppress(OSError):
            note_change(self._journal.folder)
        if self._is_guest:
            # With the command itself, for which the session was made, all the rest is ended from outside.
            with suppress(OSError):
                os.kill(os.getsid(0), signal.SIGKILL)
            os._exit(1)

    def _is_temporary(self, full: str) -> bool:
        """Whether it has a name that `tempfile` has made up, in the folder for that: no other run comes upon it."""
        if full not in self._temporary and not self._exists(full) and _is_in_temporary(full, self._folder):
            self._temporary.add(full)
            if self._is_guest:
                note_temporary(self._journal.folder, full)
        return bool(self._temporary) and not self._temporary.isdisjoint((full, *_parents(full)))

    def _is_in_made(self, full: str) -> bool:
        """Whether it lies in a folder that was not there before the check."""
        return bool(self._made) and any(parent in self._made for parent in _parents(full))

    def _writer(self, full: str) -> Changed | None:
        """Who of the earlier runs changed it first, or made the folder in which it lies."""
        found = self._earlier.get(full)
        if found is None:
            above = (self._earlier[parent] for parent in _parents(full) if parent in self._earlier)
            found = next((one for one in above if not one.was_there), None)
        return found

    def _left(self, full: str) -> Changed | None:
        """Its writer, where it is as an earlier run left it."""
        found = self._writer(full)
        if found is None or full in self._anew or any(parent in self._anew for parent in _parents(full)):
            return None
        # What was made and is gone again is as it was; and another process of this run may have made it anew.
        if not (found.was_there and found.path == full) and not self._exists(full):
            return None
        return None if self._exists(self._journal.folder / _MARKS / key_of(full)) else found

    def _note(self, how: str, full: str) -> None:
        if not self._earlier or (how, full) in self._noted or len(self._noted) >= MOST_NOTES:
            return
        left = self._left(full) if how != "listed" else self._left(full) or self._left_in(full)
        if left is None:
            return
        # Whether it is there is news only where that has changed.
        if how in ("tested", "made") and left.path == full and left.was_there == self._exists(full):
            return
        site = user_site()
        if site is not None:
            self._noted.add((how, full))
            self._journal.note(LeftBehind(how, full, left.number, site, os.path.isdir(full)))

    def _left_in(self, folder: str) -> Changed | None:
        """The first path directly in a folder that an earlier run made or took away."""
        inside = (one for path, one in self._earlier.items() if os.path.dirname(path) == folder)
        return next((one for one in inside if one.was_there != self._exists(one.path) and self._left(one.path)), None)

    def _watch_questions(self, name: str) -> None:
        """`os.path.exists` and its like say nothing of what they ask: they all come to `os.stat` or `os.lstat`."""
        original = getattr(os, name)
        patched = PatchedFunction("os", name, original, self._asking(original))
        setattr(os, name, patched)
        for module, keeper_name in KEEPERS:
            keeper = getattr(sys.modules.get(module), keeper_name, None)
            if getattr(keeper, name, None) is original:
                setattr(keeper, name, staticmethod(patched))

    def _watch_hdf5(self, module: Any) -> None:
        """HDF5 opens its files in C, below h5py's low-level functions (api.h5py.org, Module H5F)."""
        created = os.O_RDWR | os.O_CREAT
        ways = {
            "open": {module.ACC_RDONLY: os.O_RDONLY, module.ACC_RDWR: os.O_RDWR},
            "create": {module.ACC_EXCL: created | os.O_EXCL, module.ACC_TRUNC: created | os.O_TRUNC},
        }
        for name, flags in ways.items():
            original = getattr(module, name)
            opening = self._opening(original, flags)
            setattr(module, name, PatchedFunction(module.__name__, name, original, opening))

    def _opening(self, original: Callable[..., object], flags: dict[int, int]) -> Callable[..., object]:
        *_, usual = flags.values()

        def opening(path: object, *args: Any, **kwargs: Any) -> object:
            asked: Any = args[0] if args else kwargs.get("flags")
            self.heard("open", (path, None, flags.get(asked, usual)))
            return original(path, *args, **kwargs)

        return opening

    def _asking(self, original: Callable[..., object]) -> Callable[..., object]:
        def asked(path: object, *args: object, **kwargs: Any) -> Any:
            if not getattr(_busy, "is_busy", False):
                _busy.is_busy = True
                try:
                    full = self._full(path, kwargs.get("dir_fd") or -1)
                    if full is not None:
                        self._note("tested", full)
                except Exception:
                    pass  # as in `heard`
                finally:
                    _busy.is_busy = False
            return original(path, *args, **kwargs)

        return asked


def _is_in_temporary(full: str, folder: str) -> bool:
    """Whether `tempfile` makes it right now, where it does so by itself and nobody looks."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own_file(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or frame.f_globals.get("__name__") != "tempfile" or full.startswith(folder):
        return False
    chosen, holder = frame.f_globals.get("tempdir"), os.path.dirname(full)
    # `multiprocessing` has what processes share in that folder; before another one is chosen, it is tried out.
    is_shared, is_tried = holder == os.path.dirname(_SHARED_MEMORY), frame.f_code.co_name == "_get_default_tempdir"
    return is_shared or (is_tried if chosen is None else holder == chosen)


def _parents(path: str) -> list[str]:
    """The folders above a path, the nearest one first."""
    found, parent = [], os.path.dirname(path)
    while parent not in ("/", ""):
        found.append(parent)
        parent = os.path.dirname(parent)
    return found
