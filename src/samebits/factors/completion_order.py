"""completion-order: which result comes first where results are taken as they are completed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from itertools import count

# The real clock: `time.monotonic` may be treated, too.
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from weakref import WeakSet, ref

from samebits.base.sites import foreign_frame, is_user_file
from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext

if TYPE_CHECKING:
    import asyncio
    from multiprocessing.connection import Connection
    from multiprocessing.pool import Pool

T = TypeVar("T")

# A result that comes next only because the order is varied is waited for so many times as long as the first one took,
# and at least so many seconds.
PATIENCE, PATIENCE_SECONDS = 10, 1.0
# A connection that brings nothing for so many seconds, while another one has, is not waited for any more.
SILENT_SECONDS = 10.0
# From this variant on, results come in another order than in the variants before.
LATER_VARIANT = 4
NUMBER = "_samebits_number"
LOADER, MODE = "DataLoader", "_samebits_mode"


class _Patience:
    """The time to wait for a result while no other one is completed: tasks may depend on a ready result being taken.

    A slow machine's first result is late, too, so the order is the same there. A wait in vain shortens the next one.
    """

    def __init__(self) -> None:
        self._began: float | None = monotonic()
        self.seconds = PATIENCE_SECONDS

    def keeps_waiting(self, is_news: bool) -> bool:
        """Whether to wait (again) although some results are ready; `is_news`: whether there are more than before."""
        if self._began is not None:
            self.seconds = max(PATIENCE_SECONDS, PATIENCE * (monotonic() - self._began))
            self._began = None
        if not is_news:
            self.seconds = PATIENCE_SECONDS
        return is_news


class CompletionOrder(CallFactor):
    """`as_completed`, `Pool.imap_unordered`, a DataLoader with `in_order=False`: whichever is ready comes first.

    Threads and processes finish in another order in every run, most often where all tasks are short. Harmless under a
    progress bar, fatal where the results become a list, a sum or the rows of a dataset. Pinned, results come in the
    order in which their tasks were submitted, each waited for; varied, in another order, as long as nothing waits
    meanwhile. Of connections that your code waits for with `multiprocessing.connection.wait`, all that have something
    to say are waited for, in their order; one that was silent for 10 seconds is taken as it comes. Of DataLoaders
    this is for those of two workers or more: one gives its batches in order. Left alone: `asyncio.as_completed` with a
    timeout. What `concurrent.futures.wait` finds completed, and queues and lists that several threads fill, belong to
    `thread-order`.
    """

    name = "completion-order"
    summary = (
        "results taken as they are completed (as_completed, imap_unordered) come in a different order in every run"
    )
    explanation = "{what} gives results as they are completed"
    fix = "take the results in the order of their tasks at {place}: iterate over the tasks themselves"
    fix_unplaced = "take results in the order of their tasks"
    fixes: ClassVar = {
        "multiprocessing.connection.wait": "receive from each connection in turn at {place}",
        "Pool.imap_unordered": "call imap instead of imap_unordered at {place}",
        LOADER: "write in_order=True instead of in_order=False at {place}",
    }
    varied_by_default = True
    effects = ("as they are completed", "in the order of the tasks", "in another order")

    def treat(self, context: FactorContext) -> None:
        context.when_loaded("concurrent.futures", lambda module: _futures(module, context))
        context.when_loaded("asyncio", lambda module: _coroutines(module, context))
        context.when_loaded("multiprocessing.pool", lambda module: _pool(module, context))
        context.when_loaded("multiprocessing.connection", lambda module: _connections(module, context))
        context.when_loaded("torch.utils.data", lambda module: _loaders(module.DataLoader, context))


def _arranged(tasks: list[T], mode: str, variant: int) -> list[T]:
    """Return the tasks in their order or, if varied, in an order that differs from it wherever there are two."""
    if mode == "pinned" or len(tasks) < 2:
        return tasks
    first = min(1 if variant < LATER_VARIANT else 2, len(tasks) - 1)
    return tasks[::-1] if variant % 2 else tasks[first:] + tasks[:first]


def _futures(module: ModuleType, context: FactorContext) -> None:
    numbers = count()

    def begin(original: Callable[..., None], future: object, *args: object, **kwargs: object) -> None:
        original(future, *args, **kwargs)
        vars(future)[NUMBER] = next(numbers)

    def as_completed(
        original: Callable[..., Iterator[object]], fs: Iterable[object], timeout: float | None = None
    ) -> Iterator[object]:
        mode = context.enter(context.called("concurrent.futures.as_completed"))
        if mode == "natural":
            return original(fs, timeout)
        tasks = list(dict.fromkeys(fs))
        if isinstance(fs, set | frozenset):
            tasks.sort(key=lambda task: vars(task).get(NUMBER, -1))
        patience = None if mode == "pinned" else _Patience()
        return _in_turn(module, _arranged(tasks, mode, context.setting.variant)[::-1], timeout, patience)

    context.replace(module, "as_completed", as_completed)
    context.replace_method(module.Future, "__init__", begin)


def _in_turn(module: ModuleType, left: list[Any], timeout: float | None, patience: _Patience | None) -> Iterator[Any]:
    """The futures of `left` from the last to the first; where patience ends before one is done, a ready one instead."""
    total, end = len(left), None if timeout is None else monotonic() + timeout
    while left:
        for wanted, seconds in _waits(left, patience):
            rests = [] if end is None else [max(0.0, end - monotonic())]
            rests += [] if seconds is None else [seconds]
            done, _ = module.wait(wanted, min(rests, default=None), return_when=module.FIRST_COMPLETED)
            if not done and seconds is None:
                raise module.TimeoutError(f"{len(left)} (of {total}) futures unfinished")
        yield _taken(left)


def _waits(left: list[Any], patience: _Patience | None) -> Iterator[tuple[list[Any], float | None]]:
    """The futures to wait for, and for how many seconds at most: one wait after another, until one is to be taken."""
    ready_before = 0
    while not left[-1].done():
        ready = sum(future.done() for future in left) if patience else 0
        if patience is None or not ready:
            yield left if patience else left[-1:], None
        elif patience.keeps_waiting(ready > ready_before):
            ready_before = ready
            yield left[-1:], patience.seconds
        else:
            return


def _taken(left: list[Any]) -> Any:
    """Remove and return the last future, or else the first that is ready."""
    return left.pop() if left[-1].done() else left.pop(next(at for at, one in enumerate(left) if one.done()))


def _coroutines(module: ModuleType, context: FactorContext) -> None:
    def as_completed(original: Callable[..., object], fs: Iterable[object], *, timeout: float | None = None) -> object:
        mode = context.enter(context.called("asyncio.as_completed"))
        if mode == "natural" or timeout is not None or module.isfuture(fs) or module.iscoroutine(fs):
            return original(fs, timeout=timeout)
        tasks = [module.ensure_future(task) for task in dict.fromkeys(fs)]
        patience = None if mode == "pinned" else _Patience()
        return _AsCompletedResult(module, _arranged(tasks, mode, context.setting.variant)[::-1], patience)

    context.replace(module, "as_completed", as_completed)


class _AsCompletedResult:
    """A replacement of asyncio.as_completed's result: coroutines that give a result each, or futures in `async for`."""

    def __init__(self, module: ModuleType, left: list[asyncio.Future[object]], patience: _Patience | None) -> None:
        self._asyncio, self._left, self._patience = module, left, patience
        self._results = (self._result() for _ in range(len(left)))

    def __iter__(self) -> _AsCompletedResult:
        return self

    def __next__(self) -> Coroutine[None, None, object]:
        return next(self._results)

    def __aiter__(self) -> _AsCompletedResult:
        return self

    async def __anext__(self) -> asyncio.Future[object]:
        if not self._left:
            raise StopAsyncIteration
        return await self._next()

    async def _result(self) -> object:
        return (await self._next()).result()

    async def _next(self) -> asyncio.Future[object]:
        for wanted, seconds in _waits(self._left, self._patience):
            await self._asyncio.wait(wanted, timeout=seconds, return_when=self._asyncio.FIRST_COMPLETED)
        taken: asyncio.Future[object] = _taken(self._left)
        return taken


def _pool(module: ModuleType, context: FactorContext) -> None:
    def imap_unordered(
        original: Callable[..., object],
        pool: Pool,
        func: Callable[..., object],
        iterable: Iterable[object],
        chunksize: int = 1,
    ) -> object:
        mode = context.enter(context.called("Pool.imap_unordered"))
        if mode == "natural":
            return original(pool, func, iterable, chunksize)
        results: Any = pool.imap(func, iterable, chunksize)
        if mode == "pinned":
            return results
        # With chunks, a pool returns a generator, which takes no timeout.
        take = results.next if hasattr(results, "next") else lambda _: next(results)
        return _Swapped(context.setting.variant, take, module.TimeoutError)

    context.replace_method(module.Pool, "imap_unordered", imap_unordered)


def _connections(module: ModuleType, context: FactorContext) -> None:
    silent: WeakSet[Connection] = WeakSet()

    def wait(
        original: Callable[..., list[Any]], object_list: Iterable[object], timeout: float | None = None
    ) -> list[Any]:
        given: list[Any] = list(object_list)
        is_own = is_user_file(foreign_frame().f_code.co_filename)
        if not is_own or timeout is not None or not all(isinstance(one, module.Connection) for one in given):
            return original(given, timeout)
        mode = context.enter("multiprocessing.connection.wait")
        ready = original(given)
        if mode == "natural":
            return ready
        end = monotonic() + SILENT_SECONDS
        while missing := [one for one in given if one not in ready and one not in silent]:
            if not (found := original(missing, max(0.0, end - monotonic()))):
                silent.update(missing)
            ready += found
        return _arranged([one for one in given if one in ready], mode, context.setting.variant)

    context.replace(module, "wait", wait)


def _loaders(loader: type, context: FactorContext) -> None:
    def make(original: Callable[..., None], own: Any, *args: object, **kwargs: object) -> None:
        original(own, *args, **kwargs)
        # One worker gives its batches in order.
        if not getattr(own, "in_order", True) and own.num_workers > 1:
            vars(own)[MODE] = context.enter(LOADER)

    def iterate(original: Callable[..., Any], own: object) -> object:
        iterator, mode = original(own), vars(own).get(MODE, "natural")
        if mode != "natural" and hasattr(iterator, "_in_order"):
            iterator._in_order = True
            if mode == "varied":
                # Anew in each epoch: persistent workers share one iterator, and the last epoch may have ended early.
                following, owner = type(iterator)._next_data, ref(iterator)
                iterator._next_data = _Swapped(context.setting.variant, lambda _: following(owner())).next
        return iterator

    context.replace_method(loader, "__init__", make)
    context.replace_method(loader, "__iter__", iterate)


class _Swapped:
    """The results in pairs, or threes for later variants, the last of each first, as long as none takes long.

    Args:
        take: returns the next result in order, within so many seconds.
        late: the exceptions that `take` raises if there is no result by then.
    """

    def __init__(self, variant: int, take: Callable[[float | None], object], *late: type[Exception]) -> None:
        self._most = 2 if variant < LATER_VARIANT else 3
        self._take, self._patience = take, _Patience()
        self._ends: tuple[type[Exception], ...] = (StopIteration, *late)
        self._held: list[tuple[object, BaseException | None]] = []

    def __iter__(self) -> _Swapped:
        return self

    def __next__(self) -> object:
        return self.next()

    def next(self, timeout: float | None = None) -> object:
        """Return the next result, like the iterator that a pool returns; `timeout` is in seconds."""
        if not self._held:
            self._hold(timeout)
            is_more = not isinstance(self._held[0][1], self._ends)
            while is_more and len(self._held) < self._most and self._patience.keeps_waiting(is_news=True):
                before = len(self._held)
                self._hold(self._patience.seconds)
                is_more = self._patience.keeps_waiting(is_news=len(self._held) > before)
        value, error = self._held.pop()
        if error is not None:
            raise error
        return value

    def _hold(self, timeout: float | None) -> None:
        try:
            value = self._take(timeout)
        except Exception as error:
            if not (self._held and isinstance(error, self._ends)):
                self._held.append((None, error))
        else:
            self._held.append((value, None))
