"""process-id: numbers by which the operating system knows processes and threads."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Callable
from functools import partial
from types import ModuleType
from weakref import WeakKeyDictionary

from samebits.base.seeds import derive
from samebits.base.sites import Site, is_user_file, user_site
from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext, Mode
from samebits.factors.lineage import Lineage

# No process id is above it (`pid_max` is at most 2**22 on Linux, less elsewhere): signals to derived ids do nothing.
MOST_PROCESSES = 2**22

# Functions whose first argument is a process id, and which are given the real one.
TAKES_PID = ("kill", "getpgid", "getsid", "sched_getaffinity", "sched_setaffinity", "sched_getscheduler", "waitpid")


class ProcessId(CallFactor):
    """`os.getpid()`, `os.getppid()`, thread ids, `uuid.uuid1()` and `uuid.getnode()` in the user's own lines.

    Harmless in the name of a log, fatal in a seed: `torch.manual_seed(os.getpid())`. Pinned, lines of the program get a
    number derived for each process and thread, above all real ones; libraries, which lock files and signal processes,
    get the real one. What takes a process id (`os.kill`, `psutil.Process`) knows the pinned one of its own process and
    of its parent. A program that looks itself up otherwise (`/proc/<pid>`) may not survive the pin, so it is pinned
    only when asked for, and in the experiments of a check, which leave out what a script does not survive. The host
    name (`socket.gethostname()`, `platform.node()`) is the same in every run on one machine: seeds made of it are
    witnessed with their value, and it is left as it is.
    """

    name = "process-id"
    summary = "process and thread ids differ in every run: harmless in the name of a log, fatal in a seed"
    explanation = "{what} was asked"
    fix = "use a fixed seed, plus the number of the rank or worker, instead of {what} at {place}"
    fix_unplaced = "use a fixed seed, plus the number of the rank or worker, instead of process ids"
    pinned_by_default = False
    is_random = True
    effects = ("the operating system's", "derived numbers", "other derived numbers")

    def treat(self, context: FactorContext) -> None:
        ids = _Ids(context)
        ids.report(os, "getpid", ids.own)
        ids.report(os, "getppid", ids.parent)
        for function, attribute in (("get_ident", "ident"), ("get_native_id", "native_id")):
            ids.report(threading, function, ids.thread)
            # Programs compare the function's result with the attribute.
            real = getattr(threading.Thread, attribute)
            derived = partial(ids.of_thread, real)
            getter = partial(ids.answer_call, f"threading.{function}", derived, 1, real.__get__)
            context.set(threading.Thread, attribute, property(getter, doc=real.__doc__))
        context.when_loaded("uuid", ids.install_uuid)
        for name in TAKES_PID:
            if hasattr(os, name):
                context.replace(os, name, ids.take)
        context.when_loaded("psutil", ids.install_psutil)

    def fix_for(self, site: Site | None = None, script: str = "", what: str = "") -> str:
        return super().fix_for(site, script, what or "a process id")


class _Ids:
    """The derived ids of processes and threads, and the real ids behind them."""

    def __init__(self, context: FactorContext) -> None:
        self.context, self.lineage = context, Lineage.of_process()
        self.getpid, self.getppid = os.getpid, os.getppid
        self.count = 0
        self.threads: dict[str, WeakKeyDictionary[threading.Thread, int]] = {}

    def report(self, owner: ModuleType, name: str, derived: Callable[..., object]) -> None:
        """Replace a module's function so that the user's own lines get a derived value."""
        what = f"{owner.__name__}.{name}"
        self.context.replace(owner, name, partial(self.answer_call, what, derived, 2))

    def answer_call(
        self,
        what: str,
        derived: Callable[..., object],
        depth: int,
        original: Callable[..., object],
        /,
        *args: object,
        **kwargs: object,
    ) -> object:
        """Answer a call of a replaced function: the user's own lines get the derived value, unless it is None.

        The caller is `depth` frames above this one, as a rule behind the frame of the replaced function.
        """
        answer = None
        if is_user_file(sys._getframe(depth).f_code.co_filename):
            mode = self.context.enter(what)
            answer = None if mode == "natural" else derived(mode, *args, **kwargs)
        return original(*args, **kwargs) if answer is None else answer

    def own(self, mode: Mode) -> int:
        return self.number(mode, *self.lineage.path, "process")

    def parent(self, mode: Mode) -> int | None:
        """Return the parent's derived id; None once the parent has ended, since programs wait for the id to change."""
        path = self.lineage.parent_path
        return None if path is None else self.number(mode, *path, "process")

    def thread(self, mode: Mode, thread: threading.Thread | None = None) -> int:
        """Return the derived id of a thread; threads of one name are numbered in the order of their first requests."""
        thread = thread or threading.current_thread()
        namesakes = self.threads.setdefault(thread.name, WeakKeyDictionary())
        number = namesakes.setdefault(thread, len(namesakes))
        return self.number(mode, *self.lineage.path, "thread", thread.name, number)

    def of_thread(self, real: property, mode: Mode, thread: threading.Thread) -> int | None:
        """Return the derived id of a thread; None before it has started."""
        return None if real.__get__(thread) is None else self.thread(mode, thread)

    def number(self, mode: Mode, *words: str | int) -> int:
        """Return a derived id that no live process has."""
        root = self.context.derive_for(mode, *words, bits=30)
        return MOST_PROCESSES + 1 + root % (2**31 - MOST_PROCESSES - 1)

    def next_uuid(self, mode: Mode, *_: object, **__: object) -> uuid.UUID:
        """Return the next UUID of version 1 in this process, for the line that asks."""
        self.count += 1
        site = user_site()
        asker = ("", 0) if site is None else (os.path.basename(site.path), site.line)
        root = self.context.derive_for(mode)
        time, node = (derive(root, *self.lineage.path, *asker, word, self.count) for word in ("time", "node"))
        return uuid.UUID(int=(time << 64) | node, version=1)

    def real(self, pid: object) -> object:
        """Return the real id for a derived one of this process or its parent, and any other id unchanged."""
        if not isinstance(pid, int) or pid <= MOST_PROCESSES:
            return pid
        modes: tuple[Mode, ...] = ("pinned", "varied")
        if pid in [self.own(mode) for mode in modes]:
            return self.getpid()
        return self.getppid() if pid in [self.parent(mode) for mode in modes] else pid

    def take(self, original: Callable[..., object], pid: object, *args: object, **kwargs: object) -> object:
        """Call a function, whose first argument is a process id, with the real id."""
        return original(self.real(pid), *args, **kwargs)

    def install_uuid(self, module: ModuleType) -> None:
        # The bit marks a made-up address: a network card's never has it.
        self.report(module, "getnode", lambda mode: self.number(mode, "node") | (1 << 40))
        self.report(module, "uuid1", self.next_uuid)

    def install_psutil(self, psutil: ModuleType) -> None:
        def begin(original: Callable[..., None], process: object, pid: object = None) -> None:
            original(process, self.real(pid))

        self.context.replace_method(psutil.Process, "__init__", begin)
