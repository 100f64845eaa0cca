"""stream-order: how far one stream of an accelerator has come when another one reads what it writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count

# The real ones: they may be treated, too.
from os import getpid, urandom
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

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
    with another stream (`torch.cuda.stream`, `set_stream`, `with stream:`); where a thread hands something to another
    one (by a queue, an event, a future), the other's stream waits for what the first had queued by then. So nothing
    overlaps. Varied, a stream comes late there, by chance, by up to some milliseconds. Left alone: programs of several
    ranks, which may wait for each other, what is captured in a graph, streams that C++ chooses by itself, and what the
    host reads of a copy with `non_blocking=True` that is not there yet.
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
    # Where this program uses more than one stream: processes, by number, and their devices.
    used: set[tuple[int, Any]] = set()
    # Lock → device → stream → what a thread had queued there when it let go of the lock, and who has waited for it.
    queued: WeakKeyDictionary[Any, dict[Any, dict[int, tuple[Any, set[int]]]]] = WeakKeyDictionary()

    def order(device: Any, waits: Sequence[Callable[[], object]]) -> None:
        if world_size() > 1:  # ranks may wait for each other
            return
        if context.enter("work on another stream") == "pinned":
            for wait in waits:
                wait()
        # Where some line is released, all streams may come late: the others are waited for.
        if context.mode == "varied" or context.setting.released:
            is_late, *cycles = urandom(4)
            if is_late % (2 if next(made) < MANY else MANY) == 0:
                keep_busy(device, int.from_bytes(cycles, "big") % MOST_CYCLES)

    def switch(original: Callable[..., object], stream: Any, *args: object) -> object:
        if stream is None:
            return original(stream, *args)
        before, captures = current_stream(stream.device), is_captured()
        result = original(stream, *args)
        now = current_stream(stream.device)
        if now != before and not captures:
            used.add((getpid(), now.device))
            with suppress(RuntimeError):  # a device that has failed: the program hears of it by itself
                if not is_captured():
                    order(now.device, [lambda: now.wait_stream(before)])
        return result

    def pass_on(lock: object) -> None:
        for device in [device for process, device in used.copy() if process == getpid()]:
            now, here = current_stream(device), queued.setdefault(lock, {}).setdefault(device, {})
            new = [(event, seen) for event, seen in here.values() if now.stream_id not in seen]
            for _, seen in new:
                seen.add(now.stream_id)
            if new:
                order(device, [partial(now.wait_event, event) for event, _ in new])
            here[now.stream_id] = now.record_event(), {now.stream_id}

    def let_go(original: Callable[..., object], condition: Any, *args: object) -> object:
        try:
            if used and not is_captured():
                with suppress(RuntimeError, TypeError):  # or a lock of the program's own that has no weak references
                    pass_on(condition._lock)
        finally:
            result = original(condition, *args)
        return result

    # Queues, events and futures hand over with one of these. A thread may wait in one before any stream is used.
    for name in ("__exit__", "wait"):
        context.replace_method(threading.Condition, name, let_go)
    for module in stream_setters():
        context.replace(module, "set_stream", switch)
    for name in {"__enter__", "__exit__"} & {*vars(torch.Stream)}:  # from torch 2.7 on
        context.set_method(torch.Stream, name, wrapped(getattr(torch.Stream, name), switch))
