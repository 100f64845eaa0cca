"""`samebits.factors/1`."""

from __future__ import annotations

from typing import Literal, TypedDict

from samebits.factors.base import Scope


class FactorDocument(TypedDict):
    """One factor as it stands here.

    Attributes:
        held: null: cannot be told from here
        can_pin: from inside a running program
    """

    name: str
    scope: Scope
    summary: str
    in_effect: str
    held: bool | None
    can_pin: bool
    reason: str
    too_late_since: str
    pinned_by_default: bool
    varied_by_default: bool


class FactorsDocument(TypedDict):
    """What `samebits factors --format json` prints. Keys are only ever added."""

    schema: Literal["samebits.factors/1"]
    factors: list[FactorDocument]
