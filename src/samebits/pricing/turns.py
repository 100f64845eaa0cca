"""Runs that take turns: each is a process that waits, and takes a block of steps when it is asked to."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from samebits.checking.facts import read_facts
from samebits.checking.pool import RunPool
from samebits.checking.verdict import Run
from samebits.launch.process import Outcome, run_in
from samebits.runfolder.spec import DONE, GO, RunSpec


class AbandonedRunError(Exception):
    """Ends a run for which nobody waits any more."""


class PacedRun:
    """One paced run.

    Attributes:
        ready: what the run reported after its first steps; None until then, or if it never took them.
        seconds: seconds per step, one entry per block.
        has_more: whether the script has not ended yet, and answers.
        has_ended: whether the script ended by itself in its turn.
    """

    def __init__(self, spec: RunSpec, path: Path, pool: RunPool, threads: ThreadPoolExecutor, timeout: float) -> None:
        self.path = path
        path.mkdir(parents=True)
        for name in (GO, DONE):
            os.mkfifo(path / name)
        # A pipe that is opened in both directions never waits for its other end, and never reports an end.
        self._go, self._done = self._pipes = tuple(os.open(path / name, os.O_RDWR) for name in (GO, DONE))
        self._buffer = b""
        self.ready: dict[str, Any] | None = None
        self.seconds: list[float] = []
        self.peak_bytes = 0
        self.has_more, self.has_ended = True, False
        self._is_given_up = False
        self.run: Future[Outcome] = threads.submit(
            run_in, pool.workspace, pool.request.command, spec, path, timeout, self._go_on
        )

    def wait_until_ready(self, deadline: float, waiting: Callable[[], None]) -> None:
        """Wait until the run has taken its first steps, has ended, or the deadline is over."""
        self.ready = self._answer(deadline, waiting)
        if self.ready is not None:
            self.peak_bytes = self.ready["peak_bytes"]

    def take(self, steps: int, deadline: float) -> bool:
        """Let the run take `steps` steps; False where it did not answer: it has ended, or the deadline is over."""
        os.write(self._go, b"%d\n" % steps)
        answer = self._answer(deadline)
        if answer is None:
            self.has_more, self.has_ended = False, self.run.done()
            return False
        self.seconds.append(answer["seconds"] / answer["steps"])
        self.peak_bytes = max(self.peak_bytes, answer["peak_bytes"])
        return True

    def end(self) -> Run:
        """Let the run end where it stands, and return it."""
        if not self.run.done():
            os.write(self._go, b"0\n")
        try:
            outcome = self.run.result()
        finally:
            self._close()
        steps = max((recording.steps for recording in outcome.folder.recordings()), default=0)
        return Run(**vars(outcome), steps=steps, facts=read_facts(self.path))

    def give_up(self) -> None:
        """End the run now, whatever it is doing; nothing happens to a run that has ended."""
        self._is_given_up = True
        self.run.exception()
        self._close()

    def _go_on(self) -> None:
        if self._is_given_up:
            raise AbandonedRunError

    def _close(self) -> None:
        pipes, self._pipes = self._pipes, ()
        for pipe in pipes:
            os.close(pipe)

    def _answer(self, deadline: float, waiting: Callable[[], None] = lambda: None) -> dict[str, Any] | None:
        while b"\n" not in self._buffer:
            readable, _, _ = select.select([self._done], [], [], 0.1)
            if readable:
                self._buffer += os.read(self._done, 65536)
            elif self.run.done() or time.monotonic() > deadline:
                return None
            waiting()
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, object] = json.loads(line)
        return message


def why_never_ready(run: Run) -> str:
    """Tell in one line why a run ended before it was ready for its turns."""
    if run.succeeded:
        return f"the script ended after {run.steps} steps, before it could be timed"
    words = "" if run.timed_out or run.facts.refusal else run.facts.last_words
    return f"the script {run.ending}{f': {words}' if words else ''}"
