"""The tap of threads: the ends of executors' jobs and of threads, and whether a thread is at work."""

from __future__ import annotations

import threading
from concurrent.futures import thread as executors
from contextlib import ExitStack

from samebits.agent.events import Event, Tell
from samebits.agent.taps.listening import listen
from samebits.base.sites import is_user_file, thread_frames


def install(stack: ExitStack, tell: Tell) -> None:
    """Report every end of a job or a thread, by the thread that ends; AttributeError where Python hides one of them."""
    stack.callback(listen(executors._WorkItem, "run", after=lambda *_: tell(Event.JOB_ENDS, False)))
    stack.callback(listen(threading.Thread, "_delete", before=lambda _: tell(Event.JOB_ENDS, True)))


def is_at_work(thread: int | None) -> bool:
    """Whether a thread executes a line of the user's, or what that line calls: a worker between two jobs does not."""
    frame = None if thread is None else thread_frames().get(thread)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None
