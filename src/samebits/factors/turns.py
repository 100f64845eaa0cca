"""A scheduler of threads that take turns: one runs at a time, and which one is next depends on the program alone.

A thread keeps its turn until it has computed gradients, or waits for a lock, for another thread or for time to pass.
Queues, events, conditions, semaphores and executors wait for locks of `threading`, so they need no code of their own.
Sleepers wake by virtual time, in the order of their wake-up times. It advances with every turn, and jumps ahead when no
other thread can run, so the clock does not decide who goes first. A sleep is never shorter than asked.
"""

from __future__ import annotations

import _thread
import os
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import listdir  # not `os.listdir`, which may be patched: order does not matter here
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from types import GenericAlias
from typing import Any, NamedTuple, NoReturn
from weakref import WeakSet

# A thread that waits for something unknown to this module (a pipe, C code) loses its turn after IDLE_SECONDS in which
# the process uses less than IDLE_SHARE of a processor. One that computes without end loses it after STUCK_SECONDS both
# of time and of processor time, of which many cores use several in one second.
IDLE_SECONDS, STUCK_SECONDS = 0.4, 3.0
IDLE_SHARE = 0.05
# The shortest sleep: virtual time has to advance even if a thread sleeps for 0 seconds again and again.
TICK_SECONDS = 0.002
# How much virtual time passes in a turn, and in a backward or after many requests.
TURN_SECONDS, WORK_SECONDS = 0.0001, 0.001
# A thread woken at most so many real seconds too early sleeps on and keeps its turn; else it gives the turn up again.
KEEP_TURN_SECONDS = 0.05
# After so many requests for locks in one turn, others go first: `while queue.empty(): pass` never waits, nor ends.
MOST_LOCK_REQUESTS = 1000
# After so many turns, threads that have slept long enough by the clock, or are back from outside, become ready.
MOST_TURNS = 100
# The chance of a new rank where another thread could go first (Burckhardt et al., A Randomized Scheduler, 2010).
RANK_CHANGES = 0.2


class Waking(NamedTuple):
    """The moment at which a thread wakes by itself.

    Attributes:
        time: in virtual time, in which all turns take equally long.
        clock: by the machine's clock.
        turn: the number of the turn from which on the clock alone decides.
    """

    time: float
    clock: float
    turn: int


class Turn:
    """A thread that takes turns.

    Attributes:
        number: its position in the order in which threads were started.
        wakes: when it wakes by itself; None where it does not wait for time to pass.
        rank: where any thread is loose, the ready one with the highest rank goes first.
        is_loose: whether it is scheduled by rank, which gives another schedule.
        ended: a lock that is held until the thread has ended.
    """

    def __init__(self, turns: Turns, number: int, rank: float, is_loose: bool) -> None:
        self.number, self.rank, self.is_loose = number, rank, is_loose
        self.gate = _thread.allocate_lock()
        self.gate.acquire()
        self.ended = TurnLock(turns)
        self.ended.hold()
        self.is_inside = False
        # Weak references: a condition drops the lock by which it was woken.
        self.held: WeakSet[TurnLock] = WeakSet()
        self.wakes: Waking | None = None

    @property
    def order(self) -> tuple[float, int]:
        return (self.wakes.time if self.wakes else float("inf")), self.number


class Waiter:
    """One wait of a thread. A signal handler or finalizer may wait in the middle of it, and is woken for itself."""

    __slots__ = ("is_woken", "turn")

    def __init__(self, turn: Turn) -> None:
        self.turn, self.is_woken = turn, False


class Turns:
    """The threads of one process that take turns; the thread that creates this object is the first of them.

    Args:
        seed: the seed of the schedule that loose threads follow.
        is_mirrored: whether ranks are mirrored: the thread that would go first goes last.
    """

    def __init__(self, seed: int, *, is_mirrored: bool = False) -> None:
        self._random, self._is_mirrored = random.Random(seed), is_mirrored
        self._made = 0
        self.has_ended = self.is_loose = False
        self._begin()
        # In the forked child, `threading` takes a lock before `_begin` is called there.
        os.register_at_fork(before=self._stop, after_in_parent=self._resume, after_in_child=self._begin)

    def _stop(self) -> None:
        self._forking = _thread.get_ident()

    def _resume(self) -> None:
        self._forking = 0

    def _begin(self) -> None:
        """Start over with the calling thread as the only one; also in a forked child."""
        self._guard = _thread.RLock()
        self._ready: deque[Turn] = deque()
        self._back: deque[Turn] = deque()
        self._asleep: list[Turn] = []
        # Threads that were started or woken, perhaps by a signal handler or a finalizer that interrupts this scheduler.
        self._woken: deque[Turn] = deque()
        self._now, self._count, self._asked, self._is_watched = 0.0, 0, 0, False
        self._living, self._forking = 1, 0
        self._holder: Turn | None = self.register_thread(is_loose=False)
        self._own = {_thread.get_ident(): self._holder}

    def replacement_class(self, kind: type[Waitable], name: str) -> type[Waitable]:
        """Return a class that replaces one of the standard library under the same name, which annotations use, too."""
        return type(name, (kind,), {"__slots__": (), "__init__": lambda made: kind.__init__(made, self)})

    def register_thread(self, is_loose: bool) -> Turn:
        """Register a thread that is about to start."""
        self._made += 1
        self.is_loose |= is_loose
        return Turn(self, self._made, self._drawn(), is_loose)

    def start(self, turn: Turn) -> None:
        """Put a started thread into the ready queue."""
        with self._guard:
            if not self._is_watched:
                self._is_watched = True
                _thread.start_new_thread(self._watch, ())
            self._living += 1
        self._make_ready(turn)

    def unregister_thread(self, turn: Turn) -> None:
        """Remove a thread that has ended or could not be started."""
        turn.ended.release()
        with self._guard:
            self._living -= 1
            self._forget(turn)

    def enter(self, turn: Turn) -> None:
        """Wait for the thread's first turn; a new thread calls this first."""
        self._own[_thread.get_ident()] = turn
        self._sleep(turn)

    def leave(self) -> None:
        """Give the thread's turn away for good; a thread calls this last."""
        turn = self._own.pop(_thread.get_ident(), None)
        if turn is not None:
            self.unregister_thread(turn)

    def end(self) -> None:
        """Stop scheduling: release every waiting thread."""
        with self._guard:
            self.has_ended, turns = True, list(self._own.values())
            self._own.clear()
            for turn in turns:
                if turn is not self._holder and turn.gate.locked():
                    turn.gate.release()

    @property
    def current_turn(self) -> Turn | None:
        """The calling thread, None where it takes no turns or is alone; a thread that lost its turn waits for one."""
        ident = _thread.get_ident()
        turn = self._own.get(ident)
        if turn is None or self._living < 2 or turn.is_inside or self._forking == ident:
            return None
        if self._guard._is_owned():  # type: ignore[attr-defined]  # a finalizer that interrupts this scheduler
            return None
        if turn is not self._holder:
            self._queue(turn)
        return None if self.has_ended else turn

    def _queue(self, turn: Turn) -> None:
        """Go to the back of the ready queue, and wait."""
        with self._guard:
            self._give(turn, back_to=self._ready)
        self._sleep(turn)

    def wait(self, waiter: Waiter, seconds: float | None = None) -> None:
        """Wait until woken or the time is over. Without a time, it may return early."""
        turn, end = waiter.turn, None if seconds is None else monotonic() + seconds
        try:
            with self._guard:
                if waiter.is_woken:
                    return
                # Drawn only once: how often the thread lies down depends on the clock.
                about = None if seconds is None else max(TICK_SECONDS, seconds)
                about = about and about * (0.5 + self._drawn() if turn.is_loose else 1)
                self._begin_sleep(turn, about, end)
            self._sleep(turn)
            while end is not None and not waiter.is_woken and not self.has_ended and (left := end - monotonic()) > 0:
                if left <= KEEP_TURN_SECONDS:
                    sleep(left)
                else:
                    with self._guard:
                        self._begin_sleep(turn, about, end)
                    self._sleep(turn)
        except BaseException:  # Ctrl-C: the thread goes on without a turn, until it asks again
            self._forget(turn)
            raise

    def _begin_sleep(self, turn: Turn, seconds: float | None, end: float | None) -> None:
        """Give up the turn until woken or `seconds` of virtual time are over, which by the clock is at `end`."""
        if seconds is not None and end is not None:
            turn.wakes = Waking(self._now + seconds, end, self._count + MOST_TURNS)
            self._asleep.append(turn)
        self._give(turn)

    def wake(self, waiter: Waiter) -> None:
        """Mark a waiting thread as ready."""
        waiter.is_woken = True
        self._make_ready(waiter.turn)

    def _make_ready(self, turn: Turn) -> None:
        self._woken.append(turn)
        if not self._guard._is_owned():  # type: ignore[attr-defined]  # else the scheduler, which is interrupted, goes on
            with self._guard:
                self._schedule_next()

    def _enqueue(self, turn: Turn, queue: deque[Turn]) -> None:
        if turn not in queue:
            self._dequeue(turn)
            queue.append(turn)

    def _dequeue(self, turn: Turn) -> None:
        turn.wakes = None
        for queue in (self._woken, self._ready, self._back, self._asleep):
            if turn in queue:
                queue.remove(turn)

    def yield_turn(self, turn: Turn, *, has_worked: bool = False) -> None:
        """Let another thread go first: by rank where any is loose, else only after work or many requests."""
        # If another thread forked meanwhile, the child would inherit a locked lock that nothing there can release.
        if turn.held:
            return
        self._asked += 1
        if has_worked or self._asked > MOST_LOCK_REQUESTS:
            has_worked, self._asked = True, 0
            with self._guard:
                self._pass_time(WORK_SECONDS)
                self._readmit()
        # An atomic copy: a signal handler, or a thread that wakes another, may change the queue during an iteration.
        ready = tuple(self._ready)
        is_loose = turn.is_loose or any(other.is_loose for other in ready)
        if ready and (self._is_outranked(turn) if is_loose else has_worked):
            self._queue(turn)

    def _pass_time(self, seconds: float) -> None:
        """Advance virtual time, and make those ready that have slept long enough even if other threads can run."""
        self._now += seconds
        self._wake_sleepers([turn for turn in self._asleep if turn.order[0] <= self._now or self._is_starved(turn)])

    def _wake_sleepers(self, sleepers: list[Turn]) -> None:
        for turn in sorted(sleepers, key=lambda one: one.order):
            self._now = max(self._now, turn.order[0])
            self._enqueue(turn, self._ready)

    def _readmit(self) -> None:
        self._ready.extend(self._back)
        self._back.clear()

    def _is_starved(self, turn: Turn) -> bool:
        return turn.wakes is not None and self._count >= turn.wakes.turn and self._is_overdue(turn)

    @staticmethod
    def _is_overdue(turn: Turn) -> bool:
        return turn.wakes is not None and turn.wakes.clock <= monotonic()

    @contextmanager
    def outside(self, turn: Turn) -> Iterator[None]:
        """A block in which a thread waits for something that is none of our locks; after it, ready threads go first."""
        with self._guard:
            self._give(turn)
        try:
            yield
        finally:
            with self._guard:
                self._give(turn, back_to=self._back)
            self._sleep(turn)

    def _drawn(self) -> float:
        drawn = self._random.random()
        return 1 - drawn if self._is_mirrored else drawn

    def _is_outranked(self, turn: Turn) -> bool:
        """Whether a ready thread goes before this one, whose rank changes now and then so that all orders occur."""
        if self._random.random() < RANK_CHANGES:
            turn.rank = self._drawn()
        return any(other.rank > turn.rank for other in tuple(self._ready))

    def _give(self, turn: Turn, back_to: deque[Turn] | None = None) -> None:
        turn.gate.acquire(False)
        if self._holder is turn:
            self._holder = None
        if back_to is not None:
            self._enqueue(turn, back_to)
        self._schedule_next()

    def _schedule_next(self) -> None:
        """Give the turn to the next thread, unless a thread has it."""
        ready = self._ready
        while self._woken:
            turn = self._woken.popleft()
            if turn is not self._holder:
                self._enqueue(turn, ready)
        if self._holder is not None or self.has_ended:
            return
        self._pass_time(TURN_SECONDS)
        if self._count % MOST_TURNS == MOST_TURNS - 1:
            self._readmit()
        if not ready and self._back:
            ready.append(self._back.popleft())
        if ready:
            candidates = tuple(ready)
            if any(turn.is_loose for turn in candidates):
                first = max(candidates, key=lambda one: one.rank)
                ready.remove(first)
                ready.appendleft(first)
            self._holder = ready.popleft()
            self._count, self._asked = self._count + 1, 0
            if self._holder.gate.locked():  # else it was called before, and has not come to go on
                self._holder.gate.release()

    def _sleep(self, turn: Turn) -> None:
        """Block until the thread has its turn, or its timeout is over."""
        try:
            with self._guard:
                # A signal handler that has run since the thread gave up its turn may have waited for the next one.
                if self._holder is turn or self.has_ended:
                    turn.gate.acquire(False)
                    return
                turn.is_inside = True
            while not turn.gate.acquire(timeout=self._sleep_timeout(turn)):
                if self._has_woken(turn):
                    break
        except BaseException:
            self._forget(turn)
            raise
        finally:
            turn.is_inside = False

    def _sleep_timeout(self, turn: Turn) -> float:
        wakes = turn.wakes
        return -1 if wakes is None else max(TICK_SECONDS, wakes.clock - monotonic())

    def _has_woken(self, turn: Turn) -> bool:
        """Take the turn if the thread's time has come, no other can run and none wakes before it; return whether."""
        with self._guard:
            if not self._is_overdue(turn) or self._holder is not None or self._ready:
                return False
            if min(self._asleep, key=lambda one: one.order) is not turn:
                return False
            self._now, self._holder = turn.order[0], turn
            self._dequeue(turn)
            return True

    def _forget(self, turn: Turn) -> None:
        with self._guard:
            self._dequeue(turn)
            self._give(turn)

    def _watch(self) -> None:
        """Take the turn from a thread that waits for something unknown to this module, or computes without end."""
        since, count, spent, rested = monotonic(), -1, 0.0, 0.0
        while not self.has_ended:
            sleep(IDLE_SECONDS / 4)
            is_waited_for = self._woken or self._ready or self._back or any(map(self._is_overdue, list(self._asleep)))
            if self._count != count or not is_waited_for:
                since, count, spent, rested = monotonic(), self._count, sum(os.times()[:2]), 0.0
                continue
            seconds, worked = monotonic() - since, sum(os.times()[:2]) - spent
            rested = 0.0 if _is_kept_waiting() else rested + IDLE_SECONDS / 4
            is_idle = min(seconds, rested) >= IDLE_SECONDS and worked < IDLE_SHARE * seconds
            if is_idle or min(seconds, worked) > STUCK_SECONDS:
                with self._guard:
                    self._wake_sleepers([turn for turn in self._asleep if self._is_overdue(turn)])
                    self._readmit()
                    self._holder = None
                    self._schedule_next()


def _is_kept_waiting() -> bool:
    """Whether another thread of this process waits only for the machine: for a processor, or for a disk (proc(5)).

    Then the machine is busy, the disk is slow, or the process was stopped, and the program itself waits for nothing.
    """
    this_thread = str(_thread.get_native_id())
    with suppress(OSError):
        for task in listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{task}/stat", "rb") as file:
                # The thread's name in brackets may contain anything, also brackets.
                if task != this_thread and file.read().rpartition(b") ")[2][:1] in (b"R", b"D"):
                    return True
    return False


class Waitable:
    """Something that threads wait for; a thread that waits lets others run."""

    __slots__ = ("_turns", "_waiting")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._waiting: deque[Waiter] = deque()

    def _await(self, turn: Turn, attempt: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until an attempt succeeds, the time is over, or scheduling ends; return whether one succeeded."""
        turns = self._turns
        while not attempt():
            waiter = Waiter(turn)
            self._waiting.append(waiter)
            try:
                # The releasing thread looks for waiting ones afterwards: it sees this one, or this attempt succeeds.
                if attempt():
                    return True
                turns.wait(waiter, seconds)
            finally:
                with suppress(ValueError):  # the thread that woke it has removed it
                    self._waiting.remove(waiter)
            if turns.has_ended or (not waiter.is_woken and seconds is not None):
                return attempt()
        return True

    def _wake(self) -> None:
        with suppress(IndexError):  # nobody waits
            self._turns.wake(self._waiting.popleft())

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '_thread.{type(self).__name__}' object")


class TurnLock(Waitable):
    """A replacement of `threading.Lock()`."""

    __slots__ = ("__weakref__", "_lock", "_owner")

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns)
        self._lock: Any = _thread.allocate_lock()
        self._owner: Turn | None = None

    def hold(self) -> None:
        """Acquire a new lock, which no other thread can hold yet."""
        self._lock.acquire()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        turn = self._turns.current_turn if blocking and (timeout == -1 or timeout >= 0) else None
        if turn is None:
            return bool(self._lock.acquire(blocking, timeout))
        self._turns.yield_turn(turn)
        is_mine = self._await(turn, lambda: self._lock.acquire(False), None if timeout == -1 else timeout)
        if not is_mine and self._turns.has_ended:
            is_mine = self._lock.acquire(True, timeout)
        if is_mine:
            self._owner = turn
            turn.held.add(self)
        return is_mine

    def release(self) -> None:
        self._disown()
        self._lock.release()
        self._let_go()

    def _disown(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.held.discard(self)

    def _let_go(self) -> None:
        self._wake()
        turns = self._turns
        if turns.is_loose and (turn := turns.current_turn):
            turns.yield_turn(turn)

    def locked(self) -> bool:
        return bool(self._lock.locked())

    def _at_fork_reinit(self) -> None:
        self._lock._at_fork_reinit()
        self._owner = None
        self._waiting.clear()

    acquire_lock, release_lock, locked_lock, __enter__ = acquire, release, locked, acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return repr(self._lock)


class TurnRLock(TurnLock):
    """A replacement of `threading.RLock()`: a real one inside counts, so a signal handler may take it meanwhile."""

    __slots__ = ()

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns)
        self._lock = _thread.RLock()

    def release(self) -> None:
        self._lock.release()
        if not self._lock._is_owned():
            self._given_back()

    def _given_back(self) -> None:
        self._disown()
        self._let_go()

    # The methods that `threading.Condition` and the resource tracker of `multiprocessing` use.

    def _recursion_count(self) -> int:
        return int(self._lock._recursion_count())

    def _is_owned(self) -> bool:
        return bool(self._lock._is_owned())

    def _release_save(self) -> object:
        state = self._lock._release_save()
        self._given_back()
        return state

    def _acquire_restore(self, state: object) -> None:
        self.acquire()
        self._lock._release_save()
        self._lock._acquire_restore(state)


class TurnQueue(Waitable):
    """A replacement of `queue.SimpleQueue()`."""

    __slots__ = ("__weakref__", "_items")
    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns)
        self._items: SimpleQueue[object] = SimpleQueue()

    def put(self, item: object, block: bool = True, timeout: float | None = None) -> None:
        """Add an item; a queue without bounds never waits."""
        self._items.put(item)
        self._wake()

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        turn = self._turns.current_turn if block and (timeout is None or timeout >= 0) else None
        items: list[object] = []

        def attempt() -> bool:
            with suppress(Empty):
                items.append(self._items.get_nowait())
            return bool(items)

        if turn is not None and self._await(turn, attempt, timeout):
            return items[0]
        if turn is not None and not self._turns.has_ended:
            raise Empty
        return self._items.get(block, timeout)

    put_nowait = put

    def get_nowait(self) -> object:
        return self._items.get_nowait()

    def empty(self) -> bool:
        return bool(self._items.empty())

    def qsize(self) -> int:
        return int(self._items.qsize())
