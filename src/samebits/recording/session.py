"""Recording a part of a program from inside it."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from samebits.errors import StorageError, UsageError
from samebits.recording.folder import RunFolder
from samebits.recording.journal import Journal
from samebits.recording.wish import OpWish, Wish


@contextmanager
def record(path: str | os.PathLike[str], level: str = "step") -> Iterator[Path]:
    """Record what torch does inside the `with` block; afterwards torch is as it was.

        with samebits.record("one"):
            train()
        with samebits.record("two"):
            train()
        print(samebits.compare("one", "two"))

    Args:
        path: run folder to make; it must not exist yet, or be empty.
        level: `step` for a row of digests per optimizer step, `op` for every operation, too.

    Yields:
        The run folder.

    Raises:
        UsageError: another level.
        StorageError: the folder cannot be made, or holds something.
    """
    if level not in ("step", "op"):
        raise UsageError(f"level takes 'step' or 'op', got {level!r}")
    from samebits.recording.streams import Recorder

    folder = RunFolder(_made(Path(path)))
    manifest = {"command": [], "samebits": "record", "python": platform.python_version(), "started": time.time()}
    folder.write_manifest({**manifest, "status": "running"})
    wish = Wish(ops=OpWish() if level == "op" else None)
    recorder = Recorder(folder.path, wish, Journal(folder.path), threading.current_thread())
    recorder.install()
    status = "interrupted"
    try:
        yield folder.path
        status = "ended"
    finally:
        recorder.finish()
        recorder.uninstall()
        folder.write_manifest({**manifest, "status": status})


def _made(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise StorageError(f"{path} is not empty", "give a folder that does not exist yet, or an empty one")
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "choose another place") from error
    return path.resolve()
