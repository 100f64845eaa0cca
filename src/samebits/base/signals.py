"""Processes that SIGTERM does not end at once, because the training saves its state first."""

from __future__ import annotations

import signal
from collections.abc import Callable
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
