"""Listeners around functions of torch, or of another library."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from samebits.base.sites import leave_out_own_frames


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

    def undo() -> None:
        if getattr(owner, name) is wrapped:
            setattr(owner, name, original)

    functools.update_wrapper(wrapped, original)
    setattr(owner, name, wrapped)
    return undo
