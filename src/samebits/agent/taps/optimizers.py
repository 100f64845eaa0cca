"""The tap of optimizers: when one is made, and its steps, also those inside CUDA graphs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from traceback import walk_stack
from typing import TYPE_CHECKING

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from samebits.agent.events import Event, Tell
from samebits.agent.taps.graphs import Graphs
from samebits.agent.taps.listening import listen
from samebits.base.sites import thread_frames

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

_OPTIMIZERS = register_optimizer_step_pre_hook.__code__.co_filename
# Hooks around steps that are still to be removed.
_left_over: list[RemovableHandle] = []


def install(stack: ExitStack, tell: Tell, graphs: Graphs) -> None:
    """Report optimizers that are made and stepped, and CUDA graphs that run."""

    def made(result: object, optimizer: object, *_: object, **__: object) -> None:
        tell(Event.OPTIMIZER_MADE, optimizer)

    def begins(optimizer: object, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        # Inside a compiled region this hook must vanish: the compiler folds the test and never looks further.
        if torch.compiler.is_compiling():
            return
        # The arguments begin with the optimizer.
        tell(Event.STEP_BEGINS, optimizer, callable(kwargs.get("closure") or next(iter(args[1:]), None)))

    def ends(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        if torch.compiler.is_compiling():
            return
        if graphs.is_capturing():
            graphs.note_step(optimizer)
        tell(Event.STEP_ENDS, optimizer)

    remove_left_over()
    for handle in register_optimizer_step_pre_hook(begins), register_optimizer_step_post_hook(ends):
        stack.callback(_left_over.append, handle)
    # An optimizer that was unpickled or copied never ran `__init__`.
    for name in ("__init__", "__setstate__"):
        stack.callback(listen(torch.optim.Optimizer, name, after=made))
    graphs.install(stack, lambda optimizers: tell(Event.REPLAYED, optimizers))


def remove_left_over() -> None:
    """Remove hooks that are not needed any more, unless another thread is walking through them right now."""
    ident = threading.get_ident()
    walked = (
        frame for thread, innermost in thread_frames().items() if thread != ident for frame, _ in walk_stack(innermost)
    )
    if not any(frame.f_code.co_filename == _OPTIMIZERS for frame in walked):
        while _left_over:
            _left_over.pop().remove()
