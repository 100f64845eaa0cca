"""FactorContext: one process in which one factor is treated. It undoes everything exactly, and reports what enters."""

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
from samebits.factors.patching import PatchedFunction, patched_function, wrapped

Mode = Literal["natural", "pinned", "varied"]
SiteKey = tuple[str, int]


@dataclass(frozen=True)
class Setting:
    """How one factor is treated in one run; plain data that survives JSON.

    Attributes:
        mode: left alone, held still, or changed on purpose.
        value: what to pin to, for factors with a choice (a thread count); None means the factor's default.
        variant: which other value when varied; counts from 1.
        released: call sites (path, line) that are varied although the factor is pinned.
        probed: the factor is pinned, and what then no longer matters is changed on purpose, to show that it does not.
        steady: what is varied has the same other value in every run, also where time passes meanwhile.
    """

    mode: Mode = "natural"
    value: str | None = None
    variant: int = 1
    released: tuple[SiteKey, ...] = ()
    probed: bool = False
    steady: bool = False


@dataclass(frozen=True)
class Witness:
    """A factor entered here: the first time at this line, in this process.

    Attributes:
        factor: its name.
        site: the user's line; None when a library acted on its own.
        what: what was called.
        within: the site that this one explains: how the factor enters there. It cannot be released by itself.
        fix: what to change there, where pinning the factor does not help.
    """

    factor: str
    site: Site | None
    what: str
    within: SiteKey | None = None
    fix: str = ""


# How many draws of a process are told, and how many first bytes of each: enough to know a name that quotes them, too
# few to be a secret.
MOST_HANDED_OUT, TOLD_BYTES = 64, 3


@dataclass
class FactorContext:
    """One process in which one factor is treated.

    Attributes:
        setting: the treatment.
        seed: root of every derived value.
        path: words that make this process's streams its own (`"rank", 1` when streams are per rank).
        report: takes what was witnessed; None when nothing takes it.
        handed_out: takes the beginnings of what the operating system handed out, in hexadecimal.
        undo: everything that must be put back, in order.
        awaited: modules on which something is to be done as soon as they are there.
        failed: why a module could not be treated (it only has the name, or is too old), as a clause; else empty.
        ended: everything was put back. A program that kept a patched function (`from time import time`) then gets the
            original.
        replaced: how often a formula of ours answered in the place of an operation, by its name and the user's line.
    """

    factor: str
    setting: Setting
    seed: int = 0
    path: tuple[str | int, ...] = ()
    report: Callable[[Witness], None] | None = None
    handed_out: Callable[[str], None] | None = None
    undo: ExitStack = field(default_factory=ExitStack)
    awaited: list[str] = field(default_factory=list)
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
        """Whether anybody needs to know which line called."""
        return self.report is not None or bool(self.setting.released)

    def end(self) -> None:
        """Put everything back, last change first."""
        self.ended = True
        self.undo.close()

    def derive(self, *words: str | int, bits: int = 64) -> int:
        """A seed for this factor in this process; another one for each variant."""
        return derive(self.seed, self.factor, *self.path, *words, bits=bits)

    def other(self, *words: str | int, bits: int = 64) -> int:
        """Like `derive`, for what is varied."""
        return self.derive("varied", self.setting.variant, *words, bits=bits)

    def stream(self, mode: Mode, *words: str | int, bits: int = 64) -> int:
        """What a call starts from that is treated so."""
        return self.other(*words, bits=bits) if mode == "varied" else self.derive(*words, bits=bits)

    def enter(self, what: str) -> Mode:
        """The factor enters through `what` right now: witness the user's line, and say how to treat this call."""
        if self.ended:
            return "natural"
        if not self.watches_sites:
            return self.mode
        site = user_site()
        self.witness(what, site)
        released = site is not None and site.key in self.setting.released
        return "varied" if released else self.mode

    def called(self, what: str) -> str:
        """The library function by which the user's line came to `what`; `what` where it was called at once."""
        return (self.watches_sites and called_by_user()) or what

    def witness(self, what: str, site: Site | None) -> None:
        """Report a site once per process."""
        key = site.key if site else None
        if self.report is None or key in self._seen:
            return
        self._seen.add(key)
        self.report(Witness(self.factor, site, what))

    def hands_out(self, drawn: bytes) -> bytes:
        """Tell how what the operating system hands out to the user's code begins."""
        takes = self.handed_out if len(drawn) >= TOLD_BYTES and self._drawn < MOST_HANDED_OUT else None
        if takes is not None and user_site():
            self._drawn += 1
            takes(drawn[:TOLD_BYTES].hex())
        return drawn

    def set(self, owner: Any, name: str, value: object) -> None:
        """Set an attribute; leaving the context puts the old one back, or takes it away where it was inherited."""
        inherited = name not in vars(owner)
        before = None if inherited else vars(owner)[name]
        if callable(before):
            self._replaced[id(before)] = f"{owner.__name__}.{name}"
        setattr(owner, name, value)
        self.undo.callback(delattr, owner, name) if inherited else self.undo.callback(setattr, owner, name, before)

    def replace(self, owner: Any, name: str, call: Callable[..., object]) -> PatchedFunction:
        """Put `call` in the place of a module's function, which it is given first."""
        original = getattr(owner, name)
        patched = patched_function(owner.__name__, name, original)
        self.undo.callback(setattr, patched, "call", original)
        patched.call = partial(call, original)
        self.set(owner, name, patched)
        return patched

    def replace_method(self, owner: type, name: str, call: Callable[..., object]) -> None:
        """Put `call` in the place of a method, which it is given first."""
        self.set(owner, name, wrapped(getattr(owner, name), call))

    def set_method(self, owner: type, name: str, method: object) -> None:
        """Change a method of a class written in C; put back when the context ends."""
        before = exchange_method(owner, name, method)
        self.undo.callback(exchange_method, owner, name, before)

    def set_environment(self, name: str, value: str) -> None:
        """Set an environment variable for this process and its children; put back when the context ends."""
        before = os.environ.get(name)
        os.environ[name] = value
        if before is None:
            self.undo.callback(os.environ.pop, name, None)
        else:
            self.undo.callback(os.environ.__setitem__, name, before)

    def when_loaded(self, module: str, action: Callable[[ModuleType], object]) -> None:
        """Act on a module once it is there; by `awaited`, `samebits.pin` knows to import it."""

        def act(loaded: ModuleType) -> None:
            # This runs inside the user's import: a module that only has the name must be imported as it is without us.
            try:
                action(loaded)
            except Exception as error:
                self.failed = f"{type(error).__name__} while treating {module}: {error}"

        self.awaited.append(module)
        self.undo.callback(forget, module, act)
        when_loaded(module, act)

    def taken_before(self) -> str:
        """Which of the user's modules imported a replaced function by name too early, as a clause; empty if none."""
        for module in user_modules():
            for value in list(vars(module).values()):
                if id(value) in self._replaced:
                    where = os.path.basename(getattr(module, "__file__", None) or module.__name__)
                    return f"{where} had imported {self._replaced[id(value)]} by name before"
        return ""


def import_if_installed(name: str) -> ModuleType | None:
    """The module, imported; None where its package is not installed."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        return None
    return importlib.import_module(name)


def exchange_method(owner: type, name: str, method: object) -> object:
    """Put `method` into a class written in C, whose attributes cannot be set, and return what was there.

    The class stays the class it is: C code, subclasses, pickles and annotations see no other one.

    Raises:
        RuntimeError: this Python does not show the table of a class's methods.
    """
    # `vars` gives a read-only view; the one object that the view refers to is the table itself.
    tables = gc.get_referents(vars(owner))
    if len(tables) != 1 or not isinstance(tables[0], dict):
        raise RuntimeError(f"this Python does not let methods of {owner.__name__} be changed")
    before = tables[0][name]
    tables[0][name] = method
    # Python remembers where it found a method, without holding it; `before` lives until it has forgotten.
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))
    return before
