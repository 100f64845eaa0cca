"""What a recording is asked to hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wish:
    """What to record.

    Attributes:
        stop_after: end the process once this step has been written; None lets it run to its end.
        keep_step: keep whole tensors of this step; None keeps none.
        keep_streams: of these streams.
    """

    stop_after: int | None = None
    keep_step: int | None = None
    keep_streams: tuple[str, ...] = ()
