"""samebits: training runs that repeat bit for bit, with the proof, or the line that broke them.

Importing this package does nothing at all: every public name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from samebits import data as data
    from samebits.errors import DivergenceError as DivergenceError
    from samebits.errors import SamebitsError as SamebitsError
    from samebits.errors import TooLateError as TooLateError
    from samebits.errors import TooLateWarning as TooLateWarning
    from samebits.library import Comparison as Comparison
    from samebits.library import assert_repeats as assert_repeats
    from samebits.library import compare as compare
    from samebits.pinning import pin as pin
    from samebits.pinning import pinned as pinned
    from samebits.pinning import status as status
    from samebits.recording.session import record as record
    from samebits.seeds import derive as derive

_HOMES = {
    "Comparison": "samebits.library",
    "DivergenceError": "samebits.errors",
    "SamebitsError": "samebits.errors",
    "TooLateError": "samebits.errors",
    "TooLateWarning": "samebits.errors",
    "assert_repeats": "samebits.library",
    "compare": "samebits.library",
    "derive": "samebits.seeds",
    "pin": "samebits.pinning",
    "pinned": "samebits.pinning",
    "record": "samebits.recording.session",
    "status": "samebits.pinning",
}

# Rooms whose own names are public: `samebits.data.DataLoader`.
_ROOMS = ("data",)

__all__ = [*_HOMES, *_ROOMS, "__version__"]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _ROOMS:
        return importlib.import_module(f"samebits.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'samebits' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
