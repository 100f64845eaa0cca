"""The tap of CUDA graphs: a capture must be left alone, and a replay calls no hook; what compilers do is no training.

While a graph is captured, nothing may be copied to the host and no event may be waited for, on any thread: the capture
would fail, and with it the program. What is queued meanwhile becomes part of the graph. So hooks do nothing then. A
replay computes without calling anything; where a step of an optimizer was captured, a replay is recorded as a step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from weakref import WeakKeyDictionary, ref

import torch

from samebits.accelerators.devices import is_captured
from samebits.agent.taps.listening import listen

UNSEEN = "what is computed inside CUDA graphs, but for the parameters after a replay that trains"


class Graphs:
    """The CUDA graphs of this process."""

    def __init__(self) -> None:
        self._under_way: list[object] = []
        self._optimizers: WeakKeyDictionary[object, list[ref[torch.optim.Optimizer]]] = WeakKeyDictionary()

    def install(self, stack: ExitStack, replayed: Callable[[list[object]], None]) -> None:
        """Listen to captures and replays; `replayed` gets the optimizers whose steps are in the graph that ran."""
        graph: object = getattr(torch.cuda, "CUDAGraph", None)
        if not hasattr(graph, "replay"):
            return

        def captured(_: object, graph: torch.cuda.CUDAGraph, *__: object, **___: object) -> None:
            self._ended(graph)

        def ran(_: object, graph: torch.cuda.CUDAGraph, *__: object, **___: object) -> None:
            replayed([optimizer for weak in self._optimizers.get(graph, ()) if (optimizer := weak()) is not None])

        stack.callback(listen(graph, "capture_begin", before=self._begins, failed=self._ended))
        stack.callback(listen(graph, "capture_end", after=captured, failed=self._ended))
        stack.callback(listen(graph, "replay", after=ran))

    def is_capturing(self) -> bool:
        """Whether any thread captures a graph right now, which limits what other threads may do, too."""
        return bool(self._under_way) or is_captured()

    def note_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that this optimizer's step was captured just now."""
        if self._under_way:
            captured = self._optimizers.setdefault(self._under_way[-1], [])
            if all(weak() is not optimizer for weak in captured):
                captured.append(ref(optimizer))

    def _begins(self, graph: torch.cuda.CUDAGraph, *_: object, **__: object) -> None:
        self._under_way.append(graph)

    def _ended(self, graph: torch.cuda.CUDAGraph, *_: object, **__: object) -> None:
        self._under_way = [other for other in self._under_way if other is not graph]


def is_tracing() -> bool:
    """Whether a compiler is at work in this thread: what it does with modules is not training."""
    guards = sys.modules.get("torch._guards")
    if guards is None:
        return False
    return guards.TracingContext.try_get() is not None or guards.CompileContext.try_get() is not None
