"""Call sites: the line of the user's code that led to an event inside a library."""

from __future__ import annotations

import gc
import linecache
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType, ModuleType


@dataclass(frozen=True)
class Site:
    """A line in the user's code.

    Attributes:
        path: absolute path of the source file (or `<string>` for `python -c`).
        line: number of the line, from 1.
        function: qualified name as far as Python knows it; `<module>` at the top level.
        noted: the source line as it was when it ran; None where it is to be read from the file. A document can name
            any path, so for a site that comes from a document no file is read.
    """

    path: str
    line: int
    function: str = ""
    noted: str | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> tuple[str, int]:
        """The identity of a site: path and line, without the name of the function."""
        return (self.path, self.line)

    @property
    def source(self) -> str:
        """The stripped source line, empty when the file cannot be read."""
        return linecache.getline(self.path, self.line).strip() if self.noted is None else self.noted

    @property
    def place(self) -> str:
        """The site as it is shown to people, such as `train.py:31`."""
        return f"{shown_path(self.path)}:{self.line}"

    def as_note(self) -> dict[str, str | int]:
        """Return plain data with the source line as it is now: the file may be edited before the line is shown."""
        return {"path": self.path, "line": self.line, "function": self.function, "source": self.source}

    @classmethod
    def from_note(cls, note: Mapping[str, object]) -> Site:
        """Return the site that `as_note` turned into plain data; ValueError where the data is no site."""
        path, line = note.get("path"), note.get("line")
        if not isinstance(path, str) or not isinstance(line, int):
            raise ValueError(f"{note!r} is not a place in code")
        return cls(path, line, str(note.get("function", "")), str(note.get("source", "")))


# In a run in a copy of the working folder: the user's own folder, and how a path that the run sees is called there.
_folder = ""
_home_of: Callable[[str], str] | None = None


def report_as_of(folder: str, home_of: Callable[[str], str]) -> None:
    """From now on, report sites in a copy of the working folder as sites in the folder itself."""
    global _folder, _home_of
    _folder, _home_of = folder, home_of


def is_in_copy() -> bool:
    """Whether this process belongs to a run that was started in a copy of the working folder."""
    return _home_of is not None


def user_file_path(path: str) -> str:
    """Return an absolute path; one that leads into a copy of the working folder, as the path in the folder itself."""
    return path if _home_of is None else _home_of(path)


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path relative to the working folder when the file lies in it, else as it is; it is never abbreviated."""
    given = os.fspath(path)
    relative = os.path.relpath(given, _folder or None) if os.path.isabs(given) else given
    return given if relative == os.pardir or relative.startswith(os.pardir + os.sep) else relative


# The package's own folder is compared as a prefix of file names; the trailing separator keeps siblings out.
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _library_folders() -> tuple[str, ...]:
    paths = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
    # Inside a virtual environment `stdlib` may point into it; the real library lies where `os` was loaded from.
    given = {os.path.dirname(os.__file__), *filter(None, paths)}
    return tuple(sorted(path + os.sep for path in given.union(map(os.path.realpath, given))))


_LIBRARIES = _library_folders()
# Packages of another Python, and files that torch.compile wrote.
_ELSEWHERE = tuple(f"{os.sep}{part}" for part in (f"site-packages{os.sep}", f"dist-packages{os.sep}", "torchinductor_"))
_known: dict[str, bool] = {}


# The file name in frames of the import machinery; they lie between a module that is being imported and its importer.
IMPORTING = "<frozen importlib._bootstrap>"


def is_user_file(path: str) -> bool:
    """Whether a source file is the user's: not of the standard library, not installed, not samebits', not frozen."""
    is_users = _known.get(path)
    if is_users is not None:
        return is_users
    if path.startswith("<"):
        # The code of `python -c` or of a pipe; in a script, `<string>` is code that a library made, as dataclasses do.
        return path in ("<string>", "<stdin>") and getattr(sys.modules["__main__"], "__file__", path) == path
    full = os.path.abspath(path)
    elsewhere = any(part in full for part in _ELSEWHERE)
    is_users = _known[path] = not (elsewhere or full.startswith(_OWN) or full.startswith(_LIBRARIES))
    return is_users


def is_own_file(path: str) -> bool:
    """Whether a source file is samebits' own."""
    return path.startswith(_OWN)


def foreign_frame() -> FrameType:
    """Return the nearest frame outside samebits; some code outside always calls samebits."""
    frame = sys._getframe(1)
    while is_own_file(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def user_site(start: FrameType | None = None) -> Site | None:
    """Return the site of the nearest frame of the user's code, walking outwards; None when a library acted on its own.

    A library also acts on its own while it is imported: the user's line asked for the import and nothing else.

    Args:
        start: the frame to begin at, by default the caller's.
    """
    current: FrameType | None = start or sys._getframe(1)
    while current is not None:
        path = current.f_code.co_filename
        if path == IMPORTING:
            return None
        if is_user_file(path):
            return site_of(current)
        current = current.f_back
    return None


def thread_frames() -> dict[int, FrameType]:
    """Return the innermost frame of every thread by its identifier."""
    # `_current_frames` holds an interpreter lock, for which a `threading.local` that is collected waits (gh-106883).
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if is_collecting:
            gc.enable()


def waiting_site() -> Site | None:
    """Return the user's line at which the main thread is: a call of backward waits there for autograd's threads."""
    frame = thread_frames().get(threading.main_thread().ident or 0)
    return None if frame is None else user_site(frame)


def called_by_user() -> str:
    """Return the function that the user's line called to get here, such as `glob.glob`; empty where no library did."""
    outermost, current = None, sys._getframe(1)
    while not is_user_file(current.f_code.co_filename):
        path = current.f_code.co_filename
        if path == IMPORTING or current.f_back is None:
            return ""
        outermost = outermost if path.startswith(_OWN) else current
        current = current.f_back
    return "" if outermost is None else _public_name(outermost)


def _public_name(frame: FrameType) -> str:
    """Return the name of a library's function without the parts that are private to the library."""
    code = frame.f_code
    module = str(frame.f_globals.get("__name__", ""))
    function = str(getattr(code, "co_qualname", code.co_name)).partition(".<locals>")[0]
    if module == "glob" and "Globber" in function:
        # From Python 3.13 on, this class searches folders for pathlib.
        return "pathlib.Path.glob"
    *owners, last = [*module.split("."), *function.split(".")]
    names = [name for name in owners if not name.startswith("_")]
    return ".".join(names if last.startswith(("__", "<")) else [*names, last.lstrip("_")])


def leave_out_own_frames(error: BaseException) -> None:
    """Cut our frames off the start of an exception's traceback; from Python 3.11, a bare `raise` then adds none."""
    trace = error.__traceback__
    while trace is not None and is_own_file(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    error.with_traceback(trace)  # also of an exception whose class lets nobody set attributes


class _WithoutOwnFrames:
    """A context manager: exceptions leave its block without the frames of samebits."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            leave_out_own_frames(error)


without_own_frames = _WithoutOwnFrames()


def error_site(error: BaseException) -> Site | None:
    """Return the user's line nearest to where an exception was raised; None if it passed through no such line."""
    site, trace = None, error.__traceback__
    while trace is not None:
        if is_user_file(trace.tb_frame.f_code.co_filename):
            site = site_of(trace.tb_frame, trace.tb_lineno)
        trace = trace.tb_next
    return site


def site_of(frame: FrameType, line: int | None = None) -> Site:
    """Return the line that a frame is at, also when the code is not the user's."""
    code = frame.f_code
    path = code.co_filename
    absolute = path if path.startswith("<") else user_file_path(os.path.abspath(path))
    return Site(absolute, line or frame.f_lineno, getattr(code, "co_qualname", code.co_name))


def user_modules() -> list[ModuleType]:
    """Return the modules loaded so far whose source is the user's."""
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    return [m for m in modules if m.__name__ == "__main__" or is_user_file(_file_of(m))]


def user_files() -> list[str]:
    """Return the user's source files: the script and the modules loaded so far, for static analysis."""
    files = {user_script(), *(_file_of(module) for module in user_modules())}
    return sorted(
        {user_file_path(os.path.abspath(path)) for path in files if path.endswith(".py") and is_user_file(path)}
    )


def user_script() -> str:
    """Return the file that this process runs as `__main__`; empty when it is not the user's, or no file."""
    main = sys.modules.get("__main__")
    # Python deletes `__file__` before exit handlers run; the loader keeps the name.
    path = str(getattr(main, "__file__", None) or getattr(getattr(main, "__loader__", None), "path", None) or "")
    return user_file_path(os.path.abspath(path)) if path and os.path.isfile(path) and is_user_file(path) else ""


def _file_of(module: ModuleType) -> str:
    # Not getattr: for an attribute that is missing, a module's own `__getattr__` may import others.
    return str(vars(module).get("__file__") or "<built-in>")
