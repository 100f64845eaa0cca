"""The parts of a training: what each of them has for a state, whether another state fits it, and how it is restored."""

from __future__ import annotations

import copy
import random
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
import torch.utils.data

from samebits.base.errors import SamebitsError, StateError, UsageError
from samebits.rng.packing import PackingError, functions_in, leaves, pack, unpack

# Of a state that differs in many places, so many are named.
NAMED = 5


class Restoring(NamedTuple):
    """A part's state, checked, and waiting to be restored.

    Attributes:
        do: restore it.
        undo: bring back what was there before; None where `do` has nothing left that can fail.
    """

    do: Callable[[], object]
    undo: Callable[[], object] | None = None


class Part:
    """One object that a training consists of, and that has `state_dict()` and `load_state_dict()`.

    Args:
        name: `optimizer`, `optimizer[1]`, `averaged.slow`.
        one: the object.

    Attributes:
        is_shared: all ranks have the same state, or each its share of one.
    """

    is_shared = False

    def __init__(self, name: str, one: Any) -> None:
        self.name, self.one = name, one

    def packed(self) -> Any:
        """Its state as plain data."""
        try:
            return self._packed(self.one.state_dict())
        except PackingError as error:
            raise StateError(
                f"the state of {self.name} holds something that cannot be kept: {error}",
                "leave it out of its state_dict(), or keep it as tensors, numbers, text, lists and dicts",
            ) from error

    def _packed(self, state: object) -> Any:
        return pack(state)

    def restoring(self, packed: object, copies: bool) -> Restoring:
        """What gives it that state.

        Args:
            packed: what `packed` returned.
            copies: give it tensors of its own.

        Raises:
            StateError: the state is another one's.
        """
        before: Any = self.one.state_dict()
        if is_torchs(self.one):
            self._check_form(packed, self._packed(before))
        state = self.unpacked(packed, before, copies)
        kept = copy.deepcopy(before)
        return Restoring(lambda: self._load(state), lambda: self.one.load_state_dict(kept))

    def unpacked(self, packed: object, live: object, copies: bool) -> Any:
        """A state as the object itself knows it."""
        try:
            return unpack(packed, functions_in(live), copies)
        except PackingError as error:
            raise self.unfit(str(error)) from error

    def unfit(self, reason: str) -> StateError:
        """The error that says why a state is not for this part."""
        return StateError(
            f"{self.name} does not fit its state: {reason}",
            "make it as it was made in the run that saved; what is different on purpose has to begin anew",
        )

    def _load(self, state: object) -> None:
        try:
            self.one.load_state_dict(state)
        except SamebitsError as error:
            raise StateError(f"{self.name} does not take its state: {error.message}", error.hint) from error
        except Exception as error:
            raise self.unfit(f"{type(error).__name__}: {error}") from error

    def _check_form(self, saved: object, live: object) -> None:
        # torch's schedulers and scalers take over whatever they are given.
        before, after = set(_form(saved)), set(_form(live))
        self.check_names(before, after)

    def check_names(self, saved: set[str], live: set[str]) -> None:
        """Refuse a state that has other names."""
        if saved != live:
            raise self.unfit("; ".join(differences(saved, live)))


class ModulePart(Part):
    """A module: parameters and buffers by name."""

    is_shared = True

    def restoring(self, packed: object, copies: bool) -> Restoring:
        live = self.packed()
        if not isinstance(packed, Mapping):
            raise self.unfit(f"a state is a dict, got {type(packed).__name__}")
        self.check_names(set(packed), set(live))
        wrong = [text for name in live if (text := _other_tensor(name, packed[name], live[name]))]
        if wrong:
            raise self.unfit("; ".join(_some(wrong)))
        before = self.one.state_dict()
        state = OrderedDict(self.unpacked(packed, before, copies=False))
        # The versions of its modules, which say how an old state is read; this one has the names of here and now.
        state._metadata = getattr(before, "_metadata", None)  # type: ignore[attr-defined]
        return Restoring(lambda: self._load(state))


class OptimizerPart(Part):
    """An optimizer: its state, its groups, and the shapes of the parameters that they belong to."""

    is_shared = True

    def _packed(self, state: object) -> Any:
        shapes = [[_named(one) for one in group["params"]] for group in self.one.param_groups]
        return {"class": type(self.one).__name__, "parameters": shapes, **pack(state)}

    def restoring(self, packed: Any, copies: bool) -> Restoring:
        live = self.packed()
        self.check_names(set(packed), set(live))
        if packed["class"] != live["class"]:
            raise self.unfit(f"it was saved as {packed['class']}, here is {live['class']}")
        self._check_parameters(packed["parameters"], live["parameters"])
        before = _tensors(live["state"])
        wrong = [
            text
            for name, value in _tensors(packed["state"]).items()
            if name in before and (text := _other_tensor(name, value, before[name]))
        ]
        if wrong:
            raise self.unfit("; ".join(_some(wrong)))
        plain = {name: value for name, value in packed.items() if name not in ("class", "parameters")}
        state = self.unpacked(plain, self.one.state_dict(), copies)
        return Restoring(lambda: self._load(state))

    def _check_parameters(self, saved: list[list[str]], live: list[list[str]]) -> None:
        before, after = [len(group) for group in saved], [len(group) for group in live]
        if before != after:
            raise self.unfit(f"its groups had {before} parameters, here they have {after}")
        flat = zip([one for group in saved for one in group], [one for group in live for one in group], strict=True)
        wrong = [f"parameter {number} was {old}, is {new}" for number, (old, new) in enumerate(flat) if old != new]
        if wrong:
            raise self.unfit("; ".join(_some(wrong)))


class TensorPart(Part):
    """A tensor, such as an average kept by hand."""

    is_shared = True

    def packed(self) -> Any:
        return self.one.detach()

    def restoring(self, packed: Any, copies: bool) -> Restoring:
        wrong = _other_tensor(self.name, packed, self.one)
        if wrong:
            raise self.unfit(wrong)
        return Restoring(lambda: _fill(self.one, packed))


def parts_of(given: Mapping[str, object]) -> dict[str, Part]:
    """Name → part, of what a training was given; what has generators and no other state is none.

    Raises:
        UsageError: something has no state.
    """
    return {name: part for name, one in objects_of(given) if (part := _part(name, unwrapped(one))) is not None}


def objects_of(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Name and object of everything that was given, also in lists and dicts; None is nothing."""
    for name, one in given.items():
        if type(one) in (list, tuple):
            yield from objects_of({f"{name}[{number}]": item for number, item in enumerate(one)})
        elif isinstance(one, dict):
            yield from objects_of({f"{name}.{key}": item for key, item in one.items()})
        elif one is not None:
            yield name, one


def unwrapped(one: object) -> Any:
    """The module within DistributedDataParallel, DataParallel and torch.compile: the names of its state are its own."""
    compiled = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", ())
    while True:
        if isinstance(one, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            one = one.module
        elif compiled and isinstance(one, compiled):
            one = one._orig_mod
        else:
            return one


def is_torchs(one: object) -> bool:
    """Whether its class is torch's own."""
    return type(one).__module__.partition(".")[0] == "torch"


def is_positionless(one: object) -> bool:
    """Whether it is a loader that does not know how far it is, as torch's."""
    return isinstance(one, torch.utils.data.DataLoader) and not hasattr(one, "state_dict")


def has_only_generators(one: object) -> bool:
    """Whether all that changes in it are the generators that it holds."""
    numpy_random: Any = sys.modules.get("numpy.random")
    kinds: tuple[type, ...] = (random.Random, torch.Generator, torch.utils.data.Sampler, torch.utils.data.Dataset)
    if numpy_random is not None:
        kinds = (*kinds, numpy_random.Generator, numpy_random.RandomState, numpy_random.BitGenerator)
    return isinstance(one, kinds) or is_positionless(one)


def differences(saved: set[str], live: set[str]) -> list[str]:
    """What one has and the other lacks, in words."""
    words = []
    if saved - live:
        words.append(f"the state has {', '.join(_some(sorted(saved - live)))}, which is not here")
    if live - saved:
        words.append(f"the state lacks {', '.join(_some(sorted(live - saved)))}, which is here")
    return words


def _part(name: str, one: object) -> Part | None:
    if isinstance(one, torch.nn.Module):
        return ModulePart(name, one)
    if isinstance(one, torch.Tensor):
        return TensorPart(name, one)
    if isinstance(one, torch.optim.Optimizer):
        return OptimizerPart(name, one)
    if callable(getattr(one, "state_dict", None)) and callable(getattr(one, "load_state_dict", None)):
        return Part(name, one)
    if has_only_generators(one):
        return None
    raise UsageError(
        f"{name} is a {type(one).__module__}.{type(one).__qualname__}, which has no state_dict() and load_state_dict()",
        "give it the two methods, or leave it out if nothing of it changes while it trains",
    )


def _some(texts: list[str]) -> list[str]:
    more = len(texts) - NAMED
    return texts if more <= 1 else [*texts[:NAMED], f"{more} more"]


def _form(packed: object) -> Iterator[str]:
    """The keys of dicts, and the items of lists that are longer than one number."""
    for way, _ in leaves(packed):
        yield way


def _tensors(packed: object) -> dict[str, torch.Tensor]:
    return {way: value for way, value in leaves(packed) if isinstance(value, torch.Tensor)}


def _named(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def _other_tensor(name: str, saved: Any, live: Any) -> str:
    """How two values differ in what cannot be copied over; empty if they do not."""
    if isinstance(live, torch.Tensor) != isinstance(saved, torch.Tensor):
        return f"{name} was a {type(saved).__name__}, is a {type(live).__name__}"
    if not isinstance(live, torch.Tensor) or torch.nn.parameter.is_lazy(live):
        return ""
    before, after = _named(saved), _named(live)
    return "" if before == after else f"{name} was {before}, is {after}"


def _fill(tensor: torch.Tensor, value: torch.Tensor) -> None:
    with torch.no_grad():
        tensor.copy_(value)
