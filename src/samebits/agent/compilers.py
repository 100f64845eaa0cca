"""Whether a compiler is at work: what it does with modules is not training."""

from __future__ import annotations

import sys
from typing import Any


def is_tracing() -> bool:
    """Whether a compiler is at work in this thread."""
    guards: Any = sys.modules.get("torch._guards")
    if guards is None:
        return False
    return guards.TracingContext.try_get() is not None or guards.CompileContext.try_get() is not None
