"""completion-order: in the order of the tasks when pinned, in another when varied, and nothing lost or stuck."""

import asyncio
import concurrent.futures
import multiprocessing
import multiprocessing.connection
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset, get_worker_info

import samebits
from samebits.checking.plan import RELEASED, RELEASED_OTHERWISE
from samebits.factors import completion_order
from samebits.factors.completion_order import _arranged
from tests.factors.contexts import treated, watched

NAME, NUMBERS = "completion-order", list(range(8))
# The first tasks take longest.
SECONDS = [0.2, 0.03, 0.02, 0.01, 0.0, 0.0, 0.0, 0.0]


def work(number: int) -> int:
    threading.Event().wait(SECONDS[number])
    return number


def threads(kind: Callable[[Iterable[Any]], Any] = list) -> list[int]:
    with ThreadPoolExecutor(8) as pool:
        jobs = kind([pool.submit(work, number) for number in NUMBERS])
        return [job.result() for job in concurrent.futures.as_completed(jobs)]


async def slept(number: int) -> int:
    await asyncio.sleep(SECONDS[number])
    return number


def coroutines() -> list[int]:
    async def taken() -> list[int]:
        return [await one for one in asyncio.as_completed([slept(number) for number in NUMBERS])]

    return asyncio.run(taken())


def pool(chunk: int = 1) -> list[int]:
    with ThreadPool(8) as workers:
        return list(workers.imap_unordered(work, NUMBERS, chunk))


def connections() -> list[int]:
    """Of pipes, as an own pool of actors takes them."""
    pipes = [multiprocessing.Pipe() for _ in NUMBERS]
    for number, (_, there) in enumerate(pipes):
        threading.Thread(target=lambda number=number, there=there: there.send(work(number))).start()
    pending, found = [here for here, _ in pipes], []
    while pending:
        for here in multiprocessing.connection.wait(pending):
            found.append(here.recv())
            pending.remove(here)
    return found


@pytest.mark.parametrize("taken", [threads, coroutines, pool, connections])
def test_pinned_in_order_varied_in_another_and_the_line_is_named(taken: Callable[[], list[int]]) -> None:
    """Left alone the slowest task comes last; nothing is lost in any order."""
    with watched(NAME) as seen:
        natural = taken()
    found = []
    for mode, variant in (("pinned", 1), ("varied", 1), ("varied", 1)):
        with treated(NAME, mode, variant=variant):  # type: ignore[arg-type]
            found.append(taken())

    assert natural[-1] == 0
    assert found[0] == NUMBERS
    assert sorted(found[1]) == NUMBERS
    assert found[1] == found[2] != NUMBERS
    assert [one.site and one.site.path for one in seen] == [__file__]


@pytest.mark.parametrize("mode", ["pinned", "varied"])
def test_a_silent_connection_is_waited_for_once(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It speaks only when the other one has been answered, as a worker that waits for its turn does."""
    monkeypatch.setattr(completion_order, "SILENT_SECONDS", 0.2)
    (here, there), (silent, quiet) = multiprocessing.Pipe(), multiprocessing.Pipe()
    began = time.monotonic()
    with treated(NAME, mode):
        found = []
        for number in NUMBERS:
            there.send(number)
            (one,) = multiprocessing.connection.wait([silent, here])
            found.append(one.recv())
        quiet.send("last")
        (one,) = multiprocessing.connection.wait([silent, here])
        found.append(one.recv())
    there.close()
    quiet.close()

    assert found == [*NUMBERS, "last"]
    assert time.monotonic() - began < 2


class Numbers(Dataset[int]):
    """The first one is made a moment after the second one, by another worker."""

    def __init__(self) -> None:
        self.second = multiprocessing.Event()

    def __len__(self) -> int:
        return len(NUMBERS)

    def __getitem__(self, number: int) -> int:
        if number == 1:
            self.second.set()
        elif number == 0 and get_worker_info() is not None and get_worker_info().num_workers > 1:
            self.second.wait(20)
            threading.Event().wait(0.2)
        return number


def loader(**options: Any) -> DataLoader[int]:
    return DataLoader(Numbers(), batch_size=None, **{"num_workers": 2, "in_order": False, **options})


@pytest.mark.parametrize("persistent", [False, True])
def test_batches_of_a_loader_that_keeps_no_order(persistent: bool) -> None:
    """The line that makes it is named; each epoch begins anew, also where the last one was left early."""
    found = []
    for mode in ("natural", "pinned", "varied"):
        with watched(NAME, mode) as seen:  # type: ignore[arg-type]
            made = loader(persistent_workers=persistent)
            next(iter(made))
            found.append([list(made), list(made)])
        assert [(one.what, one.site and one.site.path) for one in seen] == [("DataLoader", __file__)]
        assert next(iter(loader())) == 1, "afterwards it is as without us"

    (natural, _), (pinned, again), (varied, swapped) = found
    assert sorted(natural) == pinned == again == NUMBERS
    assert natural[0] == 1
    assert varied == swapped == [1, 0, 3, 2, 5, 4, 7, 6]


def test_loaders_whose_batches_come_in_order_are_none() -> None:
    """One worker, none, or told to."""
    with watched(NAME, "varied") as seen:
        for options in ({"num_workers": 1}, {"num_workers": 0}, {"in_order": True}):
            assert list(loader(**options)) == NUMBERS
    assert seen == []


def test_other_variants_and_chunks() -> None:
    """A check releases it in two ways, which give two orders; a pool that hands out chunks gives a plain generator."""
    with treated(NAME, "varied", variant=RELEASED):
        assert threads() == [1, 2, 3, 4, 5, 6, 7, 0]
        assert pool(3) == [1, 0, 3, 2, 5, 4, 7, 6]
    with treated(NAME, "varied", variant=RELEASED_OTHERWISE):
        assert threads() == [2, 3, 4, 5, 6, 7, 0, 1]
        assert pool() == pool(3) == list(loader()) == [2, 1, 0, 5, 4, 3, 7, 6]
    with treated(NAME):
        assert pool(3) == NUMBERS


def test_two_results_have_one_other_order() -> None:
    for variant in range(1, 7):
        assert _arranged([0, 1], "varied", variant) == [1, 0]
        assert _arranged([0], "varied", variant) == [0]


def test_a_set_has_the_order_in_which_it_was_submitted() -> None:
    """Its own is the order of addresses; what a dictionary or a list says stands."""
    with treated(NAME):
        assert threads(set) == NUMBERS
        assert threads(dict.fromkeys) == NUMBERS
        assert threads(lambda jobs: list(jobs)[::-1]) == NUMBERS[::-1]
        assert threads(lambda jobs: [*jobs, jobs[0]]) == NUMBERS  # type: ignore[index]


def test_a_released_line_leaves_the_others() -> None:
    """As it is varied, there alone."""

    def both() -> tuple[list[int], list[int]]:
        with ThreadPoolExecutor(8) as own:
            first = [one.result() for one in concurrent.futures.as_completed(own.submit(work, n) for n in NUMBERS)]
            second = [one.result() for one in concurrent.futures.as_completed(own.submit(work, n) for n in NUMBERS)]
        return first, second

    with treated(NAME, released=((__file__, both.__code__.co_firstlineno + 3),)):
        assert both() == (NUMBERS, NUMBERS[::-1])


def test_times_and_errors_are_the_callers() -> None:
    """Too late is too late, a task that failed fails where its turn is, and nothing to wait for is no error."""

    def fails(number: int) -> int:
        if number == 1:
            raise ValueError(number)
        return number

    release = threading.Event()
    with treated(NAME), ThreadPoolExecutor(2) as own:
        late = [own.submit(int), own.submit(release.wait)]
        waiting = concurrent.futures.as_completed(late, timeout=0.05)
        assert next(waiting).result() == 0
        with pytest.raises(concurrent.futures.TimeoutError, match=r"1 \(of 2\) futures unfinished"):
            next(waiting)
        release.set()
        assert list(concurrent.futures.as_completed([])) == []
        with pytest.raises(TypeError):
            asyncio.as_completed(None)  # type: ignore[type-var]
    with treated(NAME, "varied"), ThreadPool(2) as workers:
        results = workers.imap_unordered(fails, range(4))
        with pytest.raises(ValueError, match="1"):
            next(results)
        assert list(results) == [0, 3, 2]
        slow = workers.imap_unordered(work, [0])
        with pytest.raises(multiprocessing.TimeoutError):
            slow.next(0.001)
        assert slow.next(5) == 0


@pytest.mark.parametrize("mode", ["threads", "coroutines", "pool"])
def test_varied_nobody_waits_for_the_other(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that goes on only when the result before it was taken: what comes first comes first, a moment later."""
    monkeypatch.setattr("samebits.factors.completion_order.PATIENCE_SECONDS", 0.05)
    taken = [threading.Event() for _ in range(4)]

    def next_one(number: int) -> int:
        assert not number or taken[number - 1].wait(20)
        return number

    def took(number: int) -> int:
        taken[number].set()
        return number

    async def awaited() -> list[int]:
        jobs = [asyncio.to_thread(next_one, number) for number in range(4)]
        return [took(await one) for one in asyncio.as_completed(jobs)]

    with treated(NAME, "varied"):
        if mode == "threads":
            with ThreadPoolExecutor(4) as own:
                jobs = [own.submit(next_one, number) for number in range(4)]
                found = [took(job.result()) for job in concurrent.futures.as_completed(jobs)]
        elif mode == "coroutines":
            found = asyncio.run(awaited())
        else:
            with ThreadPool(4) as workers:
                found = [took(number) for number in workers.imap_unordered(next_one, range(4))]

    assert found == [0, 1, 2, 3]


def test_on_a_slow_machine_they_come_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long each takes: as long as others are completed meanwhile, or no longer than the first one took."""
    monkeypatch.setattr("samebits.factors.completion_order.PATIENCE_SECONDS", 0.01)

    def slow(number: int) -> int:
        threading.Event().wait(0.1)
        return number

    async def awaited() -> list[int]:
        return [await one for one in asyncio.as_completed([asyncio.to_thread(slow, number) for number in range(5)])]

    with treated(NAME, "varied"), ThreadPoolExecutor(2) as own, ThreadPool(2) as workers:
        jobs = [own.submit(slow, number) for number in range(5)]
        futures = [job.result() for job in concurrent.futures.as_completed(jobs)]
        pooled = list(workers.imap_unordered(slow, range(5)))
        coroutines = asyncio.run(awaited())

    assert futures == coroutines == [4, 3, 2, 1, 0]
    assert pooled == [1, 0, 3, 2, 4]


def test_a_result_is_not_kept() -> None:
    """As without us: what was yielded is the caller's alone."""
    import gc
    import weakref

    class Large:
        pass

    with treated(NAME), ThreadPoolExecutor(1) as own:
        jobs = [own.submit(Large) for _ in range(3)]
        waiting = concurrent.futures.as_completed(jobs)
        first = weakref.ref(next(waiting).result())
        jobs.clear()
        next(waiting)
        gc.collect()
        assert first() is None


def test_it_is_put_back() -> None:
    """Functions and methods are what they were, whichever was called meanwhile."""
    before = (concurrent.futures.as_completed, asyncio.as_completed, vars(ThreadPool).get("imap_unordered"))
    start = concurrent.futures.Future.__init__
    with samebits.pinned(factors=[NAME]):
        assert threads() == NUMBERS
        assert concurrent.futures.Future.__init__ is not start

    assert concurrent.futures.Future.__init__ is start
    assert (concurrent.futures.as_completed, asyncio.as_completed, vars(ThreadPool).get("imap_unordered")) == before


def test_iterated_asynchronously() -> None:
    """From Python 3.13 on, `async for` gives the futures themselves."""

    async def taken() -> list[int]:
        found = asyncio.as_completed([slept(number) for number in NUMBERS])
        return [(await one) async for one in found]  # type: ignore[attr-defined]

    with treated(NAME):
        assert asyncio.run(taken()) == NUMBERS


def test_a_line_is_named_once() -> None:
    """However often it asks."""
    with watched(NAME, "pinned") as seen:
        for _ in range(2):
            threads()
    assert len(seen) == 1
