"""stream-order: how far one stream of an accelerator has come when another one reads what it writes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection
from itertools import count

# The real one: it may be treated, too.
from os import urandom
from types import ModuleType
from typing import Any

from samebits.accelerators.devices import current_stream, is_captured, keep_busy, stream_setters
from samebits.base.ranks import world_size
from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext
from samebits.factors.patching import wrapped

# Every second switch is late, by a few milliseconds at most: what overwrites has to be in time. After 64, one in 64.
MOST_CYCLES, MANY = 1 << 23, 64


class StreamOrder(CallFactor):
    """Streams of an accelerator work side by side: what one writes, another reads too early if it does not wait.

    A prefetcher that copies the next batch on a stream of its own needs `wait_stream` before the batch is used, and
    `record_stream` before its memory is used again. Where one is forgotten, the result depends on how far the device
    has come, mostly far enough in a short test. Pinned, a stream waits for the one before it whenever a thread goes on
    with another stream (`torch.cuda.stream`, `set_stream`, `with stream:`), and for those of other threads whenever one
    hands something over (by a queue, an event, a future), so that nothing overlaps; varied, that stream comes late, by
    chance, by up to some milliseconds. Left alone: programs of several ranks, which may wait for each other, what is
    captured in a graph, streams that C++ chooses by itself, and what the host reads of a copy with `non_blocking=True`
    that is not there yet.
    """

    name = "stream-order"
    summary = "what a GPU does on a second stream is read too early, now and then, where nobody waits for it"
    explanation = "{what} is not waited for"
    fix = (
        "let the streams wait for each other at {place}: stream.wait_stream(torch.cuda.current_stream()) before, "
        "torch.cuda.current_stream().wait_stream(stream) after, and record_stream on what goes across"
    )
    varied_by_default = True
    left_alone = True
    needs = ("cuda",)
    priced = ("pinned",)
    effects = ("as the program waits", "each waits for the one before", "each comes late")
    library = "torch", "torch"

    def treat(self, context: FactorContext) -> None:
        context.when_loaded("torch", lambda torch: _install(torch, context))


def _install(torch: ModuleType, context: FactorContext) -> None:
    made = count()
    # The stream of each thread, and under 0 the first one that was left for another.
    latest: dict[int, Any] = {}

    def order(now: Any, others: Collection[Any]) -> None:
        # An exception on its way must not become another one, and ranks may wait for each other.
        if is_captured() or sys.exc_info()[0] is not None or world_size() > 1:
            return
        if context.enter("work on another stream") == "pinned":
            for other in others:
                now.wait_stream(other)
        # Where some line is released, streams come late at all: the others wait.
        if context.mode == "varied" or context.setting.released:
            is_late, *cycles = urandom(4)
            if is_late % (2 if next(made) < MANY else MANY) == 0:
                keep_busy(now.device, int.from_bytes(cycles, "big") % MOST_CYCLES)

    def switch(original: Callable[..., object], stream: Any, *args: object) -> object:
        if stream is None:
            return original(stream, *args)
        before, captures = current_stream(stream.device), is_captured()
        result = original(stream, *args)
        now = current_stream(stream.device)
        if now != before and not captures:
            latest.setdefault(0, before)
            latest[threading.get_ident()] = now
            order(now, [before])
        return result

    def handed_over(original: Callable[..., object], *args: object) -> object:
        result = original(*args)
        if latest:
            latest[threading.get_ident()] = now = current_stream(latest[0].device)
            if len(latest) > 2:  # more than one thread
                order(now, [stream for stream in [*latest.values()] if stream != now])
        return result

    # Queues, events and futures hand over with one of these. A thread may wait in one before any stream is used.
    context.replace_method(threading.Condition, "__exit__", handed_over)
    for module in stream_setters():
        context.replace(module, "set_stream", switch)
    for name in {"__enter__", "__exit__"} & {*vars(torch.Stream)}:  # from torch 2.7 on
        context.set_method(torch.Stream, name, wrapped(getattr(torch.Stream, name), switch))
