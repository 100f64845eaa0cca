"""completion-order: which result comes first where results are taken as they are completed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import wraps
from itertools import count

# The clock may be treated as well: this is the real one.
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext

if TYPE_CHECKING:
    import asyncio
    from multiprocessing.pool import Pool

T = TypeVar("T")

# A result whose turn it is only because the order is varied is not waited for any longer: others may wait for ours.
PATIENCE_SECONDS = 1.0
NUMBER = "_samebits_number"


class CompletionOrder(CallFactor):
    """`as_completed` of `concurrent.futures` and `asyncio`, and `Pool.imap_unordered`: whichever is ready comes first.

    Threads and processes finish in another order in every run, most often where all tasks are short. Harmless under a
    progress bar, fatal where the results become a list, a sum or the rows of a dataset. Pinned, results come in the
    order in which their tasks were submitted, each waited for; varied, in another order, as long as nothing waits
    meanwhile. Left alone: `asyncio.as_completed` with a timeout. What `wait()` finds completed, and queues
    and lists that several threads fill, belong to `thread-order`.
    """

    name = "completion-order"
    summary = (
        "results taken as they are completed (as_completed, imap_unordered) come in a different order in every run"
    )
    explanation = "{what} gives results as they are completed"
    fix = "take the results in the order of their tasks at {place}: iterate over the tasks themselves"
    fix_unplaced = "take results in the order of their tasks"
    fixes: ClassVar = {"Pool.imap_unordered": "call imap instead of imap_unordered at {place}"}
    varied_by_default = True
    effects = ("as they are completed", "in the order of the tasks", "in another order")

    def install(self, context: FactorContext) -> None:
        context.when_loaded("concurrent.futures", lambda module: _futures(module, context))
        context.when_loaded("asyncio", lambda module: _coroutines(module, context))
        context.when_loaded("multiprocessing.pool", lambda module: _pool(module, context))


def _arranged(tasks: list[T], mode: str, variant: int) -> list[T]:
    """In the order of the tasks, or in one that differs from it wherever there are two."""
    if mode == "pinned":
        return tasks
    half = len(tasks) // 2
    return tasks[::-1] if variant % 2 else tasks[half:] + tasks[:half]


def _futures(module: ModuleType, context: FactorContext) -> None:
    original, made, start = module.as_completed, count(), module.Future.__init__

    @wraps(start)
    def numbered(self: object, *args: object, **kwargs: object) -> None:
        start(self, *args, **kwargs)
        vars(self)[NUMBER] = next(made)

    def as_completed(fs: Iterable[object], timeout: float | None = None) -> Iterator[object]:
        mode = context.enter(context.called("concurrent.futures.as_completed"))
        if mode == "natural":
            return original(fs, timeout)  # type: ignore[no-any-return]
        tasks = list(dict.fromkeys(fs))
        if isinstance(fs, set | frozenset):
            tasks.sort(key=lambda task: vars(task).get(NUMBER, -1))
        patience = None if mode == "pinned" else PATIENCE_SECONDS
        return _in_turn(module, _arranged(tasks, mode, context.setting.variant)[::-1], timeout, patience)

    context.replace(module, "as_completed", as_completed)
    context.set(module.Future, "__init__", numbered)


def _in_turn(module: ModuleType, left: list[T], timeout: float | None, patience: float | None) -> Iterator[T]:
    """The last of those that are left, again and again; where patience ends before it does, whichever is ready."""
    total, end = len(left), None if timeout is None else monotonic() + timeout
    while left:
        rest = None if end is None else max(0.0, end - monotonic())
        done, _ = module.wait(left[-1:], min((one for one in (rest, patience) if one is not None), default=None))
        if not done and patience is not None:
            done, _ = module.wait(left, rest, return_when=module.FIRST_COMPLETED)
        if not done:
            raise module.TimeoutError(f"{len(left)} (of {total}) futures unfinished")
        yield _taken(left, done)


def _taken(left: list[T], done: set[T]) -> T:
    return left.pop() if left[-1] in done else left.pop(next(i for i, one in enumerate(left) if one in done))


def _coroutines(module: ModuleType, context: FactorContext) -> None:
    original = module.as_completed

    def as_completed(fs: Iterable[object], *, timeout: float | None = None) -> object:
        mode = context.enter(context.called("asyncio.as_completed"))
        if mode == "natural" or timeout is not None or module.isfuture(fs) or module.iscoroutine(fs):
            return original(fs, timeout=timeout)
        tasks = [module.ensure_future(one) for one in dict.fromkeys(fs)]
        patience = None if mode == "pinned" else PATIENCE_SECONDS
        return _Awaited(module, _arranged(tasks, mode, context.setting.variant)[::-1], patience)

    context.replace(module, "as_completed", as_completed)


class _Awaited:
    """What asyncio.as_completed returns: coroutines that give the next result each, or, awaited itself, the futures."""

    def __init__(self, module: ModuleType, left: list[asyncio.Future[object]], patience: float | None) -> None:
        self._asyncio, self._left, self._patience, self._asked = module, left, patience, len(left)

    def __iter__(self) -> _Awaited:
        return self

    def __next__(self) -> Coroutine[None, None, object]:
        if not self._asked:
            raise StopIteration
        self._asked -= 1
        return self._result()

    def __aiter__(self) -> _Awaited:
        return self

    async def __anext__(self) -> asyncio.Future[object]:
        if not self._left:
            raise StopAsyncIteration
        return await self._next()

    async def _result(self) -> object:
        return (await self._next()).result()

    async def _next(self) -> asyncio.Future[object]:
        wanted = self._left[-1:]
        done, _ = await self._asyncio.wait(wanted, timeout=self._patience)
        if not done:
            done, _ = await self._asyncio.wait(self._left, return_when=self._asyncio.FIRST_COMPLETED)
        return _taken(self._left, done)


def _pool(module: ModuleType, context: FactorContext) -> None:
    original = module.Pool.imap_unordered

    @wraps(original)
    def imap_unordered(
        self: Pool, func: Callable[..., object], iterable: Iterable[object], chunksize: int = 1
    ) -> object:
        mode = context.enter(context.called("Pool.imap_unordered"))
        if mode == "natural":
            return original(self, func, iterable, chunksize)
        results = self.imap(func, iterable, chunksize)
        return results if mode == "pinned" else _Swapped(results, module.TimeoutError)

    context.set(module.Pool, "imap_unordered", imap_unordered)


class _Swapped:
    """Results of a pool in pairs, the second of each first; where that takes long, the first one first."""

    def __init__(self, results: Any, late: type[Exception]) -> None:
        self._results, self._ends = results, (StopIteration, late)
        self._held: list[tuple[object, BaseException | None]] = []

    def __iter__(self) -> _Swapped:
        return self

    def __next__(self) -> object:
        return self.next()

    def next(self, timeout: float | None = None) -> object:
        """As of what a pool returns: `timeout` in seconds."""
        if not self._held:
            self._hold(timeout)
            if not isinstance(self._held[0][1], self._ends):
                self._hold(PATIENCE_SECONDS)
        value, error = self._held.pop()
        if error is not None:
            raise error
        return value

    def _hold(self, timeout: float | None) -> None:
        try:
            # In chunks, a pool returns a generator, which takes no timeout.
            value = self._results.next(timeout) if hasattr(self._results, "next") else next(self._results)
        except Exception as error:
            if not (self._held and isinstance(error, self._ends)):
                self._held.append((None, error))
        else:
            self._held.append((value, None))
