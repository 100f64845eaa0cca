"""Records a part of a program from inside the program."""

from __future__ import annotations

import os
import platform
import threading
import time
from contextlib import ContextDecorator
from pathlib import Path
from typing import Any

from samebits.base.errors import StorageError, UsageError
from samebits.runfolder.folder import Manifest, RunFolder
from samebits.runfolder.notes import Journal
from samebits.runfolder.spec import OpWindow, RunSpec

# The threads that are recording right now.
_busy: list[int] = []


class record(ContextDecorator):
    """Record what torch does inside the `with` block; afterwards torch is as it was.

        with samebits.record("one"):
            train()
        with samebits.record("two"):
            train()
        print(samebits.compare("one", "two"))

    As a decorator it records every call: the second into `one-2`, and so on.

    The block gets the path of the run folder. What other threads train meanwhile is recorded, too, each training by
    itself.

    Args:
        path: run folder to make; it must not exist yet, or be empty.
        level: `step` for a row of digests per optimizer step, `op` for every operation, too.

    Raises:
        UsageError: another level, no path, a recording that was made before, or one that another thread is making.
        StorageError: the folder cannot be made, or holds something.
    """

    def __init__(self, path: str | os.PathLike[str], level: str = "step") -> None:
        if level not in ("step", "op"):
            raise UsageError(f"level takes 'step' or 'op', got {level!r}")
        self._path, self._level = path_given("path", path), level
        self._recorder: Any = None
        self._calls = 0

    def _recreate_cm(self) -> record:
        # ContextDecorator calls this for each call of the decorated function.
        self._calls += 1
        path = self._path if self._calls == 1 else self._path.with_name(f"{self._path.name}-{self._calls}")
        return record(path, self._level)

    def __enter__(self) -> Path:
        if self._recorder is not None:
            raise UsageError(f"the recording {self._path} was made before", "call samebits.record() again, elsewhere")
        self._here = threading.get_ident()
        if any(thread != self._here for thread in _busy):
            hint = "put one `with samebits.record(...)` around both threads: it records each training separately"
            raise UsageError("another thread of this process is being recorded", hint)
        from samebits.agent.recorder import Recorder

        self._folder = RunFolder(_made(self._path))
        self._manifest: Manifest = {
            "command": [],
            "samebits": "record",
            "python": platform.python_version(),
            "started": time.time(),
        }
        self._folder.write_manifest({**self._manifest, "status": "running"})
        spec = RunSpec(ops=OpWindow() if self._level == "op" else None)
        self._recorder = Recorder(spec, Journal(self._folder.path), threading.current_thread())
        try:
            self._recorder.install()
        except BaseException:
            self._recorder.uninstall()
            self._folder.write_manifest({**self._manifest, "status": "interrupted"})
            raise
        _busy.append(self._here)
        return self._folder.path

    def __exit__(self, kind: object, *_: object) -> None:
        # A generator may be closed in another thread than the one that began it.
        _busy.remove(self._here)
        self._recorder.finish()
        self._recorder.uninstall()
        self._folder.write_manifest({**self._manifest, "status": "ended" if kind is None else "interrupted"})


def path_given(name: str, value: object) -> Path:
    """Return the value of the argument `name` as a path; UsageError where it is none."""
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name} takes the path of a run folder, got {value!r}", "for example 'runs/one'")
    return Path(value)


def _made(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_empty = not any(path.iterdir())
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "choose another place") from error
    if not is_empty:
        raise StorageError(f"{path} is not empty", "give a folder that does not exist yet, or an empty one")
    return path.resolve()
