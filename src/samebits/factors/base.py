"""Factor: one thing that can change the bits of a run, and what is done about it.

`environment` is what must be set before the interpreter starts. `treat` acts inside a `FactorContext`, which says
whether to pin the factor, to vary it on purpose, or only to witness where in the user's code it enters. `observe` says
what is in effect.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Literal

from samebits.base.errors import UsageError
from samebits.base.sites import Site, shown_path
from samebits.factors.context import FactorContext, Mode, Setting
from samebits.rng.handles import handle_of

Scope = Literal["environment", "process"]


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


class Factor(ABC):
    """One thing that can change the bits of a run whose code did not change.

    Subclasses fill in the attributes and the methods; the docstring is the factor's page in the reference.

    Attributes:
        name: as it is typed.
        scope: `environment` must be set before the interpreter starts, `process` can be set from inside.
        summary: why it matters, one line.
        explanation: how it enters, as a clause after its name; `{what}` is what was called.
        too_late: since when it cannot be pinned from inside.
        seeded_by: what the program seeds it with, as it is witnessed.
        fix: what to change in the code at `{place}`, the guilty line as `file:line`.
        fix_unplaced: the same where no line is known; by default without the place.
        fixes: what to change instead where what was called there contains a word.
        choices: the values that it can be pinned to.
        fixed_once: one change in the script fixes all lines at which it enters.
        pinned_by_default / varied_by_default: part of `samebits run` / of `samebits check`.
        may_stall: treated, it may hold a program up: a check varies it by itself, only where it was seen to enter and
            all other runs agree; and puts down to it that a run came to its time limit.
        varies_between_runs: left alone, it differs between two runs on one machine, as a clock does.
        is_random: its values are as good as drawn, so a choice between two falls alike in one run of two.
        selects_algorithm: each of its algorithms has bits of its own, so released runs are compared with one another.
        has_sites: it enters through calls that can be witnessed.
        may_raise: pinned, it makes operations raise that cannot repeat.
        found_statically: it leaves no call to witness, and its lines are found by reading the user's code.
        held_in_part: pinned, some of what it does still moves, so its lines are reported where the cause is unknown.
        needs: it can matter only where the program uses all of these: `cuda` (an accelerator that may read what CUDA's
            libraries read: any but Apple's), `ranks`, `compiled` (torch.compile), `loader` (a DataLoader that fetches).
        by_folder: it is treated by what the folder holds in which a run begins, and by no setting.
        priced: the modes in which it may make steps slower or quicker.
        kernel_variables: environment variables that choose kernels; a replay of one operation sets them again.
    """

    name: str
    scope: Scope = "process"
    summary: str
    explanation: str
    too_late: str = "never"
    seeded_by: tuple[str, ...] = ()
    fix: str
    fix_unplaced: str = ""
    fixes: ClassVar[Mapping[str, str]] = {}
    choices: tuple[str, ...] = ()
    fixed_once: bool = False
    pinned_by_default: bool = True
    varied_by_default: bool = False
    may_stall: bool = False
    varies_between_runs: bool = True
    is_random: bool = False
    selects_algorithm: bool = False
    has_sites: bool = False
    may_raise: bool = False
    found_statically: bool = False
    held_in_part: bool = False
    needs: tuple[str, ...] = ()
    by_folder: bool = False
    priced: tuple[Mode, ...] = ()
    kernel_variables: tuple[str, ...] = ()

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables to set before the interpreter starts."""
        return {}

    def starting(self, setting: Setting) -> AbstractContextManager[None]:
        """What must hold around the start of a command that is run once, besides its environment."""
        return nullcontext()

    def check_value(self, value: str) -> None:
        """Raise UsageError when `value` cannot be pinned to."""
        if not self.choices:
            raise UsageError(f"{self.name} takes no value, got {value!r}", f"write --pin {self.name}")
        if value not in self.choices:
            *others, last = self.choices
            raise UsageError(f"{self.name} takes {', '.join(others)} or {last}, got {value!r}")

    def treat(self, context: FactorContext) -> None:
        """Hold it still or change it on purpose, as the context's mode says; natural, only note where it enters."""

    @abstractmethod
    def observe(self, context: FactorContext | None = None) -> Observation:
        """What is in effect; `context` is where it is treated, if it is."""

    def verify(self, context: FactorContext) -> str:
        """Empty when the pin took; else what was done too early, as a clause."""
        seen = self.observe(context)
        return "" if seen.held is not False else seen.reason or f"{seen.value} is in effect"

    def explain(self, error: BaseException) -> str:
        """Why an error in the program is this pin's doing, as a clause; empty when it is not."""
        return ""

    def kernel_settings(self, torch: ModuleType) -> dict[str, object]:
        """What is in effect and chooses kernels, for a replay of one operation: place below `torch` → value.

        The value is what the attribute holds; of a function, its arguments as a list or as a dictionary of keywords.
        """
        return {}

    def fix_for(self, site: Site | None = None, script: str = "", what: str = "") -> str:
        """What to change in the code, as a sentence without its full stop; what is not known is None or empty."""
        usual = self.fix if site else self.fix_unplaced or self.fix.replace(" at {place}", "")
        own = (fix for word, fix in self.fixes.items() if word in what and (site or "{place}" not in fix))
        fix = next(own, usual)
        return fix.format(place=site.place, what=what) if site else fix

    def apply(self, context: FactorContext) -> None:
        """Do what the context asks for; do nothing at all where nothing is asked."""
        if context.mode != "natural" or context.watches_sites:
            self.treat(context)


class Seeding:
    """Whether a program has seeded a generator, so that only the draws before it are witnessed.

    Going back to a state from before the first seeding undoes it, as `with numpy_seed(0): …` of many libraries does.
    """

    def __init__(self) -> None:
        self.is_done = False
        self._unseeded: set[int] = set()

    def saved(self, state: Hashable) -> None:
        """The program asked for the state."""
        if not self.is_done:
            self._unseeded.add(hash(state))

    def restored(self, state: Hashable) -> None:
        """The program set the state."""
        self.is_done = hash(state) not in self._unseeded


class GeneratorFactor(Factor):
    """A global generator: seeded once at the start of the script that is run, one seed fixes every line that draws.

    Attributes:
        library: the module that holds it, and what people call that.
        seed_bits: how long a seed it takes.
        seeding: the call that seeds it.
    """

    library: tuple[str, str]
    seed_bits: int = 32
    seeding: str
    explanation = "drawn without a seed"
    has_sites = True
    is_random = True
    fixed_once = True

    def start(self, module: ModuleType, context: FactorContext, seed: int) -> None:
        """Seed it; the state that it has now comes back when the context ends."""
        handle = handle_of(module)
        context.undo.callback(handle.restore, handle.state())
        handle.start(seed)

    @abstractmethod
    def watch(self, module: ModuleType, context: FactorContext) -> None:
        """Witness draws until the program has seeded it, and let those at released lines answer otherwise."""

    def treat(self, context: FactorContext) -> None:
        def act(module: ModuleType) -> None:
            if context.mode != "natural":
                self.start(module, context, context.stream(context.mode, bits=self.seed_bits))
            if context.mode != "varied" and context.watches_sites:
                self.watch(module, context)

        context.when_loaded(self.library[0], act)

    def observe(self, context: FactorContext | None = None) -> Observation:
        if context is None:
            return Observation("unknown whether it was seeded", None)
        name, title = self.library
        if sys.modules.get(name) is None:
            return Observation(f"{title} is not loaded; it will be seeded when it is", True)
        return Observation("seeded by samebits", True)

    def fix_for(self, site: Site | None = None, script: str = "", what: str = "") -> str:
        start = f"call {self.seeding} once, at the start of {shown_path(script) if script else 'the script'}"
        return f"{start}, before {f'{site.place} draws' if site else 'its first draw'}"


class CallFactor(Factor):
    """A factor that enters through calls: one replaced function witnesses, pins or varies, call by call.

    Attributes:
        effects: what calls get where it is natural, pinned, varied.
        library: the module without which nothing is called, and what people call that; None where it is always there.
    """

    has_sites = True
    effects: tuple[str, str, str]
    library: tuple[str, str] | None = None

    def observe(self, context: FactorContext | None = None) -> Observation:
        natural, pinned, varied = self.effects
        if self.library is not None and self.library[0] not in sys.modules:
            return Observation(f"{self.library[1]} is not loaded", True if context else None)
        if context is None:
            return Observation(natural, False)
        return Observation(pinned if context.mode == "pinned" else varied, True)
