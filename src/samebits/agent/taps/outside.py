"""Uses of what no copy of the folder keeps unchanged: files elsewhere, programs that are started, timers."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from samebits.base.sites import Site, user_site
from samebits.factors.patching import PatchedFunction, wrapped
from samebits.runfolder.notes import Journal, Outside
from samebits.workspace.place import Place, is_in

# Folders of what is installed, and not the program's own.
_SYSTEM = ("/bin/", "/dev/", "/etc/", "/lib/", "/sbin/", "/usr/", sys.prefix + os.sep, sys.base_prefix + os.sep)
# So many characters of a command are noted.
_MOST_WORDS = 200


class OutsideNoted:
    """Notes the first use of each kind at each line; what a library does while it is imported has no line."""

    def __init__(self, journal: Journal, place: Place) -> None:
        self._journal, self._place = journal, place
        self._lines = set[tuple[str, object]]()

    def finds(self, path: str, site: Site) -> None:
        """Note a file that a line found outside the folder: every run finds it here, and elsewhere runs may not."""
        home = self._place.user_path(path)
        if not is_in(home, self._place.folder) and not path.startswith(_SYSTEM) and not path.endswith(".py"):
            self.note("file", home, site)

    def starts(self, program: Any, words: Any = (), *_: object) -> None:
        """Note that the program starts another one: the audit events `subprocess.Popen` and `os.system`."""
        typed = [os.fsdecode(word) for word in ([words] if isinstance(words, str | bytes) else words) or [program]]
        # Of a shell, the command it is given counts; and Python is left out, since its processes are seen.
        command = typed[-1] if typed[1:2] == ["-c"] else " ".join(typed)
        if not os.path.basename(typed[0]).startswith("python"):
            self.note("program", command, user_site())

    def note(self, kind: str, what: str, site: Site | None) -> None:
        """Note a use, unless its line was noted with one of its kind before."""
        if site is not None and (kind, site.key) not in self._lines:
            self._lines.add((kind, site.key))
            self._journal.note(Outside(kind, what[:_MOST_WORDS], site))

    def watch_timers(self, quietly: Callable[..., None]) -> None:
        """Note timers, which go off in real time, whatever the clock says, and so at another operation in every run.

        What is done `quietly` does not fail the program.
        """

        def sets(what: str, original: Callable[..., object], *args: object, **kwargs: object) -> object:
            quietly(self.note, "timer", what, user_site())
            return original(*args, **kwargs)

        for name in ("alarm", "setitimer"):
            original = getattr(signal, name)
            setattr(signal, name, PatchedFunction("signal", name, original, partial(sets, f"signal.{name}", original)))
        making: Any = threading.Timer
        making.__init__ = wrapped(making.__init__, partial(sets, "threading.Timer"))
