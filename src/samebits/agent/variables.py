"""The environment variables that the program's own lines ask for: a name and a digest, and never the value."""

from __future__ import annotations

import dis
import os
import sys
from contextlib import suppress
from types import FrameType

from samebits.base.sites import is_user_file, leave_out_own_frames
from samebits.runfolder.notes import Journal, Variable

# By these a mapping asks itself for one key; whoever goes through all of them asks for none.
_ASKING = ("get", "getenv", "__contains__", "setdefault")
_SUBSCRIPTS = ("BINARY_SUBSCR", "BINARY_OP")


def watch_variables(journal: Journal) -> None:
    """Note, once for each name, what the program's own lines ask `os.environ` for."""
    kind, known = type(os.environ), set[str]()
    original = kind.__getitem__

    def asked(variables: os._Environ[str], name: str) -> str:
        with suppress(Exception):
            if name not in known and _is_asked_for(sys._getframe(1)):
                known.add(name)
                journal.note(Variable.of(name, variables.get(name)))
        try:
            return original(variables, name)
        except BaseException as error:
            leave_out_own_frames(error)
            raise

    kind.__getitem__ = asked  # type: ignore[method-assign]


def _is_asked_for(frame: FrameType | None) -> bool:
    is_direct = True
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        if frame.f_code.co_name not in _ASKING:
            return False
        frame, is_direct = frame.f_back, False
    if frame is None:
        return False
    return not is_direct or dis.opname[frame.f_code.co_code[frame.f_lasti]] in _SUBSCRIPTS
