"""Data that depends only on (seed, epoch, index): the same batches for any workers, any ranks, and after a resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samebits.base.lazy import lazily

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
__getattr__, __dir__ = lazily(__name__, _EXPORTS)
