"""FactorContext: the treatment of one factor in one process. It reports where the factor enters, and undoes itself."""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, Literal

from samebits.base.seeds import derive
from samebits.base.sites import Site, called_by_user, user_modules, user_site
from samebits.factors.imports import forget, when_loaded
from samebits.factors.patching import PatchedFunction, patched_function, tell_torchscript, wrapped

Mode = Literal["natural", "pinned", "varied"]
SiteKey = tuple[str, int]


@dataclass(frozen=True)
class Setting:
    """How one factor is treated in one run; plain data that survives JSON.

    Attributes:
        mode: `natural` leaves it alone, `pinned` holds it still, `varied` changes it on purpose.
        value: the value to pin to, or to vary to, for factors with a choice (a thread count, the pace of a clock); None
            means the factor's default.
        variant: the number of the other value when varied; counts from 1.
        released: call sites (path, line) that are varied although the factor is pinned; pinned where it is varied.
        probed: pinned, and whatever the pin makes irrelevant is varied, to prove that it is irrelevant.
        steady: the varied values are the same in every run, even if they normally follow the real time.
    """

    mode: Mode = "natural"
    value: str | None = None
    variant: int = 1
    released: tuple[SiteKey, ...] = ()
    probed: bool = False
    steady: bool = False


@dataclass(frozen=True)
class Witness:
    """A note that a factor entered at a line, for the first time in this process.

    Attributes:
        factor: the factor's name.
        site: the user's line; None when a library acted on its own.
        what: the called function.
        within: the line at which the factor enters, if `site` only explains how; `site` cannot be released by itself.
        fix: the fix at this line, where pinning the factor does not help.
    """

    factor: str
    site: Site | None
    what: str
    within: SiteKey | None = None
    fix: str = ""


# How many draws of a process are reported, and how many first bytes of each: enough to recognise a file name that
# contains them, too few to be a secret.
MOST_HANDED_OUT, TOLD_BYTES = 64, 3


@dataclass
class FactorContext:
    """The treatment of one factor in one process.

    Attributes:
        setting: how the factor is treated.
        seed: root of every derived value.
        path: words that give this process streams of its own (`"rank", 1` when streams are per rank).
        report: receives every witness; None if nobody needs them.
        handed_out: receives the first bytes of what the operating system handed out, in hexadecimal.
        undo: the callbacks that put everything back, last change first.
        awaited_modules: modules that are treated as soon as they are loaded.
        failed: why a module could not be treated (it only shares the name, or is too old), as a clause; else empty.
        ended: whether everything was put back. A program that kept a patched function (`from time import time`) then
            gets the original.
        replaced: how often a formula of samebits replaced an operation, by its name and the user's line.
    """

    factor: str
    setting: Setting
    seed: int = 0
    path: tuple[str | int, ...] = ()
    report: Callable[[Witness], None] | None = None
    handed_out: Callable[[str], None] | None = None
    undo: ExitStack = field(default_factory=ExitStack)
    awaited_modules: list[str] = field(default_factory=list)
    ended: bool = False
    failed: str = ""
    replaced: Counter[tuple[str, Site | None]] = field(default_factory=Counter)
    _seen: set[SiteKey | None] = field(default_factory=set)
    _replaced: dict[int, str] = field(default_factory=dict)
    _drawn: int = 0

    @property
    def mode(self) -> Mode:
        return self.setting.mode

    @property
    def watches_sites(self) -> bool:
        """Whether calls must be traced to the user's line, to report it or because some lines are released."""
        return self.report is not None or bool(self.setting.released)

    def end(self) -> None:
        """Put everything back, last change first."""
        self.ended = True
        self.undo.close()

    def derive(self, *words: str | int, bits: int = 64) -> int:
        """Return a seed for this factor in this process and these words."""
        return derive(self.seed, self.factor, *self.path, *words, bits=bits)

    def derive_varied(self, *words: str | int, bits: int = 64) -> int:
        """Return a seed for varied values: like `derive`, but another one for each variant."""
        return self.derive("varied", self.setting.variant, *words, bits=bits)

    def derive_for(self, mode: Mode, *words: str | int, bits: int = 64) -> int:
        """Return the seed for calls that are treated in this mode."""
        return self.derive_varied(*words, bits=bits) if mode == "varied" else self.derive(*words, bits=bits)

    def enter(self, what: str) -> Mode:
        """Witness that the factor enters through `what` at the user's line, and return how to treat this call."""
        if self.ended:
            return "natural"
        if not self.watches_sites:
            return self.mode
        site = user_site()
        self.witness(what, site)
        if site is None or site.key not in self.setting.released:
            return self.mode
        return "pinned" if self.mode == "varied" else "varied"

    def called(self, what: str) -> str:
        """Return the library function through which the user's line reached `what`; `what` if called directly."""
        return (self.watches_sites and called_by_user()) or what

    def witness(self, what: str, site: Site | None) -> None:
        """Report a site once per process."""
        key = site.key if site else None
        if self.report is None or key in self._seen:
            return
        self._seen.add(key)
        self.report(Witness(self.factor, site, what))

    def report_entropy(self, drawn: bytes) -> bytes:
        """Report the first bytes of what the operating system hands out to the user's code; return all bytes."""
        receive = self.handed_out if len(drawn) >= TOLD_BYTES and self._drawn < MOST_HANDED_OUT else None
        if receive is not None and user_site():
            self._drawn += 1
            receive(drawn[:TOLD_BYTES].hex())
        return drawn

    def set(self, owner: Any, name: str, value: object) -> None:
        """Set an attribute; the end of the context restores the old value, or deletes it where it was inherited."""
        inherited = name not in vars(owner)
        before = None if inherited else vars(owner)[name]
        if callable(before):
            self._replaced[id(before)] = f"{owner.__name__}.{name}"
        setattr(owner, name, value)
        self.undo.callback(delattr, owner, name) if inherited else self.undo.callback(setattr, owner, name, before)

    def replace(self, owner: Any, name: str, call: Callable[..., object]) -> PatchedFunction:
        """Replace a module's function by `call`, whose first argument is the original."""
        original = getattr(owner, name)
        patched = patched_function(owner.__name__, name, original)
        self.undo.callback(setattr, patched, "call", original)
        patched.call = partial(call, original)
        self.undo.callback(tell_torchscript(original, patched))
        self.set(owner, name, patched)
        return patched

    def replace_method(self, owner: type, name: str, call: Callable[..., object]) -> None:
        """Replace a method by `call`, whose first argument is the original."""
        self.set(owner, name, wrapped(getattr(owner, name), call))

    def set_method(self, owner: type, name: str, method: object) -> None:
        """Replace a method of a class written in C; the end of the context puts it back."""
        before = exchange_method(owner, name, method)
        self.undo.callback(exchange_method, owner, name, before)

    def set_environment(self, name: str, value: str) -> None:
        """Set an environment variable for this process and its children; the end of the context restores it."""
        before = os.environ.get(name)
        os.environ[name] = value
        if before is None:
            self.undo.callback(os.environ.pop, name, None)
        else:
            self.undo.callback(os.environ.__setitem__, name, before)

    def when_loaded(self, module: str, action: Callable[[ModuleType], object]) -> None:
        """Call `action` with a module once it is loaded; `samebits.pin` imports the modules in `awaited_modules`."""

        def act(loaded: ModuleType) -> None:
            # This runs inside the user's import: a module that only shares the name must be imported as without us.
            try:
                action(loaded)
            except Exception as error:
                self.failed = f"{type(error).__name__} while treating {module}: {error}"

        self.awaited_modules.append(module)
        self.undo.callback(forget, module, act)
        when_loaded(module, act)

    def early_import(self) -> str:
        """Return a clause naming a user's module that imported a replaced function by name too early, or ""."""
        for module in user_modules():
            for value in list(vars(module).values()):
                if id(value) in self._replaced:
                    file_name = os.path.basename(getattr(module, "__file__", None) or module.__name__)
                    return f"{file_name} had imported {self._replaced[id(value)]} by name before"
        return ""


def import_if_installed(name: str) -> ModuleType | None:
    """Import and return a module; return None if its package is not installed."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        return None
    return importlib.import_module(name)


def exchange_method(owner: type, name: str, method: object) -> object:
    """Put `method` into a class written in C, whose attributes cannot be set, and return the method before.

    The class object stays the same one for C code, subclasses, pickles and annotations.

    Raises:
        RuntimeError: this Python does not give access to the table of a class's methods.
    """
    # `vars` gives a read-only view; the one object that the view refers to is the table itself.
    tables = gc.get_referents(vars(owner))
    if len(tables) != 1 or not isinstance(tables[0], dict):
        raise RuntimeError(f"this Python does not let methods of {owner.__name__} be changed")
    before = tables[0][name]
    tables[0][name] = method
    # Python caches methods without a reference to them: `before` keeps the old one alive until the cache is cleared.
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))
    return before
