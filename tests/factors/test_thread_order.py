"""thread-order: one thread at a time when pinned, another order when varied, and nothing lost, stuck or changed."""

import _thread
import copy
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest
import torch

import samebits
from samebits.factors import thread_order, turns
from tests import answers
from tests.factors.contexts import treated, watched

NAME, NUMBERS = "thread-order", list(range(8))


def started(work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in NUMBERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def appended() -> list[int]:
    """By threads, in the order in which they run."""
    found: list[int] = []
    started(found.append)
    return found


def taken() -> list[int]:
    """From a queue that three threads fill."""
    jobs: queue.Queue[int | None] = queue.Queue()
    done: queue.Queue[int] = queue.Queue()

    def work() -> None:
        while (number := jobs.get()) is not None:
            done.put(number)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in [*NUMBERS, None, None, None]:
        jobs.put(number)
    found = [done.get() for _ in NUMBERS]
    for thread in threads:
        thread.join()
    return found


def executed() -> list[int]:
    """By an executor, each task with the next number of one counter."""
    count = iter(range(100))
    with ThreadPoolExecutor(4) as executor:
        return list(executor.map(lambda _: next(count), NUMBERS))


def found(mode: str, variant: int, made: Callable[[], list[int]]) -> list[int]:
    with treated(NAME, mode, variant=variant):  # type: ignore[arg-type]
        return made()


@pytest.mark.parametrize("name", ["Lock", "RLock", "SimpleQueue"])
def test_what_is_replaced_loses_no_method(name: str) -> None:
    """Nor a private one: the resource tracker of `multiprocessing` asks its lock for `_recursion_count`."""
    module = queue if name == "SimpleQueue" else threading
    real = getattr(module, name)()
    with treated(NAME, "pinned"):
        replaced = getattr(module, name)()

    assert type(replaced) is not type(real)
    assert not {*dir(real)} - {*dir(replaced)}


@pytest.mark.parametrize("made", [appended, taken, executed])
def test_one_order_when_pinned_and_others_when_varied(made: Callable[[], list[int]]) -> None:
    """Each of them again and again the same; nobody is lost."""
    pinned = found("pinned", 1, made)
    varied = [found("varied", variant, made) for variant in range(1, 9)]

    assert pinned == NUMBERS
    assert all(sorted(one) == NUMBERS for one in varied)
    assert any(one != NUMBERS for one in varied)
    assert [found("pinned", 1, made) for _ in range(3)] == [pinned] * 3
    assert [found("varied", variant, made) for variant in range(1, 9)] == varied


def test_lines_that_start_threads_are_named_and_let_go_one_by_one() -> None:
    """Those started elsewhere keep their order."""
    with watched(NAME) as seen:
        appended()
        executed()
    lines = [one.site for one in seen if one.site is not None]

    assert [site.function for site in lines] == ["started", "executed"]
    with treated(NAME, "pinned", released=(lines[0].key,), variant=3):
        other, kept = appended(), executed()
    assert (other != NUMBERS, kept) == (True, NUMBERS)


def test_who_sleeps_is_back_after_the_same_turns_however_quick_the_machine_is() -> None:
    """Sources that take a while, and a main thread that takes another while in each run."""

    def mixed(busy: float) -> list[int]:
        done: queue.Queue[int] = queue.Queue(maxsize=3)

        def bring(number: int) -> None:
            for turn in range(40):
                time.sleep(0.0005 * (1 + (7 * turn + number) % 5))
                done.put(number)

        threads = [threading.Thread(target=bring, args=(number,), daemon=True) for number in range(4)]
        for thread in threads:
            thread.start()
        found = []
        for _ in range(160):
            found.append(done.get())
            end = time.monotonic() + busy
            while time.monotonic() < end:
                pass
        return found

    runs = []
    for busy in (0.0, 0.001, 0.003):
        with treated(NAME, "pinned"):
            runs.append(mixed(busy))

    assert sorted(runs[0]) == sorted([*range(4)] * 40)
    assert runs == [runs[0]] * 3


def trained_together() -> float:
    """By threads that share a model, and wait for nobody."""
    torch.manual_seed(0)
    model, data = torch.nn.Linear(6, 6), torch.randn(40, 6)

    def train(number: int) -> None:
        for _ in range(40):
            loss = (model(data[number::8]) - 1).square().mean()
            grads = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for parameter, grad in zip(model.parameters(), grads, strict=True):
                    parameter.add_(grad, alpha=-0.1)

    started(train)
    return model.weight.double().sum().item()


def test_threads_that_only_train_take_turns_after_each_backward() -> None:
    """Hogwild: one result when pinned, another one in each schedule."""
    with treated(NAME, "pinned"):
        first, again = trained_together(), trained_together()
    varied = []
    for _ in range(2):
        with treated(NAME, "varied", variant=1):
            varied.append(trained_together())

    assert first == again
    assert varied[0] == varied[1] != first


def test_a_signal_handler_takes_what_its_own_thread_has() -> None:
    """As it may with an RLock and a SimpleQueue of C's."""
    count = 0

    def handle(*_: object) -> None:
        nonlocal count
        with lock:
            count += 1
        done.put(count)

    with treated(NAME, "pinned"):
        lock, done = threading.RLock(), queue.SimpleQueue[int]()
        ticks = threading.Thread(target=lambda: [time.sleep(0.001) for _ in range(40)])
        before = signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            ticks.start()
            while ticks.is_alive():
                with lock:
                    done.put(0)
                    done.get()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert count > 5


def pooled() -> list[int]:
    """By the workers of a pool of threads, in the order in which they take tasks."""
    found: list[int] = []
    with ThreadPool(4) as pool:
        pool.map(found.append, range(16), chunksize=1)
    return found


def test_a_pool_of_threads_has_one_order_in_each_schedule() -> None:
    """What it starts itself takes turns as well."""
    assert [found("pinned", 1, pooled) for _ in range(3)] == [pinned := found("pinned", 1, pooled)] * 3
    assert sorted(pinned) == [*range(16)]
    for variant in (1, 2, 3):
        assert found("varied", variant, pooled) == found("varied", variant, pooled)


def test_time_passes_in_the_order_of_those_who_sleep() -> None:
    """Sleeping, waiting with a timeout, and a barrier; the clock on the wall goes on as well."""
    order: list[str] = []

    def slept(name: str, seconds: float) -> None:
        time.sleep(seconds)
        order.append(name)

    with treated(NAME, "pinned"):
        begun = time.monotonic()
        threads = [threading.Thread(target=slept, args=one) for one in (("late", 0.1), ("soon", 0.05))]
        for thread in threads:
            thread.start()
        is_set = threading.Event().wait(0.15)
        took = time.monotonic() - begun
        barrier = threading.Barrier(len(NUMBERS))
        started(lambda number: order.append(str(barrier.wait() >= 0)))

    assert (order[:2], is_set, len(order)) == (["soon", "late"], False, 10)
    assert took >= 0.15


def test_a_thread_that_waits_for_a_pipe_gives_up_its_turn() -> None:
    """Another one writes to it: nobody waits for ever."""
    reader, writer = os.pipe()
    got: list[bytes] = []
    with treated(NAME, "pinned"):
        reading = threading.Thread(target=lambda: got.append(os.read(reader, 1)))
        writing = threading.Thread(target=lambda: os.write(writer, b"x"))
        reading.start()
        writing.start()
        reading.join()
        writing.join()
    os.close(reader)
    os.close(writer)

    assert got == [b"x"]


def test_who_asks_again_and_again_lets_others_go_on() -> None:
    """A loop that never waits for a lock, and takes one in each round; the other thread runs to its end meanwhile."""
    with treated(NAME, "pinned"):
        jobs: queue.Queue[int] = queue.Queue()
        thread = threading.Thread(target=jobs.put, args=(1,))
        thread.start()
        other = threading.Thread(target=lambda: jobs.put(2))
        other.start()
        begun = time.monotonic()
        while jobs.qsize() < 2:
            pass
        took = time.monotonic() - begun
        thread.join()
        other.join()

    assert [jobs.get(), jobs.get()] == [1, 2]
    assert took < 5


def busy(stop: threading.Event) -> None:
    while not stop.is_set():
        pass


def locking(stop: threading.Event) -> None:
    lock = threading.Lock()
    while not stop.is_set():
        with lock:
            pass


def yielding(stop: threading.Event) -> None:
    while not stop.is_set():
        time.sleep(0)


def polling(stop: threading.Event) -> None:
    while not stop.is_set():
        time.sleep(0.0005)


@pytest.mark.parametrize("mode", ["pinned", "varied"])
@pytest.mark.parametrize("work", [busy, locking, yielding, polling])
def test_who_sleeps_wakes_whatever_others_do(
    work: Callable[[threading.Event], None], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that never waits keeps its turn for seconds, not for ever; polling is no waiting for nothing."""
    monkeypatch.setattr(turns, "STUCK_SECONDS", 0.3)
    with treated(NAME, mode):  # type: ignore[arg-type]
        stop, begun = threading.Event(), time.monotonic()
        thread = threading.Thread(target=work, args=(stop,))
        thread.start()
        time.sleep(0.2)
        stop.set()
        thread.join()
        took = time.monotonic() - begun

    assert 0.2 <= took < 2


def test_a_process_that_is_stopped_keeps_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would go on if the machine let it: it waits for nobody, however little it computes meanwhile."""
    monkeypatch.setattr(turns, "IDLE_SHARE", 0.9)
    done, stopping = [], f"sleep 0.3; kill -STOP {os.getpid()}; sleep 1; kill -CONT {os.getpid()}"
    with treated(NAME, "pinned"):
        other = threading.Thread(target=lambda: (time.sleep(0.1), done.append("other")))
        other.start()
        helper, end = subprocess.Popen(["sh", "-c", stopping]), time.monotonic() + 1.6
        while time.monotonic() < end:
            pass
        done.append("this one")
        other.join()
        helper.wait()

    assert done == ["this one", "other"]


def test_a_lock_that_is_released_just_before_one_waits_wakes_nobody_later() -> None:
    """By a thread that takes no turns: the next sleep has its whole length."""
    with treated(NAME, "pinned"):
        lock, other = threading.Lock(), threading.Thread(target=time.sleep, args=(0.3,))
        lock.acquire()
        other.start()

        class Waiting(deque[object]):
            def append(self, turn: object) -> None:
                super().append(turn)
                done = _thread.allocate_lock()
                done.acquire()
                _thread.start_new_thread(lambda: (lock.release(), done.release()), ())
                done.acquire()

        lock._waiting = Waiting()  # type: ignore[attr-defined]
        is_got, begun = lock.acquire(timeout=5), time.monotonic()
        time.sleep(0.1)
        took = time.monotonic() - begun
        other.join()

    assert is_got
    assert took >= 0.1


def test_what_fails_in_a_thread_and_what_times_out_does_as_always(capfd: pytest.CaptureFixture[str]) -> None:
    """Errors of a task arrive, a join has its timeout, and a lock that is held is not got."""
    with treated(NAME, "pinned"):
        lock, held = threading.Lock(), threading.Lock()
        held.acquire()
        waiting = threading.Thread(target=held.acquire)
        waiting.start()
        waiting.join(0.05)
        is_waiting = waiting.is_alive()
        held.release()
        waiting.join()
        with ThreadPoolExecutor(2) as executor:
            error = executor.submit(lambda: 1 // 0).exception()
        got = [lock.acquire(), lock.acquire(False), lock.acquire(timeout=0.01)]
        with pytest.raises(ValueError, match="timeout"):
            lock.acquire(True, -2)
        with pytest.raises(TypeError, match="cannot pickle"):
            copy.deepcopy(lock)

    assert (is_waiting, type(error), got) == (True, ZeroDivisionError, [True, False, False])


def test_locks_go_on_when_the_pin_has_ended() -> None:
    """What a program made meanwhile works as a lock of Python's does, with threads that were not there."""
    with samebits.pinned(factors=[NAME]):
        lines: queue.Queue[int] = queue.Queue()
        lock = threading.Lock()
    thread = threading.Thread(target=lambda: lines.put(lines.get() + 1))
    thread.start()
    lines.put(1)
    thread.join()
    with lock:
        is_held = lock.locked()

    assert (lines.get(), is_held, lock.locked()) == (2, True, False)
    assert type(threading.Lock()).__module__ in ("_thread", "builtins")


SCRIPT = """
import multiprocessing, threading, time

def late(name):
    time.sleep(0.05)
    print(name, flush=True)

def child():
    threads = [threading.Thread(target=late, args=(f"child {n}",)) for n in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    threading.Thread(target=late, args=("after the main thread",)).start()
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    print("main ends", process.exitcode, flush=True)
"""


def test_a_program_ends_as_it_does_by_itself(tmp_path: Path) -> None:
    """Its threads outlive the main one, those that may be left behind are, and a process that forked has its own."""
    (tmp_path / "script.py").write_text(SCRIPT)

    done = answers.samebits(tmp_path, "run", "--pin", NAME, "script.py", timeout=50)

    said = done.stdout.splitlines()
    assert (said, done.returncode) == (["child 0", "child 1", "main ends 0", "after the main thread"], 0), done.stderr


class Job:
    """Something to call, which answers to every name."""

    def __call__(self) -> None:
        done.append("job")

    def __getattr__(self, name: str) -> object:
        done.append(f"asked for {name}")
        return Job()


done: list[str] = []


@pytest.mark.parametrize(
    ("target", "is_of_program"),
    [
        (Job(), True),
        (partial(Job()), True),
        (torch.no_grad()(lambda: done.append("decorated")), True),
        (cache(lambda: done.append("cached")), True),
        (done.clear, False),
        (time.time, False),
    ],
    ids=["an object", "a part", "decorated", "cached", "a method in C", "a function in C"],
)
def test_threads_of_the_program_are_known_by_their_code(target: Callable[[], object], is_of_program: bool) -> None:
    """Whatever they run, which is asked for nothing."""
    done.clear()
    with watched(NAME) as seen:
        thread = threading.Thread(target=target)
        is_known = thread_order._is_of_program(thread)
        thread.start()
        thread.join()

    assert is_known is is_of_program
    # Python itself asks for a name.
    assert not [word for word in done if word.startswith("asked") and word != "asked for __name__"]
    assert seen


def test_a_pool_of_threads_goes_on() -> None:
    """Its own threads, which hand out tasks and results, are left as they are."""
    with treated(NAME, "pinned"), ThreadPool(3) as pool:
        results = [sorted(pool.imap_unordered(abs, NUMBERS)), pool.map(abs, NUMBERS)]

    assert results == [NUMBERS, NUMBERS]


FORKING = """
import multiprocessing, threading, time
from concurrent.futures import ThreadPoolExecutor
from samebits.factors.context import Setting
from samebits.factors.pinning import treat

def child():
    own = threading.Thread(target=time.sleep, args=(0.01,))
    own.start()
    beside.join()
    own.join()
    with ThreadPoolExecutor(2) as executor:
        assert sum(executor.map(abs, range(-5, 5))) == 25

for variant in range(1, 7):
    treatment = treat({"thread-order": Setting("varied", variant=variant)}, 0)
    beside = threading.Thread(target=time.sleep, args=(0.2,))
    beside.start()
    executor = ThreadPoolExecutor(2)
    executor.submit(int).result()
    executor.submit(time.sleep, 0.1)
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(20)
    print(process.exitcode)
    process.kill()
    executor.shutdown()
    treatment.undo()
"""


def test_a_process_that_forks_finds_no_lock_held_for_ever() -> None:
    """Nobody gives up its turn while it holds a lock; a thread of the other process has ended there."""
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=150)

    assert (done.stdout.split(), done.stderr) == (["0"] * 6, "")


INTERRUPTED = """
import faulthandler, os, queue, selectors, sys, threading, time
from samebits.factors import thread_order, turns
from samebits.factors.context import Setting
from samebits.factors.pinning import treat

mode, every = sys.argv[1], 11
turns.IDLE_SECONDS = 0.1
treatment = treat({"thread-order": Setting(mode, variant=1)}, 0)

def interrupted(number):
    # A run of the scenario whose scheduler is interrupted at its line of this number; returns how many there were.
    lock, shared, jobs = threading.RLock(), threading.RLock(), queue.SimpleQueue()
    reader, writer = os.pipe()
    lines = 0

    def work():
        for _ in range(3):
            with shared:
                time.sleep(0.0005)
            with lock:
                jobs.put(1)
        os.write(writer, b"x")

    def handle():
        with lock:
            queue.Queue().put(1)
        # In the scheduler's own critical sections a handler waits for nobody.
        if not lock._turns._guard._is_owned():
            with shared:
                pass
            time.sleep(0)

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename == turns.__file__ and event == "line":
            lines += 1
            if lines == number:
                handle()
        return trace

    threads = [threading.Thread(target=work) for _ in range(2)]
    sys.settrace(trace)
    [thread.start() for thread in threads]
    for _ in range(6):
        with lock:
            pass
        jobs.get()
        if shared.acquire(timeout=0.002):
            shared.release()
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        selector.select()
    time.sleep(0.001)
    [thread.join() for thread in threads]
    sys.settrace(None)
    os.close(reader)
    os.close(writer)
    return lines

faulthandler.dump_traceback_later(60, exit=True)
lines = interrupted(0)
for number in range(1, lines, every):
    interrupted(number)
print(lines > 1000)
"""


@pytest.mark.parametrize("mode", ["pinned", "varied"])
def test_a_handler_may_wait_wherever_it_interrupts_the_scheduler(mode: str) -> None:
    """Of a signal, or a finalizer: it takes locks, waits for other threads and sleeps, and everybody goes on."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, mode], capture_output=True, text=True, timeout=120)

    assert (done.stdout.split(), done.stderr) == (["True"], "")
