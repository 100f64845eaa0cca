"""Data that depends on nothing but (seed, epoch, index): the same batches for any workers, ranks and resumption."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from samebits.data.audit import Audit as Audit
    from samebits.data.audit import audit as audit
    from samebits.data.fetching import fetch as fetch
    from samebits.data.generators import sample_generator as sample_generator
    from samebits.data.loader import DataLoader as DataLoader
    from samebits.data.streams import Mapped as Mapped

_EXPORTS = {
    "Audit": "samebits.data.audit",
    "DataLoader": "samebits.data.loader",
    "Mapped": "samebits.data.streams",
    "audit": "samebits.data.audit",
    "fetch": "samebits.data.fetching",
    "sample_generator": "samebits.data.generators",
}

__all__ = [*_EXPORTS]


def __getattr__(name: str) -> object:
    home = _EXPORTS.get(name)
    if home is None:
        raise AttributeError(f"module 'samebits.data' has no attribute {name!r}")
    import importlib

    try:
        value = getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from samebits.base.errors import NoTorchError

        raise NoTorchError(f"samebits.data.{name} needs torch, which is not installed here") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
