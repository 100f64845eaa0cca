"""Preemption: a process that is asked to end writes a checkpoint first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from samebits.base.errors import UsageError
from samebits.base.signals import defers_sigterm
from samebits.state.ranks import RankGroup


class Preemption:
    """A context, for the main thread: it notes SIGTERM, and ends all ranks together where that does no harm.

    Args:
        ranks: the ranks that train together.
        save: writes a checkpoint; called with the number of steps that are done.
    """

    def __init__(self, ranks: RankGroup, save: Callable[[int], object]) -> None:
        self.ranks, self.save = ranks, save
        self._is_asked, self._process = False, 0
        self._before: Callable[[int, FrameType | None], object] | int | None = None

    def is_asked(self) -> bool:
        """Whether this process was asked to end; other ranks may not have been yet."""
        return self._is_asked

    def end_if_asked(self, step: int) -> None:
        """Return, or, if a rank was asked to end, write a checkpoint and end the process with status 143.

        Call it once a step, on every rank. The ranks find out by one reduction of a single number on the CPU.

        Args:
            step: number of steps that are done.

        Raises:
            SystemExit: after the checkpoint was written, and after the earlier handler of SIGTERM was called, if any.
        """
        if not self.ranks.is_any(self._is_asked):
            return
        self.save(step)
        self._is_asked = False
        if callable(self._before):
            self._before(signal.SIGTERM, None)
        raise SystemExit(128 + signal.SIGTERM)

    def __enter__(self) -> Preemption:
        # Until the context is left, the signal is only noted.
        if threading.current_thread() is not threading.main_thread():
            raise UsageError(
                "signals come to the main thread, and this is another one",
                "train in the main thread, or save without preemptible()",
            )
        self._process = os.getpid()
        self._before = signal.signal(signal.SIGTERM, self._noted)
        return self

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)
        # It came after the last step, and still has to be obeyed; an error ends the process by itself, and says why.
        if self._is_asked and os.getpid() == self._process and not isinstance(error, Exception):
            os.kill(os.getpid(), signal.SIGTERM)

    @defers_sigterm
    def _noted(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._process:
            self._is_asked = True
        else:
            # A child that was forked in the block saves nothing.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
