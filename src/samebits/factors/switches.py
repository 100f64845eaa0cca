"""Base classes of factors that are settings of torch: a factor says what to set, and its undoing is done here."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable
from operator import attrgetter
from types import ModuleType

from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext


class TorchSetting(Factor):
    """A factor made of settings of torch: set as soon as torch is loaded, and read back whenever they are observed."""

    @abstractmethod
    def set(self, torch: ModuleType, context: FactorContext) -> None:
        """Pin or vary the settings, as the context's mode says; the context puts everything back when it ends."""

    @abstractmethod
    def in_effect(self, torch: ModuleType) -> tuple[str, str]:
        """Return what is in effect, and what the program did if that is not the pinned setting; else an empty text."""

    def treat(self, context: FactorContext) -> None:
        if context.mode != "natural":
            context.when_loaded("torch", lambda torch: self.set(torch, context))

    def observe(self, context: FactorContext | None = None) -> Observation:
        torch = sys.modules.get("torch")
        if torch is None:
            return Observation("torch is not loaded", True if context else None)
        value, undone = self.in_effect(torch)
        return Observation(value, not undone, reason=undone if context else "")


class TorchFlag(TorchSetting):
    """A factor that is one flag of torch. While it is pinned, a line that would set another value is only witnessed.

    Attributes:
        flag: its path below `torch`.
        steady: the value to pin to, with which results repeat; varying inverts the present value.
        words: the texts for what is in effect when the flag is off, and when it is on.
    """

    flag: str
    steady: bool
    words: tuple[str, str]

    def treat(self, context: FactorContext) -> None:
        context.when_loaded("torch", lambda torch: self.set(torch, context))

    def set(self, torch: ModuleType, context: FactorContext) -> None:
        home, _, name = self.flag.rpartition(".")
        owner = attrgetter(home)(torch)
        if context.mode == "varied":
            set_attribute(context, owner, name, not getattr(owner, name))
            return
        if context.mode == "pinned":
            set_attribute(context, owner, name, self.steady)
        # Every way to set the flag, also `flags()`, calls the one setter that torch's attribute holds.
        switch = vars(type(owner))[name]

        def turn(setter: Callable[[bool], None], value: bool) -> None:
            if value == self.steady or context.enter(f"torch.{self.flag} = {value}") != "pinned":
                setter(value)

        set_attribute(context, switch, "setter", context.replace(torch._C, switch.setter.__name__, turn))

    def in_effect(self, torch: ModuleType) -> tuple[str, str]:
        on = bool(attrgetter(self.flag)(torch))
        return self.words[on], "" if on == self.steady else "the program set it past samebits"

    def kernel_settings(self, torch: ModuleType) -> dict[str, object]:
        return attributes(torch, self.flag)


def set_attribute(context: FactorContext, owner: object, name: str, value: object) -> None:
    """Set an attribute, which may be computed, as torch's are; the end of the context restores its present value."""
    context.undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def attributes(torch: ModuleType, *places: str) -> dict[str, object]:
    """Return path (`backends.cudnn.benchmark`) → value, without those that this torch lacks or refuses to tell."""
    values = {place: read_switch(lambda place=place: attrgetter(place)(torch)) for place in places}  # type: ignore[misc]
    return {place: value for place, value in values.items() if value is not None}


def read_switch(ask: Callable[[], object]) -> object:
    """Return the answer of `ask`, None if this torch gives none: older switches refuse to answer next to newer ones."""
    try:
        value = ask()
    except (RuntimeError, AttributeError, TypeError):
        return None
    # Older switches may answer with a pair: whether they are on, and whether splitting is allowed.
    return value if isinstance(value, bool | int | str) else None
