"""Acting on a module the moment it has been imported, without importing it ourselves."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]
# What went wrong on our side when modules were imported.
failures: list[str] = []


class _Watcher:
    """A finder that finds nothing itself: it lets the others find, and has itself called when the module has run."""

    def __init__(self) -> None:
        self.actions: dict[str, list[Action]] = {}
        self._searching: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.actions or name in self._searching:
            return None
        self._searching.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching.discard(name)
        if spec is not None and spec.loader is not None:
            self._announce(name, spec.loader)
        return spec

    def _announce(self, name: str, loader: Any) -> None:
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            # The loader becomes its plain self again before the module runs: it looks untouched.
            vars(loader).pop("exec_module", None)
            run(module)
            waiting = self.actions.get(name, [])
            while waiting:
                try:
                    waiting.pop(0)(module)
                except Exception as error:
                    # This runs inside the user's import, which has to continue.
                    failures.append(f"{type(error).__name__} when {name} was imported: {error}")

        loader.exec_module = exec_module


_watcher = _Watcher()


def when_loaded(name: str, action: Action) -> None:
    """Call `action(module)` as soon as the module `name` is there: now, or right after its import has run."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        action(module)
        return
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)
    _watcher.actions.setdefault(name, []).append(action)


def forget(name: str, action: Action) -> None:
    """Withdraw an action that has not been called yet; with the last one, Python's imports are as they were."""
    waiting = _watcher.actions.get(name, [])
    if action in waiting:
        waiting.remove(action)
    if not any(_watcher.actions.values()) and _watcher in sys.meta_path:
        sys.meta_path.remove(_watcher)
