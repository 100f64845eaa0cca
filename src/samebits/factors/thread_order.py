"""thread-order: which of the program's threads runs first."""

from __future__ import annotations

import queue
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from inspect import getattr_static

# The real clock: `time.monotonic` may be treated, too.
from time import monotonic
from types import FrameType, FunctionType, MethodType, ModuleType

from samebits.base.sites import is_user_file
from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext
from samebits.factors.patching import wrapped
from samebits.factors.turns import TurnLock, TurnQueue, TurnRLock, Turns, Waiter

# Threads that executors and pools start: they run the program's own lines.
_WORKERS = {("concurrent.futures.thread", "_worker"), ("multiprocessing.pool", "worker")}
_TURN = "_samebits_turn"


class ThreadOrder(CallFactor):
    """Threads that the program starts, itself or by an executor: the machine decides which of them runs first.

    Harmless where each works for itself; fatal where they take results from a queue as they come, append to a list,
    draw from one generator, or save a model that another thread trains. Pinned, one thread runs at a time, until it
    has computed gradients or waits for a lock, for another thread or for time to pass, and the next one is always the
    same; nothing is computed in parallel then, so it is not part of `samebits run` unless it is asked for. Varied, they
    take turns in another order; a check does so in runs of their own, where threads were seen and all other runs agree.
    A thread that computes for three seconds without a gradient or a wait loses its turn, so runs may differ. Threads of
    libraries run as they like; so does a thread that waits for a pipe, a socket or code of C.
    """

    name = "thread-order"
    summary = "threads of the program run in a different order in every run"
    explanation = "threads started by {what} share something, and run in any order"
    fix = (
        "number the tasks of the threads started at {place}: results in that order, and each task on the same thread "
        "in every run, with a generator seeded by its number, and with copies of what others change meanwhile"
    )
    fix_unplaced = "let nothing depend on which thread comes first: number their tasks"
    pinned_by_default = False
    may_stall = True
    priced = ("pinned",)
    effects = ("as the machine has them", "in turns", "in turns, in another order")

    def treat(self, context: FactorContext) -> None:
        setting = context.setting
        has_turns = setting.mode != "natural" or bool(setting.released)
        turns = _take_turns(context) if has_turns else None
        context.replace_method(threading.Thread, "start", partial(_start, context, turns))


def _start(context: FactorContext, turns: Turns | None, start: Callable[..., None], thread: threading.Thread) -> None:
    # Frame 1 is the function that replaces the method, frame 2 its caller, who starts the thread.
    if context.ended or not (_is_of_program(thread) or _is_started_by_program(sys._getframe(2))):
        return start(thread)
    mode = context.enter(context.called("threading.Thread.start"))
    if turns is None:
        return start(thread)
    turn = turns.register_thread(is_loose=mode == "varied")
    vars(thread)[_TURN] = turn
    turns.start(turn)
    try:
        return start(thread)
    except BaseException:
        turns.unregister_thread(turn)
        raise


def _is_started_by_program(frame: FrameType) -> bool:
    """Whether the frame that starts a thread is the user's, or a pool's, all of whose threads wait for one another."""
    pools = sys.modules.get("multiprocessing.pool")
    return is_user_file(frame.f_code.co_filename) or (
        pools is not None and isinstance(frame.f_locals.get("self"), pools.ThreadPool)
    )


def _is_of_program(thread: threading.Thread) -> bool:
    """Whether a thread runs code of the user's, whoever starts it."""
    functions = [*_functions_of(type(thread).run), *_functions_of(getattr(thread, "_target", None))]
    return any(
        (one.__module__, one.__name__) in _WORKERS or is_user_file(one.__code__.co_filename) for one in functions
    )


def _functions_of(called: object) -> Iterator[FunctionType]:
    """The functions of Python's that a call runs, the outermost one first; an object's own code is never asked."""
    while called is not None:
        if isinstance(called, FunctionType):
            yield called
            called = vars(called).get("__wrapped__")
        elif isinstance(called, partial):
            called = called.func
        elif isinstance(called, MethodType):
            called = called.__func__
        else:
            call = vars(type(called)).get("__call__")
            called = getattr_static(called, "__wrapped__", call if isinstance(call, FunctionType) else None)


def _take_turns(context: FactorContext) -> Turns:
    """Replace everything that threads wait for by objects that let other threads run meanwhile."""
    # Variants come in pairs, the second one mirrored: so each of two threads goes first in one of them.
    pair, is_second = divmod(max(0, context.setting.variant - 1), 2)
    turns = Turns(context.derive("schedule", pair), is_mirrored=bool(is_second))
    context.set(threading, "Lock", turns.replacement_class(TurnLock, "lock"))
    context.set(threading, "_allocate_lock", threading.Lock)
    context.set(threading, "RLock", turns.replacement_class(TurnRLock, "RLock"))
    context.set(queue, "SimpleQueue", turns.replacement_class(TurnQueue, "SimpleQueue"))
    # Selectors, by which asyncio, multiprocessing and subprocess wait for pipes and sockets.
    for kind in {selectors.DefaultSelector, selectors.PollSelector}:
        context.replace_method(kind, "select", partial(_select, turns))
    context.replace_method(threading.Thread, "_bootstrap_inner", partial(_run, turns))
    context.replace_method(threading.Thread, "join", partial(_join, turns))
    context.replace(time, "sleep", partial(_sleep, turns))
    context.when_loaded("torch.autograd", lambda autograd: _install_autograd(turns, autograd, context))
    context.replace(threading, "_shutdown", partial(_shut_down, turns))
    context.undo.callback(turns.end)
    return turns


def _install_autograd(turns: Turns, autograd: ModuleType, context: FactorContext) -> None:
    """Let other threads run after each backward, for threads that train without waiting, as in Hogwild."""

    def compute(original: Callable[..., object], *args: object, **named: object) -> object:
        result = original(*args, **named)
        if turn := turns.current_turn:
            turns.yield_turn(turn, has_worked=True)
        return result

    for name in ("backward", "grad"):
        context.set(autograd, name, wrapped(getattr(autograd, name), compute))


def _run(turns: Turns, run: Callable[[threading.Thread], None], thread: threading.Thread) -> None:
    turn = vars(thread).get(_TURN)
    if turn is None or turns.has_ended:
        run(thread)
        return
    turns.enter(turn)
    try:
        run(thread)
    finally:
        turns.leave()


def _join(turns: Turns, join: Callable[..., None], thread: threading.Thread, timeout: float | None = None) -> None:
    turn = vars(thread).get(_TURN)
    if turn is not None and thread.is_alive() and turns.current_turn not in (None, turn):
        if not turn.ended.acquire(True, -1 if timeout is None else max(0.0, timeout)):
            return
        turn.ended.release()
    join(thread, timeout)


def _sleep(turns: Turns, sleep: Callable[[float], None], seconds: float) -> None:
    turn = turns.current_turn
    if turn is None or not seconds >= 0:
        sleep(seconds)
        return
    end = monotonic() + seconds
    turns.wait(Waiter(turn), float(seconds))
    sleep(max(0.0, end - monotonic()))


def _select(turns: Turns, select: Callable[..., object], selector: object, timeout: float | None = None) -> object:
    turn = None if timeout is not None and timeout <= 0 else turns.current_turn
    with nullcontext() if turn is None else turns.outside(turn):
        return select(selector, timeout)


def _shut_down(turns: Turns, shutdown: Callable[[], None]) -> None:
    # The interpreter is about to wait for the other threads.
    turns.leave()
    shutdown()
