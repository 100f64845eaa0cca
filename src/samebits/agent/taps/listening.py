"""Listeners around functions of torch, or of another library."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType

import torch

from samebits.base.sites import leave_out_own_frames
from samebits.factors.patching import patched_function, tell_torchscript


def listen(
    owner: object,
    name: str,
    before: Callable[..., None] | None = None,
    after: Callable[..., None] | None = None,
    failed: Callable[..., None] | None = None,
) -> Callable[[], None]:
    """Put a listener around a function; return a function that removes it, unless it is no longer the outermost.

    `before` is called with the arguments, `after` with the result and the arguments, and `failed` with the positional
    arguments when the function raises. Calls that compilers trace are not reported.
    """
    original = getattr(owner, name)

    def wrapped(*args: object, **kwargs: object) -> object:
        # The compiler folds this test, and never looks further.
        if torch.compiler.is_compiling():
            return original(*args, **kwargs)
        if before is not None:
            before(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            if failed is not None:
                failed(*args)
            leave_out_own_frames(error)
            raise
        if after is not None:
            after(result, *args, **kwargs)
        return result

    replacement: Callable[..., object] = wrapped
    if isinstance(owner, ModuleType):
        # Programs hand such a function to other processes, and keep it in their classes.
        replacement = patched = patched_function(owner.__name__, name, original)
        patched.call = wrapped
    else:
        functools.update_wrapper(wrapped, original)
    untell = tell_torchscript(original, replacement)

    def undo() -> None:
        untell()
        if getattr(owner, name) is replacement:
            setattr(owner, name, original)

    setattr(owner, name, replacement)
    return undo
