"""The parts of a training: the state of each, whether a saved state fits it, and how that is restored."""

from __future__ import annotations

import copy
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
import torch.utils.data

from samebits.base.errors import SamebitsError, StateError, StateWarning, UsageError
from samebits.rng.packing import PackingError, leaves, pack, unpack
from samebits.rng.search import generator_types
from samebits.state.parameters import broken_ties, own_parameters

# How many of the differences between two states are named.
NAMED = 5


class Restoring(NamedTuple):
    """The function that restores a checked state, and the one that undoes this; None if nothing after it can fail."""

    do: Callable[[], object]
    undo: Callable[[], object] | None = None


class Part:
    """One object of a training, under a name such as `optimizer[1]` or `averaged.slow`."""

    # Whether the ranks have one state together, all the same or each a share of it; if not, each has its own.
    is_shared = False

    def __init__(self, name: str, one: Any) -> None:
        self.name, self.one = name, one

    def packed(self) -> Any:
        """Return the object's state as plain data; StateError if something in it cannot be kept."""
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
        """Return what restores a state that `packed` returned, or a copy of it; StateError if it does not fit."""
        with warnings.catch_warnings():
            # What a loader says of its place is for those who save it.
            warnings.simplefilter("ignore", StateWarning)
            before = self.one.state_dict()
        if type(self.one).__module__.partition(".")[0] == "torch":
            # torch's schedulers and scalers take over whatever they are given.
            self.check_names(paths_in(packed), paths_in(self._packed(before)))
        kept = copy.deepcopy(before)
        return Restoring(self.loading(packed, before, copies), lambda: self.one.load_state_dict(kept))

    def loading(self, packed: object, live: object, copies: bool, metadata: object = None) -> Callable[[], None]:
        """Unpack a state, and return a function that loads it; functions in the state are taken from the live one."""
        try:
            state = unpack(packed, live, copies)
        except PackingError as error:
            raise self.unfit(str(error)) from error
        if metadata is not None:
            state = OrderedDict(state)
            state._metadata = metadata  # type: ignore[attr-defined]

        def load() -> None:
            try:
                self.one.load_state_dict(state)
            except SamebitsError as error:
                raise StateError(f"{self.name} does not take its state: {error.message}", error.hint) from error
            except Exception as error:
                raise self.unfit(f"{type(error).__name__}: {error}") from error

        return load

    def unfit(self, reason: str) -> StateError:
        return StateError(
            f"{self.name} does not fit its state: {reason}",
            "create it as in the run that saved; what differs on purpose has to start fresh: state.without()",
        )

    def raise_if_different(self, wrong: Sequence[str]) -> None:
        """Raise StateError if something is wrong."""
        if wrong:
            raise self.unfit("; ".join(_some(wrong)))

    def check_names(self, saved: Iterable[str], live: Iterable[str]) -> None:
        self.raise_if_different(differences(set(saved), set(live)))

    def check_tensors(self, saved: Mapping[str, object], live: Mapping[str, object]) -> None:
        both = [name for name in live if name in saved]
        self.raise_if_different([text for name in both if (text := _misfit(name, saved[name], live[name]))])


class ModulePart(Part):
    """A module: parameters and buffers by name."""

    is_shared = True

    def _packed(self, state: object) -> Any:
        return pack(dict(state))  # type: ignore[call-overload]

    def restoring(self, packed: object, copies: bool) -> Restoring:
        live = self.packed()
        if not isinstance(packed, Mapping):
            raise self.unfit(f"a state is a dict, got {type(packed).__name__}")
        self.check_names(packed, live)
        self.check_tensors(packed, live)
        self.raise_if_different(broken_ties(packed, self.one.state_dict(keep_vars=True)))
        before = self.one.state_dict()
        # torch converts old states by the module versions in the metadata; this state already has the present names.
        return Restoring(self.loading(packed, before, copies=False, metadata=getattr(before, "_metadata", None)))


class OptimizerPart(Part):
    """An optimizer: its class, state and groups, and the dtypes, shapes and names of its parameters.

    `names` are those of the parameters of all modules, by id.
    """

    is_shared = True

    def __init__(self, name: str, one: Any, names: Mapping[int, str]) -> None:
        super().__init__(name, one)
        self.names = names

    def _packed(self, state: object) -> Any:
        groups = [group["params"] for group in self.one.param_groups]
        shapes = [[dtype_and_shape(one) for one in group] for group in groups]
        names = [[self.names.get(id(one), "") for one in group] for group in groups]
        return {"class": type(self.one).__name__, "parameters": shapes, "names": names, **pack(state)}

    def restoring(self, packed: Any, copies: bool) -> Restoring:
        live = self.packed()
        # The first version of states had no names: its order is taken for the present one.
        packed = {"names": live["names"], **packed}
        self.check_names(packed, live)
        if packed["class"] != live["class"]:
            raise self.unfit(f"it was saved as {packed['class']}, here is {live['class']}")
        before, after = [[len(group) for group in one["parameters"]] for one in (packed, live)]
        if before != after:
            raise self.unfit(f"its groups had {before} parameters, here they have {after}")
        state = self._in_order(packed, live)
        self.check_tensors(_tensors(state["state"]), _tensors(live["state"]))
        kept = self.one.state_dict()
        # No copy: torch replaces the tensors of an optimizer, and never writes into them.
        return Restoring(self.loading(state, kept, copies), lambda: self.one.load_state_dict(kept))

    def _in_order(self, packed: Any, live: Any) -> dict[str, Any]:
        """Return the optimizer's own state for the present order of its parameters, which go by name and group."""
        saved, here = (
            [f"{name or 'another parameter'} in group {number}" for number, group in groups for name in group]
            for groups in (enumerate(one["names"]) for one in (packed, live))
        )
        self.check_names(saved, here)
        # Both sorted by name: what has none stays in its order.
        place = dict(zip(*(sorted(range(len(names)), key=names.__getitem__) for names in (saved, here)), strict=True))
        forms = list(chain(*live["parameters"]))
        pairs = [(place[number], old, forms[place[number]]) for number, old in enumerate(chain(*packed["parameters"]))]
        self.raise_if_different([f"parameter {number} was {old}, is {new}" for number, old, new in pairs if old != new])
        state = {name: value for name, value in packed.items() if name not in ("class", "parameters", "names")}
        if saved == here:
            return state
        moments = {str(place[int(number)]): one for number, one in state["state"].get("<int keys>", {}).items()}
        for number, parameter in enumerate(chain(*(group["params"] for group in self.one.param_groups))):
            shapes = {tensor.shape for tensor in _tensors(moments.get(str(number), {})).values() if tensor.dim()}
            if shapes - {parameter.shape} or not state["state"].keys() <= {"<int keys>"}:
                raise self.unfit("its parameters had another order, and its state may be one of several together")
        names = [{key: one[key] for key in one if key == "param_names"} for one in live["param_groups"]]
        groups = [{**group, **own} for group, own in zip(state["param_groups"], names, strict=True)]
        return {**state, "state": {"<int keys>": moments} if moments else {}, "param_groups": groups}


class TensorPart(Part):
    """A tensor, such as an average kept by hand."""

    is_shared = True

    def packed(self) -> Any:
        return self.one.detach()

    def restoring(self, packed: Any, copies: bool) -> Restoring:
        self.check_tensors({self.name: packed}, {self.name: self.one})
        return Restoring(torch.no_grad()(lambda: self.one.copy_(packed)))


# Parts whose states are tensors, and nothing else.
WEIGHTS = (ModulePart, TensorPart)


def parts_of(given: Mapping[str, object]) -> dict[str, Part]:
    """Return name → part of the objects of a training; objects with no other state than generators are left out."""
    inner = {name: unwrapped(one) for name, one in objects_of(given).items()}
    names: dict[int, str] = {}
    for name, parameter in own_parameters(inner.items()):
        names.setdefault(id(parameter), name)
    return {name: part for name, one in inner.items() if (part := _part(name, one, names)) is not None}


def objects_of(given: Mapping[str, object]) -> dict[str, object]:
    """Return name → object of everything that was given, also in lists, tuples and dicts; None is left out.

    UsageError if two objects have one name.
    """
    found: dict[str, tuple[str, object]] = {}
    for name, way, one in _named(given):
        if name in found:
            raise UsageError(f"{found[name][0]} and {way} are both named {name}", "give one of them another key")
        found[name] = way, one
    return {name: one for name, (_, one) in found.items()}


def _named(
    given: Mapping[Any, object], before: str = "", after: str = "", way: str = ""
) -> Iterator[tuple[str, str, object]]:
    """The name of each object, such as `averaged.w`, the way to it, such as `averaged['w']`, and the object."""
    for key, one in given.items():
        name, its_way = f"{before}{key}{after}", f"{way}[{key!r}]" if way else str(key)
        if type(one) in (list, tuple):
            yield from _named(dict(enumerate(one)), f"{name}[", "]", its_way)  # type: ignore[arg-type]
        elif isinstance(one, dict):
            yield from _named(one, f"{name}.", "", its_way)
        elif one is not None:
            yield name, its_way, one


def unwrapped(one: object) -> object:
    """Return the module within DistributedDataParallel, DataParallel or torch.compile: its names have no prefix."""
    compiled = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", ())
    while True:
        if isinstance(one, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            one = one.module
        elif compiled and isinstance(one, compiled):
            one = one._orig_mod
        else:
            return one


def is_positionless(one: object) -> bool:
    """Whether an object is a loader that does not know its position, like torch's."""
    return isinstance(one, torch.utils.data.DataLoader) and not hasattr(one, "state_dict")


def paths_in(state: object) -> list[str]:
    """Return the path to every value in a packed state."""
    return [way for way, _ in leaves(state)]


def dtype_and_shape(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> str:
    """Return dtype (or another one) and shape of a tensor in words; what can be copied has the same."""
    return f"{str(dtype or tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def differences(saved: set[str], live: set[str]) -> list[str]:
    """Return the names that only one of the two has, in words."""
    words = []
    if saved - live:
        words.append(f"the state has {', '.join(_some(sorted(saved - live)))}, which is not here")
    if live - saved:
        words.append(f"the state lacks {', '.join(_some(sorted(live - saved)))}, which is here")
    return words


def with_contents(state: object, names: Iterable[str]) -> dict[str, Any]:
    """Return a state with a list of its contents.

    `torch.distributed.checkpoint` loads only what is in the state dict that it is given, and passes over everything
    else. The list, which it does load, shows what was passed over.
    """
    return {"state": state, "contents": sorted(names)}


def checked_contents(name: str, section: object, names: Callable[[Any], Iterable[str]] = list) -> Any:
    """Return a state that was sealed; StateError if something of it was lost, or `section` is no sealed state."""
    if not isinstance(section, Mapping) or set(section) != {"state", "contents"}:
        kind = "missing" if section is None else f"a {type(section).__name__}"
        raise StateError(f"this is not a training state: {name} is {kind}", "give what state_dict() made")
    listed, present = set(section["contents"]), set(names(section["state"]))
    if listed != present:
        lost = "; ".join(differences(listed, present)).replace("which is not here", "which was not loaded")
        raise StateError(
            f"{name} was not loaded whole: {lost}",
            "torch.distributed.checkpoint loads only what is there already: for an optimizer, call "
            "torch.distributed.checkpoint.state_dict.get_optimizer_state_dict() before; save without gradients",
        )
    return section["state"]


def without(state: Mapping[str, Any], *parts: str) -> dict[str, Any]:
    """Return a state without some parts, for a `Training` that lacks them, too, so that they start fresh.

    >>> state = Training(weights=torch.ones(2), averaged={"slow": torch.zeros(2)}).state_dict()
    >>> Training(weights=torch.zeros(2)).load_state_dict(without(state, "averaged"))

    Args:
        state: what `state_dict` returned, or what a checkpoint holds; it is not changed.
        parts: names of the parts, as in `Training`. Everything that is stored under a name goes with it: all items of
            a list or dict, gradients, modes and generators.

    Raises:
        UsageError: the state has no part of such a name.
    """
    everything = set(state["parts"])
    for section in state["ranks"].values():
        everything |= {*section["parts"], *section["generators"]["contents"]}
    for part in parts:
        if not any(_is_under(name, (part,)) for name in everything):
            raise UsageError(f"the state has no part {part!r}", f"it has {', '.join(sorted(everything))}")

    def kept(named: Mapping[str, Any]) -> dict[str, Any]:
        return {name: one for name, one in named.items() if not _is_under(name, parts)}

    def of_section(section: Mapping[str, Any]) -> dict[str, Any]:
        return with_contents(kept(section["state"]), kept(dict.fromkeys(section["contents"])))

    ranks = {
        rank: {name: kept(one) if name == "parts" else of_section(one) for name, one in section.items()}
        for rank, section in state["ranks"].items()
    }
    return {**state, "parts": kept(state["parts"]), "ranks": ranks}


def _is_under(name: str, parts: tuple[str, ...]) -> bool:
    return any(name == part or name.startswith((f"{part}.", f"{part}[")) for part in parts)


def _part(name: str, one: object, names: Mapping[int, str]) -> Part | None:
    if isinstance(one, torch.nn.Module):
        return ModulePart(name, one)
    if isinstance(one, torch.Tensor):
        return TensorPart(name, one)
    if isinstance(one, torch.optim.Optimizer):
        return OptimizerPart(name, one, names)
    if callable(getattr(one, "state_dict", None)) and callable(getattr(one, "load_state_dict", None)):
        return Part(name, one)
    # All that changes in these are the generators that they hold.
    kinds = (*generator_types(), torch.utils.data.Sampler, torch.utils.data.Dataset)
    if isinstance(one, kinds) or is_positionless(one):
        return None
    raise UsageError(
        f"{name} is a {type(one).__module__}.{type(one).__qualname__}, which has no state_dict() and load_state_dict()",
        "give it the two methods, or leave it out if nothing of it changes while it trains",
    )


def _some(texts: Sequence[str]) -> Sequence[str]:
    more = len(texts) - NAMED
    return texts if more <= 1 else [*texts[:NAMED], f"{more} more"]


def _tensors(packed: object) -> dict[str, torch.Tensor]:
    return {way: value for way, value in leaves(packed) if isinstance(value, torch.Tensor)}


def _misfit(name: str, saved: Any, live: object) -> str:
    """Return why the saved value cannot be copied over the live one, in words; empty if it can."""
    if isinstance(live, torch.Tensor) != isinstance(saved, torch.Tensor):
        return f"{name} was a {type(saved).__name__}, is a {type(live).__name__}"
    if not isinstance(live, torch.Tensor) or torch.nn.parameter.is_lazy(live):
        return ""
    before, after = dtype_and_shape(saved), dtype_and_shape(live)
    return "" if before == after else f"{name} was {before}, is {after}"
