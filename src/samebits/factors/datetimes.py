"""Another present moment for `datetime.datetime` and `datetime.date`, which stay the classes they are."""

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
    """Let `now`, `utcnow` and `today` ask `clock`: nanoseconds since 1970, or None for the real time.

    The methods change inside the classes. A class of ours in their place would not do: C code takes the classes from
    C, and Cython, an Enum or a metaclass cannot derive from one of them and ours at once.
    """
    date, moment = datetime.date, datetime.datetime
    plain_now, plain_today = vars(moment)["now"], vars(date)["today"]
    # As C does it: what a subclass makes of `fromtimestamp` does not count for its `now`.
    at = vars(moment)["fromtimestamp"]

    def now(cls: object, tz: object = None) -> object:
        read = clock("datetime.now")
        with without_own_frames:
            return plain_now.__get__(None, cls)(tz) if read is None else at.__get__(None, cls)(read / 1_000_000_000, tz)

    def utcnow(cls: object) -> object:
        if sys.version_info >= (3, 12):
            warnings.warn(UTCNOW_IS_DEPRECATED, DeprecationWarning, stacklevel=2)
        read = clock("datetime.utcnow")
        seconds = (real_ns() if read is None else read) / 1_000_000_000
        return moment.replace(at.__get__(None, cls)(seconds, datetime.timezone.utc), tzinfo=None)

    def today(cls: Any) -> object:
        read = clock("datetime.today" if issubclass(cls, moment) else "date.today")
        # Here it does count: C asks the class.
        return plain_today.__get__(None, cls)() if read is None else cls.fromtimestamp(read / 1_000_000_000)

    for owner, method in ((moment, now), (moment, utcnow), (date, today)):
        method.__qualname__, method.__doc__ = (
            f"{owner.__name__}.{method.__name__}",
            getattr(owner, method.__name__).__doc__,
        )
        context.set_method(owner, method.__name__, classmethod(method))
