"""On a device: work on another stream, which is waited for where that is pinned."""

import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

from samebits.factors import stream_order
from tests.factors.contexts import here, lines, treated, watched
from tests.gpu import DEVICE, IS_STANDIN, ON_A_DEVICE, own

pytestmark = ON_A_DEVICE

TIMES = 200
SIZE = 64 if IS_STANDIN else 1 << 24


class Set:
    """Goes on with a stream, and back, by the function for it."""

    def __init__(self, stream: Any, owner: Any) -> None:
        self.stream, self.owner, self.before = stream, owner, own().current_stream()

    def __enter__(self) -> None:
        self.owner.set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        self.owner.set_stream(self.before)


WAYS: dict[str, Callable[[Any], AbstractContextManager[Any]]] = {
    "stream": lambda stream: own().stream(stream),
    "set_stream": lambda stream: Set(stream, own()),
    "accelerator": lambda stream: Set(stream, torch.accelerator),
    "with": lambda stream: stream,
}


def counted(x: torch.Tensor) -> None:
    """Work that the device is still busy with when this returns."""
    for _ in range(TIMES):
        x += 1


def read_on_another(way: str) -> tuple[float, float]:
    """What the current stream reads of a second one, and the second one of the current one; nobody waits."""
    x, y, side = torch.zeros(SIZE, device=DEVICE), torch.zeros(SIZE, device=DEVICE), own().Stream()
    own().synchronize()
    with WAYS[way](side):
        counted(x)
    there = x.clone()
    own().synchronize()
    counted(y)
    with WAYS[way](side):
        back = y.clone()
    own().synchronize()
    return there.min().item(), back.min().item()


@pytest.mark.parametrize("way", WAYS)
def test_pinned_a_stream_waits_for_the_one_before_it(way: str) -> None:
    """In both directions, however a program goes on with it; else it reads too early."""
    with treated("stream-order"):
        held = read_on_another(way)
    early = read_on_another(way)

    assert held == (TIMES, TIMES)
    assert early != (TIMES, TIMES)


def test_a_line_that_is_released_waits_for_nothing() -> None:
    """The other one does; each is told once."""
    first = read_on_another.__code__.co_firstlineno + 4
    with watched("stream-order", "pinned") as seen:
        read_on_another("stream")
    with treated("stream-order", released=((__file__, first),)):
        there, back = read_on_another("stream")

    assert lines(seen) == [first, first + 5]
    assert there < back == TIMES


def read_of_another_thread() -> tuple[float, float]:
    """What this thread reads of another one's stream, and that one of this thread's; nobody waits."""
    x, y = torch.zeros(SIZE, device=DEVICE), torch.zeros(SIZE, device=DEVICE)
    there, back, copies = queue.Queue[torch.Tensor](), queue.Queue[torch.Tensor](), list[torch.Tensor]()
    own().synchronize()

    def work() -> None:
        time.sleep(0.1)  # the other thread waits by then
        with own().stream(own().Stream()):
            counted(x)
            there.put(x)
            copies.append(back.get().clone())

    thread = threading.Thread(target=work)
    thread.start()
    copies.append(there.get().clone())
    counted(y)
    back.put(y)
    thread.join()
    own().synchronize()
    return copies[0].min().item(), copies[1].min().item()


def test_pinned_a_stream_waits_for_what_another_thread_hands_over() -> None:
    """By a queue, in both directions; with the pin gone, nobody waits any more."""
    with treated("stream-order"):
        held = read_of_another_thread()
    early = read_of_another_thread()

    assert held == (TIMES, TIMES)
    assert early != (TIMES, TIMES)
    assert not hasattr(threading.Condition.__exit__, "__wrapped__")


def handed_on(number: int) -> int:
    """What a thread without a stream of its own gives back, of what it was handed by a queue."""
    there, back = queue.Queue[int](), queue.Queue[int]()
    thread = threading.Thread(target=lambda: back.put(there.get()))
    thread.start()
    there.put(number)
    thread.join()
    return back.get()


def test_threads_on_one_stream_are_not_asked_to_wait() -> None:
    """Though another one was used before."""
    with watched("stream-order", "pinned") as seen:
        with own().stream(own().Stream()):
            there = here() - 1
        assert handed_on(1) == 1

    assert {*lines(seen)} == {there}


def test_a_stream_that_captures_is_waited_for_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait of another thread would become part of the graph: a capture lasts here while this thread is in it."""
    this_thread = threading.get_ident()
    with watched("stream-order", "pinned") as seen, own().stream(own().Stream()):
        entered = len(seen)
        with monkeypatch.context() as patch:
            patch.setattr(stream_order, "is_captured", lambda: threading.get_ident() == this_thread)
            assert handed_on(1) == 1
        assert len(seen) == entered
        assert handed_on(2) == 2
        assert len(seen) > entered


class Bare:
    """A lock of a program's own, which nobody can refer to weakly."""

    __slots__ = ("acquire", "release")

    def __init__(self) -> None:
        lock = threading.Lock()
        self.acquire, self.release = lock.acquire, lock.release

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def test_a_lock_of_the_programs_own_stays_in_use() -> None:
    """It is let go, and waited in, as without us."""
    condition = threading.Condition(Bare())  # type: ignore[arg-type]
    with treated("stream-order"), own().stream(own().Stream()):
        with condition:
            assert not condition.wait(0.01)
        with condition:
            condition.notify()


def test_a_forked_process_hands_over_without_the_device() -> None:
    """Its parent uses several streams; it may not use the device at all."""
    with treated("stream-order"), own().stream(own().Stream()):
        child = os.fork()
        if child == 0:
            os._exit(handed_on(3))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_who_stays_on_a_stream_is_not_asked_to_wait() -> None:
    """Nor who goes on with no stream at all."""
    with watched("stream-order", "pinned") as seen:
        with own().stream(own().current_stream()), own().stream(None):
            torch.ones(3, device=DEVICE)
        own().set_stream(own().current_stream())

    assert lines(seen) == []
