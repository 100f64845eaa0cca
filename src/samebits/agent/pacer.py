"""A run that takes its steps when it is asked to, and says how long they took: so that runs can take turns."""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from samebits.agent.listening import listen
from samebits.agent.recorder import Recorder
from samebits.agent.rows import end_process
from samebits.agent.used import what_was_used
from samebits.bits.digest.packs import plans
from samebits.runfolder.pacing import DONE, GO


class Pacer:
    """Paces the process it is in.

    Args:
        folder: the run folder.
        warm_up: how many steps are recorded, and not timed.
        recorder: it ends with the warm-up, so that what is timed is the program alone.
    """

    def __init__(self, folder: Path, warm_up: int, recorder: Recorder) -> None:
        self.folder, self.warm_up, self.recorder = folder, warm_up, recorder
        self.steps = self.left = self.block = 0
        self.first_called: float | None = None
        self.first_seconds = self.block_began = 0.0
        self.ends: list[float] = []
        self.half_way = 0.0
        self.fetches = False
        self.shapes: set[str] = set()
        self._depth = 0
        self._watching = ExitStack()
        self._go: IO[str] | None = None
        self._done: IO[str] | None = None

    def install(self) -> None:
        """Hook torch."""
        # After the recorder's own hook, which writes the step.
        register_optimizer_step_post_hook(self._after_step)
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        self._watching.callback(listen(iterator, "__init__", after=self._note_loader))
        hooks = torch.nn.modules.module
        for handle in (
            hooks.register_module_forward_pre_hook(self._called),
            hooks.register_module_forward_hook(self._returned, always_call=True),
        ):
            self._watching.callback(handle.remove)

    def _note_loader(self, *_: object) -> None:
        self.fetches = True

    def _called(self, module: object, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if self._depth == 0:
            if self.first_called is None:
                self.first_called = time.perf_counter()
            self.shapes.add(str([tuple(one.shape) for one in args if isinstance(one, torch.Tensor)]))
        self._depth += 1

    def _returned(self, module: torch.nn.Module, args: object, result: object) -> None:
        if not torch.compiler.is_compiling():
            self._depth = max(0, self._depth - 1)

    def _after_step(self, *_: object) -> None:
        self.steps += 1
        if self.steps == 1:
            _synchronize()
            now = time.perf_counter()
            self.first_seconds = now - (now if self.first_called is None else self.first_called)
        if self.steps == self.warm_up // 2:
            _synchronize()
            self.half_way = time.perf_counter()
        if self.steps < self.warm_up:
            self.ends.append(time.perf_counter())
        elif self.steps == self.warm_up:
            self._ready()
        elif self._go is not None:
            self.left -= 1
            if self.left == 0:
                self._end_block()

    def _ready(self) -> None:
        _synchronize()
        ends = [*self.ends, time.perf_counter()]
        # What one step takes the host to queue; where an accelerator takes longer, what both took is the truth.
        step_seconds = statistics.median(b - a for a, b in pairwise(ends))
        if _uses_cuda():
            step_seconds = max(step_seconds, (ends[-1] - self.half_way) / (self.warm_up - self.warm_up // 2))
        # From here on its hooks return at once; they cannot be taken away while one of them is running.
        self.recorder.finish()
        self._watching.close()
        if _uses_cuda():
            # What the recording held on the device is no part of what is measured.
            plans.clear()
            torch.cuda.reset_peak_memory_stats()
        # The other end of both pipes is open already.
        self._go = (self.folder / GO).open(encoding="utf-8")
        self._done = (self.folder / DONE).open("w", encoding="utf-8")
        self._say(
            first_seconds=self.first_seconds,
            step_seconds=step_seconds,
            shapes=len(self.shapes),
            used=[*what_was_used(), *(["loader"] if self.fetches else [])],
            has_cuda=torch.cuda.is_available(),
            threads=torch.get_num_threads(),
            ranks=int(os.environ.get("WORLD_SIZE") or 1),
            free_bytes=torch.cuda.mem_get_info()[0] if _uses_cuda() else None,
        )
        self._next_block()

    def _end_block(self) -> None:
        _synchronize()
        self._say(seconds=time.perf_counter() - self.block_began, steps=self.block)
        self._next_block()

    def _next_block(self) -> None:
        assert self._go is not None
        word = self._go.readline().strip()
        self.block = self.left = int(word or 0)
        if self.left == 0:
            end_process(self.recorder.journal, self.steps - 1, 0)
        self.block_began = time.perf_counter()

    def _say(self, **what: object) -> None:
        assert self._done is not None
        self._done.write(json.dumps({**what, "peak_bytes": _peak_bytes()}) + "\n")
        self._done.flush()


def _synchronize() -> None:
    """Wait for whatever the accelerator has not done yet."""
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        accelerator.synchronize()
    elif _uses_cuda():
        torch.cuda.synchronize()


def _peak_bytes() -> int:
    """The most memory so far: of the accelerator's what tensors took, where one is used, else this process's."""
    if _uses_cuda():
        return int(torch.cuda.max_memory_allocated())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _uses_cuda() -> bool:
    cuda: ModuleType = torch.cuda
    return bool(cuda.is_initialized())
