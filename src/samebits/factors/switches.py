"""Factors that are settings of torch: each says what to set; remembering and undoing is here."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable
from operator import attrgetter
from types import ModuleType

from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext


class TorchSetting(Factor):
    """Settings of torch: made as soon as it is there, and read back whenever they are observed."""

    @abstractmethod
    def set(self, torch: ModuleType, context: FactorContext) -> None:
        """Pin or vary, as the context's mode says; it puts everything back when it ends."""

    @abstractmethod
    def in_effect(self, torch: ModuleType) -> tuple[str, str]:
        """What is in effect, and what the program has done if that is not what was pinned; empty where it holds."""

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
    """One flag of torch. Pinned, it stays as it is: a line of the program that sets it otherwise is witnessed instead.

    Attributes:
        flag: its place below `torch`.
        steady: the value that repeats; varied, it is turned over.
        words: what is in effect where it is off, and where it is on.
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
            change(context, owner, name, not getattr(owner, name))
            return
        if context.mode == "pinned":
            change(context, owner, name, self.steady)
        # Every way to set it ends in one function: torch's own attribute knows it, and so does `flags()` beside it.
        switch = vars(type(owner))[name]

        def turn(setter: Callable[[bool], None], value: bool) -> None:
            if value == self.steady or context.enter(f"torch.{self.flag} = {value}") != "pinned":
                setter(value)

        change(context, switch, "setter", context.replace(torch._C, switch.setter.__name__, turn))

    def in_effect(self, torch: ModuleType) -> tuple[str, str]:
        on = bool(attrgetter(self.flag)(torch))
        return self.words[on], "" if on == self.steady else "the program set it past samebits"

    def kernel_settings(self, torch: ModuleType) -> dict[str, object]:
        return attributes(torch, self.flag)


def change(context: FactorContext, owner: object, name: str, value: object) -> None:
    """Set an attribute that may be computed, as torch's are; what it gives now comes back when the context ends."""
    context.undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def attributes(torch: ModuleType, *places: str) -> dict[str, object]:
    """Place (`backends.cudnn.benchmark`) → value; without those that this torch does not have or refuses to tell."""
    found = {place: answer(lambda place=place: attrgetter(place)(torch)) for place in places}  # type: ignore[misc]
    return {place: value for place, value in found.items() if value is not None}


def answer(ask: Callable[[], object]) -> object:
    """What `ask` returns, None where this torch cannot say; older switches refuse to answer beside newer ones."""
    try:
        found = ask()
    except (RuntimeError, AttributeError, TypeError):
        return None
    # Older switches may answer with a pair: on, and with splitting allowed.
    return found if isinstance(found, bool | int | str) else None
