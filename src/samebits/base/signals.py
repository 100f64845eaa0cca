"""Handlers of signals: those that only remember SIGTERM, since the training saves its state first, and their errors."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from traceback import walk_tb
from types import FrameType
from typing import Any, TypeVar

Handler = TypeVar("Handler", bound=Callable[[Any, int, FrameType | None], None])


def defers_sigterm(handler: Handler) -> Handler:
    """Mark a handler of SIGTERM that only remembers the signal, so that the process runs on for a while."""
    handler.only_notes = True  # type: ignore[attr-defined]
    return handler


def outlives_sigterm() -> bool:
    """Whether this process runs on for a while after SIGTERM, and needs its DataLoader workers until then."""
    return bool(getattr(signal.getsignal(signal.SIGTERM), "only_notes", False))


def is_of_handler(error: BaseException) -> bool:
    """Whether an exception was raised in a signal handler: it interrupts whatever runs, and is meant for the program.

    >>> is_of_handler(ValueError())
    False
    """
    codes = {frame.f_code for frame, _ in walk_tb(error.__traceback__)}
    handlers = [signal.getsignal(number) for number in signal.valid_signals()] if len(codes) > 1 else []
    called = (handler.func if isinstance(handler, partial) else handler for handler in handlers)
    return any(getattr(handler, "__code__", None) in codes for handler in called)
