"""What a program saves: tensors, arrays, numbers and texts."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import torch

from samebits.agent.files import is_preparation, writes_unseen
from samebits.agent.listening import listen
from samebits.agent.trees import attributes_of, leaves
from samebits.base.sites import is_own_file, is_user_file
from samebits.base.versions import without_version
from samebits.factors.imports import forget, when_loaded

# Files whose content was looked into as it was saved.
looked_into: set[str] = set()
# torch.save pickles, and np.savez calls np.save: what is saved counts once.
_inside = threading.local()

Saved = Callable[[object], None]
# From the arguments of a function that saves: what is saved, and to which file.
Arguments = Callable[..., tuple[object, object]]


class Saves:
    """Listens to the functions that save.

    Args:
        saved: called with what is saved.
    """

    def __init__(self, saved: Saved) -> None:
        self.saved = saved

    def install(self, undo: ExitStack) -> None:
        """Hook the functions of modules that are there, and of others as soon as they are."""
        for module, functions in _FUNCTIONS.items():
            action = self._hooker(functions, undo)
            when_loaded(module, action)
            undo.callback(forget, module, action)

    def _hooker(
        self, functions: Mapping[str, Callable[..., tuple[object, object]]], undo: ExitStack
    ) -> Callable[[object], None]:
        def hook(module: object) -> None:
            for name, arguments in functions.items():
                if hasattr(module, name):
                    undo.callback(listen(module, name, self._before(arguments), self._after, self._after))

        return hook

    def _before(self, arguments: Arguments) -> Callable[..., None]:
        def before(*args: object, **kwargs: object) -> None:
            depth = getattr(_inside, "depth", 0)
            _inside.depth = depth + 1
            if depth == 0:
                try:
                    thing, file = arguments(*args, **kwargs)
                except TypeError:
                    return  # The function itself will say what is wrong with its arguments.
                if thing is not None:
                    is_prepared = is_preparation(_path_of(file))
                    _note_file(file)
                    if not is_prepared:
                        self.saved(thing)

        return before

    def _after(self, *_: object) -> None:
        _inside.depth = max(0, getattr(_inside, "depth", 0) - 1)


def is_saving() -> bool:
    """Whether this thread is in a function that saves, which opens files of its own."""
    return getattr(_inside, "depth", 0) > 0


def _path_of(file: object) -> str:
    """Empty for what has no name."""
    name = file if isinstance(file, str | os.PathLike) else getattr(file, "name", None)
    return os.path.abspath(os.fsdecode(name)) if isinstance(name, str | os.PathLike) else ""


def _note_file(file: object) -> None:
    name = _path_of(file)
    if name:
        looked_into.add(name)
        # torch.save and safetensors open files in C++ and Rust, where Python hears nothing of it.
        if isinstance(file, str | os.PathLike):
            writes_unseen(name)


def _first_then_file(obj: object, f: object = None, *_: object, **__: object) -> tuple[object, object]:
    return obj, f


def _file_then_array(
    file: object = None, arr: object = None, *_: object, fname: object = None, X: object = None, **__: object
) -> Any:
    return (arr if X is None else X), (file if fname is None else fname)


def _file_then_arrays(file: object = None, *arrays: object, **named: object) -> tuple[object, object]:
    return {**{f"arr_{number}": array for number, array in enumerate(arrays)}, **named}, file


def _tensors_then_file(
    tensor_dict: object = None, filename: object = None, *_: object, model: object = None, **__: object
) -> Any:
    return (tensor_dict if model is None else model), filename


def _pickled_by_user(obj: object, file: object = None, *_: object, **__: object) -> tuple[object, object]:
    """Libraries pickle for themselves, to caches and to other processes; a program's own line saves."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_own_file(frame.f_code.co_filename):  # whoever listens to `pickle.dump`
        frame = frame.f_back
    return (obj if is_user_file(frame.f_code.co_filename) else None), getattr(file, "name", None)


# A key that begins with a separator: `.best./home/me/logs/version_3/epoch=1.ckpt`.
_FOLDER = re.compile(r"\./(?:[^/]+/)*")

_FUNCTIONS: dict[str, dict[str, Arguments]] = {
    "torch": {"save": _first_then_file},
    "pickle": {"dump": _pickled_by_user},
    "numpy": {
        "save": _file_then_array,
        "savetxt": _file_then_array,
        "savez": _file_then_arrays,
        "savez_compressed": _file_then_arrays,
    },
    "safetensors.torch": {"save_file": _tensors_then_file, "save_model": _tensors_then_file},
    "safetensors.numpy": {"save_file": _tensors_then_file},
}


_DECIDING = ("__getstate__", "__reduce__", "__reduce_ex__")


def content(thing: object, prefix: str) -> Iterator[tuple[str, object]]:
    """Path and leaf.

    Where a key is the path of a file, its folder and the number of its version are those of one run, and left out.
    """
    for own, leaf in leaves(thing, prefix, _pickled):
        yield without_version(_FOLDER.sub(".", own)) if os.sep in own else own, leaf


def _pickled(thing: object) -> dict[str, object]:
    """What pickle takes of an object; nothing where its class decides for itself."""
    attributes = attributes_of(thing)
    if isinstance(thing, torch.optim.Optimizer):
        return {name: attributes[name] for name in ("state", "param_groups") if name in attributes}
    kind, usual = type(thing), torch.nn.Module if isinstance(thing, torch.nn.Module) else object
    decides = any(getattr(kind, name, None) is not getattr(usual, name, None) for name in _DECIDING)
    return {} if decides else attributes
