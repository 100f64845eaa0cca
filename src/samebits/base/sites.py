"""Call sites: the user's line nearest to something that happened inside a library."""

from __future__ import annotations

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
    """A place in the user's code.

    Attributes:
        path: absolute path of the source file (or `<string>` for `python -c`).
        line: counts from 1.
        function: qualified name as far as Python knows it; `<module>` at the top level.
        noted: the source line as it was when it ran; None where it is to be read from the file. What was sent names
            any path, so a place that comes from a document is never read.
    """

    path: str
    line: int
    function: str = ""
    noted: str | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> tuple[str, int]:
        """What makes two sites the same place: the line, whatever the function is called."""
        return (self.path, self.line)

    @property
    def source(self) -> str:
        """The stripped source line, empty when the file cannot be read."""
        return linecache.getline(self.path, self.line).strip() if self.noted is None else self.noted

    @property
    def place(self) -> str:
        """`train.py:31`, to be shown."""
        return f"{shown_path(self.path)}:{self.line}"

    def as_note(self) -> dict[str, str | int]:
        """Plain data, with the source line as it is now: by the time it is shown the file may have been edited."""
        return {"path": self.path, "line": self.line, "function": self.function, "source": self.source}

    @classmethod
    def from_note(cls, note: Mapping[str, object]) -> Site:
        """What `as_note` made plain data of; ValueError where it is something else."""
        path, line = note.get("path"), note.get("line")
        if not isinstance(path, str) or not isinstance(line, int):
            raise ValueError(f"{note!r} is not a place in code")
        return cls(path, line, str(note.get("function", "")), str(note.get("source", "")))


# Of a run in a copy of the working folder: that folder, and what the user calls a path that the run sees.
_folder = ""
_home_of: Callable[[str], str] | None = None


def report_as_of(folder: str, home_of: Callable[[str], str]) -> None:
    """From now on, tell places in a copy of the working folder as those in the folder itself."""
    global _folder, _home_of
    _folder, _home_of = folder, home_of


def is_in_copy() -> bool:
    """Whether this process belongs to a run that was started in a copy of the working folder."""
    return _home_of is not None


def at_home(path: str) -> str:
    """An absolute path, in the user's own working folder where it leads into a copy of it."""
    return path if _home_of is None else _home_of(path)


def shown_path(path: str | os.PathLike[str]) -> str:
    """Relative to the current folder when the file lies in it, else absolute; never shortened."""
    whole = os.fspath(path)
    relative = os.path.relpath(whole, _folder or None) if os.path.isabs(whole) else whole
    return whole if relative.startswith("..") else relative


# The package's own folder is compared as a prefix of file names; the trailing separator keeps siblings out.
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _library_folders() -> tuple[str, ...]:
    paths = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
    # Inside a virtual environment `stdlib` may point into it; the real library lies where `os` was loaded from.
    given = {os.path.dirname(os.__file__), *filter(None, paths)}
    return tuple(sorted(path + os.sep for path in given.union(map(os.path.realpath, given))))


_LIBRARIES = _library_folders()
# Installed for another Python, and what torch.compile wrote.
_ELSEWHERE = tuple(f"{os.sep}{part}" for part in (f"site-packages{os.sep}", f"dist-packages{os.sep}", "torchinductor_"))
_known: dict[str, bool] = {}


# The import machinery's frames; they lie between a module that is being imported and its importer.
IMPORTING = "<frozen importlib._bootstrap>"


def is_user_file(path: str) -> bool:
    """Whether a source file is the user's: not the standard library's, not installed, not ours, not frozen."""
    known = _known.get(path)
    if known is not None:
        return known
    if path.startswith("<"):
        # The code of `python -c` and of a pipe; in a script it is text that a library made up, such as a dataclass.
        return path in ("<string>", "<stdin>") and getattr(sys.modules["__main__"], "__file__", path) == path
    full = os.path.abspath(path)
    elsewhere = any(part in full for part in _ELSEWHERE)
    known = _known[path] = not (elsewhere or full.startswith(_OWN) or full.startswith(_LIBRARIES))
    return known


def is_own_file(path: str) -> bool:
    """Whether a source file is samebits' own."""
    return path.startswith(_OWN)


def foreign_frame() -> FrameType:
    """The nearest frame that is not ours; there is one around whatever we are called by."""
    frame = sys._getframe(1)
    while is_own_file(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def user_site(start: FrameType | None = None) -> Site | None:
    """The nearest frame that is the user's, walking outwards; None when a library acted on its own.

    What a library does while it is being imported is its own: the user's line that imports it asked for nothing else.

    Args:
        start: where to begin, by default at the caller.
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


def waiting_site() -> Site | None:
    """The user's line at which the main thread is: who called a backward waits for the threads that do it."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return None if frame is None else user_site(frame)


def called_by_user() -> str:
    """What the user's nearest line called to get here, such as `glob.glob`; empty where no library lies in between."""
    outermost, current = None, sys._getframe(1)
    while not is_user_file(current.f_code.co_filename):
        path = current.f_code.co_filename
        if path == IMPORTING or current.f_back is None:
            return ""
        outermost = outermost if path.startswith(_OWN) else current
        current = current.f_back
    return "" if outermost is None else _public_name(outermost)


def _public_name(frame: FrameType) -> str:
    """The name by which a function of a library is called, without what is private to the library."""
    code = frame.f_code
    module = str(frame.f_globals.get("__name__", ""))
    function = str(getattr(code, "co_qualname", code.co_name)).partition(".<locals>")[0]
    if module == "glob" and "Globber" in function:
        # From Python 3.13 on, what goes through the folders for pathlib lives there.
        return "pathlib.Path.glob"
    *owners, own = [*module.split("."), *function.split(".")]
    names = [name for name in owners if not name.startswith("_")]
    return ".".join(names if own.startswith(("__", "<")) else [*names, own.lstrip("_")])


def leave_out_own_frames(error: BaseException) -> None:
    """Take our frames from what an exception has come through; a bare `raise` after it adds none, from Python 3.11."""
    trace = error.__traceback__
    while trace is not None and is_own_file(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    error.__traceback__ = trace


class _WithoutOwnFrames:
    """A block that errors leave without our frames."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            leave_out_own_frames(error)


without_own_frames = _WithoutOwnFrames()


def error_site(error: BaseException) -> Site | None:
    """The user's line nearest to where an exception was raised; None when it passed none."""
    found, step = None, error.__traceback__
    while step is not None:
        if is_user_file(step.tb_frame.f_code.co_filename):
            found = site_of(step.tb_frame, step.tb_lineno)
        step = step.tb_next
    return found


def site_of(frame: FrameType, line: int | None = None) -> Site:
    """The line that a frame is at, whosever code it is."""
    code = frame.f_code
    path = code.co_filename
    absolute = path if path.startswith("<") else at_home(os.path.abspath(path))
    return Site(absolute, line or frame.f_lineno, getattr(code, "co_qualname", code.co_name))


def user_modules() -> list[ModuleType]:
    """The modules loaded so far whose source is the user's."""
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    return [m for m in modules if m.__name__ == "__main__" or is_user_file(_file_of(m))]


def user_files() -> list[str]:
    """The user's source files among the modules loaded so far, for static looks at them."""
    files = {user_script(), *(_file_of(module) for module in user_modules())}
    return sorted({at_home(os.path.abspath(path)) for path in files if path.endswith(".py") and is_user_file(path)})


def user_script() -> str:
    """The file that this process runs as `__main__`; empty when it is not the user's, or no file."""
    main = sys.modules.get("__main__")
    # The name of the file is taken away before exit handlers run; the loader keeps it.
    path = str(getattr(main, "__file__", None) or getattr(getattr(main, "__loader__", None), "path", None) or "")
    return at_home(os.path.abspath(path)) if path and os.path.isfile(path) and is_user_file(path) else ""


def _file_of(module: ModuleType) -> str:
    # Not getattr: a module may load others when it is asked for what it does not have.
    return str(vars(module).get("__file__") or "<built-in>")
