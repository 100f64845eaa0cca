"""clock: the time of day, and durations that are measured with it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from samebits.base.sites import is_user_file
from samebits.factors.base import CallFactor, Observation
from samebits.factors.context import FactorContext
from samebits.factors.datetimes import report_another_now

SECOND_NS = 1_000_000_000
START_NS = 1_000_000_000 * SECOND_NS
TICK_NS = 20_000_000
# Changed on purpose, time passes at another pace too: what counts seconds counts others.
OTHER_TICK_NS = 31_000_000
DAY_NS = 86_400 * SECOND_NS
# What a line that is released alone is behind by at the least.
LEAST_BEHIND_NS = 1_618_033_989
DURATIONS = ("perf_counter", "monotonic", "process_time", "thread_time")


class Clock(CallFactor):
    """`time.time()`, `time.time_ns()`, `datetime.now()`, and what formats the present moment.

    Harmless in a log line, fatal in a seed, a split, a learning rate, or in "train for ten minutes". Pinned, it is a
    logical clock: in every thread it starts on 2001-09-09 and advances 20 milliseconds per call, and by what the
    script slept before it, so waiting for a time of day may take longer. Varied, it is shifted by days. Durations
    (`perf_counter`, `monotonic`, `process_time`) are treated alike where the user's own line reads them, and left alone
    in libraries, which wait and measure with them. Not seen: clocks read in C, such as `np.datetime64("now")` and
    `uuid.uuid1()`, and the times of files.
    """

    name = "clock"
    summary = "time.time() and datetime.now() differ in every run: harmless in a log, fatal in a seed"
    explanation = "{what} was read"
    fix = "do not let the time read at {place} into seeds, data, hyperparameters or the number of steps"
    fix_unplaced = "do not let the time into seeds, data, hyperparameters or the number of steps"
    pinned_by_default = False
    varied_by_default = True

    def install(self, context: FactorContext) -> None:
        clock = _Clock(context)
        context.replace(time, "time", lambda: clock.now("time.time") / SECOND_NS)
        context.replace(time, "time_ns", lambda: clock.now("time.time_ns"))
        for name in ("localtime", "gmtime", "ctime"):
            context.replace(time, name, clock.converter(name, getattr(time, name)))
        for name, position in (("strftime", 1), ("asctime", 0)):
            context.replace(time, name, clock.formatter(name, getattr(time, name), position))
        for name, unit in (("clock_gettime", SECOND_NS), ("clock_gettime_ns", None)):
            if hasattr(time, name):
                context.replace(time, name, clock.reader(name, getattr(time, name), unit))
        for name in DURATIONS:
            context.replace(
                time, name, clock.duration(name, getattr(time, name), getattr(time, f"{name}_ns"), SECOND_NS)
            )
            whole = f"{name}_ns"
            context.replace(time, whole, clock.duration(whole, getattr(time, whole), getattr(time, whole), None))
        if clock.is_logical:
            context.replace(time, "sleep", clock.sleeper(time.sleep))
        try:
            report_another_now(context, clock.reading, clock.time_ns)
        except (ImportError, RuntimeError) as error:
            context.failed = f"datetime is left as it is: {error}"

    def observe(self, context: FactorContext | None = None) -> Observation:
        if context is None or context.mode == "natural":
            return Observation("the time of day", False)
        return Observation("a logical clock" if context.mode == "pinned" else "shifted by days", True)


class _Clock:
    def __init__(self, context: FactorContext) -> None:
        self.context = context
        self.time_ns, self.localtime = time.time_ns, time.localtime
        self.is_logical = context.setting.steady or context.mode == "pinned"
        # A background thread that looks at the time, such as a progress bar's, must not move the others' clock.
        self.thread = threading.local()
        # Days and an odd rest, so that whatever is taken from the time (weekday, hour, last digits) moves.
        days = 1 + context.other("days") % 3650
        self.shift = days * DAY_NS + context.other("rest") % DAY_NS

    def reading(self, what: str, real_ns: Callable[[], int] | None = None) -> int | None:
        """Nanoseconds since 1970, read through `what`; None where the real time is to be returned.

        Args:
            what: was called.
            real_ns: the clock behind it; None for the time of day.
        """
        mode = self.context.enter(what)
        # Every call ticks, also one that is answered otherwise: the calls after it are not to blame for it.
        self._pass(OTHER_TICK_NS if self.context.setting.steady else TICK_NS)
        if mode == "natural" or not (self.is_logical or mode == "varied"):
            return None
        if not self.is_logical:
            return (real_ns or self.time_ns)() + self.shift
        logical = START_NS + int(self.thread.passed)
        if mode == "pinned":
            return logical
        return logical - self._behind() if self.context.mode == "pinned" else logical + self.shift

    def _pass(self, nanoseconds: int) -> None:
        slept, self.thread.slept = getattr(self.thread, "slept", 0), 0
        self.thread.passed = getattr(self.thread, "passed", 0) + nanoseconds + slept

    def _behind(self) -> int:
        """By how much a line that is released alone is behind the pinned clock.

        Never ahead of it, and less with every reading: a program that waits until time has passed ends, whether it is
        where it begins or where it looks again that is released.
        """
        times = self.thread.behind = getattr(self.thread, "behind", -1) + 1
        return int(max(self.shift >> times, LEAST_BEHIND_NS))

    def now(self, what: str) -> int:
        """Like `reading`, of the real time."""
        read = self.reading(what)
        return self.time_ns() if read is None else read

    def duration(
        self, name: str, original: Callable[[], object], real_ns: Callable[[], int], unit: int | None
    ) -> Callable[[], object]:
        """For a clock that measures durations: treated where the user's own line reads it."""

        def read() -> object:
            # Libraries wait with it, for other threads, processes and machines, whose time is the real one.
            if not is_user_file(sys._getframe(2).f_code.co_filename):
                return original()
            now = self.reading(f"time.{name}", real_ns)
            if now is None:
                return original()
            return now / unit if unit else now

        return read

    def sleeper(self, original: Callable[[float], None]) -> Callable[[float], None]:
        """Sleeps; the next reading of the logical clock is so much later."""

        def sleep(seconds: float, /) -> None:
            original(seconds)
            # How often a library sleeps, or a loop that waits for somebody else, is never the same: it counts once.
            if is_user_file(sys._getframe(2).f_code.co_filename):
                self.thread.slept = int(seconds * SECOND_NS)

        return sleep

    def converter(self, name: str, original: Callable[[float], object]) -> Callable[..., object]:
        """For a function whose argument defaults to the present moment."""

        def convert(seconds: float | None = None, /) -> object:
            return original(self.now(f"time.{name}") / SECOND_NS if seconds is None else seconds)

        return convert

    def formatter(self, name: str, original: Callable[..., str], position: int) -> Callable[..., str]:
        """For a function that takes a time tuple at `position`, by default the present local time."""

        def formatted(*args: object) -> str:
            if len(args) == position:
                args = (*args, self.localtime(self.now(f"time.{name}") / SECOND_NS))
            return original(*args)

        return formatted

    def reader(self, name: str, original: Callable[[int], object], unit: int | None) -> Callable[[int], object]:
        """For a function that reads any of the system's clocks."""

        def read(clk_id: int, /) -> object:
            if clk_id != time.CLOCK_REALTIME:
                return original(clk_id)
            now = self.now(f"time.{name}")
            return now / unit if unit else now

        return read
