"""Signals: those that samebits receives, and those that end the command.

`samebits run` stands between its caller and the command, so it passes signals on, and ends as the command did.
`samebits check` owns its runs, so a signal ends all of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from samebits.base.errors import InterruptError
from samebits.launch.supervisor import die_by_signal

_FROM_TERMINAL: tuple[int, ...] = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
# Schedulers announce the end of an allocation with one of the last two.
_PASSED_ON: tuple[int, ...] = (*_FROM_TERMINAL, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_ENDS_A_CHECK: tuple[int, ...] = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


@contextlib.contextmanager
def _handled(numbers: tuple[int, ...], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle these signals by `handler` in the block, except for those that were ignored before (nohup)."""
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


# ---- a check's runs --------------------------------------------------------------------------------------------------

_received: list[int] = []


@contextlib.contextmanager
def interruptible(home: Path) -> Iterator[None]:
    """Let a signal end all runs that the block makes in a folder; then it raises InterruptError.

    The handler only notes the signal; every run that waits looks for it and ends its own processes. So nothing is
    interrupted halfway, and a second Ctrl-C cannot disturb the handling of the first.
    """
    _received.clear()
    try:
        with _handled(_ENDS_A_CHECK, lambda number, _: _received.append(number)):
            yield
    except KeyboardInterrupt as interrupt:
        raise InterruptError.by(interrupt.args[0] if interrupt.args else signal.SIGINT, home) from interrupt


def raise_if_signalled() -> None:
    """Raise KeyboardInterrupt with the signal's number if one was received; called from every run's thread."""
    if _received:
        raise KeyboardInterrupt(_received[0])


# ---- a command that runs as if it had been typed without us ----------------------------------------------------------


@contextlib.contextmanager
def signals_passed_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Pass signals in the block on to the command that the yielded function is given, also those that came before it.

    Signals that were ignored stay ignored, by samebits and by the command.
    """
    command: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            command[0].send_signal(number)

    def handle(number: int, _: FrameType | None) -> None:
        if number in _FROM_TERMINAL and _is_in_foreground():
            return  # the terminal has sent it to the command as well
        pass_on(number) if command else early.append(number)

    def to(process: subprocess.Popen[bytes]) -> None:
        command.append(process)
        for number in early:
            pass_on(number)

    with _handled(_PASSED_ON, handle):
        yield to


def _is_in_foreground() -> bool:
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def end_like(exit_code: int) -> NoReturn:
    """End this process as the command ended, with its status or by its signal: the shell sees no difference."""
    if exit_code >= 0:
        sys.exit(exit_code)
    die_by_signal(-exit_code)
    # Where that signal does not end us, the status that a shell gives for it is the next best.
    sys.exit(128 - exit_code)
