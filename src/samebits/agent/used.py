"""What a program used of what only some programs use, asked when it ends; loads nothing."""

from __future__ import annotations

import os
import sys
from typing import Any


def what_was_used() -> list[str]:
    """The words in which factors say what they need: `cuda`, `ranks`, `compiled`."""
    found = {"cuda": _uses_cuda(), "ranks": _has_ranks(), "compiled": compiled_regions() > 0}
    return [word for word, is_used in found.items() if is_used]


def compiled_regions() -> int:
    """How many graphs torch.compile made."""
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])


def _uses_cuda() -> bool:
    # Also true of ROCm, and false for a program on the CPU whose torch was built for CUDA.
    torch: Any = sys.modules.get("torch")
    return bool(torch is not None and torch.cuda.is_initialized())


def _has_ranks() -> bool:
    if int(os.environ.get("WORLD_SIZE", "1") or 1) > 1:
        return True
    distributed: Any = sys.modules.get("torch.distributed")
    return bool(distributed is not None and distributed.is_available() and distributed.is_initialized())
