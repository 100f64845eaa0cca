"""Formulas in the place of torch's kernels: put in at a device's dispatch key, and taken out again.

Autograd, autocast, fake tensors and torch.compile lie above that key and stay what they are: `X_backward` is
differentiated as before, and only what it runs is another. Kernels are replaced in the process, for all its threads.

Where a backward is replaced, autograd's kernel of the forward is called by one of ours, which notes the user's line at
the node that it has made.
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
# Above backends, and asked again by every operation that a kernel calls: a formula chooses its own precision.
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
for _name in ("AutocastCUDA", "AutocastPrivateUse1"):
    _AUTOCAST = _AUTOCAST | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _name))

Heard = Callable[[str], None]
_lock = threading.RLock()
# The innermost one last; None while torch is to refuse.
_listeners: dict[object, Heard | None] = {}
# Where formulas are, and what holds them and our notes there.
_places: list[tuple[str, str]] = []
_libraries: list[torch.library.Library] = []
# In a node's metadata, where torch's anomaly mode keeps its traceback; with the name of the forward.
_LINE = "samebits.line."


class CannotReplaceError(SamebitsError, RuntimeError):
    """This torch cannot hand out its kernels, or somebody else has replaced one that is to be replaced."""


def replace(heard: Heard) -> Callable[[], None]:
    """Replace every operation of the table in this process.

    Args:
        heard: is told the name of an operation whenever one of its calls was answered by a formula of ours.

    Returns:
        What ends it. Whoever comes second changes nothing, and the last who ends it puts torch's kernels back.

    Raises:
        CannotReplaceError: a kernel registered from Python is in the place already, and is named with its line; or this
            torch cannot hand out the kernels that are replaced (it is older than 2.9).
    """
    if not hasattr(torch.library, "get_kernel"):
        raise CannotReplaceError(f"replacing operations needs torch 2.9 or newer, here is {torch.__version__}")
    with _lock:
        if not _listeners:
            _install()
    return _within(heard)


def refuse() -> Callable[[], None]:
    """Let torch refuse again until that is ended, but where somebody replaces operations within it."""
    return _within(None) if _listeners else lambda: None


def _within(heard: Heard | None) -> Callable[[], None]:
    own = object()
    with _lock:
        _listeners[own] = heard

    def end() -> None:
        with _lock:
            _listeners.pop(own, None)
            if not _listeners:
                _take_out()

    return end


def is_replacing() -> bool:
    """Whether operations are replaced right now."""
    return bool(_listeners) and [*_listeners.values()][-1] is not None


def _install() -> None:
    places = [(one, name, key) for one in TABLE for name in _overloads(one) for key in _keys(one, name)]
    for _, name, key in places:
        if other := _python_kernel(name, key):
            message = f"{name} was replaced on {key} before, by {other}"
            raise CannotReplaceError(message, "let only one of the two replace operations")
    try:
        with warnings.catch_warnings():
            # torch says once in a process that a kernel was overridden: that is what we are here for.
            warnings.simplefilter("ignore")
            for one, name, key in places:
                kernel = _kernel(one.formula, name, torch.library.get_kernel(f"aten::{name}", key))
                _register(name, key, kernel)
                _places.append((name, key))
            for name, key in dict.fromkeys((_forward(one.name), f"Autograd{key}") for one, _, key in places):
                # Who else calls it is no obstacle: then its line is not known.
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


def taken_over() -> str:
    """Which operation somebody else has replaced meanwhile, as a clause; empty where none.

    At the end of the process it is too late to ask: torch has put all kernels back by then.
    """
    for name, key in tuple(_places):
        if (other := _python_kernel(name, key)) and __file__ not in other:
            return f"{name} was replaced on {key} by {other}"
    return ""


def _keys(one: Replacement, name: str) -> Iterator[str]:
    """The dispatch keys at which an overload is replaced: those of devices that are there and have a kernel for it."""
    for device in (*ACCELERATORS, *(("CPU",) if one.on_cpu else ())):
        key, on_cpu = f"{one.layout}{device}", f"{one.layout}CPU"
        is_there = torch._C._dispatch_has_computed_kernel_for_dispatch_key("aten::empty.memory_format", device)
        # What is composed of other operations comes to those.
        is_kernel = any(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", own) for own in (key, on_cpu))
        if is_there and is_kernel and torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"aten::{name}", key):
            yield key


def _overloads(one: Replacement) -> Iterator[str]:
    """The overload that is named, and those that take the same and write the result somewhere."""
    own = _overload(one.name)._schema
    taken = [(argument.name, str(argument.type)) for argument in own.arguments if not argument.is_out]
    base = own.name.removeprefix("aten::").removesuffix("_")
    for packet in filter(None, (getattr(torch.ops.aten, name, None) for name in (base, f"{base}_"))):
        for each in packet.overloads():
            schema = getattr(packet, each)._schema
            if [(argument.name, str(argument.type)) for argument in schema.arguments if not argument.is_out] == taken:
                yield getattr(packet, each).name().removeprefix("aten::")


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _python_kernel(name: str, key: str) -> str:
    """Where a kernel comes from that Python has registered; empty where it is torch's own."""
    for line in torch._C._dispatch_dump(f"aten::{name}").splitlines():
        if line.startswith(f"{key}: registered at "):
            place = line.partition(" registered at ")[2].partition(" :: ")[0]
            return place if ".py:" in place else ""
    return ""


def _kernel(formula: Formula, name: str, original: Any) -> Callable[..., Any]:
    """What the dispatcher calls: the formula, and torch's kernel where the formula does not apply."""
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
            # Another dtype to write to is refused by torch, or converted.
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
    """What torch says of the arguments: it refuses an operation before it has looked at them."""
    # A pin's own setter would take this for the program's doing.
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
    """The operation whose backward this is; empty where it is no backward, or torch has no forward of that name."""
    packet, _, overload = name.replace("_backward", "").partition(".")
    is_there = "_backward" in name and hasattr(getattr(torch.ops.aten, packet, None), overload or "default")
    return name.replace("_backward", "") if is_there else ""


def _noting_its_line(name: str, original: Any) -> Callable[..., Any]:
    line = _LINE + name.partition(".")[0]

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        with without_own_frames:
            found = original.call_boxed(keys, *args, **kwargs)
        node = (found[0] if isinstance(found, tuple) else found).grad_fn
        if node is not None:
            node.metadata[line] = user_site()
        return found

    return kernel


def forward_site(name: str) -> Site | None:
    """The user's line that called what the backward `name`, running in this thread, belongs to; None where unknown."""
    # A node that computes a checkpointed forward again is not the node of what that calls.
    node = torch._C._current_autograd_node()
    found: Site | None = getattr(node, "metadata", {}).get(_LINE + name.replace("_backward", ""))
    return found


def _written(results: tuple[Tensor, ...], into: list[Tensor]) -> Tensor | tuple[Tensor, ...]:
    for result, out in zip(results, into, strict=True):
        if out.shape != result.shape:
            out.resize_(result.shape)
        out.copy_(result)
    return tuple(into) if len(into) > 1 else into[0]


# These look at the flag themselves, and then compute by slow pieces what lies behind an operation that is replaced. The
# last one refuses three operations on tensors without values; all three are replaced.
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
    """`torch._C._get_deterministic_algorithms`, which says no where torch would avoid what is replaced anyway."""

    def is_on() -> bool:
        # Between the two lies `torch.are_deterministic_algorithms_enabled`.
        asking = sys._getframe(1).f_back
        return original() and (asking is None or asking.f_code not in _DECOMPOSING or not is_replacing())

    return is_on
