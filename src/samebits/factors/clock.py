"""clock: the time of day, and durations that are measured with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from math import log2
from typing import ClassVar

from samebits.base.sites import foreign_frame, is_user_file
from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext
from samebits.factors.datetimes import report_another_now
from samebits.factors.lineage import Lineage

SECOND_NS = 1_000_000_000
# Not long ago, so that what happened before it (files, records, licences) still did.
START_NS = 1_790_000_000 * SECOND_NS
TICK_NS = 20_000_000
# If varied (`steady`), a reading takes at least so many ticks, so that what waits for seconds ends sooner; or a small
# part of one, so that no time limit is reached that would not be reached without us.
OTHER_TICKS, SLOW, SLOW_TICKS = 100, "slow", 1 / 20
# If pinned, a reading by `timeit` takes so many ticks: `timeit` repeats its work until that took 0.2 seconds.
TIMED_TICKS = 10
DAY_NS = 86_400 * SECOND_NS
# The least by which a line that is released by itself is behind the pinned clock.
LEAST_BEHIND_NS = 1_618_033_989
# Where real time passes, a reading is late by no more than the clock ran ahead since the last one, and at most by this.
MOST_LATE_NS = SECOND_NS // 2
# How late it is goes up and down while the number of readings doubles so many times.
DOUBLINGS = 4
DURATIONS = ("perf_counter", "monotonic", "process_time", "thread_time")


class Clock(CallFactor):
    """`time.time()`, `datetime.now()`, what formats the present moment, and stopwatches (`perf_counter`, `monotonic`).

    Harmless in a log line, fatal in a seed, a split, a learning rate, in "train for ten minutes", "validate every 30
    seconds" and "take the quicker kernel". Pinned, it is a logical clock: in every thread it starts on 2026-09-21 and
    advances by what the script slept since the last call, or else by 20 milliseconds, and by a little more at every
    further call, up to 40: of two things that are timed the first one is the quicker. Varied, it is shifted by
    days, passes up to twice as fast, and is read late now and then, as on a busy machine. Libraries wait with
    durations, so they are left alone there (but for `timeit`, which times what the user gave it), and `time.time()`
    keeps its pace. Not seen: clocks read in C, such as `np.datetime64("now")`, `uuid.uuid1()` and events of a GPU, and
    the times of files; where the code names one, a check makes more runs. Pinned, a loop of yours that does more work
    until it takes long enough does not end.
    """

    name = "clock"
    summary = "the time and durations differ in every run: harmless in a log, fatal in a seed or a choice of kernels"
    explanation = "{what} was read"
    fix = "use a fixed value, or count steps, instead of the time read at {place}"
    fixes: ClassVar = dict.fromkeys(
        DURATIONS, "count steps, or write the choice into the code, instead of deciding by the seconds read at {place}"
    )
    pinned_by_default = False
    varied_by_default = True
    stopwatches = ("time.time", "timeit", *DURATIONS)
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
        self.context, self.lineage = context, Lineage.of_process()
        self.time_ns, self.localtime, self.monotonic_ns = time.time_ns, time.localtime, time.monotonic_ns
        self.began, self.pace = time.monotonic_ns(), context.derive_varied("pace") % SECOND_NS
        self.is_logical = context.setting.steady or context.mode == "pinned"
        # A background thread that reads the time, such as a progress bar's, must not move the clock of other threads.
        self.thread = threading.local()
        # Days and an odd rest, so that whatever is derived from the time (weekday, hour, last digits) changes.
        days = 1 + context.derive_varied("days") % 3650
        self.shift = days * DAY_NS + context.derive_varied("rest") % DAY_NS

    def reading(self, what: str, real_ns: Callable[[], int] | None = None) -> int | None:
        """Return nanoseconds since 1970 for a reading through `what`; None if the real time is to be returned.

        Args:
            what: the called function.
            real_ns: the real clock behind it; None for the time of day.
        """
        mode = self.context.enter(what)
        # Every call ticks, also one that gets another answer, so that later calls return the same as without it.
        self._pass()
        if mode == "natural" or not (self.is_logical or mode == "varied"):
            return None
        if not self.is_logical:
            return (real_ns or self.time_ns)() + self.shift + (0 if _is_read_by_library() else self._ahead())
        logical = START_NS + int(self.thread.passed)
        if mode == "pinned":
            return logical
        if self.context.mode == "pinned":
            return logical - self._behind()
        return START_NS + int(self.thread.passed_otherwise) + self.shift

    def _pass(self) -> None:
        """Advance both logical clocks: the pinned one by growing ticks, the varied one (`steady`) by shrinking ones.

        Of two things timed, the first is then the quicker one if pinned, the slower one if varied, however often.
        """
        thread = self.thread
        slept, thread.slept = getattr(thread, "slept", 0), 0
        count = thread.count = getattr(thread, "count", 0) + 1
        tick = TICK_NS + TICK_NS * (count - 1) // (count + 99)
        if foreign_frame().f_code.co_filename.startswith("<timeit"):
            tick *= TIMED_TICKS
        thread.passed = getattr(thread, "passed", 0) + (slept or tick)
        if self.context.setting.steady:
            ticks = SLOW_TICKS if self.context.setting.value == SLOW else OTHER_TICKS
            other = int(ticks * (TICK_NS + self._own(TICK_NS) + TICK_NS // count))
            thread.passed_otherwise = getattr(thread, "passed_otherwise", 0) + (slept * 2 or other)

    def _ahead(self) -> int:
        """Return how far the varied clock has run ahead of real time; no clock may ever go back or stand still."""
        now, before = self.monotonic_ns(), getattr(self.thread, "read", self.began)
        self.thread.read = now
        most, ahead = min(self._share(now - before), MOST_LATE_NS), self._share(now - self.began)
        return ahead - int(most * self._lateness(self.thread.count))

    def _share(self, passed: int) -> int:
        """Return by how much the varied clock runs ahead while so much real time passes: a half of it, or up to all."""
        return passed * (SECOND_NS + self.pace) // (2 * SECOND_NS)

    def _lateness(self, count: int) -> float:
        """Return how late the reading of this number is, from 0 to 1.

        It has a hiccup of its own, and is part of a phase as long as all phases before. So of two things timed one
        after the other, however often each, one is later; the other one in another of three variants.
        """
        phase = log2(count) / DOUBLINGS + self.context.setting.variant / 3
        return (2 * abs(phase % 1 * 2 - 1) + self.pace * count % SECOND_NS / SECOND_NS) / 3

    def _behind(self) -> int:
        """Return by how much a line that is released by itself is behind the pinned clock.

        The line is never ahead, and less behind with every reading. So a program that waits until time has passed ends,
        whether the released line reads the start of the wait or the time since.
        """
        times = self.thread.behind = getattr(self.thread, "behind", -1) + 1
        behind = int(max(self.shift >> times, LEAST_BEHIND_NS))
        return behind + self._own(behind)

    def _own(self, nanoseconds: int) -> int:
        """Return a share of a time: of the programs that a run starts (trials), any may then be the slower one."""
        program = self.lineage.program
        share = self.context.derive_varied("program", *program) % SECOND_NS if program else 0
        return nanoseconds * share // SECOND_NS

    def now(self, what: str) -> int:
        """Return `reading`, or the real time of day where that is None."""
        read = self.reading(what)
        return self.time_ns() if read is None else read

    def read(self, name: str, real_ns: Callable[[], int], unit: int | None, original: Callable[[], object]) -> object:
        """Answer a call that reads the time of day, or a clock that measures durations."""
        is_duration, what = not name.startswith("time"), f"time.{name}"
        # Libraries use durations to wait for other threads, processes and machines, whose time is the real one.
        if is_duration and _is_read_by_library():
            return original()
        now = self.reading(self.context.called(what) if is_duration else what, real_ns)
        if now is None:
            return original()
        return now / unit if unit else now

    def sleep(self, original: Callable[[float], None], seconds: float, /) -> None:
        """Sleep; the next reading of the logical clock is so much later."""
        original(seconds)
        # How often a library or a loop that waits for others sleeps varies: of a loop's sleeps, only the last counts.
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
        """Answer a call whose last argument, a time tuple or seconds, is by default the present moment."""
        # A function that takes seconds also takes None for the present moment.
        given = args[:-1] if as_tuple is None and args == (None,) else args
        if len(given) != position:
            return original(*args)
        seconds = self.now(f"time.{name}") / SECOND_NS
        return original(*given, seconds if as_tuple is None else as_tuple(seconds))

    def read_system(self, name: str, unit: int | None, original: Callable[[int], object], clk_id: int, /) -> object:
        """Answer a call that reads any of the system's clocks."""
        if clk_id != time.CLOCK_REALTIME:
            return original(clk_id)
        now = self.now(f"time.{name}")
        return now / unit if unit else now


def _is_read_by_library() -> bool:
    """Whether a library reads the clock for itself; code compiled from text, as by `timeit`, reads for its caller."""
    path = foreign_frame().f_code.co_filename
    return not (path.startswith("<") or is_user_file(path))
