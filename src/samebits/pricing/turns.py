"""Runs that take turns: each is a process that waits, and takes some steps when it is asked to."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from samebits.launch.process import Outcome, Runner
from samebits.pricing.plan import Candidate, CostRequest
from samebits.runfolder.notes import Refused, read_notes
from samebits.runfolder.spec import DONE, GO


class GivenUpError(Exception):
    """A run that is ended because it is not waited for any more."""


class Arm:
    """One paced run.

    Attributes:
        ready: what it said when it had taken its first steps; None until then, or if it never did.
        seconds: of the blocks it has taken, per step.
        has_more: its script has not ended yet, and answers.
        has_ended: its script ended by itself when it had its turn.
    """

    def __init__(
        self,
        request: CostRequest,
        candidate: Candidate,
        path: Path,
        runner: Runner,
        pool: ThreadPoolExecutor,
        timeout: float,
    ) -> None:
        self.candidate, self.path = candidate, path
        path.mkdir(parents=True)
        for name in (GO, DONE):
            os.mkfifo(path / name)
        # Opened for both directions, a pipe never waits for its other end, and never ends.
        self._go, self._done = self._pipes = tuple(os.open(path / name, os.O_RDWR) for name in (GO, DONE))
        self._buffer = b""
        self.ready: dict[str, Any] | None = None
        self.seconds: list[float] = []
        self.peak_bytes = 0
        self.has_more, self.has_ended = True, False
        self._is_given_up = False
        plan = candidate.plan(request, paced=True)
        self.run: Future[Outcome] = pool.submit(runner.run, plan, path, timeout, self._go_on)

    def wait_until_ready(self, deadline: float, waiting: Callable[[], None]) -> bool:
        """Whether it has taken its first steps; False if it ended, or the time was over, before."""
        self.ready = self._answer(deadline, waiting)
        if self.ready is not None:
            self.peak_bytes = self.ready["peak_bytes"]
        return self.ready is not None

    def take(self, steps: int, deadline: float) -> bool:
        """Let it take so many steps; False when its script ended meanwhile."""
        os.write(self._go, b"%d\n" % steps)
        answer = self._answer(deadline)
        if answer is None:
            self.has_more, self.has_ended = False, self.run.done()
            return False
        self.seconds.append(answer["seconds"] / answer["steps"])
        self.peak_bytes = max(self.peak_bytes, answer["peak_bytes"])
        return True

    def end(self) -> Outcome:
        """Let it end where it stands."""
        if not self.run.done():
            os.write(self._go, b"0\n")
        try:
            return self.run.result()
        finally:
            self._close()

    def give_up(self) -> None:
        """End it now, whatever it is doing; nothing happens to one that has ended."""
        self._is_given_up = True
        self.run.exception()
        self._close()

    def _go_on(self) -> None:
        if self._is_given_up:
            raise GivenUpError

    def _close(self) -> None:
        pipes, self._pipes = self._pipes, ()
        for pipe in pipes:
            os.close(pipe)

    def failure(self) -> str:
        """Why it never got ready, in one line; call it after its end."""
        outcome = self.run.result()
        refused = next(read_notes(self.path, Refused), None)
        if refused is not None:
            return f"{refused.message.splitlines()[0]} ({refused.where})"
        words = outcome.folder.stderr.read_text(errors="replace").strip().splitlines()
        if outcome.succeeded:
            steps = max((recording.steps for recording in outcome.folder.recordings()), default=0)
            return f"the script ended after {steps} steps, before it could be timed"
        if outcome.timed_out:
            return f"the script {outcome.described}"
        how = f"exit status {outcome.exit_code}" if outcome.exit_code > 0 else f"the script {outcome.described}"
        return f"{how}{f': {words[-1].strip()}' if words else ''}"

    def _answer(self, deadline: float, waiting: Callable[[], None] | None = None) -> dict[str, Any] | None:
        while b"\n" not in self._buffer:
            readable, _, _ = select.select([self._done], [], [], 0.1)
            if readable:
                self._buffer += os.read(self._done, 65536)
            elif self.run.done() or time.monotonic() > deadline:
                return None
            if waiting is not None:
                waiting()
        line, _, self._buffer = self._buffer.partition(b"\n")
        found: dict[str, object] = json.loads(line)
        return found
