"""Factor: one thing that can change the bits of a run, and the methods that control it.

`environment` returns the variables that must be set before the interpreter starts. `treat` acts inside a
`FactorContext`, which says whether to pin the factor, to vary it on purpose, or only to witness where in the user's
code it enters. `observe` returns what is in effect.
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
    """The state of a factor in this process.

    Attributes:
        value: what is in effect, as text.
        held: True when the factor cannot change any more (pinned by samebits or by the user), False when it can, None
            when that is not known yet (torch is not loaded) or does not apply here.
        can_pin: whether pinning from inside this process would still take effect.
        reason: why the factor is not held, such as what was done too early; else empty.
    """

    value: str
    held: bool | None
    can_pin: bool = True
    reason: str = ""


class Factor(ABC):
    """One thing that can change the bits of a run whose code did not change.

    Subclasses fill in the attributes and the methods; a subclass's docstring is the factor's page in the reference.

    Attributes:
        name: the name that users type.
        scope: `process` can be set from inside the process. `environment` takes effect when the interpreter starts: it
            counts as drawn from before the first line, a test can vary it only with `isolated=True`, and `observe` must
            give another value when it is varied.
        summary: why it matters, in one line.
        explanation: how it enters, as a clause after its name; `{what}` is the called function.
        too_late: the event after which it can no longer be pinned from inside the process, or `never`.
        seeded_by: the calls or variables that seed it, named as they are witnessed.
        fix: the change that fixes the code at `{place}`, the guilty line as `file:line`.
        fix_unplaced: the fix where no line is known; by default `fix` without the place.
        fixes: word → another fix, used where the name of the called function contains the word.
        choices: the values that it can be pinned to.
        fixed_once: one change in the script fixes all lines at which it enters.
        pinned_by_default / varied_by_default: whether `samebits run` pins / `samebits check` varies it unasked.
        may_stall: pinning or varying it may block the program. A check varies it in separate runs, only if it was seen
            to enter and all other runs agree; a timeout of a run that treats it is blamed on it.
        varies_between_runs: it differs by itself between two runs on one machine, as a clock does.
        is_random: its values are as good as random: two runs choosing between two values agree by luck half the time.
        left_alone: released, it is left to chance (an algorithm with bits of its own, a race), and such runs are
            compared among themselves.
        stopwatches: words in the names of calls that tell how long something took, to compare it with something else.
        has_sites: it enters through calls that can be witnessed.
        may_raise: its pin makes operations that cannot repeat raise an error.
        found_statically: it enters without a call to witness; its lines are found by reading the user's code.
        held_in_part: the pin holds only part of it, so its lines are listed when no cause is found.
        needs: features that the program must all use for it to matter: `cuda` (an accelerator that may read settings of
            CUDA's libraries: any but Apple's), `ranks`, `compiled` (torch.compile), `loader` (a fetching DataLoader).
        by_folder: it is treated by the content of the folder in which a run starts, not by a setting.
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
    left_alone: bool = False
    stopwatches: tuple[str, ...] = ()
    has_sites: bool = False
    may_raise: bool = False
    found_statically: bool = False
    held_in_part: bool = False
    needs: tuple[str, ...] = ()
    by_folder: bool = False
    priced: tuple[Mode, ...] = ()
    kernel_variables: tuple[str, ...] = ()

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables to set before the interpreter starts."""
        return {}

    def starting(self, setting: Setting) -> AbstractContextManager[None]:
        """Return a context to hold while the command of a single run starts, for what its environment cannot set."""
        return nullcontext()

    def check_value(self, value: str) -> None:
        """Raise UsageError if the factor cannot be pinned to `value`."""
        if not self.choices:
            raise UsageError(f"{self.name} takes no value, got {value!r}", f"write --pin {self.name}")
        if value not in self.choices:
            *others, last = self.choices
            raise UsageError(f"{self.name} takes {', '.join(others)} or {last}, got {value!r}")

    def treat(self, context: FactorContext) -> None:
        """Pin or vary the factor, as the context's mode says; in mode `natural` only witness where it enters."""

    @abstractmethod
    def observe(self, context: FactorContext | None = None) -> Observation:
        """Return what is in effect; `context` is the factor's treatment in this process, None if there is none."""

    def verify(self, context: FactorContext) -> str:
        """Return an empty text if the pin took effect, else a clause that says what was done too early."""
        observation = self.observe(context)
        return "" if observation.held is not False else observation.reason or f"{observation.value} is in effect"

    def explain(self, error: BaseException) -> str:
        """Return a clause that says why this factor's pin raised the program's error; empty if it did not."""
        return ""

    def kernel_settings(self, torch: ModuleType) -> dict[str, object]:
        """Return the settings in effect that choose kernels, for a replay of one operation: path below `torch` → value.

        The value is that of the attribute; for a function, its arguments as a list or as a dictionary of keywords.
        """
        return {}

    def fix_for(self, site: Site | None = None, script: str = "", what: str = "") -> str:
        """Return the fix in the code, as a sentence without its full stop; unknown arguments are None or empty."""
        default = self.fix if site else self.fix_unplaced or self.fix.replace(" at {place}", "")
        special = (fix for word, fix in self.fixes.items() if word in what and (site or "{place}" not in fix))
        fix = next(special, default)
        return fix.format(place=site.place, what=what) if site else fix

    def apply(self, context: FactorContext) -> None:
        """Treat the factor if the context pins, varies or witnesses it; else do nothing."""
        if context.mode != "natural" or context.watches_sites:
            self.treat(context)


class Seeding:
    """A record of whether the program has seeded a generator: only the draws before that are witnessed.

    Restoring a state from before the first seeding undoes it, as `with numpy_seed(0): …` of many libraries does.
    """

    def __init__(self) -> None:
        self.is_done = False
        self._unseeded: set[int] = set()

    def saved(self, state: Hashable) -> None:
        """Note that the program asked for this state."""
        if not self.is_done:
            self._unseeded.add(hash(state))

    def restored(self, state: Hashable) -> None:
        """Note that the program restored this state."""
        self.is_done = hash(state) not in self._unseeded


class GeneratorFactor(Factor):
    """A factor that is a global generator: one seed at the start of the script fixes every line that draws.

    Attributes:
        library: the module that holds the generator, and the library's usual name.
        seed_bits: the length of its seed in bits.
        seeding: the call that seeds it, as suggested to users.
    """

    library: tuple[str, str]
    seed_bits: int = 32
    seeding: str
    explanation = "drawn without a seed"
    has_sites = True
    is_random = True
    fixed_once = True

    def start(self, module: ModuleType, context: FactorContext, seed: int) -> None:
        """Seed the generator; the end of the context restores the state that it has now."""
        handle = handle_of(module)
        context.undo.callback(handle.restore, handle.state())
        handle.start(seed)

    @abstractmethod
    def watch(self, module: ModuleType, context: FactorContext) -> None:
        """Witness draws until the program has seeded the generator; draws at released lines return other values."""

    def treat(self, context: FactorContext) -> None:
        def act(module: ModuleType) -> None:
            if context.mode != "natural":
                self.start(module, context, context.derive_for(context.mode, bits=self.seed_bits))
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
    """A factor that enters through calls: a replaced function witnesses, pins or varies each call.

    Attributes:
        effects: what calls return when the factor is natural, pinned and varied, as shown to users.
        library: the module that has to be loaded for these calls, and its usual name; None if it always is.
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
