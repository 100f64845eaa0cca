"""The tap of modules: the calls that the program itself makes, copies, and loads."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from traceback import walk_stack
from typing import TYPE_CHECKING

import torch
from torch.utils.data import get_worker_info

from samebits.agent.events import Event, Tell
from samebits.agent.taps.graphs import is_tracing
from samebits.agent.taps.listening import listen

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle


class CallDepth(threading.local):
    """How deep a thread is in calls of modules, and in loaders that are making a batch."""

    depth = 0  # of calls of modules
    outermost: Callable[[], object] = type(None)  # the module whose call is the outermost
    loading = 0  # how many DataLoaders are making a batch, each for a sample of the one before


class ModuleTap:
    """Reports the outermost calls, copies and loads.

    `passes` is called with every module, wherever it is called, and whether its forward begins, or is over.
    """

    def __init__(self, tell: Tell, inside: CallDepth, passes: Callable[[torch.nn.Module, bool], None]) -> None:
        self._tell, self._inside, self._passes = tell, inside, passes
        self._handles: list[RemovableHandle] = []

    def install(self, stack: ExitStack) -> None:
        """Hook torch."""
        hooks = torch.nn.modules.module
        self._handles = [
            hooks.register_module_forward_pre_hook(self._called),
            hooks.register_module_forward_hook(self._returned, always_call=True),
        ]
        for handle in self._handles:
            stack.callback(handle.remove)
        if hasattr(hooks, "_has_any_global_hook"):
            # torch.compile warns of global hooks; ours vanish in compiled code and concern no one.
            stack.callback(setattr, hooks, "_has_any_global_hook", hooks._has_any_global_hook)
            hooks._has_any_global_hook = self._has_global_hooks_of_others
        stack.callback(listen(torch.nn.Module, "__setstate__", after=self._copied))
        stack.callback(listen(torch.nn.Module, "load_state_dict", after=self._loaded))

    def _called(self, module: torch.nn.Module, args: object) -> None:
        # Inside a compiled region this hook must vanish: the compiler folds the test and never looks further.
        if torch.compiler.is_compiling():
            return
        inside = self._inside
        depth = inside.depth
        inside.depth = depth + 1
        # No hook saw the end of the call before, so that this call is an outermost one, too.
        if depth and module is inside.outermost() and not _is_called_again():
            depth, inside.depth = 0, 1
        # DataParallel's replicas run inside a call that is seen. By `__dict__`: a program's `__getattr__` must not run.
        is_inner = depth or inside.loading or module.__dict__.get("_is_replica", False)
        if not is_inner and get_worker_info() is None:
            inside.outermost = weakref.ref(module)
            self._tell(Event.CALLED, module, args)
        self._passes(module, True)

    def _returned(self, module: torch.nn.Module, args: object, result: object) -> None:
        if torch.compiler.is_compiling():
            return
        inside = self._inside
        depth = inside.depth = max(0, inside.depth - 1)
        if depth == 0 and result is not None and not inside.loading:
            self._tell(Event.RETURNED, module, result)
        self._passes(module, False)

    def _copied(self, result: object, module: torch.nn.Module, *_: object, **__: object) -> None:
        # Compilers copy and unpickle graphs of their own; how many depends on what is in their caches.
        if not isinstance(module, torch.fx.GraphModule) and not is_tracing():
            self._tell(Event.COPIED, module)

    def _loaded(self, result: object, module: torch.nn.Module, *_: object, **__: object) -> None:
        if not is_tracing():
            self._tell(Event.LOADED, module)

    def _has_global_hooks_of_others(self) -> bool:
        hooks, ours = torch.nn.modules.module, {handle.id for handle in self._handles}
        kinds = ("backward_pre", "backward", "forward_pre", "forward")
        return any(not ours.issuperset(getattr(hooks, f"_global_{kind}_hooks")) for kind in kinds)


def _is_called_again() -> bool:
    """Whether the outermost module is called again inside its own call.

    Otherwise no call is around this one: an error that is no Exception left the call before without calling any hook.
    """
    code = torch.nn.Module._call_impl.__code__
    calls = (frame for frame, _ in walk_stack(sys._getframe(2)) if frame.f_code is code)
    return len(list(islice(calls, 2))) == 2
