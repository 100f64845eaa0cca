"""The tap of saving: tensors, arrays, numbers and texts; and where checkpoints are watched, every save and load."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, NamedTuple

import torch

from samebits.agent.events import Event, Tell
from samebits.agent.taps.files import activity, look_into, writes
from samebits.agent.taps.listening import listen
from samebits.base.sites import Site, foreign_frame, is_user_file, user_site
from samebits.factors.imports import forget, when_loaded

Direction = Literal["saved", "loaded"]
# An argument of a function: its position and its name.
Argument = tuple[int, str]


class _Function(NamedTuple):
    """A function that saves or loads."""

    name: str
    file: Argument
    thing: Argument | None = None  # the object that is saved; None where it is not digested
    direction: Direction | None = "saved"  # noted where checkpoints are watched; None where it saves none


class SaveOrLoad(NamedTuple):
    """One save or load, where checkpoints are watched."""

    direction: Direction  # whether it saved or loaded
    what: str  # the name of the function that was called
    path: str  # of the file, as the process sees it; empty where it has none
    site: Site | None  # the user's line


_FUNCTIONS: dict[str, tuple[_Function, ...]] = {
    "torch": (_Function("save", (1, "f"), (0, "obj")), _Function("load", (0, "f"), None, "loaded")),
    # Other uses of pickle are sorted out where the notes are read.
    "pickle": (_Function("dump", (1, "file"), (0, "obj")), _Function("load", (0, "file"), None, "loaded")),
    "joblib": (_Function("dump", (1, "filename")), _Function("load", (0, "filename"), None, "loaded")),
    "numpy": (
        *(_Function(name, (0, "file"), (1, "arr")) for name in ("save", "savez", "savez_compressed")),
        _Function("savetxt", (0, "fname"), (1, "X"), None),
        _Function("load", (0, "file"), None, "loaded"),
    ),
    "safetensors.torch": (
        _Function("save_file", (1, "filename"), (0, "tensors")),
        _Function("save_model", (1, "filename"), (0, "model")),
        _Function("load_file", (0, "filename"), None, "loaded"),
        _Function("load_model", (1, "filename"), None, "loaded"),
    ),
    "safetensors.numpy": (_Function("save_file", (1, "filename"), (0, "tensor_dict"), None),),
    "torch.distributed.checkpoint": (
        _Function("save", (1, "checkpoint_id")),
        _Function("async_save", (1, "checkpoint_id")),
        _Function("load", (1, "checkpoint_id"), None, "loaded"),
    ),
}
# The writers of torch's files in C++: below torch.save, torch.export and torch.package, and below TorchScript.
_core: Any = torch._C
_WRITERS = (("PyTorchFileWriter", "__init__"), ("ScriptModule", "save"))


def install(stack: ExitStack, tell: Tell, with_passages: bool) -> None:
    """Report what is saved, by the outermost call (np.savez calls np.save); `with_passages`, also every save and load.

    Functions of modules that are not imported yet are hooked as soon as they are.
    """

    def after(*_: object, **__: object) -> None:
        passage = activity.calls.pop()[1]
        if passage is not None and not any(outer for _, outer in activity.calls):
            tell(Event.PASSED, passage)

    def failed(*_: object) -> None:
        activity.calls.pop()

    def hook(name: str, module: object) -> None:
        for function in _FUNCTIONS[name]:
            direction = function.direction if with_passages else None
            if (function.thing or direction) and hasattr(module, function.name):
                before = partial(_before, tell, f"{name}.{function.name}", function, direction)
                stack.callback(listen(module, function.name, before, after, failed))

    for name in _FUNCTIONS:
        action = partial(hook, name)
        when_loaded(name, action)
        stack.callback(forget, name, action)
    for name, method in _WRITERS:
        if hasattr(_core, name):
            stack.callback(listen(getattr(_core, name), method, _writes))


def _writes(_: object, file: object = None, *__: object, **___: object) -> None:
    if isinstance(file, str | os.PathLike):
        writes(path_of(file))


def _before(
    tell: Tell, what: str, function: _Function, direction: Direction | None, /, *args: object, **kwargs: object
) -> None:
    file = _given(function.file, args, kwargs)
    path = path_of(file)
    is_inner = activity.is_saving
    thing = None if is_inner or function.thing is None else _saved_by(what, function.thing, args, kwargs)
    # Safetensors opens files in Rust, without an audit event. OSError where the user's own file lies there, without
    # room for a copy: then the function is not called.
    if thing is not None and look_into(path, is_opened=not isinstance(file, str | os.PathLike)):
        thing = None
    activity.calls.append((function.thing is not None, direction and SaveOrLoad(direction, what, path, user_site())))
    if thing is not None:
        tell(Event.SAVES, thing)


def _given(argument: Argument, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
    position, name = argument
    return args[position] if len(args) > position else kwargs.get(name)


def _saved_by(what: str, thing: Argument, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
    """Return the object that a function is to save; None where it is nothing of the program's own."""
    if what.startswith("numpy.savez"):
        named = {name: array for name, array in kwargs.items() if name != "file"}
        return {f"arr_{number}": array for number, array in enumerate(args[1:])} | named
    if what == "pickle.dump" and not is_user_file(foreign_frame().f_code.co_filename):
        # Libraries pickle for themselves, to caches and to other processes; a program's own line saves.
        return None
    return _given(thing, args, kwargs)


def path_of(file: object) -> str:
    """Return the absolute path of a file that was named or opened; empty where it has none."""
    name = file if isinstance(file, str | os.PathLike) else getattr(file, "name", None)
    if not isinstance(name, str | bytes | os.PathLike):
        return ""
    try:
        return os.path.abspath(os.fsdecode(name))
    except (OSError, ValueError):  # the current folder is gone
        return ""
