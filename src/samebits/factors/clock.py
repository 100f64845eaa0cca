"""clock: the time of day."""

from __future__ import annotations

import datetime
import time
from typing import Any

from samebits.factors.base import CallFactor, Observation, Scene

START_NS = 1_000_000_000 * 1_000_000_000
TICK_NS = 1_000_000
DAY_NS = 86_400 * 1_000_000_000

_time_ns = time.time_ns


class Clock(CallFactor):
    """`time.time()`, `time.time_ns()`, `datetime.now()`, and what formats the present moment.

    Harmless in a log line, fatal in a seed, a split or a learning rate. Pinned, it is a logical clock: it starts on
    2001-09-09 and advances one millisecond per call; varied, it is shifted by days. Durations (`perf_counter`,
    `monotonic`, `process_time`) are left alone. Not seen: clocks read in C, such as `np.datetime64("now")`, and the
    times of files.
    """

    name = "clock"
    summary = "time.time() and datetime.now() differ in every run: harmless in a log, fatal in a seed"
    story = "{what} was read"
    cure = "do not let the time at line {line} into seeds, data or hyperparameters"
    pinned_by_default = False
    varied_by_default = True

    def install(self, scene: Scene) -> None:
        clock = _Clock(scene)
        scene.replace(time, "time", lambda: clock.now("time.time") / 1_000_000_000)
        scene.replace(time, "time_ns", lambda: clock.now("time.time_ns"))
        for name in ("localtime", "gmtime", "ctime"):
            scene.replace(time, name, clock.formatter(name, getattr(time, name)))
        scene.replace(time, "strftime", clock.strftime(time.strftime))
        scene.set(datetime, "date", _replaced(datetime.date, clock))
        scene.set(datetime, "datetime", _replaced(datetime.datetime, clock))

    def observe(self, scene: Scene | None = None) -> Observation:
        if scene is None or scene.mode == "natural":
            return Observation("the time of day", False)
        return Observation("a logical clock" if scene.mode == "pinned" else "shifted by days", True)


class _Clock:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.calls = 0
        # Days and an odd rest, so that whatever is taken from the time (weekday, hour, last digits) moves.
        days = 1 + scene.other("days") % 3650
        self.shift = days * DAY_NS + scene.other("rest") % DAY_NS

    def now(self, what: str) -> int:
        mode = self.scene.enter(what)
        if mode == "natural":
            return _time_ns()
        if mode == "varied":
            return _time_ns() + self.shift
        self.calls += 1
        return START_NS + self.calls * TICK_NS

    def formatter(self, name: str, original: Any) -> Any:
        def formatted(seconds: float | None = None) -> Any:
            return original(self.now(f"time.{name}") / 1_000_000_000 if seconds is None else seconds)

        return formatted

    def strftime(self, original: Any) -> Any:
        def strftime(format: str, t: Any = None) -> Any:
            return original(format, time.localtime() if t is None else t)

        return strftime


class _PlainType(type):
    """Makes the stand-in answer like the class it stands for: same instances, same subclasses, same equality."""

    plain: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.plain)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.plain)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.plain

    def __hash__(cls) -> int:
        return hash(cls.plain)


def _replaced(plain: Any, clock: _Clock) -> Any:
    """A class that makes instances of `plain` and knows another present moment."""

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        # A user's own subclass stays what it is; the stand-in itself makes plain instances.
        return plain.__new__(cls, *args, **kwargs) if cls is not replaced else plain(*args, **kwargs)

    def moment(cls: Any, what: str, tz: Any = None) -> Any:
        owner = plain if cls is replaced else cls
        return owner.fromtimestamp(clock.now(f"{plain.__name__}.{what}") / 1_000_000_000, tz)

    def today(cls: Any) -> Any:
        owner = plain if cls is replaced else cls
        return owner.fromtimestamp(clock.now(f"{plain.__name__}.today") / 1_000_000_000)

    body = {
        "__new__": new,
        "__module__": plain.__module__,
        "__qualname__": plain.__qualname__,
        "__doc__": plain.__doc__,
        "today": classmethod(today),
    }
    if issubclass(plain, datetime.datetime):
        body["now"] = classmethod(lambda cls, tz=None: moment(cls, "now", tz))
        body["utcnow"] = classmethod(lambda cls: moment(cls, "utcnow", datetime.timezone.utc).replace(tzinfo=None))
    meta = type("type", (_PlainType,), {"plain": plain})
    replaced = meta(plain.__name__, (plain,), body)
    return replaced
