"""Another present moment for `datetime.datetime` and `datetime.date`, without replacing the classes."""

from __future__ import annotations

import datetime
import sys
import warnings
from collections.abc import Callable
from typing import Any

from samebits.base.sites import without_own_frames
from samebits.factors.context import FactorContext

Clock = Callable[[str], int | None]

UTCNOW_IS_DEPRECATED = (
    "datetime.datetime.utcnow() is deprecated and scheduled for removal in a future version. Use timezone-aware "
    "objects to represent datetimes in UTC: datetime.datetime.now(datetime.UTC)."
)


def report_another_now(context: FactorContext, clock: Clock, real_ns: Callable[[], int]) -> None:
    """Make `now`, `utcnow` and `today` ask `clock`, which returns nanoseconds since 1970, or None for the real time.

    Methods are replaced inside the classes. Replaced classes would not do: C code uses the originals, and Cython, an
    Enum or a metaclass cannot derive from an original class and from ours at once.
    """
    date, moment = datetime.date, datetime.datetime
    plain_now, plain_today = vars(moment)["now"], vars(date)["today"]
    # As in C, `now` does not use a subclass's own `fromtimestamp`.
    at = vars(moment)["fromtimestamp"]

    def now(cls: object, tz: object = None) -> object:
        ns = clock("datetime.now")
        with without_own_frames:
            return plain_now.__get__(None, cls)(tz) if ns is None else at.__get__(None, cls)(ns / 1_000_000_000, tz)

    def utcnow(cls: object) -> object:
        if sys.version_info >= (3, 12):
            warnings.warn(UTCNOW_IS_DEPRECATED, DeprecationWarning, stacklevel=2)
        ns = clock("datetime.utcnow")
        seconds = (real_ns() if ns is None else ns) / 1_000_000_000
        return moment.replace(at.__get__(None, cls)(seconds, datetime.timezone.utc), tzinfo=None)

    def today(cls: Any) -> object:
        ns = clock("datetime.today" if issubclass(cls, moment) else "date.today")
        # As in C, `today` does use a subclass's own `fromtimestamp`.
        return plain_today.__get__(None, cls)() if ns is None else cls.fromtimestamp(ns / 1_000_000_000)

    for owner, method in ((moment, now), (moment, utcnow), (date, today)):
        method.__qualname__, method.__doc__ = (
            f"{owner.__name__}.{method.__name__}",
            getattr(owner, method.__name__).__doc__,
        )
        context.set_method(owner, method.__name__, classmethod(method))
