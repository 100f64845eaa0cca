"""clock: the time of day."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from samebits.factors.base import CallFactor, Observation, Scene
from samebits.factors.datetimes import tell_another_now

START_NS = 1_000_000_000 * 1_000_000_000
TICK_NS = 1_000_000
DAY_NS = 86_400 * 1_000_000_000


class Clock(CallFactor):
    """`time.time()`, `time.time_ns()`, `datetime.now()`, and what formats the present moment.

    Harmless in a log line, fatal in a seed, a split or a learning rate. Pinned, it is a logical clock: in every thread
    it starts on 2001-09-09 and advances one millisecond per call, so waiting for a time of day takes longer. Varied,
    it is shifted by days. Durations (`perf_counter`, `monotonic`, `process_time`) are left alone. Not seen: clocks
    read in C, such as `np.datetime64("now")` and `uuid.uuid1()`, and the times of files.
    """

    name = "clock"
    summary = "time.time() and datetime.now() differ in every run: harmless in a log, fatal in a seed"
    story = "{what} was read"
    cure = "do not let the time read at {place} into seeds, data or hyperparameters"
    cure_unplaced = "do not let the time into seeds, data or hyperparameters"
    pinned_by_default = False
    varied_by_default = True

    def install(self, scene: Scene) -> None:
        clock = _Clock(scene)
        scene.replace(time, "time", lambda: clock.now("time.time") / 1_000_000_000)
        scene.replace(time, "time_ns", lambda: clock.now("time.time_ns"))
        for name in ("localtime", "gmtime", "ctime"):
            scene.replace(time, name, clock.converter(name, getattr(time, name)))
        for name, position in (("strftime", 1), ("asctime", 0)):
            scene.replace(time, name, clock.formatter(name, getattr(time, name), position))
        for name, unit in (("clock_gettime", 1_000_000_000), ("clock_gettime_ns", None)):
            if hasattr(time, name):
                scene.replace(time, name, clock.reader(name, getattr(time, name), unit))
        try:
            tell_another_now(scene, clock.reading, clock.time_ns)
        except (ImportError, RuntimeError) as error:
            scene.failed = f"datetime is left as it is: {error}"

    def observe(self, scene: Scene | None = None) -> Observation:
        if scene is None or scene.mode == "natural":
            return Observation("the time of day", False)
        return Observation("a logical clock" if scene.mode == "pinned" else "shifted by days", True)


class _Clock:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.time_ns, self.localtime = time.time_ns, time.localtime
        self.is_logical = scene.setting.steady or scene.mode == "pinned"
        # A background thread that looks at the time, such as a progress bar's, must not move the others' clock.
        self.thread = threading.local()
        # Days and an odd rest, so that whatever is taken from the time (weekday, hour, last digits) moves.
        days = 1 + scene.other("days") % 3650
        self.shift = days * DAY_NS + scene.other("rest") % DAY_NS

    def reading(self, what: str) -> int | None:
        """Nanoseconds since 1970, read through `what`; None where the real time is to be told."""
        mode = self.scene.enter(what)
        # Every call ticks, also one that is answered otherwise: the calls after it are not to blame for it.
        self.thread.calls = getattr(self.thread, "calls", 0) + 1
        shift = self.shift if mode == "varied" else 0
        # A line released alone reads the pinned clock, shifted: so do runs that are varied in the same way each time.
        if mode == "pinned" or (mode == "varied" and self.is_logical):
            return START_NS + int(self.thread.calls) * TICK_NS + shift
        return self.time_ns() + shift if mode == "varied" else None

    def now(self, what: str) -> int:
        """Like `reading`, with the real time told."""
        read = self.reading(what)
        return self.time_ns() if read is None else read

    def converter(self, name: str, original: Callable[[float], Any]) -> Callable[..., Any]:
        """For a function whose argument defaults to the present moment."""

        def convert(seconds: float | None = None, /) -> Any:
            return original(self.now(f"time.{name}") / 1_000_000_000 if seconds is None else seconds)

        return convert

    def formatter(self, name: str, original: Callable[..., str], position: int) -> Callable[..., str]:
        """For a function that takes a time tuple at `position`, by default the present local time."""

        def formatted(*args: Any) -> str:
            if len(args) == position:
                args = (*args, self.localtime(self.now(f"time.{name}") / 1_000_000_000))
            return original(*args)

        return formatted

    def reader(self, name: str, original: Callable[[int], Any], unit: int | None) -> Callable[[int], Any]:
        """For a function that reads any of the system's clocks."""

        def read(clk_id: int, /) -> Any:
            if clk_id != time.CLOCK_REALTIME:
                return original(clk_id)
            now = self.now(f"time.{name}")
            return now / unit if unit else now

        return read
