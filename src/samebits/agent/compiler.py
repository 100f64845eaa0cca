"""torch's compiler in recorded processes: read when something of it is needed, not at the first step of an optimizer.

Optimizers, DDP and others mark where Dynamo must stop. To do so they import it, which takes more than half of the CPU
time of a short process, and where nothing is compiled the marks do nothing. Until the program, torch or a library
imports Dynamo, what is marked is called without its mark; from then on all is as torch has made it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from samebits.factors.imports import when_loaded

COMPILER = "torch._dynamo"
# Where torch keeps a function with its mark: it asks the compiler for one only once.
_MARKED = "__dynamo_disable"


def read_when_needed() -> None:
    """Keep the compiler unread until something of it is needed; call it before torch is imported."""
    whole = ExitStack()
    when_loaded("torch._compile", lambda module: _replace(module, "_disable_dynamo", _mark, whole))
    when_loaded("torch.optim.optimizer", lambda module: _replace(module, "_use_grad_for_differentiable", _step, whole))
    when_loaded(COMPILER, lambda _: whole.close())


def _replace(module: ModuleType, name: str, replacement: Callable[..., object], whole: ExitStack) -> None:
    setattr(module, name, partial(replacement, whole, getattr(module, name)))


def _mark(whole: ExitStack, mark: Callable[..., Any], fn: Any = None, recursive: bool = True) -> Any:
    if fn is None:
        return partial(_mark, whole, mark, recursive=recursive)
    marked = mark(fn, recursive)
    if COMPILER not in sys.modules and isinstance(fn, FunctionType) and _MARKED in marked.__code__.co_consts:
        vars(fn)[_MARKED] = fn
        whole.callback(vars(fn).pop, _MARKED, None)
    return marked


def _step(whole: ExitStack, mark: Callable[..., Any], func: Callable[..., object]) -> Any:
    marked, plain = mark(func), _plain_step(func).__code__
    code = marked.__code__
    if COMPILER not in sys.modules and COMPILER in code.co_names and code.co_freevars == plain.co_freevars:
        marked.__code__ = plain.replace(co_filename=code.co_filename, co_name=code.co_name)
        whole.callback(setattr, marked, "__code__", code)
    return marked


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
