"""Which of several training processes this one is."""

from __future__ import annotations

import os
import sys
from typing import Any

from samebits.base.errors import UsageError


def current_rank() -> int | None:
    """The rank of this process: from torch.distributed when it is initialised, else from RANK, else LOCAL_RANK."""
    distributed = _initialised()
    if distributed is not None:
        return int(distributed.get_rank())
    for name in ("RANK", "LOCAL_RANK"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None


def rank_and_world_size() -> tuple[int, int]:
    """As torch.distributed says when it is initialised; else RANK and WORLD_SIZE, which torchrun sets; else (0, 1).

    Raises:
        UsageError: one of the two variables is not a number.
    """
    distributed = _initialised()
    if distributed is not None:
        return distributed.get_rank(), distributed.get_world_size()
    texts = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if None in texts:
        return 0, 1
    try:
        return int(texts[0] or ""), int(texts[1] or "")
    except ValueError:
        raise UsageError(f"RANK={texts[0]!r} and WORLD_SIZE={texts[1]!r} are not numbers") from None


def rank_path() -> tuple[str | int, ...]:
    """Words that distinguish this rank's random streams from the others'; empty for a single process."""
    rank = current_rank()
    return () if rank is None else ("rank", rank)


def _initialised() -> Any:
    distributed = sys.modules.get("torch.distributed")
    return (
        distributed if distributed is not None and distributed.is_available() and distributed.is_initialized() else None
    )
