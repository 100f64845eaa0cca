"""Whether a process that is asked to end does so at once, or only when it has written down where it stands."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

Handler = TypeVar("Handler", bound=Callable[[Any, int, FrameType | None], None])


def only_notes(handler: Handler) -> Handler:
    """Mark a method that handles SIGTERM by remembering it."""
    handler.only_notes = True  # type: ignore[attr-defined]
    return handler


def ends_later() -> bool:
    """Whether this process runs for a while after SIGTERM, and needs its helpers that long."""
    return bool(getattr(signal.getsignal(signal.SIGTERM), "only_notes", False))
