"""Replaces torch's kernels by formulas at the dispatch key of a device, and puts the kernels back.

Autograd, autocast, fake tensors and torch.compile lie above that key and are unchanged: `X_backward` is differentiated
as before, and only the kernel that it runs is another one. Kernels are replaced for all threads of the process.

Where a backward is replaced, autograd's kernel of the forward is called by a kernel of ours, which notes the user's
line in the node that autograd has made.
"""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
from torch import Tensor, _prims_common
from torch.nn import functional

from samebits.base.errors import SamebitsError
from samebits.base.sites import Site, user_site, without_own_frames
from samebits.ops.linear import forget
from samebits.ops.table import TABLE, Formula, Replacement

ACCELERATORS = ("CUDA", "PrivateUse1")
# Autocast would act on every operation within a formula, too; a formula chooses its own precision.
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
for _name in ("AutocastCUDA", "AutocastPrivateUse1"):
    _AUTOCAST = _AUTOCAST | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _name))

Heard = Callable[[str], None]
_lock = threading.RLock()
# The innermost listener is the last; None while torch is to refuse.
_listeners: dict[object, Heard | None] = {}
# Operation and dispatch key of each formula; and what holds the formulas, and the kernels that note lines.
_places: list[tuple[str, str]] = []
_libraries: list[torch.library.Library] = []
# A key in a node's metadata, where anomaly mode keeps its traceback, too; the name of the forward follows.
_LINE = "samebits.line."


class CannotReplaceError(SamebitsError, RuntimeError):
    """Operations cannot be replaced: torch does not hand out its kernels, or other code has replaced one of them."""


def replace(heard: Heard) -> Callable[[], None]:
    """Replace every operation of the table in this process.

    Args:
        heard: called with the name of an operation whenever a formula of ours has computed one of its calls.

    Returns:
        A function that ends it. A second call of `replace` changes no kernels; the last one to end puts torch's back.

    Raises:
        CannotReplaceError: a kernel registered from Python is in the place already, and is named with its line; or this
            torch cannot hand out its kernels (it is older than 2.9).
    """
    if not hasattr(torch.library, "get_kernel"):
        raise CannotReplaceError(f"replacing operations needs torch 2.9 or newer, this is {torch.__version__}")
    with _lock:
        if not _listeners:
            _install()
    return _within(heard)


def refuse() -> Callable[[], None]:
    """Let torch refuse again until the returned function is called, except within another `replace`."""
    return _within(None) if _listeners else lambda: None


def _within(heard: Heard | None) -> Callable[[], None]:
    token = object()
    with _lock:
        _listeners[token] = heard

    def end() -> None:
        with _lock:
            _listeners.pop(token, None)
            if not _listeners:
                _take_out()

    return end


def is_replacing() -> bool:
    """Whether operations are replaced right now."""
    return bool(_listeners) and [*_listeners.values()][-1] is not None


def _install() -> None:
    places = [(row, name, key) for row in TABLE for name in _overloads(row) for key in _keys(row, name)]
    for _, name, key in places:
        if registered := _python_kernel(name, key):
            message = f"{name} was replaced on {key} before, by {registered}"
            raise CannotReplaceError(message, "let only one of the two replace operations")
    try:
        with warnings.catch_warnings():
            # torch warns once in a process that a kernel was overridden, which is on purpose here.
            warnings.simplefilter("ignore")
            for row, name, key in places:
                kernel = _kernel(row.formula, name, torch.library.get_kernel(f"aten::{name}", key))
                _register(name, key, kernel)
                _places.append((name, key))
            for name, key in dict.fromkeys((_forward(row.name), f"Autograd{key}") for row, _, key in places):
                # If other code has replaced the forward, the backward still is: only the line is not known.
                if name and not _python_kernel(name, key):
                    kernel = _noting_its_line(name, torch.library.get_kernel(f"aten::{name}", key))
                    _register(name, key, kernel)
    except BaseException:
        _take_out()
        raise


def _register(name: str, key: str, kernel: Callable[..., Any]) -> None:
    _libraries.append(torch.library.Library("aten", "IMPL", key))  # type: ignore[no-untyped-call]
    _libraries[-1].impl(name, kernel, key, with_keyset=True, allow_override=True)  # type: ignore[no-untyped-call]


def _take_out() -> None:
    for library in _libraries:
        library._destroy()  # type: ignore[no-untyped-call]
    _libraries.clear()
    _places.clear()
    forget()


def replaced_by_others() -> str:
    """Return which operation other code has replaced meanwhile, as a clause; empty if none.

    At the end of the process it is too late to call this: torch has put all kernels back by then.
    """
    for name, key in tuple(_places):
        if (registered := _python_kernel(name, key)) and __file__ not in registered:
            return f"{name} was replaced on {key} by {registered}"
    return ""


def _keys(one: Replacement, name: str) -> Iterator[str]:
    """The dispatch keys at which an overload is replaced: those of devices that are there and have a kernel for it."""
    for device in (*ACCELERATORS, *(("CPU",) if one.on_cpu else ())):
        key, on_cpu = f"{one.layout}{device}", f"{one.layout}CPU"
        is_there = torch._C._dispatch_has_computed_kernel_for_dispatch_key("aten::empty.memory_format", device)
        # An operation that is composed of others has no kernel of its own, and calls theirs.
        is_kernel = any(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", own) for own in (key, on_cpu))
        if is_there and is_kernel and torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"aten::{name}", key):
            yield key


def _overloads(one: Replacement) -> Iterator[str]:
    """The overload that is named, and those with the same arguments that write the result somewhere."""
    wanted = _overload(one.name)._schema
    taken = [(argument.name, str(argument.type)) for argument in wanted.arguments if not argument.is_out]
    base = wanted.name.removeprefix("aten::").removesuffix("_")
    for packet in filter(None, (getattr(torch.ops.aten, name, None) for name in (base, f"{base}_"))):
        for overload in packet.overloads():
            schema = getattr(packet, overload)._schema
            if [(argument.name, str(argument.type)) for argument in schema.arguments if not argument.is_out] == taken:
                yield getattr(packet, overload).name().removeprefix("aten::")


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _python_kernel(name: str, key: str) -> str:
    """Return where a kernel was registered, if that was from Python; empty if the kernel is torch's own."""
    for line in torch._C._dispatch_dump(f"aten::{name}").splitlines():
        if line.startswith(f"{key}: registered at "):
            source = line.partition(" registered at ")[2].partition(" :: ")[0]
            return source if ".py:" in source else ""
    return ""


def _kernel(formula: Formula, name: str, original: Any) -> Callable[..., Any]:
    """Return what the dispatcher calls: the formula, or torch's kernel where the formula does not apply."""
    schema = _overload(name)._schema
    outs = [argument.name for argument in schema.arguments if argument.is_out]
    is_inplace = not outs and bool(schema.arguments[0].alias_info)
    short = schema.name.removeprefix("aten::")

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        given = {one: value for one, value in kwargs.items() if one not in outs}
        into = [kwargs[one] for one in outs] or list(args[:1] if is_inplace else ())
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            found = formula(*args, **given) if is_replacing() else None
            results = found if isinstance(found, tuple) else (found,)
            # A tensor of another dtype to write to is left to torch, which refuses it or converts.
            if found is not None and all(a.dtype == b.dtype for a, b in zip(into, results, strict=False)):
                for heard in filter(None, tuple(_listeners.values())):
                    heard(short)
                return _written(results, into) if into else found
            try:
                return original.call_boxed(keys, *args, **kwargs)
            except RuntimeError as refusal:
                if not torch.are_deterministic_algorithms_enabled():
                    raise
                written = {name: kwargs[name].clone() for name in outs}
                alone = (args[0].clone(), *args[1:]) if is_inplace else args
                raise _mistake(original, keys, *alone, **given, **written) or refusal from None

    return kernel


def _mistake(original: Any, keys: Any, *args: Any, **kwargs: Any) -> Exception | None:
    """Return torch's error about the arguments, if any: it refuses an operation before it checks them."""
    # Unwrapped: a pin's own setter would attribute this change to the program.
    switch = inspect.unwrap(torch._C._set_deterministic_algorithms)
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    switch(False)
    try:
        original.call_boxed(keys, *args, **kwargs)
    except Exception as mistake:
        return mistake
    finally:
        switch(True, warn_only=only_warns)
    return None


def _forward(name: str) -> str:
    """Return the operation whose backward this is; empty if it is no backward, or has no forward of that name."""
    packet, _, overload = name.replace("_backward", "").partition(".")
    is_there = "_backward" in name and hasattr(getattr(torch.ops.aten, packet, None), overload or "default")
    return name.replace("_backward", "") if is_there else ""


def _noting_its_line(name: str, original: Any) -> Callable[..., Any]:
    line = _LINE + name.partition(".")[0]

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        with without_own_frames:
            result = original.call_boxed(keys, *args, **kwargs)
        node = (result[0] if isinstance(result, tuple) else result).grad_fn
        if node is not None:
            node.metadata[line] = user_site()
        return result

    return kernel


def forward_site(name: str) -> Site | None:
    """Return the user's line that called the forward of the backward `name` running in this thread; None if unknown."""
    # While a node computes a checkpointed forward again, it is not the node of the operations within: its key differs.
    node = torch._C._current_autograd_node()
    site: Site | None = getattr(node, "metadata", {}).get(_LINE + name.replace("_backward", ""))
    return site


def _written(results: tuple[Tensor, ...], into: list[Tensor]) -> Tensor | tuple[Tensor, ...]:
    for result, out in zip(results, into, strict=True):
        if out.shape != result.shape:
            out.resize_(result.shape)
        out.copy_(result)
    return tuple(into) if len(into) > 1 else into[0]


# These read the flag themselves, and then avoid an operation that is replaced, by computing it in slow pieces. The last
# one refuses three operations on tensors without values; all three are replaced.
_DECOMPOSING: frozenset[CodeType] = frozenset(
    function.__code__
    for function in (
        functional.interpolate,
        functional.pad,
        functional.max_pool3d_with_indices,
        getattr(_prims_common, "alert_not_deterministic", None),
    )
    if function is not None and hasattr(function, "__code__")
)


def knows_of_replacements(original: Callable[[], bool]) -> Callable[[], bool]:
    """Wrap `torch._C._get_deterministic_algorithms`: false where torch would avoid an operation that is replaced."""

    def is_on() -> bool:
        # The frame in between is that of `torch.are_deterministic_algorithms_enabled`.
        caller = sys._getframe(1).f_back
        return original() and (caller is None or caller.f_code not in _DECOMPOSING or not is_replacing())

    return is_on
