"""Modules and optimizers: the names of their tensors, which tensors changed, and their last states.

Names depend on the order in which modules are used, never on addresses. Of a module only its two dictionaries of
tensors are held, so that its last state can be read; they are released when it dies. State and groups of an optimizer
are held likewise.
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

from samebits.agent.identity import VersionedRef, WeakValues, version_of
from samebits.agent.tensors import Named, unwrapped
from samebits.base.modules import inner_modules
from samebits.runfolder.spec import AVERAGED

# Stages: what was done with a module so far. Only a module that was called has its first state recorded.
COPIED, LOADED, CALLED = range(3)
# Batch norm writes its running statistics without torch counting it; its own count of batches shows that it did.
BATCHES_COUNTED, WRITTEN_UNSEEN = "num_batches_tracked", {"running_mean", "running_var"}
# The names of copies, of models that were loaded, and of models after the first one begin so.
_COPY = re.compile(r"\w+\.(copy|loaded)\d+\.|[A-Z]\w*\d+\.")


@dataclass(eq=False)
class HeldModule:
    """A module with tensors of its own, not only in modules inside it; its dictionaries are held, not the module."""

    name: str  # its path, with a dot at the end; empty at the top of the first model
    order: int  # holders count from 0 in the order in which they are met
    parameters: Mapping[str, torch.Tensor | None]  # the module's own dictionary, as `buffers` is
    buffers: Mapping[str, torch.Tensor | None]
    # Names of buffers that are no part of the module's state: as long as nothing reads them they may hold anything, and
    # once something does, the results show it.
    non_persistent: Collection[str]
    stage: int  # COPIED, LOADED or CALLED
    # Digests of a copy when it was new, if they were made: a copy that never changes shows nothing new.
    at_first: object = None
    seen: dict[str, VersionedRef] = field(default_factory=dict)  # buffers as they were when they were last digested
    # Parameters and buffers that had changed when something was saved, as they were then.
    seen_at_save: dict[str, VersionedRef] = field(default_factory=dict)

    def state(self) -> list[Named]:
        """Return the module's parameters and lasting buffers as they are now."""
        lasting = {key: buffer for key, buffer in self.buffers.items() if key not in self.non_persistent}
        return [*_tensors(self.name, self.parameters), *_tensors(self.name, lasting)]

    def changed_buffers(self) -> Iterator[Named]:
        """The buffers that were written to or replaced since the last call of this method; at first, all of them."""
        # The dictionary of a scripted module can only be iterated over.
        buffers = [(key, buffer) for key, buffer in self.buffers.items() if key not in self.non_persistent]
        existing = [(key, buffer) for key, buffer in buffers if buffer is not None and not is_lazy(buffer)]
        changed = {key for key, buffer in existing if not (key in self.seen and self.seen[key].is_unchanged(buffer))}
        if BATCHES_COUNTED in changed:
            changed |= WRITTEN_UNSEEN
        for key, buffer in existing:
            if key in changed:
                self.seen[key] = VersionedRef(buffer)
                yield f"{self.name}{key}", buffer

    def changed_at_save(self, versions: Mapping[int, int | None]) -> Iterator[Named]:
        """The tensors written to since they were digested; `versions` has the parameters' versions then, by id."""
        for name, tensor in self.state():
            key = name.removeprefix(self.name)
            last_seen = self.seen_at_save.get(key) or self.seen.get(key)
            is_digested = last_seen is not None and last_seen.is_unchanged(tensor)
            if not is_digested and versions.get(id(tensor), -1) != version_of(tensor):
                self.seen_at_save[key] = VersionedRef(tensor)
                yield name, tensor


class Models:
    """All modules met so far; `last_look` is called with a holder whose module has died."""

    def __init__(self, last_look: Callable[[HeldModule], None]) -> None:
        # Modules that the program itself called → the prefix of their paths.
        self._tops: MutableMapping[object, str] = WeakIdKeyDictionary()
        self._holders = WeakValues(last_look)
        # Tensors → name, and stage in which they got it.
        self._names: Any = WeakIdKeyDictionary()
        self._counts: Counter[str] = Counter()
        self._order = itertools.count()
        self._has_first = False
        self._has_new_copies = False

    def name_of(self, tensor: object) -> str | None:
        """Return the name of a parameter or buffer; None when no module has it."""
        return self._names.get(tensor, (None, 0))[0]  # type: ignore[no-any-return]

    # ---- meeting modules

    def is_new(self, module: object) -> bool:
        """Whether a module holds tensors, and nothing of it was met before."""
        if module in self._tops:
            return False
        holding = _holding(module)
        return bool(holding) and all(self._holders.get(inner) is None for _, inner in holding)

    def meet(self, module: torch.nn.Module) -> list[Named]:
        """Name the tensors of a module that is called for the first time; return its parameters that are new.

        Buffers are recorded as they are when a step ends: they may be written before anything reads them.
        """
        if module in self._tops:
            return []
        fresh = [inner for inner in _holding(module) if self._stage(inner[1]) < CALLED]
        prefix, kind = "", type(module).__name__
        if fresh:
            number = self._counted(kind)
            prefix, self._has_first = f"{kind}{number}." if self._has_first else "", True
        self._tops[module] = prefix
        return self._hold_modules(fresh, prefix, CALLED)

    def name_uncalled(self, module: torch.nn.Module, stage: int) -> None:
        """Name a module that was copied or loaded, and may never be called."""
        fresh = [inner for inner in _holding(module) if self._stage(inner[1]) <= stage]
        if any(self._stage(inner) < stage or stage == COPIED for _, inner in fresh):
            kind = f"{type(module).__name__}.{'copy' if stage == COPIED else 'loaded'}"
            self._hold_modules(fresh, f"{kind}{self._counted(kind)}.", stage)

    def name_additions(self) -> list[Named]:
        """Name what was put into known modules since they were met; return the parameters that are new."""
        fresh: list[Named] = []
        for module, prefix in list(self._tops.items()):
            inner = _holding(module)
            fresh += self._hold_modules([pair for pair in inner if self._stage(pair[1]) < CALLED], prefix, CALLED)
            fresh += self._named([holder for _, one in inner if (holder := self._holders.get(one)) is not None], CALLED)
        return fresh

    def _counted(self, what: str) -> int:
        number = self._counts[what]
        self._counts[what] += 1
        return number

    def _stage(self, module: torch.nn.Module) -> int:
        holder = self._holders.get(module)
        return -1 if holder is None else holder.stage

    def _hold_modules(self, modules: Iterable[tuple[str, torch.nn.Module]], prefix: str, stage: int) -> list[Named]:
        """Hold modules, or rename those that are held already; return the parameters that are new."""
        held = []
        for path, module in modules:
            name = self._unique_name(f"{prefix}{path}." if path else prefix)
            holder = self._holders.get(module)
            if holder is None:
                passing = vars(module).get("_non_persistent_buffers_set", ())
                holder = HeldModule(name, next(self._order), module._parameters, module._buffers, passing, stage)
                self._holders.set(module, holder)
            holder.name, holder.stage = name, stage
            self._has_new_copies |= stage == COPIED
            held.append(holder)
        return self._named(held, stage)

    def _unique_name(self, name: str) -> str:
        """Return the name, with a number added if another module had it before."""
        number = self._counted(f"={name}")
        return name if number == 0 else f"{name.removesuffix('.')}#{number + 1}."

    def _named(self, holders: Iterable[HeldModule], stage: int) -> list[Named]:
        held = list(holders)
        fresh: list[Named] = []
        parameters = [named for holder in held for named in _tensors(holder.name, holder.parameters)]
        buffers = [named for holder in held for named in _tensors(holder.name, holder.buffers)]
        for number, (name, tensor) in enumerate(parameters + buffers):
            name_before = self._names.get(tensor)
            if name_before is None or name_before[1] < stage or stage == COPIED == name_before[1]:
                self._names[tensor] = name, stage
                if number < len(parameters):
                    fresh.append((name, tensor))
        return fresh

    # ---- their state now

    def parameters(self) -> list[Named]:
        """Return the parameters of modules that were called, each once."""
        by_id: dict[int, Named] = {}
        for holder in self.holders():
            if holder.stage == CALLED:
                for name, tensor in _tensors(holder.name, holder.parameters):
                    by_id.setdefault(id(tensor), (name, tensor))
        return list(by_id.values())

    def holders(self) -> list[HeldModule]:
        """Return the holders whose modules are alive, in the order in which they were met."""
        return sorted(self._holders.values(), key=lambda holder: holder.order)

    def changed_buffers(self) -> list[Named]:
        """Return the buffers of modules that were called, if they changed since the last call."""
        return [
            named
            for holder in self._holders.values()
            if holder.buffers and holder.stage == CALLED
            for named in holder.changed_buffers()
        ]

    def new_copies(self) -> list[HeldModule]:
        """Return the copies whose first state was not digested yet."""
        if not self._has_new_copies:
            return []
        self._has_new_copies = False
        return [holder for holder in self._holders.values() if holder.stage == COPIED and holder.at_first is None]


def holds_any(module: torch.nn.Module) -> bool:
    """Whether a module or one inside it holds tensors; most losses do not."""
    return bool(_holding(module))


def _holding(module: object) -> list[tuple[str, torch.nn.Module]]:
    return [(path, inner) for path, inner in inner_modules(module) if inner._parameters or inner._buffers]


def _tensors(prefix: str, tensors: Mapping[str, torch.Tensor | None]) -> list[Named]:
    """Return the named tensors that exist: lazy ones do not yet, and wrappers of a transform are taken off."""
    named = [(f"{prefix}{key}", unwrapped(tensor)) for key, tensor in tensors.items() if tensor is not None]
    return [(name, tensor) for name, tensor in named if not is_lazy(tensor)]


@dataclass(eq=False)
class HeldOptimizer:
    """An optimizer, of which state and groups are held until it dies, and not the optimizer itself."""

    state: Any  # the optimizer's own object, as `groups` is
    groups: list[dict[str, Any]]
    number: int | None = None  # optimizers count from 0 in the order in which they are used
    parameters: list[tuple[str, VersionedRef]] = field(
        default_factory=list
    )  # names and tensors, in the order of the groups
    fresh: Iterator[int] = field(default_factory=itertools.count)
    has_stepped: bool = False  # whether it was seen to step
    versions: list[int | None] = field(default_factory=list)  # of its parameters, as `note_versions` found them

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [parameter for group in self.groups for parameter in group["params"]]

    def tree(self) -> Iterator[tuple[str, object]]:
        """The optimizer's state and hyperparameters, by name; tensors come first."""
        prefix = f"optimizer{self.number}." if self.number else ""
        held = []
        for (name, _), parameter in zip(self.parameters, self.tensors, strict=False):
            held += [(f"{prefix}{name}.{key}", value) for key, value in (self.state.get(parameter) or {}).items()]
        yield from ((name, value) for name, value in held if torch.is_tensor(value))
        yield from ((name, value) for name, value in held if not torch.is_tensor(value))
        for index, group in enumerate(self.groups):
            yield f"{prefix}group{index}", {key: value for key, value in group.items() if key != "params"}

    def note_versions(self) -> None:
        """Note the versions that its parameters have now."""
        self.versions = [version_of(parameter) for parameter in self.tensors]

    def is_written_to(self) -> bool:
        """Whether a parameter was written to since `note_versions`."""
        return any(before != version_of(p) for before, p in zip(self.versions, self.tensors, strict=False))


class Optimizers:
    """All optimizers met so far; `last_look` is called with what is held of an optimizer that has died."""

    def __init__(self, models: Models, last_look: Callable[[HeldOptimizer], None]) -> None:
        self.models = models
        self._held = WeakValues(last_look)
        self._names: Any = WeakIdKeyDictionary()
        self._numbers = itertools.count()

    def meet(self, optimizer: torch.optim.Optimizer) -> HeldOptimizer:
        """Return what is held of an optimizer, with the state and groups that it has now."""
        held = self._held.get(optimizer)
        if held is None:
            held = HeldOptimizer(optimizer.state, optimizer.param_groups)
            self._held.set(optimizer, held)
        held.state, held.groups = optimizer.state, optimizer.param_groups
        return held

    def named(self, held: HeldOptimizer) -> tuple[list[Named], list[Named]]:
        """Return the optimizer's parameters with their names, and all tensors that got their first name only now."""
        if held.number is None:
            held.number = next(self._numbers)
        tensors, fresh = held.tensors, list[Named]()
        before = held.parameters
        if len(before) != len(tensors) or not all(weak() is p for (_, weak), p in zip(before, tensors, strict=True)):
            if any(self.name_of(parameter) is None for parameter in tensors):
                fresh += self.models.name_additions()
            for parameter in tensors:
                if self.name_of(parameter) is None:
                    self._names[parameter] = f"optimizer{held.number}.param{next(held.fresh)}"
                    fresh.append((self._names[parameter], parameter))
            held.parameters = [(self.name_of(parameter) or "", VersionedRef(parameter)) for parameter in tensors]
        return [(name, p) for (name, _), p in zip(held.parameters, tensors, strict=True)], fresh

    def name_of(self, parameter: object) -> str | None:
        """Return the name that a module gave a parameter, or else an optimizer; None where neither did."""
        return self.models.name_of(parameter) or self._names.get(parameter)

    def without_module(self, held: HeldOptimizer) -> list[Named]:
        """Return the parameters of an optimizer that no module has."""
        return [(name, p) for p in held.tensors if (name := self._names.get(p)) and not self.models.name_of(p)]

    def untrained(self) -> list[Named]:
        """Return what models hold and no optimizer trains, changed or not, since torch does not count all writes.

        Copies are named alike whether they were loaded or not.
        """
        trained = {id(tensor) for held in self.all() for tensor in held.tensors}
        by_name: dict[str, torch.Tensor] = {}
        for holder in self.models.holders():
            copied = _COPY.match(holder.name)
            if copied is None and holder.stage == CALLED:
                by_name |= {f"{holder.name}{key}": t for key, t in holder.buffers.items() if t is not None}
                continue
            path = holder.name if copied is None else holder.name[copied.end() :]
            for name, tensor in holder.state():
                if id(tensor) not in trained:
                    label = f"{AVERAGED}{path}{name.removeprefix(holder.name)}"
                    number = sum(earlier.partition("#")[0] == label for earlier in by_name)
                    by_name[f"{label}#{number}" if number else label] = tensor
        return [(name, tensor) for name, tensor in by_name.items() if not is_lazy(tensor)]

    def all(self) -> list[HeldOptimizer]:
        """Return what is held of the optimizers that are alive, unused ones last."""
        return sorted(self._held.values(), key=lambda one: (one.number is None, one.number or 0))
