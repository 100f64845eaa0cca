"""What a program saves: tensors, arrays and numbers, without times."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from samebits.agent.files import is_preparation, writes_unseen
from samebits.agent.listening import as_tensor, listen
from samebits.agent.trees import BY_NAME, attributes_of, leaves, plain_digest
from samebits.base.sites import is_own_file, is_user_file
from samebits.base.versions import without_version
from samebits.factors.imports import forget, when_loaded

# Words that make a number a time or a duration, as parts of its name.
_TIMES = frozenset(
    (
        *("time", "times", "timestamp", "timestamps", "timing", "timings", "date", "datetime", "clock", "wall"),
        *("duration", "durations", "elapsed", "seconds", "secs", "sec", "minutes", "hours", "ms", "ns", "latency"),
        *("runtime", "speed", "throughput", "fps", "pid", "uuid", "host", "hostname"),
    )
)
# Words that make a number a time unless it counts, as `batches.started` does.
_EVENTS = frozenset(("started", "finished", "created", "modified"))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# From 2001 to 2039 in seconds since 1970; also counted in milli-, micro- and nanoseconds.
_EPOCH = (1e9, 2.2e9)

# Files whose content was looked into as it was saved.
looked_into: set[str] = set()
# torch.save pickles, and np.savez calls np.save: what is saved counts once.
_inside = threading.local()

Saved = Callable[[object, str], None]
# From the arguments of a function that saves: what is saved, and to which file.
Arguments = Callable[..., tuple[object, object]]


class Saves:
    """Listens to the functions that save.

    Args:
        saved: called with what is saved, and the name of the file as far as it says what is in it.
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
                        self.saved(thing, _stem(file))

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
_WORDS = re.compile(r"[^\d/\\:]*")


def _stem(file: object) -> str:
    return Path(file).stem if isinstance(file, str | os.PathLike) else ""


def content(thing: object, prefix: str, file: str) -> Iterator[tuple[str, object, bool]]:
    """Path, tensor, number or whatever else is there, and whether it is a time.

    Where a key is the path of a file, its folder and the number of its version are those of one run, and left out.
    """
    for own, leaf in leaves(thing, prefix, _pickled):
        path = without_version(_FOLDER.sub(".", own)) if os.sep in own else own
        key = path.removeprefix(prefix) or file
        if isinstance(leaf, bool | int | float | complex):
            is_word = isinstance(leaf, int) and key.endswith("]") and leaf < 2**32  # of a generator's state
            yield path, leaf, _is_time(key, isinstance(leaf, int)) or (_is_epoch(leaf) and not is_word)
        elif (tensor := as_tensor(leaf)) is not None:
            is_array = tensor is not leaf
            yield path, tensor, is_array and (_is_time(key) or (tensor.numel() == 1 and _is_epoch(tensor.item())))
        elif leaf is not None and not isinstance(leaf, BY_NAME):
            yield path, leaf, False


def _pickled(thing: object) -> dict[str, object]:
    """What pickle takes of an object; nothing where its class decides for itself."""
    attributes = attributes_of(thing)
    if isinstance(thing, torch.optim.Optimizer):
        return {name: attributes[name] for name in ("state", "param_groups") if name in attributes}
    kind, usual = type(thing), torch.nn.Module if isinstance(thing, torch.nn.Module) else object
    decides = any(getattr(kind, name, None) is not getattr(usual, name, None) for name in _DECIDING)
    return {} if decides else attributes


def saved_digest(leaf: object) -> int | None:
    """The digest of a number, and of a text in which no time, no path and no identifier can be."""
    is_open = isinstance(leaf, bytes) or (isinstance(leaf, str) and not _WORDS.fullmatch(leaf))
    return None if is_open else plain_digest(leaf)


def kind_of(leaf: object) -> str:
    """How something that is not looked into is called: `texts`, or its class."""
    if isinstance(leaf, str | bytes):
        return "texts"
    # Asked of the class: an object may make whatever it is asked for.
    dtype = getattr(leaf, "dtype", None) if hasattr(type(leaf), "dtype") else None
    return f"{type(leaf).__name__} of {dtype}" if dtype is not None else type(leaf).__name__


def _is_time(path: str, may_count: bool = False) -> bool:
    """Whether the last name in a path speaks of a time; `may_count` when the value is a whole number."""
    names = re.findall(r"[^.\[\]\d]+", path)
    words = {word.lower() for word in _WORD.findall(names[-1])} if names else set()
    # `eta` is the time that is left, and `eta_min` the least rate of a schedule.
    return words == {"eta"} or not words.isdisjoint(_TIMES) or not (may_count or words.isdisjoint(_EVENTS))


def _is_epoch(value: complex) -> bool:
    if isinstance(value, bool | complex):
        return False
    return any(_EPOCH[0] * unit <= value <= _EPOCH[1] * unit for unit in (1, 1e3, 1e6, 1e9))
