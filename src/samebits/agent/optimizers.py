"""The optimizers of a program: what their parameters are called, and what state they hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from samebits.agent.identity import Identities, Weak, version_of
from samebits.agent.listening import Named
from samebits.agent.models import Models


@dataclass(eq=False)
class HeldOptimizer:
    """One optimizer. Its state and its groups are held until it dies, and not the optimizer.

    Attributes:
        number: optimizers count from 0 in the order in which they are used.
        state, groups: the optimizer's own.
        parameters: names and tensors, in the order of the groups.
        has_stepped: seen to step; one that never does says nothing.
        versions: of its parameters, when they were digested last.
    """

    state: Any
    groups: Any
    number: int | None = None
    parameters: list[tuple[str, Weak]] = field(default_factory=list)
    fresh: Iterator[int] = field(default_factory=itertools.count)
    has_stepped: bool = False
    versions: list[int | None] = field(default_factory=list)

    @property
    def tensors(self) -> list[object]:
        return [parameter for group in self.groups for parameter in group["params"]]

    def tree(self) -> Iterator[tuple[str, object]]:
        """Everything in its state and its hyperparameters, by name; tensors first."""
        prefix = f"optimizer{self.number}." if self.number else ""
        held = []
        for (name, _), parameter in zip(self.parameters, self.tensors, strict=False):
            held += [(f"{prefix}{name}.{key}", value) for key, value in (self.state.get(parameter) or {}).items()]
        yield from ((name, value) for name, value in held if torch.is_tensor(value))
        yield from ((name, value) for name, value in held if not torch.is_tensor(value))
        for index, group in enumerate(self.groups):
            yield f"{prefix}group{index}", {key: value for key, value in group.items() if key != "params"}

    def note_versions(self) -> None:
        """Its parameters were digested as they are now."""
        self.versions = [version_of(parameter) for parameter in self.tensors]

    def is_written_to(self) -> bool:
        """Whether a parameter was written to since."""
        return any(before != version_of(p) for before, p in zip(self.versions, self.tensors, strict=False))


class Optimizers:
    """Every optimizer that was met.

    Args:
        models: knows the names of parameters that modules have.
        last_look: called with what is held of an optimizer that has died.
    """

    def __init__(self, models: Models, last_look: Callable[[HeldOptimizer], None]) -> None:
        self.models = models
        self._held: Identities[HeldOptimizer] = Identities(last_look)
        self._names: Identities[str] = Identities()
        self._numbers = itertools.count()

    def meet(self, optimizer: torch.optim.Optimizer) -> HeldOptimizer:
        """What is held of it, as it is now."""
        held = self._held.get(optimizer)
        if held is None:
            held = HeldOptimizer(optimizer.state, optimizer.param_groups)
            self._held.set(optimizer, held)
        held.state, held.groups = optimizer.state, optimizer.param_groups
        return held

    def named(self, held: HeldOptimizer) -> tuple[list[Named], list[Named]]:
        """Its parameters with their names; and all tensors that were named for the first time on that occasion."""
        if held.number is None:
            held.number = next(self._numbers)
        tensors, fresh = held.tensors, list[Named]()
        known = held.parameters
        if len(known) != len(tensors) or not all(one.is_(p) for (_, one), p in zip(known, tensors, strict=True)):
            if any(self.name_of(parameter) is None for parameter in tensors):
                fresh += self.models.look_again()
            for parameter in tensors:
                if self.name_of(parameter) is None:
                    self._names.set(parameter, f"optimizer{held.number}.param{next(held.fresh)}")
                    fresh.append((self._names.get(parameter) or "", parameter))
            held.parameters = [(self.name_of(parameter) or "", Weak(parameter)) for parameter in tensors]
        return [(name, p) for (name, _), p in zip(held.parameters, tensors, strict=True)], fresh

    def name_of(self, parameter: object) -> str | None:
        """As a module calls it, or else an optimizer."""
        return self.models.name_of(parameter) or self._names.get(parameter)

    def own(self, held: HeldOptimizer) -> list[Named]:
        """Parameters of an optimizer that no module has."""
        return [(name, p) for p in held.tensors if (name := self._names.get(p)) and not self.models.name_of(p)]

    def all(self) -> list[HeldOptimizer]:
        """Those that live; the unused ones last."""
        return sorted(self._held.values(), key=lambda one: (one.number is None, one.number or 0))
