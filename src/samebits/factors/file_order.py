"""file-order: the order in which a directory is listed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from samebits.factors.base import CallFactor, Observation, Scene


class FileOrder(CallFactor):
    """`os.listdir`, `os.scandir`, `os.walk`, `glob` and `pathlib` list a directory in the order of the file system.

    That order depends on the kind of file system and on how the files came there: the same folder, copied to another
    machine, is listed in another order. Pinned, listings are sorted; varied, they are reversed.
    """

    name = "file-order"
    summary = "directories are listed in an order that another machine, copy or file system does not share"
    story = "{what} listed a directory as the file system gives it"
    cure = "sort the listing at line {line}: sorted(...)"
    varied_by_default = True
    drifts = False

    def install(self, scene: Scene) -> None:
        listdir, scandir = _listdir(scene, os.listdir), _scandir(scene, os.scandir)
        scene.replace(os, "listdir", listdir)
        scene.replace(os, "scandir", scandir)
        # From Python 3.13 on glob keeps the functions it found when it was imported.
        globber = getattr(sys.modules.get("glob"), "_StringGlobber", None)
        if globber is not None and "scandir" in vars(globber):
            scene.set(globber, "scandir", staticmethod(scandir))

    def observe(self, scene: Scene | None = None) -> Observation:
        if scene is None or scene.mode == "natural":
            return Observation("as the file system gives it", False)
        return Observation("sorted" if scene.mode == "pinned" else "reversed", True)


def _arranged(entries: list[Any], mode: str, variant: int, key: Callable[[Any], Any] | None = None) -> list[Any]:
    if mode == "pinned":
        return sorted(entries, key=key)
    if mode == "varied":
        # Reversed differs from what the file system gave; sorted downwards differs from what is pinned.
        return entries[::-1] if variant % 2 else sorted(entries, key=key, reverse=True)
    return entries


def _listdir(scene: Scene, original: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def listdir(path: Any = None) -> list[Any]:
        return _arranged(original(path), scene.enter("os.listdir"), scene.setting.variant)

    return listdir


def _scandir(scene: Scene, original: Callable[..., Any]) -> Callable[..., Any]:
    def scandir(path: Any = None) -> _Listing:
        mode = scene.enter("os.scandir")
        with original(path) as entries:
            return _Listing(_arranged(list(entries), mode, scene.setting.variant, key=lambda entry: entry.name))

    return scandir


class _Listing:
    """What os.scandir returns: an iterator that is also a context manager."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Listing:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())
