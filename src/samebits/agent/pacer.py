"""Makes a run take its steps on request and report how long they took, so that runs can take turns."""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Iterable
from itertools import pairwise
from typing import IO

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from samebits.accelerators import devices
from samebits.agent.events import Event
from samebits.agent.process_end import end_process, features_used
from samebits.agent.recorder import Recorder
from samebits.base.ranks import world_size
from samebits.bits.digest.sums import plan_of
from samebits.runfolder.spec import DONE, GO


class Pacer:
    """Paces its process: the recording ends with the warm-up steps, so that only the program is timed."""

    def __init__(self, warm_up: int, recorder: Recorder) -> None:
        self.warm_up, self.recorder = warm_up, recorder
        self.steps = self.left = self.block = 0
        self.first_called: float | None = None
        self.first_seconds = self.half_way = self.block_began = 0.0
        self.ends: list[float] = []
        self.shapes: set[str] = set()
        self._pipes: tuple[IO[str], IO[str]] | None = None
        # Registered after the recorder's own hook, so that it runs when the step is written.
        register_optimizer_step_post_hook(self._after_step)
        recorder.on(Event.CALLED, self._called)

    def _called(self, module: object, args: Iterable[object]) -> None:
        if self._pipes is not None:
            return
        if self.first_called is None:
            self.first_called = time.perf_counter()
        self.shapes.add(str([tuple(argument.shape) for argument in args if isinstance(argument, torch.Tensor)]))

    def _after_step(self, *_: object) -> None:
        self.steps += 1
        if self.steps == 1:
            devices.synchronize()
            now = time.perf_counter()
            self.first_seconds = now - (now if self.first_called is None else self.first_called)
        if self.steps == self.warm_up // 2:
            devices.synchronize()
            self.half_way = time.perf_counter()
        if self.steps < self.warm_up:
            self.ends.append(time.perf_counter())
        elif self.steps == self.warm_up:
            self._ready()
        elif self._pipes is not None:
            self.left -= 1
            if self.left == 0:
                devices.synchronize()
                self._next_block(seconds=time.perf_counter() - self.block_began, steps=self.block)

    def _ready(self) -> None:
        devices.synchronize()
        ends = [*self.ends, time.perf_counter()]
        # The time in which the host queues one step; where an accelerator takes longer, the time of both counts.
        step_seconds = statistics.median(b - a for a, b in pairwise(ends))
        if devices.kind_in_use():
            step_seconds = max(step_seconds, (ends[-1] - self.half_way) / (self.warm_up - self.warm_up // 2))
        # From here on the recorder's hooks return at once; they cannot be removed while one of them is running.
        self.recorder.finish()
        if devices.kind_in_use():
            # The memory that the recording held on the device is not to be measured.
            plan_of.cache_clear()
            devices.forget_peak()
        # The other end of both pipes is open already.
        folder = self.recorder.journal.folder
        self._pipes = (folder / GO).open(encoding="utf-8"), (folder / DONE).open("w", encoding="utf-8")
        self._next_block(
            first_seconds=self.first_seconds,
            step_seconds=step_seconds,
            shapes=len(self.shapes),
            used=[*features_used(), *(["loader"] if self.recorder.has_loaders else [])],
            threads=torch.get_num_threads(),
            ranks=world_size(),
            free_bytes=devices.free_device_bytes(),
        )

    def _next_block(self, **what: object) -> None:
        """Report what was measured, and wait for the number of steps to take next."""
        assert self._pipes is not None
        go, done = self._pipes
        done.write(json.dumps({**what, "peak_bytes": _peak_bytes()}) + "\n")
        done.flush()
        self.block = self.left = int(go.readline().strip() or 0)
        if self.left == 0:
            end_process(self.recorder.journal, self.steps - 1)
        self.block_began = time.perf_counter()


def _peak_bytes() -> int:
    """Return the most memory in use so far: by tensors on the accelerator if one is used, else by this process."""
    on_device = devices.peak_bytes()
    if on_device is not None:
        return on_device
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
