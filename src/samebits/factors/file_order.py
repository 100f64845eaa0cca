"""file-order: the order in which a directory is listed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext

# Classes that keep references to functions of `os` from their import on: in Python 3.10 and in 3.13.
KEEPERS = (("pathlib", "_NormalAccessor"), ("glob", "_StringGlobber"))


class FileOrder(CallFactor):
    """`os.listdir`, `os.scandir`, `os.walk`, `glob` and `pathlib` list a directory in the order of the file system.

    That order depends on the kind of file system and on how the files came there: the same folder, copied to another
    machine, is listed in another order. Pinned, listings are sorted; varied, they are reversed.
    """

    name = "file-order"
    summary = "directories are listed in an order that another machine, copy or file system does not share"
    explanation = "{what}() lists in file-system order"
    fix = "sort the listing at {place}: sorted(...)"
    fix_unplaced = "sort listings of folders: sorted(...)"
    fixes: ClassVar = {
        "os.walk": "sort what os.walk lists at {place}, in its loop: folders.sort() and files.sort()",
        "os.scandir": "sort the listing at {place}: sorted(os.scandir(...), key=lambda entry: entry.name)",
    }
    varied_by_default = True
    varies_between_runs = False
    effects = ("as the file system gives it", "sorted", "reversed")

    def treat(self, context: FactorContext) -> None:
        for name, listing in (("listdir", _listdir), ("scandir", _scandir)):
            original = getattr(os, name)
            patched = context.replace(os, name, partial(listing, context))
            for module, keeper_name in KEEPERS:
                keeper = getattr(sys.modules.get(module), keeper_name, None)
                if getattr(keeper, name, None) is original:
                    context.set(keeper, name, staticmethod(patched))


def _arranged(entries: list[object], mode: str, variant: int, key: Callable[[Any], Any] | None = None) -> list[Any]:
    if mode == "pinned":
        return sorted(entries, key=key)
    if mode == "varied":
        # The reversed order differs from the file system's, the descending one from the pinned order.
        return entries[::-1] if variant % 2 else sorted(entries, key=key, reverse=True)
    return entries


def _listdir(context: FactorContext, original: Callable[..., list[object]], path: object = None) -> list[object]:
    return _arranged(original(path), context.enter(context.called("os.listdir")), context.setting.variant)


def _scandir(context: FactorContext, original: Callable[..., Any], path: object = None) -> _Listing:
    mode = context.enter(context.called("os.scandir"))
    with original(path) as entries:
        return _Listing(_arranged(list(entries), mode, context.setting.variant, key=lambda entry: entry.name))


class _Listing(Iterator[object]):
    """A replacement of the result of os.scandir: an iterator that is also a context manager."""

    def __init__(self, entries: list[object]) -> None:
        self._entries = iter(entries)

    def __next__(self) -> object:
        return next(self._entries)

    def __enter__(self) -> _Listing:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())
