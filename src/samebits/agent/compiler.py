"""torch's compiler in recorded processes: read when something of it is needed, not at the first step of an optimizer.

Optimizers, DDP and others mark where Dynamo must stop. To do so they import it, which takes more than half of the CPU
time of a short process, and where nothing is compiled the marks do nothing. Until the program, torch or a library
imports Dynamo, what is marked is called without its mark; from then on all is as torch has made it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

WhenLoaded: TypeAlias = Callable[[str, Callable[[ModuleType], None]], None]
COMPILER = "torch._dynamo"
# Where torch keeps a function with its mark: it asks the compiler for one only once.
_MARKED = "__dynamo_disable"


def read_when_needed(when_loaded: WhenLoaded) -> None:
    """Keep the compiler unread until something of it is needed; call it before torch is imported.

    Args:
        when_loaded: calls a function with a module as soon as that is loaded (`factors.imports`).
    """
    unmarked = _Unmarked()
    when_loaded("torch._compile", lambda module: _replace(module, "_disable_dynamo", unmarked.mark))
    when_loaded("torch.optim.optimizer", lambda module: _replace(module, "_use_grad_for_differentiable", unmarked.step))
    when_loaded(COMPILER, unmarked.restore)


def _replace(module: ModuleType, name: str, replacement: Callable[..., object]) -> None:
    setattr(module, name, partial(replacement, getattr(module, name)))


class _Unmarked:
    """Functions that are called without a mark so far, and the code of those steps of optimizers that have one."""

    def __init__(self) -> None:
        self.functions = WeakSet[FunctionType]()
        self.steps = WeakKeyDictionary[FunctionType, CodeType]()

    def mark(self, mark: Callable[..., Any], fn: Any = None, recursive: bool = True) -> Any:
        if fn is None:
            return partial(self.mark, mark, recursive=recursive)
        marked = mark(fn, recursive)
        if COMPILER not in sys.modules and isinstance(fn, FunctionType) and _MARKED in marked.__code__.co_consts:
            vars(fn)[_MARKED] = fn
            self.functions.add(fn)
        return marked

    def step(self, mark: Callable[..., Any], func: Callable[..., object]) -> Any:
        marked, plain = mark(func), _plain_step(func).__code__
        code = marked.__code__
        if COMPILER not in sys.modules and COMPILER in code.co_names and code.co_freevars == plain.co_freevars:
            marked.__code__ = plain.replace(co_filename=code.co_filename, co_name=code.co_name)
            self.steps[marked] = code
        return marked

    def restore(self, _compiler: ModuleType) -> None:
        for function in self.functions:
            vars(function).pop(_MARKED, None)
        for step, code in self.steps.items():
            step.__code__ = code


def _plain_step(func: Callable[..., object]) -> Any:
    def step(*args: Any, **named: Any) -> object:
        import torch

        before = torch.is_grad_enabled()
        try:
            torch.set_grad_enabled(args[0].defaults["differentiable"])
            return func(*args, **named)
        finally:
            torch.set_grad_enabled(before)

    return step
