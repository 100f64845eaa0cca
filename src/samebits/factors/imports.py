"""Actions on a module that run right after its import, without importing it ourselves."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]
# Errors of our own actions after the import of a module, as texts.
failures: list[str] = []


class _Watcher:
    """A finder that finds nothing itself: it asks the other finders, and has actions run after the module has run."""

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
        original = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            # The loader gets its own method back before the module runs, so that it looks untouched.
            vars(loader).pop("exec_module", None)
            original(module)
            actions = self.actions.get(name, [])
            while actions:
                try:
                    actions.pop(0)(module)
                except Exception as error:
                    # This runs inside the user's import, which has to continue.
                    failures.append(f"{type(error).__name__} when {name} was imported: {error}")

        loader.exec_module = exec_module


_watcher = _Watcher()


def when_loaded(name: str, action: Action) -> None:
    """Call `action(module)` as soon as the module `name` is loaded: now, or right after its import."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        action(module)
        return
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)
    _watcher.actions.setdefault(name, []).append(action)


def forget(name: str, action: Action) -> None:
    """Withdraw an action that has not been called yet; after the last one, Python's imports work as before."""
    actions = _watcher.actions.get(name, [])
    if action in actions:
        actions.remove(action)
    if not any(_watcher.actions.values()) and _watcher in sys.meta_path:
        sys.meta_path.remove(_watcher)
