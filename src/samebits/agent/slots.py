"""What a program holds in its variables, and how each is put back: by experiment it is known what a resume lacks."""

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

# So much is looked at: a program may refer to a whole library.
MOST_SLOTS, MOST_DEPTH, MOST_DATA_BYTES = 20_000, 10, 2**22
Put = Callable[[Any], object]


class Slot(NamedTuple):
    """One state of a program."""

    path: str  # by which the program reaches it: `trainer.best`, `train.optimizer.state[0]`
    state: str  # which state of a training it belongs to, by what holds it
    value: object  # what it is now
    put: Put | None  # gives it another value; None where there is no way


def slots_of(recorder: Recorder, innermost: FrameType | None) -> dict[str, Slot]:
    """Path → everything that the user's modules, and the functions that are under way, hold right now.

    Nothing of the user's is called. What several names refer to stands under the first one.
    """
    walk = _Walk(recorder)
    for name, generator in process_generators().items():
        handle = handle_of(generator)
        walk.found[name] = Slot(name, "generators", handle.state(), handle.restore)
    main = sys.modules["__main__"]
    for module in [main, *list(sys.modules.values())]:
        own = getattr(module, "__dict__", {})
        if module is main or is_user_file(str(own.get("__file__") or "<none>")):
            prefix = "" if module is main else f"{module.__name__}."
            for name, value in list(own.items()):
                if not name.startswith("__"):
                    walk.visit(f"{prefix}{name}", value, "", _into(own, name), 0)
    for frame, _ in list(walk_stack(innermost) if innermost else ())[::-1]:
        if is_user_file(frame.f_code.co_filename) and frame.f_locals is not frame.f_globals:
            for name, value in list(frame.f_locals.items()):
                walk.visit(f"{frame.f_code.co_name}.{name}", value, "", _into_frame(frame, name), 0)
    walk.rest_of_optimizers()
    return walk.found


class _Walk:
    """Goes through what a program holds."""

    def __init__(self, recorder: Recorder) -> None:
        self.found: dict[str, Slot] = {}
        self.known: set[int] = set()
        self.held = recorder.lane.optimizers.all()
        self.trained = {id(tensor): tensor for held in self.held for tensor in held.tensors}
        self.shapes = [tuple(tensor.shape) for tensor in self.trained.values()]

    def add(self, path: str, state: str, value: object, put: Put | None) -> None:
        self.found.setdefault(path, Slot(path, state, value, put))

    def visit(self, path: str, value: object, within: str, put: Put | None, depth: int) -> None:
        """Take what is there up; `within` is the state that all of it belongs to, where that is known."""
        if depth > MOST_DEPTH or len(self.found) > MOST_SLOTS:
            return
        if isinstance(value, BY_NAME):
            if isinstance(value, FunctionType) and is_user_file(value.__code__.co_filename):
                self._closure(path, value, within, depth)
        elif value is None or isinstance(value, bool | int | float | complex | str | Enum):
            self.add(path, within or "counter", value, put)
        elif id(value) not in self.known:
            self.known.add(id(value))
            if as_tensor(value) is not None:
                self._tensor(path, value, within, put)
            else:
                self._thing(path, value, within, depth)

    def _closure(self, path: str, value: FunctionType, within: str, depth: int) -> None:
        """What a function keeps from call to call in variables of the one that made it."""
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            if id(cell) not in self.known:
                self.known.add(id(cell))
                with suppress(ValueError):  # of a variable that is not set yet
                    put = partial(setattr, cell, "cell_contents")
                    self.visit(f"{path}.{name}", cell.cell_contents, within, put, depth + 1)

    def _tensor(self, path: str, value: Any, within: str, put: Put | None) -> None:
        if id(value) not in self.trained:
            # What is large is read, and labels that are corrected on the way are small.
            if within != "data" or math.prod(value.shape) * value.dtype.itemsize <= MOST_DATA_BYTES:
                state = "carried" if within == "data" else within or "carried"
                self.add(path, state, value, lambda new: _fill(value, new, put))
            return
        self.add(path, "parameters", value, lambda new: _fill(value, new, None))
        self.add(f"{path}.grad", "accumulation", value.grad, lambda new: setattr(value, "grad", new))
        self.add(f"{path}.requires_grad", "mode", value.requires_grad, value.requires_grad_)

    def _thing(self, path: str, value: object, within: str, depth: int) -> None:
        kinds = torch.optim.lr_scheduler
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
            elif any(one.__module__ == kinds.__name__ for one in type(value).__mro__):
                within = "scheduler"
            elif isinstance(value, torch.utils.data.Dataset):
                within = "data"
            elif isinstance(value, torch.utils.data.dataloader._BaseDataLoaderIter):
                return
            for name, one in attributes_of(value).items():
                self.visit(f"{path}.{name}", one, within, _into_object(value, name), depth + 1)

    def _module(self, path: str, value: torch.nn.Module, within: str, depth: int) -> None:
        inner = list(inner_modules(value))
        is_trained = any(id(one) in self.trained for _, own in inner for one in own._parameters.values())
        for name, own in inner:
            prefix = f"{path}.{name}" if name else path
            self.known.add(id(own))
            # A module's tensors are filled, as whatever refers to them refers to these.
            for key, tensor in [*own._parameters.items(), *own._buffers.items()]:
                if tensor is not None:
                    state = ("buffers" if key in own._buffers else "parameters") if is_trained else "averaged"
                    self.visit(f"{prefix}.{key}", tensor, state, None, depth + 1)
                    if key in own._parameters:
                        self.add(f"{prefix}.{key}.requires_grad", "mode", tensor.requires_grad, tensor.requires_grad_)
            self.add(f"{prefix}.training", "mode", own.training, _into_object(own, "training"))
            for key, one in attributes_of(own).items():
                self.visit(f"{prefix}.{key}", one, within, _into_object(own, key), depth + 1)

    def _optimizer(self, path: str, state: Any, groups: list[dict[str, Any]]) -> None:
        self.known |= {id(state), id(groups)}
        tensors = [tensor for group in groups for tensor in group["params"]]
        for number, tensor in enumerate(tensors):
            self.add(f"{path}.state[{number}]", "optimizer", state.get(tensor) or {}, _into(state, tensor))
        for number, group in enumerate(groups):
            own = {key: one for key, one in group.items() if key != "params"}
            self.add(f"{path}.param_groups[{number}]", "scheduler", own, group.update)

    def rest_of_optimizers(self) -> None:
        """Those that a library keeps where no variable of the user's leads to."""
        for number, held in enumerate(self.held):
            if id(held.state) not in self.known and held.has_stepped:
                self._optimizer(f"optimizer{number}", held.state, held.groups)

    def _collection(self, path: str, value: Any, within: str, depth: int) -> None:
        put: Put | None
        pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
        items = [one for _, one in pairs]
        if not any(id(one) in self.trained for one in items) and _is_plain(value):
            if within != "data":
                put = None if isinstance(value, tuple) else partial(_refill, value)
                self.add(path, within or self._state_of(items), value, put)
            return
        for number, (key, one) in enumerate(pairs):
            name = f".{key}" if isinstance(key, str) else f"[{key if isinstance(key, int) else number}]"
            put = _into(value, key) if isinstance(value, dict | list | deque) else None
            self.visit(f"{path}{name}", one, within, put, depth + 1)

    def _state_of(self, items: list[object]) -> str:
        """What a collection may be by its values: as many tensors as are trained, of their shapes, are an average."""
        are_as_many = len(items) >= len(self.shapes) > 0
        if are_as_many and all(torch.is_tensor(one) and tuple(one.shape) in self.shapes for one in items):
            return "averaged"
        return "carried" if any(as_tensor(one) is not None for one in items) else "counter"


def _is_iterated_by_c(value: object) -> bool:
    """Whether to look at its items calls nothing of the user's."""
    return isinstance(getattr(type(value), "__iter__", None), WrapperDescriptorType)


def _is_plain(value: object) -> bool:
    """Whether it is plain data throughout."""
    try:
        pack(value)
    except (PackingError, RecursionError, ValueError):
        return False
    return True


def _refill(value: Any, new: Any) -> None:
    """The same collection with other things in it."""
    value.clear()
    value.update(new) if isinstance(value, dict | set) else value.extend(new)


def _fill(value: Any, new: Any, put: Put | None) -> None:
    """In place where it fits, as others may refer to the same; else it is replaced."""
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
            # `f_locals` is a copy there.
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))

    return put
