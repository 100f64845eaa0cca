"""Threads in turns: one runs at a time, and who is next depends on the program alone.

A thread keeps its turn until it has computed gradients, or waits: for a lock, for another thread, for time to pass.
Queues, events, conditions, semaphores and executors wait for locks of `threading`, so nothing else has to be known of
them. Time passes for sleepers with every turn, and when nobody else can go on, in the order in which they would wake:
so who goes first does not depend on the clock. A sleep still lasts as long as it should.
"""

from __future__ import annotations

import _thread
import os
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import listdir  # the order of files is none of this file's business
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from types import GenericAlias
from typing import Any, NamedTuple, NoReturn
from weakref import WeakSet

# A thread that has its turn and waits for what is not told here (a pipe, code of C) loses it: after so long, where
# the process does nothing at all; and one that computes without end, after so many seconds, and as many of the
# processor: of those, a machine with many cores has several in one second.
IDLE_SECONDS, STUCK_SECONDS = 0.4, 3.0
IDLE_SHARE = 0.05
# The shortest sleep: time has to go on where somebody sleeps for no time at all, again and again.
TICK_SECONDS = 0.002
# What a turn takes in the time of those who sleep, and what a backward does, or many requests.
TURN_SECONDS, WORK_SECONDS = 0.0001, 0.001
# Where so little is missing, whoever is called sleeps on with its turn; others go back to sleep.
MISSING_SECONDS = 0.05
# After so many requests in one turn others go: `while queue.empty(): pass` asks without end, and never waits.
MOST_ASKED = 1000
# After so many turns of others, those who slept long enough by the clock have one, and those who are back from outside.
MOST_TURNS = 100
# How often a rank is drawn anew, where somebody could go first (Burckhardt et al., A Randomized Scheduler, 2010).
RANK_CHANGES = 0.2


class Waking(NamedTuple):
    """When a thread wakes by itself.

    Attributes:
        time: of those who sleep, in which each turn takes as long.
        clock: of the machine.
        turn: from which on the clock alone decides.
    """

    time: float
    clock: float
    turn: int


class Turn:
    """A thread that takes turns.

    Attributes:
        number: in the order in which they were started.
        wakes: where it waits for time to pass.
        rank: where somebody is loose, the highest goes first.
        is_loose: it goes by ranks, as in another schedule.
        ended: held until the thread has ended.
    """

    def __init__(self, turns: Turns, number: int, rank: float, is_loose: bool) -> None:
        self.number, self.rank, self.is_loose = number, rank, is_loose
        self.gate = _thread.allocate_lock()
        self.gate.acquire()
        self.ended = TurnLock(turns)
        self.ended.hold()
        self.is_woken = self.is_inside = False
        # Weakly: a condition drops the lock by which it was woken.
        self.held: WeakSet[TurnLock] = WeakSet()
        self.wakes: Waking | None = None

    @property
    def order(self) -> tuple[float, int]:
        return (self.wakes.time if self.wakes else float("inf")), self.number


class Turns:
    """The threads of one process that take turns; the one that makes this is the first.

    Args:
        seed: of the schedule that loose threads follow.
        is_mirrored: who would go first goes last.
    """

    def __init__(self, seed: int, *, is_mirrored: bool = False) -> None:
        self._random, self._is_mirrored = random.Random(seed), is_mirrored
        self._made = 0
        self.has_ended = self.is_loose = False
        self._begin()
        # In the new process `threading` takes a lock before it is our turn to look.
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
        self._now, self._count, self._asked, self._is_watched = 0.0, 0, 0, False
        self._living, self._forking = 1, 0
        self._holder: Turn | None = self.made(is_loose=False)
        self._own = {_thread.get_ident(): self._holder}

    def made_for(self, kind: type[Awaited], name: str) -> type[Awaited]:
        """What takes the place of a class of the standard library, by its name: annotations name it, too."""
        return type(name, (kind,), {"__slots__": (), "__init__": lambda made: kind.__init__(made, self)})

    def made(self, is_loose: bool) -> Turn:
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
            self._ready.append(turn)
            self._go_on()

    def give_up(self, turn: Turn) -> None:
        """The thread could not be started, or has ended."""
        turn.ended.release()
        with self._guard:
            self._living -= 1
            self._forget(turn)

    def enter(self, turn: Turn) -> None:
        """Called in the new thread first: wait for its first turn."""
        self._own[_thread.get_ident()] = turn
        self._sleep(turn)

    def leave(self) -> None:
        """Called in a thread last: give its turn away for good."""
        turn = self._own.pop(_thread.get_ident(), None)
        if turn is not None:
            self.give_up(turn)

    def end(self) -> None:
        """Stop scheduling: release every waiting thread."""
        with self._guard:
            self.has_ended, own = True, list(self._own.values())
            self._own.clear()
            for turn in own:
                if turn is not self._holder and turn.gate.locked():
                    turn.gate.release()

    @property
    def mine(self) -> Turn | None:
        """This thread, where it takes turns and is not alone; what lost its turn waits for it."""
        ident = _thread.get_ident()
        turn = self._own.get(ident)
        if turn is None or self._living < 2 or turn.is_inside or self._forking == ident:
            return None
        if self._guard._is_owned():  # type: ignore[attr-defined]  # a finalizer, in the middle of what is done here
            return None
        if turn is not self._holder:
            self._queue(turn)
        return None if self.has_ended else turn

    def _queue(self, turn: Turn) -> None:
        """Go to the back of the ready queue, and wait."""
        with self._guard:
            self._give(turn, back_to=self._ready)
        self._sleep(turn)

    def wait(self, turn: Turn, seconds: float | None = None) -> bool:
        """Whether it was woken; else so much time has passed. Woken before, it need not wait."""
        end = None if seconds is None else monotonic() + seconds
        try:
            with self._guard:
                if turn.is_woken:
                    return True
                # Once: how often it lies down depends on the clock.
                about = None if seconds is None else max(TICK_SECONDS, seconds)
                about = about and about * (0.5 + self._drawn() if turn.is_loose else 1)
                self._lie_down(turn, about, end)
            self._sleep(turn)
            while end is not None and not turn.is_woken and not self.has_ended and (left := end - monotonic()) > 0:
                if left <= MISSING_SECONDS:
                    sleep(left)
                else:
                    with self._guard:
                        self._lie_down(turn, about, end)
                    self._sleep(turn)
        except BaseException:  # Ctrl-C: it goes on without a turn, until it asks again
            self._forget(turn)
            raise
        return turn.is_woken

    def _lie_down(self, turn: Turn, seconds: float | None, end: float | None) -> None:
        """It gives up its turn, and wakes by itself after so many seconds, which the clock says are over at `end`."""
        if seconds is not None and end is not None:
            turn.wakes = Waking(self._now + seconds, end, self._count + MOST_TURNS)
            self._asleep.append(turn)
        self._give(turn)

    def wake(self, turn: Turn) -> None:
        """Mark a waiting thread as ready."""
        with self._guard:
            turn.is_woken = True
            self._stay_awake(turn)
            if turn is not self._holder and turn not in self._ready:
                self._ready.append(turn)
            self._go_on()

    def _stay_awake(self, turn: Turn) -> None:
        with self._guard:
            turn.wakes = None
            if turn in self._asleep:
                self._asleep.remove(turn)

    def offer(self, turn: Turn, *, has_worked: bool = False) -> None:
        """Let another thread go first: where one is loose, by rank, else after work or many requests."""
        # Whoever forks meanwhile would leave to the new process a lock that nobody can release there.
        if turn.held:
            return
        self._asked += 1
        if has_worked or self._asked > MOST_ASKED:
            has_worked, self._asked = True, 0
            with self._guard:
                self._pass_time(WORK_SECONDS)
                self._let_back()
        # A copy, made at once: a signal handler, or who wakes somebody, may change the queue while it is gone through.
        ready = tuple(self._ready)
        is_loose = turn.is_loose or any(one.is_loose for one in ready)
        if ready and (self._is_outranked(turn) if is_loose else has_worked):
            self._queue(turn)

    def _pass_time(self, seconds: float) -> None:
        """Who slept long enough need not wait until nobody else can go on."""
        self._now += seconds
        self._call([turn for turn in self._asleep if turn.order[0] <= self._now or self._is_passed_over(turn)])

    def _call(self, sleepers: list[Turn]) -> None:
        for turn in sorted(sleepers, key=lambda one: one.order):
            self._now = max(self._now, turn.order[0])
            self._stay_awake(turn)
            self._ready.append(turn)

    def _let_back(self) -> None:
        self._ready.extend(self._back)
        self._back.clear()

    def _is_passed_over(self, turn: Turn) -> bool:
        return turn.wakes is not None and self._count >= turn.wakes.turn and self._is_overdue(turn)

    @staticmethod
    def _is_overdue(turn: Turn) -> bool:
        return turn.wakes is not None and turn.wakes.clock <= monotonic()

    @contextmanager
    def outside(self, turn: Turn) -> Iterator[None]:
        """While it waits for what is none of our locks; it comes back when nobody else can go on."""
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
        """Whether one that is ready goes before it; a rank changes now and then, so that all orders come about."""
        if self._random.random() < RANK_CHANGES:
            turn.rank = self._drawn()
        return any(one.rank > turn.rank for one in tuple(self._ready))

    def _give(self, turn: Turn, back_to: deque[Turn] | None = None) -> None:
        turn.gate.acquire(False)
        if self._holder is turn:
            self._holder = None
        if back_to is not None and turn not in back_to:
            back_to.append(turn)
        self._go_on()

    def _go_on(self) -> None:
        """Whoever is next, unless somebody has a turn."""
        ready = self._ready
        if self._holder is not None:
            return
        self._pass_time(TURN_SECONDS)
        if self._count % MOST_TURNS == MOST_TURNS - 1:
            self._let_back()
        if not ready and self._back:
            ready.append(self._back.popleft())
        if ready:
            known = tuple(ready)
            if any(one.is_loose for one in known):
                first = max(known, key=lambda one: one.rank)
                ready.remove(first)
                ready.appendleft(first)
            self._holder = ready.popleft()
            self._count, self._asked = self._count + 1, 0
            self._holder.gate.release()

    def _sleep(self, turn: Turn) -> None:
        """Block until `turn` is scheduled, or its timeout has come."""
        turn.is_inside = True
        try:
            while not turn.gate.acquire(timeout=self._patience(turn)):
                if self._has_woken(turn):
                    break
        except BaseException:
            self._forget(turn)
            raise
        finally:
            turn.is_inside = False

    def _patience(self, turn: Turn) -> float:
        wakes = turn.wakes
        return -1 if wakes is None else max(TICK_SECONDS, wakes.clock - monotonic())

    def _has_woken(self, turn: Turn) -> bool:
        """Whether its time has come: nobody else can go on, and nobody wakes before it."""
        with self._guard:
            if not self._is_overdue(turn) or self._holder is not None or self._ready:
                return False
            if min(self._asleep, key=lambda one: one.order) is not turn:
                return False
            self._now, self._holder = turn.order[0], turn
            self._stay_awake(turn)
            return True

    def _forget(self, turn: Turn) -> None:
        with self._guard:
            self._stay_awake(turn)
            for own in (self._ready, self._back):
                if turn in own:
                    own.remove(turn)
            self._give(turn)

    def _watch(self) -> None:
        """Take the turn from a thread that waits for what is not told here."""
        since, count, spent, rested = monotonic(), -1, 0.0, 0.0
        while not self.has_ended:
            sleep(IDLE_SECONDS / 4)
            is_waited_for = self._ready or self._back or any(map(self._is_overdue, list(self._asleep)))
            if self._count != count or not is_waited_for:
                since, count, spent, rested = monotonic(), self._count, sum(os.times()[:2]), 0.0
                continue
            seconds, worked = monotonic() - since, sum(os.times()[:2]) - spent
            rested = 0.0 if _is_kept_waiting() else rested + IDLE_SECONDS / 4
            is_idle = min(seconds, rested) >= IDLE_SECONDS and worked < IDLE_SHARE * seconds
            if is_idle or min(seconds, worked) > STUCK_SECONDS:
                with self._guard:
                    self._call([turn for turn in self._asleep if self._is_overdue(turn)])
                    self._let_back()
                    self._holder = None
                    self._go_on()


def _is_kept_waiting() -> bool:
    """Whether another thread of this process would go on if the machine let it: by a processor, or a disk (proc(5)).

    A machine that is busy, a disk that is slow, a process that was stopped: they are nothing that a program waits for.
    """
    own = str(_thread.get_native_id())
    with suppress(OSError):
        for task in listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{task}/stat", "rb") as file:
                # The name in brackets may hold anything.
                if task != own and file.read().rpartition(b") ")[2][:1] in (b"R", b"D"):
                    return True
    return False


class Awaited:
    """What threads wait for; whoever waits lets others go on."""

    __slots__ = ("_turns", "_waiting")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._waiting: deque[Turn] = deque()

    def _await(self, turn: Turn, attempt: Callable[[], bool], seconds: float | None) -> bool:
        """Whether an attempt succeeded before the time was over, or turns ended."""
        turns = self._turns
        while not attempt():
            turn.is_woken = False
            self._waiting.append(turn)
            try:
                # Whoever gives it back looks at those who wait afterwards: one of the two sees the other.
                if attempt():
                    return True
                is_woken = turns.wait(turn, seconds)
            finally:
                with suppress(ValueError):  # whoever woke it has taken it away
                    self._waiting.remove(turn)
            if turns.has_ended or (not is_woken and seconds is not None):
                return attempt()
        return True

    def _wake(self) -> None:
        with suppress(IndexError):  # nobody waits
            self._turns.wake(self._waiting.popleft())

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '_thread.{type(self).__name__}' object")


class TurnLock(Awaited):
    """As of `threading.Lock()`."""

    __slots__ = ("__weakref__", "_lock", "_owner")

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns)
        self._lock: Any = _thread.allocate_lock()
        self._owner: Turn | None = None

    def hold(self) -> None:
        """Acquire a new lock, which no other thread can hold yet."""
        self._lock.acquire()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        turn = self._turns.mine if blocking and (timeout == -1 or timeout >= 0) else None
        if turn is None:
            return bool(self._lock.acquire(blocking, timeout))
        self._turns.offer(turn)
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
        if turns.is_loose and (turn := turns.mine):
            turns.offer(turn)

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
    """As of `threading.RLock()`: the one beneath counts, so a signal handler may take it while its thread does."""

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

    # What a condition asks for.

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


class TurnQueue(Awaited):
    """As of `queue.SimpleQueue()`."""

    __slots__ = ("__weakref__", "_items")
    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns)
        self._items: SimpleQueue[object] = SimpleQueue()

    def put(self, item: object, block: bool = True, timeout: float | None = None) -> None:
        """As of a queue without bounds: it never waits."""
        self._items.put(item)
        self._wake()

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        turn = self._turns.mine if block and (timeout is None or timeout >= 0) else None
        found: list[object] = []

        def attempt() -> bool:
            with suppress(Empty):
                found.append(self._items.get_nowait())
            return bool(found)

        if turn is not None and self._await(turn, attempt, timeout):
            return found[0]
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
