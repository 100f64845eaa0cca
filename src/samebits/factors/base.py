"""Factor and Scene: what every factor can do, and the place where it does it.

A factor answers four verbs: `pin` holds it still, `vary` changes it on purpose, `observe` tells what is in effect, and
`witness` notes where in the user's code it entered. Three of them act inside a `Scene`, which knows how the factor is
to be treated, undoes everything exactly, and passes on what was witnessed. `environment` is what must be said before
the interpreter starts.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal

from samebits.base.seeds import derive
from samebits.base.sites import Site, called_by_user, shown_path, user_modules, user_site
from samebits.factors.c_classes import exchange_method
from samebits.factors.imports import forget, when_loaded
from samebits.factors.patching import PatchedFunction

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
        what: what was called.
        site: the user's line; None when a library acted on its own.
        within: the site that this one explains: how the factor enters there. It cannot be released by itself.
        cure: what to change there, where pinning the factor does not help.
    """

    factor: str
    what: str
    site: Site | None
    within: SiteKey | None = None
    fix: str = ""


@dataclass(frozen=True)
class Observation:
    """What is in effect in this process.

    Attributes:
        value: the setting as text.
        held: True when the factor cannot move any more (pinned by us or by the user), False when it can, None when that
            cannot be known yet (torch is not loaded) or does not apply here.
        can_pin: whether pinning from inside this process would still take effect.
        reason: why not, or what was done too early.
    """

    value: str
    held: bool | None
    can_pin: bool = True
    reason: str = ""


@dataclass
class FactorContext:
    """One process in which one factor is treated.

    Attributes:
        setting: the treatment.
        seed: root of every derived value.
        path: words that make this process's streams its own (`"rank", 1` when streams are per rank).
        report: takes what was witnessed; None when nobody listens.
        undo: everything that must be put back, in order.
        awaited: modules on which something is to be done as soon as they are there.
        failed: why a module could not be treated (it only has the name, or is too old), as a clause; else empty.
        ended: everything was put back. Whoever took a stand-in along (`from time import time`) gets the original then.
    """

    factor: str
    setting: Setting
    seed: int = 0
    path: tuple[str | int, ...] = ()
    report: Callable[[Witness], None] | None = None
    undo: ExitStack = field(default_factory=ExitStack)
    awaited: list[str] = field(default_factory=list)
    ended: bool = False
    failed: str = ""
    _seen: set[SiteKey | None] = field(default_factory=set)
    _replaced: dict[int, str] = field(default_factory=dict)

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
        self.report(Witness(self.factor, what, site))

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute; leaving the scene puts the old one back, or takes it away where it was inherited."""
        inherited = name not in vars(owner)
        before = None if inherited else vars(owner)[name]
        if callable(before):
            self._replaced[id(before)] = f"{owner.__name__}.{name}"
        setattr(owner, name, value)
        self.undo.callback(delattr, owner, name) if inherited else self.undo.callback(setattr, owner, name, before)

    def replace(self, owner: Any, name: str, call: Callable[..., Any]) -> PatchedFunction:
        """Put `call` in the place of a module's function."""
        patched = PatchedFunction(owner.__name__, name, getattr(owner, name), call)
        self.set(owner, name, patched)
        return patched

    def set_method(self, owner: type, name: str, method: Any) -> None:
        """Change a method of a class written in C; put back when the scene ends."""
        before = exchange_method(owner, name, method)
        self.undo.callback(exchange_method, owner, name, before)

    def set_environment(self, name: str, value: str) -> None:
        """Set an environment variable for this process and its children; put back when the scene ends."""
        self.put(os.environ, name, value)

    def put(self, table: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """Change one entry of a table; put back when the scene ends."""
        before = table.get(key)
        table[key] = value
        if before is None:
            self.undo.callback(table.pop, key, None)
        else:
            self.undo.callback(table.__setitem__, key, before)

    def when_loaded(self, module: str, action: Callable[[Any], None]) -> None:
        """Act on a module once it is there; `awaited` tells `samebits.pin` to import it."""

        def act(loaded: Any) -> None:
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
    import importlib
    import importlib.util

    if importlib.util.find_spec(name.partition(".")[0]) is None:
        return None
    return importlib.import_module(name)


class Factor(ABC):
    """One thing that can change the bits of a run whose code did not change.

    Subclasses fill in the attributes and the verbs; the docstring is the factor's page in the reference.

    Attributes:
        name: as it is typed.
        scope: `environment` must be set before the interpreter starts, `process` can be set from inside.
        summary: why it matters, one line.
        story: how it enters, as a clause after its name; `{what}` is what was called.
        too_late: since when it cannot be pinned from inside.
        cure: what to change in the code at `{place}`, the guilty line as `file:line`.
        cure_unplaced: the same where no line is known.
        cured_once: one change in the script cures it at all lines at which it enters.
        pinned_by_default / varied_by_default: part of `samebits run` / of `samebits check`.
        drifts: its natural state differs between two runs on one machine (a clock does, a thread count does not).
        is_mode: its settings choose between algorithms, each with bits of its own, so a released run is compared with
            another released run, not with a pinned one.
        has_sites: it enters through calls that can be witnessed.
        refuses: pinned, it makes operations raise that cannot repeat.
        read_in_code: it leaves no call to witness; its lines are found by reading the user's code, and another value of
            it may by luck change nothing.
        held_in_part: pinned, some of what it does still moves, so its lines are told where the cause is unknown.
        needs: it can matter only where the program uses all of these: `cuda` (any accelerator that torch calls so),
            `ranks`, `compiled` (torch.compile), `loader` (a DataLoader that fetches).
        by_copy: it is treated by choosing the folder in which a run starts: pinned, a fresh copy; varied, a copy with
            what earlier runs left. Suspected only where runs were seen to find something, and then before all others.
        priced: the modes in which it may make steps slower or quicker.
    """

    name: str
    scope: Literal["environment", "process"] = "process"
    summary: str
    explanation: str
    too_late: str = "never"
    fix: str
    fix_unplaced: str = ""
    fixed_once: bool = False
    pinned_by_default: bool = True
    varied_by_default: bool = False
    varies_between_runs: bool = True
    selects_algorithm: bool = False
    has_sites: bool = False
    may_raise: bool = False
    found_statically: bool = False
    held_in_part: bool = False
    needs: tuple[str, ...] = ()
    by_copy: bool = False
    priced: tuple[Mode, ...] = ()

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables to set before the interpreter starts."""
        return {}

    def starting(self, setting: Setting) -> AbstractContextManager[None]:
        """What must hold around the start of a command that is run once, besides its environment."""
        return nullcontext()

    def check_value(self, value: str) -> None:
        """Raise UsageError when `value` cannot be pinned to."""
        from samebits.base.errors import UsageError

        raise UsageError(f"{self.name} takes no value, got {value!r}", f"write --pin {self.name}")

    def pin(self, context: FactorContext) -> None:
        """Hold the factor still in this process."""

    def vary(self, context: FactorContext) -> None:
        """Change the factor on purpose."""

    def witness(self, context: FactorContext) -> None:
        """Note where the factor enters, and change nothing."""

    @abstractmethod
    def observe(self, context: FactorContext | None = None) -> Observation:
        """What is in effect; `scene` is where it was pinned, if it was."""

    def verify(self, context: FactorContext) -> str:
        """Empty when the pin took; else what was done too early, as a clause."""
        seen = self.observe(context)
        return "" if seen.held is not False else seen.reason or f"{seen.value} is in effect"

    def explain(self, error: BaseException) -> str:
        """Why an error in the program is this pin's doing, as a clause; empty when it is not."""
        return ""

    def fix_for(self, site: Site | None = None, script: str = "", what: str = "") -> str:
        """What to change in the code, as a sentence without its full stop.

        Args:
            site: the line where the factor entered; None where that is not known.
            script: path of the script that is run; empty where that is not known.
            what: what was called there, as it was witnessed.
        """
        return self.fix_unplaced or self.fix if site is None else self.fix.format(place=site.place)

    def apply(self, context: FactorContext) -> None:
        """Do what the scene asks for; do nothing at all where nothing is asked."""
        if context.mode == "pinned":
            self.pin(context)
        elif context.mode == "varied":
            self.vary(context)
        elif context.watches_sites:
            self.witness(context)


class GeneratorFactor(Factor):
    """A global generator: seeded once at the start of the script that is run, it is cured at every line that draws.

    Attributes:
        seeding: the call that seeds it.
    """

    seeding: str
    explanation = "drawn before it was seeded"
    has_sites = True
    fixed_once = True

    def fix_for(self, site: Site | None = None, script: str = "", what: str = "") -> str:
        start = f"call {self.seeding} once, at the start of {shown_path(script) if script else 'the script'}"
        return f"{start}, before its first draw{f' ({site.place})' if site else ''}"


class CallFactor(Factor):
    """A factor that enters through calls: one replaced function witnesses, pins or varies, call by call."""

    has_sites = True

    @abstractmethod
    def install(self, context: FactorContext) -> None:
        """Replace the functions through which the factor enters."""

    def pin(self, context: FactorContext) -> None:
        self.install(context)

    def vary(self, context: FactorContext) -> None:
        self.install(context)

    def witness(self, context: FactorContext) -> None:
        self.install(context)
