"""Checkpoints as they go out and come in: which file, how many steps were done, and on which line of the user's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, NamedTuple

from samebits.agent.listening import listen
from samebits.base.sites import Site, at_home, user_site
from samebits.factors.imports import forget, when_loaded
from samebits.runfolder.notes import Loaded, Saved

if TYPE_CHECKING:
    from samebits.agent.rows import Rows

Direction = Literal["saved", "loaded"]


class _Function(NamedTuple):
    """A function that saves or loads: which of its arguments is the file."""

    name: str
    direction: Direction
    argument: str
    position: int


class Passage(NamedTuple):
    """One call of such a function.

    Attributes:
        direction: which way.
        what: was called.
        path: of the file, as the process sees it; empty where it has none.
        site: the user's line.
    """

    direction: Direction
    what: str
    path: str
    site: Site | None


_FUNCTIONS: dict[str, tuple[_Function, ...]] = {
    "torch": (_Function("save", "saved", "f", 1), _Function("load", "loaded", "f", 0)),
    "safetensors.torch": (
        _Function("save_file", "saved", "filename", 1),
        _Function("save_model", "saved", "filename", 1),
        _Function("load_file", "loaded", "filename", 0),
        _Function("load_model", "loaded", "filename", 1),
    ),
    "torch.distributed.checkpoint": (
        _Function("save", "saved", "checkpoint_id", 1),
        _Function("async_save", "saved", "checkpoint_id", 1),
        _Function("load", "loaded", "checkpoint_id", 1),
    ),
    # What else goes through these is told apart where the notes are read.
    "pickle": (_Function("dump", "saved", "file", 1), _Function("load", "loaded", "file", 0)),
    "joblib": (_Function("dump", "saved", "filename", 1), _Function("load", "loaded", "filename", 0)),
    "numpy": (
        *(_Function(name, "saved", "file", 0) for name in ("save", "savez", "savez_compressed")),
        _Function("load", "loaded", "file", 0),
    ),
}


class _Passages(threading.local):
    """What a thread saves or loads: one function may call another, and the outermost counts."""

    def __init__(self) -> None:
        self.stack: list[Passage] = []


class Checkpoints:
    """Notes what is saved and loaded.

    Args:
        saved: called after something was saved.
        loaded: called after something was loaded.
    """

    def __init__(
        self, recorder: Rows, saved: Callable[[Passage, int], None], loaded: Callable[[Passage], None]
    ) -> None:
        self.recorder, self.saved, self.loaded = recorder, saved, loaded
        self._inside = _Passages()

    def install(self, undo: ExitStack) -> None:
        """Listen to the functions of modules that are there, and of others as soon as they are."""
        for module, functions in _FUNCTIONS.items():
            action = self._hooker(module, functions, undo)
            when_loaded(module, action)
            undo.callback(forget, module, action)

    def _hooker(self, module: str, functions: tuple[_Function, ...], undo: ExitStack) -> Callable[[object], None]:
        def hook(loaded: object) -> None:
            for function in functions:
                if hasattr(loaded, function.name):
                    before = self._before(f"{module}.{function.name}", function)
                    undo.callback(listen(loaded, function.name, before, self._after, self._failed))

        return hook

    def _before(self, what: str, function: _Function) -> Callable[..., None]:
        def before(*args: object, **kwargs: object) -> None:
            given = args[function.position] if len(args) > function.position else kwargs.get(function.argument)
            self._inside.stack.append(Passage(function.direction, what, path_of(given), user_site()))

        return before

    def _failed(self, *_: object) -> None:
        self._inside.stack.pop()

    def _after(self, *_: object) -> None:
        passage = self._inside.stack.pop()
        if not self._inside.stack and self.recorder.is_active():
            self.recorder.safely(self._note)(passage)

    def saved_unseen(self, steps: int) -> None:
        """The program is said to have saved by now."""
        log = self.recorder.main.log
        self.recorder.journal.note(Saved("", steps, "--saved-at", None, log.rank, "", log.counts))
        self.saved(Passage("saved", "--saved-at", "", None), steps)

    def _note(self, passage: Passage) -> None:
        log = self.recorder.main.log
        path = at_home(passage.path) if passage.path else ""
        about = path, log.step, passage.what, passage.site, log.rank, identity(passage.path)
        if passage.direction == "loaded":
            self.recorder.journal.note(Loaded(*about))
            self.loaded(passage)
        else:
            is_aside = threading.get_ident() != self.recorder.thread
            self.recorder.journal.note(Saved(*about, log.counts, is_aside))
            self.saved(passage, log.step)


def path_of(file: object) -> str:
    """The absolute path of a file that was named or opened; empty where it has none."""
    name = file if isinstance(file, str | os.PathLike) else getattr(file, "name", None)
    if not isinstance(name, str | bytes | os.PathLike):
        return ""
    try:
        return os.path.abspath(os.fsdecode(name))
    except (OSError, ValueError):  # the current folder is gone
        return ""


def identity(path: str) -> str:
    """What stays the same when a file is moved: its number, and when it was written to."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{found.st_ino}:{found.st_mtime_ns}"
