"""stream-order: how far one stream of an accelerator has come when another one reads what it writes."""

from __future__ import annotations

from collections.abc import Callable

# The real one: it may be treated, too.
from os import urandom
from types import ModuleType
from typing import Any

from samebits.accelerators.devices import current_stream, keep_busy, stream_setters
from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext
from samebits.factors.patching import wrapped

# A few milliseconds on a GPU.
MOST_CYCLES = 1 << 23


class StreamOrder(CallFactor):
    """Streams of an accelerator work side by side: what one writes, another reads too early if it does not wait.

    A prefetcher that copies the next batch on a stream of its own needs `wait_stream` before the batch is used, and
    `record_stream` before its memory is used again. Where one is forgotten, the result depends on how far the device
    has come, mostly far enough in a short test. Pinned, a stream waits for the one before it whenever a thread goes on
    with another stream (`torch.cuda.stream`, `set_stream`, `with stream:`), so that nothing overlaps; varied,
    the stream that it goes on with comes late, by chance, by up to some milliseconds. Left alone: streams of
    several threads among each other, streams that C++ chooses by itself, and what the host reads of a copy with
    `non_blocking=True` that is not there yet.
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
    def switch(original: Callable[..., object], stream: Any, *args: object) -> object:
        if stream is None:
            return original(stream, *args)
        before = current_stream(stream.device)
        result = original(stream, *args)
        now = current_stream(stream.device)
        mode = context.enter("work on another stream") if now != before else "natural"
        if mode == "pinned":
            now.wait_stream(before)
        elif mode == "varied":
            # Half of the time: a late stream may overtake nothing.
            is_late, *drawn = urandom(4)
            keep_busy(stream.device, is_late % 2 * int.from_bytes(drawn, "big") % MOST_CYCLES)
        return result

    for module in stream_setters():
        context.replace(module, "set_stream", switch)
    for name in ("__enter__", "__exit__"):
        context.set_method(torch.Stream, name, wrapped(getattr(torch.Stream, name), switch))
