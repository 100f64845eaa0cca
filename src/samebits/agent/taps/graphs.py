"""CUDA graphs: what is captured must be left alone, and what is replayed calls no hook; compilers' are no training.

While a graph is captured nothing may be copied to the host, and no event may be waited for, on any thread: the capture
fails, and with it the program. What is queued meanwhile becomes part of the graph. So hooks do nothing then. A replay
computes without calling anything; where an optimizer's step was captured, a replay is a step, and is recorded as one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch

from samebits.agent.taps.listening import listen

UNSEEN = "what is computed inside CUDA graphs, but for the parameters after a replay that trains"


class Graphs:
    """The CUDA graphs of this process."""

    def __init__(self) -> None:
        self._under_way: list[object] = []
        self._optimizers: WeakKeyDictionary[object, list[Any]] = WeakKeyDictionary()

    def install(self, installed: ExitStack, replayed: Callable[[list[object]], None]) -> None:
        """Listen to captures and replays.

        Args:
            installed: undoes it.
            replayed: called after each replay with the optimizers whose steps were captured in that graph.
        """
        graph: object = getattr(torch.cuda, "CUDAGraph", None)
        if not hasattr(graph, "replay"):
            return
        for name, before, after, failed in (
            ("capture_begin", self._begins, None, self._ended),
            ("capture_end", None, lambda _, graph, *__, **___: self._ended(graph), self._ended),
            ("replay", None, lambda _, graph, *__, **___: replayed(self._optimizers_of(graph)), None),
        ):
            installed.callback(listen(graph, name, before=before, after=after, failed=failed))

    def is_capturing(self) -> bool:
        """Whether any thread captures a graph right now: what another one may do meanwhile is limited, too."""
        return bool(self._under_way) or is_captured()

    def note_step(self, optimizer: torch.optim.Optimizer) -> None:
        """This optimizer's step was captured just now."""
        if self._under_way:
            known = self._optimizers.setdefault(self._under_way[-1], [])
            if all(one() is not optimizer for one in known):
                known.append(ref(optimizer))

    def _begins(self, graph: torch.cuda.CUDAGraph, *_: object, **__: object) -> None:
        self._under_way.append(graph)

    def _ended(self, graph: torch.cuda.CUDAGraph, *_: object, **__: object) -> None:
        self._under_way = [one for one in self._under_way if one is not graph]

    def _optimizers_of(self, graph: torch.cuda.CUDAGraph) -> list[object]:
        known = self._optimizers.get(graph, ())
        return [optimizer for one in known if (optimizer := one()) is not None]


def is_captured() -> bool:
    """Whether what is called now is not done, but becomes part of a CUDA graph."""
    cuda: ModuleType = torch.cuda
    try:
        return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())
    except RuntimeError:
        # A device that has failed answers nothing any more, and captures nothing.
        return False


def is_tracing() -> bool:
    """Whether a compiler is at work in this thread: what it does with modules is not training."""
    guards: Any = sys.modules.get("torch._guards")
    if guards is None:
        return False
    return guards.TracingContext.try_get() is not None or guards.CompileContext.try_get() is not None
