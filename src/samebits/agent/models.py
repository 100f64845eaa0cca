"""Modules and optimizers: what their tensors are called, which ones changed, and how they were at their end.

Names depend on the order in which modules are used, never on addresses. Of a module its two dictionaries of tensors
are held until it dies, and nothing else: they let its last state be seen, and go with it. So are state and groups of an
optimizer.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakIdKeyDictionary

from samebits.agent.identity import Watched, Weak, version_of
from samebits.agent.tensors import Named, unwrapped
from samebits.base.modules import inner_modules
from samebits.runfolder.spec import AVERAGED

# What was done with a module so far; only what was called has its first state recorded.
COPIED, LOADED, CALLED = range(3)
# Batch norm writes its running statistics where torch does not count it; that it did so, its own count tells.
BATCHES_COUNTED, WRITTEN_UNSEEN = "num_batches_tracked", {"running_mean", "running_var"}
# How copies, models that were loaded, and models beside the first one are called here.
_COPY = re.compile(r"\w+\.(copy|loaded)\d+\.|[A-Z]\w*\d+\.")


@dataclass(eq=False)
class Holder:
    """A module that holds tensors itself."""

    name: str  # its path, with a dot at the end; empty at the top of the first model
    order: int  # holders count from 0 in the order in which they are met
    parameters: Mapping[str, torch.Tensor | None]  # the module's own dictionary, as the next one is
    buffers: Mapping[str, torch.Tensor | None]
    # Names of buffers that are no part of the module's state: what they do shows in what is computed, and as long as
    # nothing reads them they may hold anything.
    passing: Collection[str]
    stage: int  # what was done with it
    # Digests of a copy when it was new, once they are made: a copy that never changes says nothing.
    at_first: object = None
    seen: dict[str, Weak] = field(default_factory=dict)  # buffers as they were when they were digested last
    # The same for parameters and buffers that had changed when something was saved.
    seen_at_save: dict[str, Weak] = field(default_factory=dict)

    def state(self) -> list[Named]:
        """Its parameters and buffers as they are now."""
        lasting = {key: one for key, one in self.buffers.items() if key not in self.passing}
        return [*_tensors(self.name, self.parameters), *_tensors(self.name, lasting)]

    def changed_buffers(self) -> Iterator[Named]:
        """Buffers that were written to, or replaced, since the last call: all of them at the first."""
        # A scripted module's dictionary can be walked through, and no more.
        buffers = [(key, one) for key, one in self.buffers.items() if key not in self.passing]
        there = [(key, one) for key, one in buffers if one is not None and not is_lazy(one)]
        changed = {key for key, one in there if not (key in self.seen and self.seen[key].is_unchanged(one))}
        if BATCHES_COUNTED in changed:
            changed |= WRITTEN_UNSEEN
        for key, buffer in there:
            if key in changed:
                self.seen[key] = Weak(buffer)
                yield f"{self.name}{key}", buffer

    def changed_at_save(self, versions: Mapping[int, int | None]) -> Iterator[Named]:
        """What was written to since it was digested; `versions` says when that was, by id of the parameter."""
        for name, tensor in self.state():
            key = name.removeprefix(self.name)
            known = self.seen_at_save.get(key) or self.seen.get(key)
            is_known = known is not None and known.is_unchanged(tensor)
            if not is_known and versions.get(id(tensor), -1) != version_of(tensor):
                self.seen_at_save[key] = Weak(tensor)
                yield name, tensor


class Models:
    """Every module that was met; `last_look` is called with a holder whose module has died."""

    def __init__(self, last_look: Callable[[Holder], None]) -> None:
        # Modules that were called by the program itself, and what their paths begin with.
        self._tops: MutableMapping[object, str] = WeakIdKeyDictionary()
        self._holders = Watched(last_look)
        # Tensors, with the stage in which they were named.
        self._names: Any = WeakIdKeyDictionary()
        self._counts: Counter[str] = Counter()
        self._order = itertools.count()
        self._has_first = False
        self._has_new_copies = False

    def name_of(self, tensor: object) -> str | None:
        """What a parameter or buffer is called; None when no module has it."""
        return self._names.get(tensor, (None, 0))[0]  # type: ignore[no-any-return]

    # ---- meeting modules

    def is_new(self, module: object) -> bool:
        """Whether a module holds tensors, and nothing of it was met before."""
        if module in self._tops:
            return False
        holding = _holding(module)
        return bool(holding) and all(self._holders.get(inner) is None for _, inner in holding)

    def meet(self, module: torch.nn.Module) -> list[Named]:
        """Name the tensors of a module that is called for the first time; its parameters that are new.

        Buffers count as they are when a step ends: they may be written before anything reads them.
        """
        if module in self._tops:
            return []
        fresh = [inner for inner in _holding(module) if self._stage(inner[1]) < CALLED]
        prefix, kind = "", type(module).__name__
        if fresh:
            number = self._counted(kind)
            prefix, self._has_first = f"{kind}{number}." if self._has_first else "", True
        self._tops[module] = prefix
        return self._take(fresh, prefix, CALLED)

    def notice(self, module: torch.nn.Module, stage: int) -> None:
        """Name a module that was copied or loaded, and may never be called."""
        fresh = [inner for inner in _holding(module) if self._stage(inner[1]) <= stage]
        if any(self._stage(inner) < stage or stage == COPIED for _, inner in fresh):
            kind = f"{type(module).__name__}.{'copy' if stage == COPIED else 'loaded'}"
            self._take(fresh, f"{kind}{self._counted(kind)}.", stage)

    def look_again(self) -> list[Named]:
        """Name what has been put into known modules since they were met; parameters that are new."""
        found: list[Named] = []
        for module, prefix in list(self._tops.items()):
            inner = _holding(module)
            found += self._take([one for one in inner if self._stage(one[1]) < CALLED], prefix, CALLED)
            found += self._named([holder for _, one in inner if (holder := self._holders.get(one)) is not None], CALLED)
        return found

    def _counted(self, what: str) -> int:
        number = self._counts[what]
        self._counts[what] += 1
        return number

    def _stage(self, module: torch.nn.Module) -> int:
        known = self._holders.get(module)
        return -1 if known is None else known.stage

    def _take(self, modules: Iterable[tuple[str, torch.nn.Module]], prefix: str, stage: int) -> list[Named]:
        """Hold modules, or give those that are held already another name; their tensors that had no such name."""
        held = []
        for path, module in modules:
            name = self._free(f"{prefix}{path}." if path else prefix)
            holder = self._holders.get(module)
            if holder is None:
                passing = vars(module).get("_non_persistent_buffers_set", ())
                holder = Holder(name, next(self._order), module._parameters, module._buffers, passing, stage)
                self._holders.set(module, holder)
            holder.name, holder.stage = name, stage
            self._has_new_copies |= stage == COPIED
            held.append(holder)
        return self._named(held, stage)

    def _free(self, name: str) -> str:
        """The name, or with a number if another module in that place had it before."""
        number = self._counted(f"={name}")
        return name if number == 0 else f"{name.removesuffix('.')}#{number + 1}."

    def _named(self, holders: Iterable[Holder], stage: int) -> list[Named]:
        held = list(holders)
        found: list[Named] = []
        parameters = [named for holder in held for named in _tensors(holder.name, holder.parameters)]
        buffers = [named for holder in held for named in _tensors(holder.name, holder.buffers)]
        for number, (name, tensor) in enumerate(parameters + buffers):
            known = self._names.get(tensor)
            if known is None or known[1] < stage or stage == COPIED == known[1]:
                self._names[tensor] = name, stage
                if number < len(parameters):
                    found.append((name, tensor))
        return found

    # ---- what became of them

    def parameters(self) -> list[Named]:
        """Those of modules that were called, each once."""
        found: dict[int, Named] = {}
        for holder in self.holders():
            if holder.stage == CALLED:
                for name, tensor in _tensors(holder.name, holder.parameters):
                    found.setdefault(id(tensor), (name, tensor))
        return list(found.values())

    def holders(self) -> list[Holder]:
        """The holders whose modules are alive, in the order in which they were met."""
        return sorted(self._holders.values(), key=lambda holder: holder.order)

    def changed_buffers(self) -> list[Named]:
        """Buffers of modules that were called, where they changed."""
        return [
            named
            for holder in self._holders.values()
            if holder.buffers and holder.stage == CALLED
            for named in holder.changed_buffers()
        ]

    def new_copies(self) -> list[Holder]:
        """Copies whose first state was not recorded yet."""
        if not self._has_new_copies:
            return []
        self._has_new_copies = False
        return [one for one in self._holders.values() if one.stage == COPIED and one.at_first is None]


def holds_any(module: torch.nn.Module) -> bool:
    """Whether a module or one within it holds tensors: a loss does not."""
    return bool(_holding(module))


def _holding(module: object) -> list[tuple[str, torch.nn.Module]]:
    return [(path, one) for path, one in inner_modules(module) if one._parameters or one._buffers]


def _tensors(prefix: str, tensors: Mapping[str, torch.Tensor | None]) -> list[Named]:
    """Those that are there; lazy ones are not yet, and inside a transform what is wrapped counts."""
    named = [(f"{prefix}{key}", unwrapped(tensor)) for key, tensor in tensors.items() if tensor is not None]
    return [(name, tensor) for name, tensor in named if not is_lazy(tensor)]


@dataclass(eq=False)
class HeldOptimizer:
    """One optimizer. Its state and its groups are held until it dies, and not the optimizer."""

    state: Any  # the optimizer's own, as the groups are
    groups: list[dict[str, Any]]
    number: int | None = None  # optimizers count from 0 in the order in which they are used
    parameters: list[tuple[str, Weak]] = field(default_factory=list)  # names and tensors, in the order of the groups
    fresh: Iterator[int] = field(default_factory=itertools.count)
    has_stepped: bool = False  # seen to step; one that never does says nothing
    versions: list[int | None] = field(default_factory=list)  # of its parameters, when they were digested last

    @property
    def tensors(self) -> list[torch.Tensor]:
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
    """Every optimizer that was met; `last_look` is called with what is held of one that has died."""

    def __init__(self, models: Models, last_look: Callable[[HeldOptimizer], None]) -> None:
        self.models = models
        self._held = Watched(last_look)
        self._names: Any = WeakIdKeyDictionary()
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
        if len(known) != len(tensors) or not all(one() is p for (_, one), p in zip(known, tensors, strict=True)):
            if any(self.name_of(parameter) is None for parameter in tensors):
                fresh += self.models.look_again()
            for parameter in tensors:
                if self.name_of(parameter) is None:
                    self._names[parameter] = f"optimizer{held.number}.param{next(held.fresh)}"
                    fresh.append((self._names[parameter], parameter))
            held.parameters = [(self.name_of(parameter) or "", Weak(parameter)) for parameter in tensors]
        return [(name, p) for (name, _), p in zip(held.parameters, tensors, strict=True)], fresh

    def name_of(self, parameter: object) -> str | None:
        """As a module calls it, or else an optimizer."""
        return self.models.name_of(parameter) or self._names.get(parameter)

    def own(self, held: HeldOptimizer) -> list[Named]:
        """Parameters of an optimizer that no module has."""
        return [(name, p) for p in held.tensors if (name := self._names.get(p)) and not self.models.name_of(p)]

    def untrained(self) -> list[Named]:
        """Whatever models hold that no optimizer trains, changed or not: what an operation writes need not be told.

        Copies are called alike whether they were loaded or not.
        """
        trained = {id(tensor) for held in self.all() for tensor in held.tensors}
        found: dict[str, torch.Tensor] = {}
        for holder in self.models.holders():
            copied = _COPY.match(holder.name)
            if copied is None and holder.stage == CALLED:
                found |= {f"{holder.name}{key}": one for key, one in holder.buffers.items() if one is not None}
                continue
            path = holder.name if copied is None else holder.name[copied.end() :]
            for name, tensor in holder.state():
                if id(tensor) not in trained:
                    label = f"{AVERAGED}{path}{name.removeprefix(holder.name)}"
                    number = sum(known.partition("#")[0] == label for known in found)
                    found[f"{label}#{number}" if number else label] = tensor
        return [(name, tensor) for name, tensor in found.items() if not is_lazy(tensor)]

    def all(self) -> list[HeldOptimizer]:
        """What is held of those that are alive; the unused ones last."""
        return sorted(self._held.values(), key=lambda one: (one.number is None, one.number or 0))
