"""Stand-ins for `datetime.datetime` and `datetime.date`, whose own attributes cannot be replaced."""

from __future__ import annotations

import copyreg
import datetime
import sys
import warnings
from collections.abc import Callable
from typing import Any

from samebits.factors.base import Scene

Now = Callable[[str], int]

UTCNOW_IS_DEPRECATED = (
    "datetime.datetime.utcnow() is deprecated and scheduled for removal in a future version. Use timezone-aware "
    "objects to represent datetimes in UTC: datetime.datetime.now(datetime.UTC)."
)


def knowing_another_now(scene: Scene, plain: Any, now: Now) -> None:
    """Put a class in the place of `plain` that makes the same instances and takes the present moment from `now`."""
    plain = getattr(plain, "plain", plain)  # where another scene's stand-in is in place already
    stand_in = _stand_in(plain, now)
    scene.set(datetime, plain.__name__, stand_in)

    def reduce(moment: Any) -> tuple[Any, ...]:
        # pickle wants to find the class under its name; with the stand-in it writes the same bytes as ever.
        return (stand_in, *plain.__reduce_ex__(moment, 4)[1:])

    scene.put(copyreg.dispatch_table, plain, reduce)


class _LikePlain(type):
    """Makes the stand-in answer like the class it stands for: same instances, same subclasses, same equality.

    A program's own subclass of the stand-in has this type too, and answers for itself.
    """

    plain: type

    @property
    def stands_in(cls) -> bool:
        return cls.__base__ is cls.plain

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.plain) if cls.stands_in else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.plain) if cls.stands_in else super().__subclasscheck__(subclass)

    def __eq__(cls, other: object) -> bool:
        return other is cls or (cls.stands_in and other is cls.plain)

    def __hash__(cls) -> int:
        return hash(cls.plain) if cls.stands_in else super().__hash__()


def _stand_in(plain: Any, now: Now) -> Any:
    def made_by(cls: Any) -> Any:
        # The stand-in itself makes plain instances; a program's own subclass makes its own.
        return plain if cls.stands_in else cls

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs) if cls.stands_in else plain.__new__(cls, *args, **kwargs)

    def at(cls: Any, what: str, *tz: Any) -> Any:
        return made_by(cls).fromtimestamp(now(f"{plain.__name__}.{what}") / 1_000_000_000, *tz)

    def utcnow(cls: Any) -> Any:
        if sys.version_info >= (3, 12):
            warnings.warn(UTCNOW_IS_DEPRECATED, DeprecationWarning, stacklevel=2)
        return at(cls, "utcnow", datetime.timezone.utc).replace(tzinfo=None)

    body = {name: getattr(plain, name) for name in ("__module__", "__qualname__", "__doc__")}
    body |= {"__new__": new, "today": classmethod(lambda cls: at(cls, "today"))}
    if issubclass(plain, datetime.datetime):
        body |= {"now": classmethod(lambda cls, tz=None: at(cls, "now", tz)), "utcnow": classmethod(utcnow)}
    return type("type", (_LikePlain,), {"plain": plain})(plain.__name__, (plain,), body)
