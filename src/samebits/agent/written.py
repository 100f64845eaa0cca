"""Files that a program writes in ways that are not recorded: named, so that "same" does not seem to cover them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from samebits.agent.files import is_looking
from samebits.agent.saves import is_saving, looked_into
from samebits.base.sites import user_site

_WRITING = os.O_WRONLY | os.O_RDWR


class WrittenFiles:
    """Notes every file that the program's own lines open to write to, until `stop` is called.

    An audit hook stays for as long as the process lives, so this is for processes that samebits was started in.

    Args:
        own: the run folder, whose files are ours.
    """

    def __init__(self, own: Path) -> None:
        self._own = str(own) + os.sep
        self._paths: dict[str, None] = {}
        self._is_on = True
        self._pid = os.getpid()
        sys.addaudithook(self._heard)

    def stop(self) -> None:
        """Hear no more."""
        self._is_on = False

    def names(self) -> list[str]:
        """Those that were written and not looked into, as one would type them; files that are gone again are not."""
        found = [path for path in self._paths if path not in looked_into and os.path.isfile(path)]
        return [os.path.relpath(path) if path.startswith(os.getcwd() + os.sep) else path for path in found]

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self._is_on or os.getpid() != self._pid or is_looking():
            return
        path, mode, flags = arguments
        is_writing = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & _WRITING)
        if not is_writing or not isinstance(path, str | os.PathLike) or is_saving():
            return
        name = os.path.abspath(os.fsdecode(path))
        if name.startswith((self._own, "/dev/", "/proc/")) or name in self._paths:
            return
        if user_site() is not None:
            self._paths[name] = None
