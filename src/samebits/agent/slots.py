"""The state that a program holds in its variables, and how to put it back, to find by trial what a resume lacks."""

from __future__ import annotations

import ctypes
import math
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from traceback import walk_stack
from types import FrameType, FunctionType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from samebits.agent.tensors import as_tensor
from samebits.agent.trees import BY_NAME, attributes_of
from samebits.base.modules import inner_modules
from samebits.base.sites import is_user_file
from samebits.rng.handles import handle_of, process_generators
from samebits.rng.packing import PackingError, pack
from samebits.rng.search import generator_types

if TYPE_CHECKING:
    from samebits.agent.recorder import Recorder

# Limits of the walk, because a program may refer to a whole library.
MOST_SLOTS, MOST_DEPTH, MOST_DATA_BYTES = 20_000, 10, 2**22
Put = Callable[[Any], object]


class Slot(NamedTuple):
    """One value in the state of a program."""

    path: str  # the path by which the program reaches it: `trainer.best`, `train.optimizer.state[0]`
    state: str  # the part of a training's state that it belongs to, judged by what holds it
    value: object  # its current value
    put: Put | None  # sets another value; None where that is impossible


def slots_of(recorder: Recorder, innermost: FrameType | None) -> dict[str, Slot]:
    """Return, by path, everything that the user's modules and running functions hold right now.

    No code of the user's is called. A value that several names refer to is listed under the first one.
    """
    walk = _Walk(recorder)
    for name, generator in process_generators().items():
        handle = handle_of(generator)
        walk.found[name] = Slot(name, "generators", handle.state(), handle.restore)
    main = sys.modules["__main__"]
    for module in [main, *list(sys.modules.values())]:
        namespace = getattr(module, "__dict__", {})
        if module is main or is_user_file(str(namespace.get("__file__") or "<none>")):
            prefix = "" if module is main else f"{module.__name__}."
            for name, value in list(namespace.items()):
                if not name.startswith("__"):
                    walk.visit(f"{prefix}{name}", value, "", _into(namespace, name), 0)
    for frame, _ in list(walk_stack(innermost) if innermost else ())[::-1]:
        if is_user_file(frame.f_code.co_filename) and frame.f_locals is not frame.f_globals:
            for name, value in list(frame.f_locals.items()):
                walk.visit(f"{frame.f_code.co_name}.{name}", value, "", _into_frame(frame, name), 0)
    walk.rest_of_optimizers()
    return walk.found


class _Walk:
    """A walk through everything that a program holds."""

    def __init__(self, recorder: Recorder) -> None:
        self.found: dict[str, Slot] = {}
        self.known: set[int] = set()
        self.held = recorder.lane.optimizers.all()
        self.trained = {id(tensor): tensor for held in self.held for tensor in held.tensors}
        self.shapes = [tuple(tensor.shape) for tensor in self.trained.values()]

    def add(self, path: str, state: str, value: object, put: Put | None) -> None:
        self.found.setdefault(path, Slot(path, state, value, put))

    def visit(self, path: str, value: object, within: str, put: Put | None, depth: int) -> None:
        """Add a value and what it holds; `within` is the part of the state that all of it belongs to, where known."""
        if depth > MOST_DEPTH or len(self.found) > MOST_SLOTS:
            return
        if isinstance(value, BY_NAME):
            if isinstance(value, FunctionType) and is_user_file(value.__code__.co_filename):
                self._closure(path, value, within, depth)
        elif isinstance(value, Enum):
            kind = type(value)
            self.add(path, within or "counter", value._value_, put and (lambda new: put(kind(new))))
        elif value is None or isinstance(value, bool | int | float | complex | str):
            self.add(path, within or "counter", value, put)
        elif id(value) not in self.known:
            self.known.add(id(value))
            if as_tensor(value) is not None:
                self._tensor(path, value, within, put)
            else:
                self._thing(path, value, within, depth)

    def _closure(self, path: str, value: FunctionType, within: str, depth: int) -> None:
        """Visit what a function keeps from call to call in variables of the function that made it."""
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            if id(cell) not in self.known:
                self.known.add(id(cell))
                with suppress(ValueError):  # the variable is not set yet
                    put = partial(setattr, cell, "cell_contents")
                    self.visit(f"{path}.{name}", cell.cell_contents, within, put, depth + 1)

    def _tensor(self, path: str, value: Any, within: str, put: Put | None) -> None:
        if id(value) not in self.trained:
            # Large data is only read; data that a training changes, such as corrected labels, is small.
            if within != "data" or math.prod(value.shape) * value.dtype.itemsize <= MOST_DATA_BYTES:
                state = "carried" if within == "data" else within or "carried"
                self.add(path, state, value, lambda new: _fill(value, new, put))
            return
        self.add(path, "parameters", value, lambda new: _fill(value, new, None))
        self.add(f"{path}.grad", "accumulation", value.grad, lambda new: setattr(value, "grad", new))
        self.add(f"{path}.requires_grad", "mode", value.requires_grad, value.requires_grad_)

    def _thing(self, path: str, value: object, within: str, depth: int) -> None:
        schedulers = torch.optim.lr_scheduler
        if isinstance(value, generator_types()):
            handle = handle_of(value)
            self.add(path, "generators", handle.state(), handle.restore)
        elif isinstance(value, torch.nn.Module):
            self._module(path, value, within, depth)
        elif isinstance(value, torch.optim.Optimizer):
            self._optimizer(path, value.state, value.param_groups)
        elif isinstance(value, dict | list | tuple | deque | set) and _is_iterated_by_c(value):
            self._collection(path, value, within, depth)
        else:
            if isinstance(value, torch.amp.GradScaler):
                within = "scaler"
            elif any(base.__module__ == schedulers.__name__ for base in type(value).__mro__):
                within = "scheduler"
            elif isinstance(value, torch.utils.data.Dataset):
                within = "data"
            elif isinstance(value, torch.utils.data.dataloader._BaseDataLoaderIter) or _is_ours(value):
                return
            for name, attribute in attributes_of(value).items():
                self.visit(f"{path}.{name}", attribute, within, _into_object(value, name), depth + 1)

    def _module(self, path: str, value: torch.nn.Module, within: str, depth: int) -> None:
        inner = list(inner_modules(value))
        is_trained = any(id(tensor) in self.trained for _, module in inner for tensor in module._parameters.values())
        for name, module in inner:
            prefix = f"{path}.{name}" if name else path
            self.known.add(id(module))
            # A module's tensors are filled in place, never replaced: other objects refer to these same tensors.
            for key, tensor in [*module._parameters.items(), *module._buffers.items()]:
                if tensor is not None:
                    state = ("buffers" if key in module._buffers else "parameters") if is_trained else "averaged"
                    self.visit(f"{prefix}.{key}", tensor, state, None, depth + 1)
                    if key in module._parameters:
                        self.add(f"{prefix}.{key}.requires_grad", "mode", tensor.requires_grad, tensor.requires_grad_)
            self.add(f"{prefix}.training", "mode", module.training, _into_object(module, "training"))
            for key, attribute in attributes_of(module).items():
                self.visit(f"{prefix}.{key}", attribute, within, _into_object(module, key), depth + 1)

    def _optimizer(self, path: str, state: Any, groups: list[dict[str, Any]]) -> None:
        self.known |= {id(state), id(groups)}
        tensors = [tensor for group in groups for tensor in group["params"]]
        for number, tensor in enumerate(tensors):
            self.add(f"{path}.state[{number}]", "optimizer", state.get(tensor) or {}, _into(state, tensor))
        for number, group in enumerate(groups):
            options = {key: option for key, option in group.items() if key != "params"}
            self.add(f"{path}.param_groups[{number}]", "scheduler", options, group.update)

    def rest_of_optimizers(self) -> None:
        """Add the optimizers that only a library holds, so that no variable of the user's leads to them."""
        for number, held in enumerate(self.held):
            if id(held.state) not in self.known and held.has_stepped:
                self._optimizer(f"optimizer{number}", held.state, held.groups)

    def _collection(self, path: str, value: Any, within: str, depth: int) -> None:
        put: Put | None
        pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
        items = [item for _, item in pairs]
        if not any(id(item) in self.trained for item in items) and _is_plain(value):
            if within != "data":
                put = None if isinstance(value, tuple) else partial(_refill, value)
                self.add(path, within or self._state_of(items), value, put)
            return
        for number, (key, item) in enumerate(pairs):
            name = f".{key}" if isinstance(key, str) else f"[{key if isinstance(key, int) else number}]"
            put = _into(value, key) if isinstance(value, dict | list | deque) else None
            self.visit(f"{path}{name}", item, within, put, depth + 1)

    def _state_of(self, items: list[object]) -> str:
        """Guess the state of a collection: at least as many tensors as are trained, in their shapes, are an average."""
        are_as_many = len(items) >= len(self.shapes) > 0
        if are_as_many and all(torch.is_tensor(item) and tuple(item.shape) in self.shapes for item in items):
            return "averaged"
        return "carried" if any(as_tensor(item) is not None for item in items) else "counter"


def _is_ours(value: object) -> bool:
    """Whether a value is one of samebits' own, whose inside is no state that a program can restore."""
    return type(value).__module__.partition(".")[0] == "samebits"


def _is_iterated_by_c(value: object) -> bool:
    """Whether iterating over a value runs C code only, and none of the user's."""
    return isinstance(getattr(type(value), "__iter__", None), WrapperDescriptorType)


def _is_plain(value: object) -> bool:
    """Whether a value is plain data throughout."""
    try:
        pack(value)
    except (PackingError, RecursionError, ValueError):
        return False
    return True


def _refill(value: Any, new: Any) -> None:
    """Replace the items of a collection, and keep the collection itself."""
    value.clear()
    value.update(new) if isinstance(value, dict | set) else value.extend(new)


def _fill(value: Any, new: Any, put: Put | None) -> None:
    """Fill a tensor or array in place if shape and dtype fit, as others may refer to it; else replace it by `put`."""
    if new is not None and value.shape == new.shape and value.dtype == new.dtype:
        if torch.is_tensor(value):
            with torch.no_grad():
                value.copy_(new)
        else:
            value[...] = new
    elif put is not None:
        put(new)


def _into(place: Any, key: object) -> Put:
    return lambda new: place.__setitem__(key, new)


def _into_object(owner: object, name: str) -> Put:
    return lambda new: object.__setattr__(owner, name, new)


def _into_frame(frame: FrameType, name: str) -> Put:
    def put(new: object) -> None:
        frame.f_locals[name] = new
        if sys.version_info < (3, 13):
            # Before Python 3.13, `f_locals` is a copy.
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))

    return put
