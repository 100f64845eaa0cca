"""The forms in which an answer can be printed, by the names that `--format` takes.

The first is for people: a terminal may wrap and colour it, and errors go to stderr. Each of the others has a file with
`answer` and `failure`. They are for programs: they are printed unchanged, and a failure is a document, too.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from samebits.base.errors import SamebitsError
from samebits.report.answers import find_answer

DEFAULT = "text"
# Kinds of answers with a verdict, and those with lines of code.
_JUDGED = ("check", "verify")
_PLACED = (*_JUDGED, "lint")
# Form → the kinds of answers that it can print; None for all.
FORMS = {DEFAULT: None, "github": _PLACED, "json": None, "junit": _JUDGED, "sarif": _PLACED}


def form_names(kind: str) -> list[str]:
    """Return the forms that can print answers of a kind, the default first."""
    return [name for name, kinds in FORMS.items() if kinds is None or kind in kinds]


def answer_in(form: str, kind: str, record: object) -> str:
    """Return an answer in a form; the kind is a name in `report.answers`."""
    return find_answer(kind).told(record).text if form == DEFAULT else str(_module_of(form).answer(kind, record))


def failure_in(form: str, kind: str, error: SamebitsError) -> str:
    """Return what a form for programs prints where an answer of a kind could not even begin."""
    return str(_module_of(form).failure(kind, error))


def _module_of(form: str) -> ModuleType:
    # A form is imported only when it is needed.
    return importlib.import_module(f"{__name__}.{form}")
