"""What a recording is asked to hold; plain data that survives JSON."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OpWindow:
    """Every operation of a window of steps.

    Attributes:
        first, last: the steps of the window, both included; `last=None` is up to the end.
        against: run folder to compare with while running: the operands of the first operation that differs are kept.
        keep: keep the operands of these operations, each (step, index in the step).
        grafts: files with operands; their results are put in place of this run's own, so that the run goes on as if
            that operation had not differed.
    """

    first: int = 0
    last: int | None = None
    against: str | None = None
    keep: tuple[tuple[int, int], ...] = ()
    grafts: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordSpec:
    """What to record.

    Attributes:
        stop_after: end the process once this step has been written; None lets it run to its end.
        keep_step: keep whole tensors of this step; None keeps none.
        keep_streams: of these streams.
        keep_names: those with these names; empty for all of them.
        ops: record operations too.
        look_seconds: end the process so long after its first step, once it has taken `look_steps` steps; None does not.
        look_steps: see there.
        follow: folder of another run: end the process soon after it diverged from that one.
    """

    stop_after: int | None = None
    keep_step: int | None = None
    keep_streams: tuple[str, ...] = ()
    keep_names: tuple[str, ...] = ()
    ops: OpWindow | None = None
    look_seconds: float | None = None
    look_steps: int = 0
    follow: str | None = None
