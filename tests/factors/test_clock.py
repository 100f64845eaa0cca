"""clock: a logical clock when pinned, another day when varied, and dates that remain dates."""

import datetime
import functools
import io
import itertools
import queue
import subprocess
import sys
import threading
import time
import timeit
import types
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import samebits
from samebits.factors import clock
from samebits.factors.lineage import Lineage
from tests.factors.contexts import here, lines, treated, watched

# Not by names of their own here: that is just what pin() warns about.
PLAIN = types.SimpleNamespace(datetime=datetime.datetime, date=datetime.date)
TAKEN = datetime.datetime
TIMES = types.SimpleNamespace(**{name: getattr(time, name) for name in dir(time) if not name.startswith("__")})


def test_a_pinned_clock_starts_fixed_and_advances_with_every_call() -> None:
    """20 milliseconds a call and then a little more, whatever is called: never the same twice, and never back."""
    with samebits.pinned(factors=["clock"]):
        moments = [time.time(), time.time_ns() / 1e9, datetime.datetime.now().timestamp(), time.time()]

    assert [round(moment - 1.79e9, 3) for moment in moments] == [0.02, 0.04, 0.061, 0.081]


def test_a_slow_clock_reaches_no_limit_of_time() -> None:
    """A thousand readings take seconds, where pinned they take half a minute, and changed otherwise half an hour."""
    taken = []
    for setting in ({"value": clock.SLOW}, {}):
        with treated("clock", "varied", variant=2, steady=True, **setting):
            start, *_, end = [time.time() for _ in range(1001)]
            taken.append(end - start)

    assert 1 < taken[0] < 4
    assert 2000 < taken[1] < 8000


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def by_stopwatch() -> list[str]:
    """Which of three is the quickest, by three stopwatches."""
    forms: dict[str, Callable[[], object]] = {name: functools.partial(sum, [1, 2]) for name in "abc"}
    by = [
        timed,
        lambda work: min(timed(work) for _ in range(5)),
        lambda work: timeit.timeit(work, number=3, timer=time.perf_counter),
    ]
    return [min(forms, key=lambda name: measure(forms[name])) for measure in by]


def test_a_choice_by_stopwatch_is_held_and_flipped() -> None:
    """Pinned the first one is the quicker, by whatever it is timed; released the last one is; the line is named."""
    with watched("clock", "pinned") as seen:
        pinned = by_stopwatch()
    with treated("clock", "varied", variant=2, steady=True):
        released = by_stopwatch()

    assert (pinned, released) == (["a"] * 3, ["c"] * 3)
    start = timed.__code__.co_firstlineno + 1
    own = by_stopwatch.__code__.co_firstlineno + 6
    assert [(w.what, w.site and w.site.line) for w in seen] == [
        ("time.perf_counter", start),
        ("time.perf_counter", start + 2),
        ("timeit.timeit", own),
    ]


@pytest.mark.parametrize("released", [(), ((__file__, timed.__code__.co_firstlineno + 3),)], ids=["whole", "line"])
def test_any_of_two_programs_may_be_the_slower_one(
    released: tuple[tuple[str, int], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials that a run starts, each a program of its own; the same one in every run. Pinned, all are as quick."""
    times: list[list[float]] = []
    for pinned in (True, False, False):
        times.append([])
        for program in (("first", 0), ("second", 0), ()):
            monkeypatch.setattr(Lineage, "program", program)
            way: dict[str, Any] = {"mode": "pinned"}
            if not pinned:
                way = (
                    {"variant": 2, "released": released}
                    if released
                    else {"mode": "varied", "variant": 2, "steady": True}
                )
            with treated("clock", **way):
                times[-1].append(timed(list))

    assert len({*times[0]}) == 1
    assert len({*times[1]}) == 3
    assert times[1] == times[2]


@pytest.mark.parametrize(("before", "times"), [(0, 1), (0, 3), (0, 10), (0, 100), (20, 10), (20, 100), (70, 100)])
@pytest.mark.parametrize("quicker", [0, 1])
def test_of_two_that_are_timed_the_other_one_is_the_quicker_in_one_of_three_variants(
    before: int, times: int, quicker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a check tries, where one takes three percent longer; however often each is timed, and what before."""
    real_ns = 0
    monkeypatch.setattr(time, "monotonic_ns", lambda: real_ns)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: real_ns)
    chosen: list[int] = []
    for variant in (1, 3, 5):
        with treated("clock", "varied", variant=variant):
            for _ in range(before):
                time.perf_counter_ns()
            spent = [0, 0]
            for form in [0] * times + [1] * times:
                start = time.perf_counter_ns()
                real_ns += 1_000_000 if form == quicker else 1_030_000
                spent[form] += time.perf_counter_ns() - start
        chosen.append(spent.index(min(spent)))

    assert {*chosen} == {0, 1}


def test_what_is_repeated_until_it_took_long_enough_ends() -> None:
    """`timeit` finds out how often, with every clock."""
    for mode, steady in (("pinned", False), ("varied", True), ("varied", False)):
        with treated("clock", mode, steady=steady):
            number, seconds = timeit.Timer("sum([1, 2])", timer=time.perf_counter).autorange()
        assert number >= 1
        assert seconds >= 0.2


def test_a_varied_stopwatch_goes_on_at_another_pace_and_never_back() -> None:
    """At least half as fast again as the real one, and at most 2.5 times, now and then late, in every thread."""
    with treated("clock", "varied"):
        readings = [time.perf_counter() for _ in range(200)]
        start, real = time.perf_counter(), TIMES.perf_counter()
        time.sleep(0.2)
        spent, real = time.perf_counter() - start, TIMES.perf_counter() - real

    gaps = [later - earlier for earlier, later in itertools.pairwise(readings)]
    assert min(gaps) >= 0
    assert real <= spent < 2.6 * real


def test_given_times_are_left_alone() -> None:
    """Times that are given, and what a clock of the system's that is named says, are what they are."""
    given = [time.gmtime(0), time.strftime("%Y", time.gmtime(0)), time.asctime(time.gmtime(0)), time.ctime(0)]
    with watched("clock", "varied") as seen:
        spent = [time.clock_gettime(time.CLOCK_MONOTONIC) < 1e9]
        converted = [time.gmtime(0), time.strftime("%Y", time.gmtime(0)), time.asctime(time.gmtime(0)), time.ctime(0)]
        made = datetime.datetime(2020, 1, 2), datetime.date(2020, 1, 2), datetime.datetime.fromtimestamp(0)
        parsed = datetime.datetime.strptime("2020", "%Y"), datetime.datetime.fromisoformat("2020-01-02")

    assert all(spent)
    assert converted == given
    assert made == (PLAIN.datetime(2020, 1, 2), PLAIN.date(2020, 1, 2), PLAIN.datetime.fromtimestamp(0))
    assert parsed == (PLAIN.datetime(2020, 1, 1), PLAIN.datetime(2020, 1, 2))
    assert seen == []


def test_libraries_measure_real_durations() -> None:
    """What waits inside a library waits as long as it should, and witnesses nothing."""
    with watched("clock", "pinned") as seen:
        start = TIMES.perf_counter()
        with pytest.raises(queue.Empty):
            queue.Queue().get(timeout=0.05)
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run([sys.executable, "-c", "import time; time.sleep(9)"], timeout=0.05, check=False)

    assert 0.1 <= TIMES.perf_counter() - start < 5
    assert seen == []


def test_what_the_script_sleeps_is_time_that_passed() -> None:
    """The last sleep before a reading counts; how often a loop slept until somebody was ready does not."""
    with treated("clock"):
        start = time.time()
        time.sleep(0.01)
        after = time.time()
        for _ in range(3):
            time.sleep(0.01)
        last = time.time()

    assert round(after - start, 6) == round(last - after, 6) == 0.01


def by_time() -> int:
    """How many steps a training takes that goes on for two seconds."""
    start = time.time()
    for step in range(5_000):
        if time.time() - start > 2:
            return step
    raise AssertionError("it never ends")


def by_counter() -> int:
    deadline = time.perf_counter() + 2
    step = 0
    while time.perf_counter() < deadline:
        step += 1
        assert step < 5_000, "it never ends"
    return step


def by_date() -> int:
    start = datetime.datetime.now()
    step = 0
    while datetime.datetime.now() - start < datetime.timedelta(seconds=2):
        print(step, time.time(), file=io.StringIO())
        step += 1
        assert step < 5_000, "it never ends"
    return step


@pytest.mark.parametrize("training", [by_time, by_counter, by_date])
def test_training_for_so_many_seconds_ends_under_every_treatment(training: Callable[[], int]) -> None:
    """Pinned it repeats; released, all of it or any line alone, it takes other steps, always the same, and ends."""
    with watched("clock", "pinned") as seen:
        pinned = training()
    with treated("clock"):
        again = training()
    released = []
    for line in lines(seen):
        with treated("clock", variant=2, released=((__file__, line),)):
            released.append(training())
        with treated("clock", variant=2, released=((__file__, line),)):
            assert training() == released[-1]
    with treated("clock", "varied", variant=2, steady=True):
        whole = training()
    with treated("clock", "varied", variant=2, steady=True):
        assert training() == whole

    assert again == pinned
    assert whole != pinned
    # The line that only logs changes nothing.
    assert [steps != pinned for steps in released] == [True, True, False][: len(released)]


def test_wrong_arguments_fail_as_ever() -> None:
    """Patched functions take what the originals take, and nothing else."""
    with samebits.pinned(factors=["clock"]):
        for wrong in (lambda: time.time(1), lambda: time.strftime(), lambda: time.ctime("x"), lambda: time.asctime(3)):
            with pytest.raises(TypeError):
                wrong()


def test_another_thread_does_not_move_this_ones_clock() -> None:
    """A progress bar that looks at the time in the background has no say in what a pinned run reads."""
    times: queue.Queue[float] = queue.Queue()
    with samebits.pinned(factors=["clock"]):
        first = time.time()
        thread = threading.Thread(target=lambda: [times.put(time.time()) for _ in range(100)])
        thread.start()
        thread.join()
        second = time.time()

    assert second - first < 0.04
    assert times.get() == first


def test_what_formats_the_present_inside_the_library_is_witnessed() -> None:
    """`uuid1` reads its clock in C and is not seen; a time in a log record is, at the line that logs."""
    import logging

    with watched("clock", "pinned") as seen:
        logging.getLogger("samebits.test").makeRecord("a", 1, "f", 1, "m", (), None)
    line = here() - 1
    with watched("clock", "pinned") as not_seen:
        uuid.uuid1()

    assert lines(seen) == [line]
    assert not_seen == []


# datetime.datetime and datetime.date are classes, and stay classes: `packages.py` shows it.


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow")
def test_utc_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The naive time in UTC, whatever the time zone of the machine."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        with samebits.pinned(factors=["clock"]):
            naive, aware = datetime.datetime.utcnow(), datetime.datetime.now(datetime.timezone.utc)
            local = datetime.datetime.now()
    finally:
        monkeypatch.undo()
        time.tzset()

    assert naive.tzinfo is None
    assert str(naive) == "2026-09-21 14:13:20.020000"
    assert str(aware) == "2026-09-21 14:13:20.040198+00:00"
    assert local.hour == 23


class Moment(datetime.datetime):
    """A program's own subclass, made before anything was pinned."""

    def label(self) -> str:
        return f"m{self.year}"


def test_classes_that_were_taken_before_tell_the_pinned_time_too() -> None:
    """`from datetime import datetime` above the pin, and a subclass from there: the class is the same one."""
    with samebits.pinned(factors=["clock"]), watched("clock", "pinned") as seen:
        years = [TAKEN.now().year, Moment.now().year, Moment.today().year]
    line = here() - 1

    assert years == [2026] * 3
    assert lines(seen) == [line]
    assert abs(TAKEN.now().timestamp() - time.time()) < 60


def test_what_a_subclass_overrides_counts_where_it_counts_without_us() -> None:
    """`today` asks the class for `fromtimestamp`, `now` does not: as CPython does it."""

    class Asked(datetime.datetime):
        @classmethod
        def fromtimestamp(cls, timestamp: float, tz: Any = None) -> Any:
            return "asked"

    natural = [Asked.today(), type(Asked.now())]
    with treated("clock", "varied"):
        varied = [Asked.today(), type(Asked.now())]
    with samebits.pinned(factors=["clock"]):
        pinned = [Asked.today(), type(Asked.now())]

    assert natural == pinned == varied == ["asked", Asked]


def test_a_method_that_was_taken_along_tells_the_real_time_afterwards() -> None:
    """A default factory made while the clock was pinned outlives the pin."""
    with samebits.pinned(factors=["clock"]):
        now = datetime.datetime.now
        assert now().year == 2026
    assert abs(now().timestamp() - time.time()) < 60
    assert isinstance(now(), datetime.datetime)


def test_the_shift_is_of_days_and_not_of_whole_ones() -> None:
    """The weekday may come out the same by chance; the time of day must not."""
    for variant in range(1, 20):
        with treated("clock", "varied", variant=variant):
            shift = time.time_ns() - TIMES.time_ns()
        days, rest = divmod(shift, clock.DAY_NS)
        assert 1 <= days <= 3651
        assert rest > 10**9
