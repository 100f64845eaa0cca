"""What a recorded run reads and writes: files, or a terminal where samebits itself has one.

Programs ask how wide the terminal is, draw bars and colours, or refuse to work without one. So each of the three
streams is a terminal for the run exactly where it is one for samebits: a pseudo-terminal of the same size and settings,
that changes no byte. What is written ends up in the run folder either way; nothing can be typed in.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from samebits.base.errors import StorageError
from samebits.runfolder.folder import RunFolder

STDIN = 0
# In a terminal a read ends with this character as at the end of a file; one for each time that anybody reads.
_END_OF_INPUT = b"\x04" * 1024
_PATIENCE_SECONDS = 5.0


@contextmanager
def streams_of(folder: RunFolder) -> Iterator[tuple[dict[str, object], Callable[[], None]]]:
    """The options that start a run with its streams, and what is to be called when it has them.

    At the end all that it wrote is in its folder; StorageError where the logs cannot be made.
    """
    with ExitStack() as stack:
        logs = {"stdin": None, "stdout": _log(folder.stdout, stack), "stderr": _log(folder.stderr, stack)}
        options: dict[str, object] = {**logs, "stdin": stack.enter_context(_input())}
        terminals: list[_Terminal] = []
        for number, (name, log) in enumerate(logs.items()):
            terminal = _Terminal.like(number, log)
            if terminal is not None:
                options[name] = terminal.far
                terminals.append(terminal)

        def started() -> None:
            # Our own copies would keep the streams open when the run is gone.
            for terminal in terminals:
                terminal.begin()

        try:
            yield options, started
        finally:
            for terminal in terminals:
                terminal.end()


def input_is_lost() -> bool:
    """Whether samebits was given something to read that runs do not get: what comes through a pipe comes once."""
    with contextlib.suppress(OSError, ImportError):
        import fcntl
        import termios

        mode = os.fstat(STDIN).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            return any(fcntl.ioctl(STDIN, termios.FIONREAD, bytes(4)))
    return False


class _Terminal:
    """A pseudo-terminal that looks like one of samebits' own; what comes out of it goes to a log."""

    def __init__(self, near: int, far: int, log: IO[bytes] | None) -> None:
        self.near, self.far, self._log = near, far, log
        self._thread: threading.Thread | None = None

    @classmethod
    def like(cls, number: int, log: IO[bytes] | None) -> _Terminal | None:
        """One like that on this stream; None where that is no terminal, or none can be had."""
        # A stream that is closed is no terminal either.
        if not os.isatty(number):
            return None
        import fcntl
        import termios

        near = far = -1
        try:
            near, far = os.openpty()
            settings = termios.tcgetattr(number)
            # What the program writes is kept as it is, and what we write is not shown.
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
        return cls(near, far, log)

    def begin(self) -> None:
        """Close our copy of the far end, and take what comes."""
        self._close_far()
        if self._log is None:
            with contextlib.suppress(OSError):
                os.write(self.near, _END_OF_INPUT)
        # Also where nothing is logged: somebody may write to what should be read from, and must not wait for us.
        self._thread = threading.Thread(target=self._copy, name="samebits-terminal", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Every process of the run is gone, so there is an end to what comes."""
        self._close_far()
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS)
        os.close(self.near)

    def _copy(self) -> None:
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while chunk := os.read(self.near, 65536):
                if self._log is not None:
                    with contextlib.suppress(OSError, ValueError):  # a full disk must not stop the program
                        self._log.write(chunk)
                        self._log.flush()

    def _close_far(self) -> None:
        far, self.far = self.far, -1
        if far >= 0:
            os.close(far)


def _log(path: Path, stack: ExitStack) -> IO[bytes]:
    try:
        return stack.enter_context(path.open("wb"))
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "choose another place with --out") from error


@contextmanager
def _input() -> Iterator[object]:
    """A file on standard input is given to every run from its start; a pipe cannot be."""
    try:
        is_file = stat.S_ISREG(os.fstat(STDIN).st_mode)
    except OSError:
        is_file = False
    if not is_file or not os.path.exists("/dev/fd/0"):
        yield subprocess.DEVNULL
        return
    with open("/dev/fd/0", "rb") as source:
        yield source
