"""samebits: training runs that repeat bit for bit, with the proof, or the line that broke them.

Importing this package loads nothing: every public name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samebits.base.lazy import lazily

if TYPE_CHECKING:
    from samebits import data as data
    from samebits import state as state
    from samebits.agent.session import record as record
    from samebits.api import Comparison as Comparison
    from samebits.api import Locking as Locking
    from samebits.api import Verdict as Verdict
    from samebits.api import Verification as Verification
    from samebits.api import assert_repeats as assert_repeats
    from samebits.api import check as check
    from samebits.api import compare as compare
    from samebits.api import lock as lock
    from samebits.api import verdict as verdict
    from samebits.api import verify as verify
    from samebits.base.errors import DivergenceError as DivergenceError
    from samebits.base.errors import SamebitsError as SamebitsError
    from samebits.base.errors import TooLateError as TooLateError
    from samebits.base.errors import TooLateWarning as TooLateWarning
    from samebits.base.seeds import derive as derive
    from samebits.base.version import __version__ as __version__
    from samebits.checking.verdict import Cause as Cause
    from samebits.checking.verdict import Remedy as Remedy
    from samebits.factors.pinning import pin as pin
    from samebits.factors.pinning import pinned as pinned
    from samebits.factors.pinning import status as status

_EXPORTS = {
    "__version__": "samebits.base.version",
    "Cause": "samebits.checking.verdict",
    "Comparison": "samebits.api",
    "DivergenceError": "samebits.base.errors",
    "Locking": "samebits.api",
    "Remedy": "samebits.checking.verdict",
    "SamebitsError": "samebits.base.errors",
    "TooLateError": "samebits.base.errors",
    "TooLateWarning": "samebits.base.errors",
    "Verdict": "samebits.api",
    "Verification": "samebits.api",
    "assert_repeats": "samebits.api",
    "check": "samebits.api",
    "compare": "samebits.api",
    "derive": "samebits.base.seeds",
    "lock": "samebits.api",
    "pin": "samebits.factors.pinning",
    "pinned": "samebits.factors.pinning",
    "record": "samebits.agent.session",
    "status": "samebits.factors.pinning",
    "verdict": "samebits.api",
    "verify": "samebits.api",
}

# Subpackages whose own names are public: `samebits.data.DataLoader`.
_SUBPACKAGES = ("data", "state")

__all__ = [*_EXPORTS, *_SUBPACKAGES]

__getattr__, __dir__ = lazily(__name__, {**_EXPORTS, **{name: f"{__name__}.{name}" for name in _SUBPACKAGES}})
