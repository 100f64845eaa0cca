"""The state of a whole training: kept, written whole or not at all, and restored so that it ends in the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from samebits.base.errors import StateError as StateError
    from samebits.base.errors import StateWarning as StateWarning
    from samebits.state.preemption import Preemption as Preemption
    from samebits.state.preserving import preserved as preserved
    from samebits.state.training import Training as Training
    from samebits.state.waiting import WaitingGradients as WaitingGradients

_EXPORTS = {
    "Preemption": "samebits.state.preemption",
    "StateError": "samebits.base.errors",
    "StateWarning": "samebits.base.errors",
    "Training": "samebits.state.training",
    "WaitingGradients": "samebits.state.waiting",
    "preserved": "samebits.state.preserving",
}

__all__ = [*_EXPORTS]


def __getattr__(name: str) -> object:
    home = _EXPORTS.get(name)
    if home is None:
        raise AttributeError(f"module 'samebits.state' has no attribute {name!r}")
    import importlib

    try:
        value = getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from samebits.base.errors import NoTorchError

        raise NoTorchError(f"samebits.state.{name} needs torch, which is not installed here") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
