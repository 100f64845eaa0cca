"""The standard streams of a recorded run: files, or a terminal where samebits itself has one.

Programs ask how wide the terminal is, draw bars and colours, or refuse to work without one. So each of the three
streams is a terminal for the run exactly where it is one for samebits: a pseudo-terminal of the same size and settings,
that changes no byte. The output ends up in the run folder either way; nothing can be typed in.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import IO

from samebits.base.errors import storing
from samebits.runfolder.folder import RunFolder

STDIN = 0
# In a terminal this character ends a read like the end of a file; there is one for each time that a program reads.
_END_OF_INPUT = b"\x04" * 1024
_PATIENCE_SECONDS = 5.0


@contextmanager
def streams_of(folder: RunFolder) -> Iterator[dict[str, object]]:
    """Yield the options of Popen that give a run its streams.

    After the block, all output is in the run folder; StorageError where the logs cannot be made.
    """
    with ExitStack() as stack:
        logs = {"stdin": None, "stdout": _log(folder.stdout, stack), "stderr": _log(folder.stderr, stack)}
        options: dict[str, object] = {**logs, "stdin": stack.enter_context(_input())}
        for number, (name, log) in enumerate(logs.items()):
            ends = _terminal_like(number)
            if ends is not None:
                options[name] = stack.enter_context(_copied(*ends, log))
        yield options


def input_is_lost() -> bool:
    """Whether samebits has input that runs do not get: data in a pipe can be read only once."""
    with contextlib.suppress(OSError, ImportError):
        import fcntl
        import termios

        mode = os.fstat(STDIN).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            return any(fcntl.ioctl(STDIN, termios.FIONREAD, bytes(4)))
    return False


def _terminal_like(number: int) -> tuple[int, int] | None:
    """Return both ends of a new terminal like the stream's; None where the stream has none, or none can be made."""
    # A stream that is closed is no terminal either.
    if not os.isatty(number):
        return None
    import fcntl
    import termios

    near = far = -1
    try:
        near, far = os.openpty()
        settings = termios.tcgetattr(number)
        # The program's output stays unchanged, and our own input is not echoed.
        settings[1] &= ~termios.OPOST
        settings[3] = (settings[3] | termios.ICANON) & ~termios.ECHO
        settings[6][termios.VEOF] = _END_OF_INPUT[:1]
        termios.tcsetattr(far, termios.TCSANOW, settings)
        fcntl.ioctl(far, termios.TIOCSWINSZ, fcntl.ioctl(number, termios.TIOCGWINSZ, bytes(8)))
    except (OSError, termios.error):
        for handle in (near, far):
            if handle >= 0:
                os.close(handle)
        return None
    return near, far


@contextmanager
def _copied(near: int, far: int, log: IO[bytes] | None) -> Iterator[int]:
    """Yield the far end of a terminal, for a run, and copy the output from the near end to a log."""
    if log is None:
        with contextlib.suppress(OSError):
            os.write(near, _END_OF_INPUT)
    # Also without a log: a program may write to its standard input, and must not block on a full buffer.
    thread = threading.Thread(target=_copy, args=(near, log), name="samebits-terminal", daemon=True)
    thread.start()
    try:
        yield far
    finally:
        # Every process of the run is gone: once our own handle is closed, the output comes to its end.
        os.close(far)
        thread.join(_PATIENCE_SECONDS)
        os.close(near)


def _copy(near: int, log: IO[bytes] | None) -> None:
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while chunk := os.read(near, 65536):
            if log is not None:
                with contextlib.suppress(OSError, ValueError):  # a full disk must not stop the program
                    log.write(chunk)
                    log.flush()


def _log(path: Path, stack: ExitStack) -> IO[bytes]:
    with storing(path):
        return stack.enter_context(path.open("wb"))


def _input() -> AbstractContextManager[object]:
    """Return the standard input of a run: a file is given to every run from its start, a pipe to none."""
    return open("/dev/fd/0", "rb") if os.path.isfile("/dev/fd/0") else nullcontext(subprocess.DEVNULL)
