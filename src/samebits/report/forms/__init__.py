"""The forms an answer can be printed in: a file and an entry for each; its name is what `--format` takes."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from samebits.base.errors import SamebitsError, UsageError

DEFAULT = "text"
# What has a verdict on lines of code.
_JUDGED = ("check", "verify")
_PLACED = (*_JUDGED, "lint")
# Form → the kinds of answers that it has; None where it has all. None of them is imported before it is wanted.
FORMS = {DEFAULT: None, "github": _PLACED, "json": None, "junit": _JUDGED, "sarif": _PLACED}


class Form(Protocol):
    """What a form's module holds."""

    __name__: str
    # For programs: printed as it is, and an answer that failed is a document, too. Otherwise for people: a terminal may
    # wrap and colour it, and errors go to stderr.
    IS_DATA: bool

    def answer(self, kind: str, record: object, /) -> str:
        """An answer; the kind is a name in `report.answers`."""

    def failure(self, kind: str, error: SamebitsError, /) -> str:
        """What is printed where an answer of a kind could not even be begun; empty where the error is enough."""


def form_names(kind: str) -> list[str]:
    """The forms that have answers of a kind, the default first."""
    return [name for name, kinds in FORMS.items() if kinds is None or kind in kinds]


def name_of(form: Form) -> str:
    """What `--format` calls it."""
    return form.__name__.rpartition(".")[2]


def find_form(name: str, kind: str) -> Form:
    """The form of that name; UsageError where it has no answers of that kind."""
    if name not in form_names(kind):
        raise UsageError(
            f"--format {name} has no form for the answer of `{kind}`", f"take one of {', '.join(form_names(kind))}"
        )
    return cast("Form", importlib.import_module(f"{__name__}.{name}"))
