"""clock: the time of day, and durations that are measured with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from samebits.base.sites import foreign_frame, is_user_file
from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext
from samebits.factors.datetimes import report_another_now

SECOND_NS = 1_000_000_000
START_NS = 1_000_000_000 * SECOND_NS
TICK_NS = 20_000_000
# A reading that is changed on purpose takes at least this many ticks: what waits for seconds waits for fewer readings.
OTHER_TICKS = 100
# What `timeit` reads takes this many: it repeats its work until that took 0.2 seconds.
TIMED_TICKS = 10
DAY_NS = 86_400 * SECOND_NS
# What a line that is released alone is behind by at the least.
LEAST_BEHIND_NS = 1_618_033_989
# Where real time passes: a reading is late by half of what has passed since the last one, and no more than this.
MOST_LATE_NS = SECOND_NS // 2
DURATIONS = ("perf_counter", "monotonic", "process_time", "thread_time")


class Clock(CallFactor):
    """`time.time()`, `datetime.now()`, what formats the present moment, and stopwatches (`perf_counter`, `monotonic`).

    Harmless in a log line, fatal in a seed, a split, a learning rate, in "train for ten minutes", "validate every 30
    seconds" and "take the quicker kernel". Pinned, it is a logical clock: in every thread it starts on 2001-09-09 and
    advances by what the script slept since the last call, or else by 20 milliseconds, and by a little more at every
    further call, up to 40: of two things that are timed the first one is the quicker. Varied, it is shifted by
    days, passes up to twice as fast, and is read late now and then, as on a busy machine. Libraries wait with
    durations, so they are left alone there (but for `timeit`, which times what the user gave it), and `time.time()`
    keeps its pace. Not seen: clocks read in C, such as `np.datetime64("now")`, `uuid.uuid1()` and events of a GPU, and
    the times of files. Pinned, a loop of yours that does more work until it takes long enough does not end.
    """

    name = "clock"
    summary = "the time and durations differ in every run: harmless in a log, fatal in a seed or a choice of kernels"
    explanation = "{what} was read"
    fix = "use a fixed value, or count steps, instead of the time read at {place}"
    fixes: ClassVar = dict.fromkeys(
        DURATIONS, "count steps, or choose beforehand, instead of deciding by the seconds read at {place}"
    )
    pinned_by_default = False
    varied_by_default = True
    effects = ("the time of day", "a logical clock", "shifted by days, at another pace")

    def treat(self, context: FactorContext) -> None:
        clock = _Clock(context)
        for name in ("time", *DURATIONS):
            whole = f"{name}_ns"
            real_ns = getattr(time, whole)
            context.replace(time, name, partial(clock.read, name, real_ns, SECOND_NS))
            context.replace(time, whole, partial(clock.read, whole, real_ns, None))
        for name in ("localtime", "gmtime", "ctime"):
            context.replace(time, name, partial(clock.complete, name, 0, None))
        for name, position in (("strftime", 1), ("asctime", 0)):
            context.replace(time, name, partial(clock.complete, name, position, clock.localtime))
        for name, unit in (("clock_gettime", SECOND_NS), ("clock_gettime_ns", None)):
            if hasattr(time, name):
                context.replace(time, name, partial(clock.read_system, name, unit))
        if clock.is_logical:
            context.replace(time, "sleep", clock.sleep)
        try:
            report_another_now(context, clock.reading, clock.time_ns)
        except (ImportError, RuntimeError) as error:
            context.failed = f"datetime is left as it is: {error}"


class _Clock:
    def __init__(self, context: FactorContext) -> None:
        self.context = context
        self.time_ns, self.localtime, self.monotonic_ns = time.time_ns, time.localtime, time.monotonic_ns
        self.began, self.pace = time.monotonic_ns(), context.other("pace") % SECOND_NS
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
        self._pass()
        if mode == "natural" or not (self.is_logical or mode == "varied"):
            return None
        if not self.is_logical:
            return (real_ns or self.time_ns)() + self.shift + (0 if _is_read_by_library() else self._ahead())
        logical = START_NS + int(self.thread.passed)
        if mode == "pinned":
            return logical
        return logical - self._behind() if self.context.mode == "pinned" else logical + self.shift

    def _pass(self) -> None:
        """Advance the logical clock: slower and slower where it is changed on purpose, and quicker where it is not.

        What is timed first is then the quicker one if pinned, and the slower one if not, however often it is timed.
        """
        slept, self.thread.slept = getattr(self.thread, "slept", 0), 0
        count = self.thread.count = getattr(self.thread, "count", 0) + 1
        tick = TICK_NS + TICK_NS * (count - 1) // (count + 99)
        if self.context.setting.steady:
            slept, tick = slept * 2, OTHER_TICKS * (TICK_NS + TICK_NS // count)
        elif foreign_frame().f_code.co_filename.startswith("<timeit"):
            tick *= TIMED_TICKS
        self.thread.passed = getattr(self.thread, "passed", 0) + (slept or tick)

    def _ahead(self) -> int:
        """What has passed besides the real time: none of the clocks may ever go back, nor stand still."""
        now, before = self.monotonic_ns(), getattr(self.thread, "read", self.began)
        self.thread.read = now
        # A share of it that is another one at every reading.
        late: int = min((now - before) // 2, MOST_LATE_NS) * (self.pace * self.thread.count % SECOND_NS) // SECOND_NS
        return (now - self.began) * (SECOND_NS + self.pace) // (2 * SECOND_NS) - late

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

    def read(self, name: str, real_ns: Callable[[], int], unit: int | None, original: Callable[[], object]) -> object:
        """For the time of day, or for a clock that measures durations."""
        is_duration, what = not name.startswith("time"), f"time.{name}"
        # Libraries wait with durations, for other threads, processes and machines, whose time is the real one.
        if is_duration and _is_read_by_library():
            return original()
        now = self.reading(self.context.called(what) if is_duration else what, real_ns)
        if now is None:
            return original()
        return now / unit if unit else now

    def sleep(self, original: Callable[[float], None], seconds: float, /) -> None:
        """Sleep; the next reading of the logical clock is so much later."""
        original(seconds)
        # How often a library sleeps, or a loop that waits for somebody else, is never the same: it counts once.
        if not _is_read_by_library():
            self.thread.slept = int(seconds * SECOND_NS)

    def complete(
        self,
        name: str,
        position: int,
        as_tuple: Callable[[float], object] | None,
        original: Callable[..., object],
        *args: object,
    ) -> object:
        """For a function whose last argument, a time tuple or seconds, is the present moment where it is missing."""
        # Where seconds are taken, None stands for the present as well.
        given = args[:-1] if as_tuple is None and args == (None,) else args
        if len(given) != position:
            return original(*args)
        seconds = self.now(f"time.{name}") / SECOND_NS
        return original(*given, seconds if as_tuple is None else as_tuple(seconds))

    def read_system(self, name: str, unit: int | None, original: Callable[[int], object], clk_id: int, /) -> object:
        """For a function that reads any of the system's clocks."""
        if clk_id != time.CLOCK_REALTIME:
            return original(clk_id)
        now = self.now(f"time.{name}")
        return now / unit if unit else now


def _is_read_by_library() -> bool:
    """Whether code of a library asks for itself; text that it made code of, as `timeit` does, asks for its caller."""
    path = foreign_frame().f_code.co_filename
    return not (path.startswith("<") or is_user_file(path))
