"""The forms an answer can be printed in: one file per form; its name is what `--format` takes.

A form is a module with a function for each kind of answer that it has, as `Form` lists them. A form that has no
function for a kind cannot be chosen for it, so a form for one kind alone needs one function.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from samebits.base.errors import SamebitsError, UsageError

if TYPE_CHECKING:
    from samebits.against.verdict import Crossing
    from samebits.checking.verdict import CheckVerdict
    from samebits.comparison.runs import Diff
    from samebits.factors.pinning import Status
    from samebits.locking.verdict import EntriesVerified, EntryLocked
    from samebits.pricing.prices import Costs
    from samebits.replay.runner import Replay
    from samebits.resuming.verdict import Resumption

DEFAULT = "text"


class Form(Protocol):
    """What a form's module holds.

    Attributes:
        IS_DATA: for programs: printed as it is, and an answer that failed is a document, too. Otherwise for people: a
            terminal may wrap and colour it, and errors go to stderr.
    """

    IS_DATA: bool

    def check(self, verdict: CheckVerdict, /) -> str:
        """The answer of `samebits check`."""

    def diff(self, found: Diff, /) -> str:
        """The answer of `samebits diff`."""

    def cost(self, costs: Costs, /) -> str:
        """The answer of `samebits cost`."""

    def factors(self, status: Status, /) -> str:
        """The answer of `samebits factors`."""

    def replay(self, operands: Path, replay: Replay, /) -> str:
        """The answer of `samebits replay`."""

    def resume(self, found: Resumption, /) -> str:
        """The answer of `samebits resume`."""

    def against(self, found: Crossing, /) -> str:
        """The answer of `samebits check --against`."""

    def lock(self, found: EntryLocked, /) -> str:
        """The answer of `samebits lock`."""

    def verify(self, found: EntriesVerified, /) -> str:
        """The answer of `samebits verify`."""

    def failure(self, kind: str, error: SamebitsError, /) -> str:
        """What is printed where an answer of a kind could not even be begun; empty where the error is enough."""


def form_names(kind: str) -> list[str]:
    """The forms that have answers of a kind, the default first; none of them is imported."""
    found = [module.name for module in pkgutil.iter_modules(__path__) if _has(module.name, kind)]
    return sorted(found, key=lambda name: (name != DEFAULT, name))


def _has(name: str, kind: str) -> bool:
    source = Path(__path__[0], f"{name}.py").read_text(encoding="utf-8")
    return re.search(rf"^def {kind}\(", source, re.MULTILINE) is not None


def find_form(name: str, kind: str) -> Form:
    """The form of that name, for answers of a kind: the name of a function of `Form`.

    Raises:
        UsageError: it has no answers of that kind.
    """
    module = importlib.import_module(f"{__name__}.{name}")
    if not hasattr(module, kind):
        raise UsageError(f"--format {name} has no form for the answers of `samebits {kind}`", "leave --format out")
    return cast("Form", module)


def failure_in(name: str, kind: str, error: SamebitsError) -> str:
    """What a form prints of an error; empty where it has nothing for it."""
    module = importlib.import_module(f"{__name__}.{name}")
    return cast("Form", module).failure(kind, error) if hasattr(module, "failure") else ""
