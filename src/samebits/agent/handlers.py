"""Exceptions of the program's signal handlers, which run wherever the main thread is, also in hooks of ours."""

from __future__ import annotations

import signal
from functools import partial
from traceback import walk_tb


def is_of_handler(error: BaseException) -> bool:
    """Whether an exception was raised in a signal handler: it is meant for the program that was interrupted.

    >>> is_of_handler(ValueError())
    False
    """
    codes = {frame.f_code for frame, _ in walk_tb(error.__traceback__)}
    handlers = [signal.getsignal(number) for number in signal.valid_signals()] if len(codes) > 1 else []
    called = (handler.func if isinstance(handler, partial) else handler for handler in handlers)
    return any(getattr(handler, "__code__", None) in codes for handler in called)
