"""Questions about the accelerator, whichever kind it is: whether it is in use, its names, streams and memory.

A process has one kind of accelerator, with one or more devices. Only `initialize_device` starts to use it. torch is
taken from `sys.modules`, never imported: where it is not loaded, no accelerator is in use.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

UNNAMED = "accelerator without a name"
# Metal devices have one stream and one generator, and their module of torch has other functions than all other modules.
_METAL = "mps"


def modules() -> dict[str, ModuleType]:
    """Return kind of device → the module of torch that keeps a default generator for each such device."""
    torch = _torch()
    by_kind = {} if torch is None else {"cuda": torch.cuda, "xpu": torch.xpu}
    # Any other kind, also of makers unknown to torch.
    kind, module = _current()
    if kind not in by_kind and hasattr(module, "default_generators") and hasattr(module, "is_initialized"):
        by_kind[kind] = module
    return by_kind


def initialize_device(module: ModuleType) -> None:
    """Start to use an accelerator, given its module of torch."""
    getattr(module, "init", getattr(module, "_lazy_init", lambda: None))()


def kind_in_use() -> str:
    """Return `cuda`, `xpu`, `mps` or the maker's own name for the kind; empty if this process uses no accelerator."""
    kind, module = _current()
    if kind == _METAL:
        with suppress(AttributeError, RuntimeError):
            return _METAL if module.current_allocated_memory() > 0 else ""
        return ""
    return kind if module is not None and getattr(module, "is_initialized", lambda: True)() else ""


def may_be_in_use() -> bool:
    """Whether parallel runs may share a device; an Apple one always may, as it does not tell of former use."""
    kind, module = _current()
    return bool(kind_in_use()) or (kind == _METAL and bool(module.is_available()))


def may_read_cudas_settings() -> bool:
    """Whether the accelerator in use may depend on settings of CUDA, cuDNN, cuBLAS or Triton.

    ROCm goes by CUDA's name, and other makers may read the same settings: only Apple's is known not to.
    """
    return kind_in_use() not in ("", _METAL)


def current_index() -> int:
    """Return the index of the device that this thread has chosen."""
    return int(getattr(_current()[1], "current_device", lambda: 0)())


def names_in_use() -> list[str]:
    """Return the names of the devices on which this process holds memory; if there are none, of the current device."""
    kind = kind_in_use()
    if kind in ("", _METAL):
        return [kind] if kind else []
    module = _current()[1]
    with suppress(Exception):  # a driver that does not answer is no reason to stop recording
        used = [number for number in range(module.device_count()) if module.memory_reserved(number)]
        return sorted({module.get_device_name(number) for number in used or [module.current_device()]})
    return [UNNAMED]


def driver_in_use() -> str:
    """Return the driver version of the device in use; empty if its module of torch does not tell it."""
    with suppress(Exception):
        module = _current()[1]
        return str(module.get_device_properties(module.current_device()).driver_version) if kind_in_use() else ""
    return ""


# ---- streams


def current_stream(device: torch.device) -> Any:
    """Return the stream on which this thread queues work; None if the device has no streams, or only one."""
    return _asker(device)(device) if has_streams(device) else None


def has_streams(device: torch.device) -> bool:
    """Whether a device works on several streams, each of which is waited for by itself."""
    return device.type not in ("cpu", "meta", _METAL) and _asker(device) is not None


def stream_setters() -> list[ModuleType]:
    """Return the modules of torch with a function `set_stream`, which goes on to another stream."""
    owners: tuple[Any, ...] = (*modules().values(), getattr(_torch(), "accelerator", None))
    return [module for module in owners if hasattr(module, "set_stream")]


def keep_busy(device: torch.device, cycles: int) -> None:
    """Let the current stream of the current device do nothing for so many cycles; elsewhere, or in vain, nothing."""
    if device.index == current_index():
        getattr(_current()[1], "_sleep", lambda _: None)(cycles)


def is_captured() -> bool:
    """Whether what is called now is not executed, but becomes part of a CUDA graph."""
    cuda = _torch().cuda
    try:
        return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())
    except RuntimeError:
        # A device that has failed answers no more, and captures nothing.
        return False


def synchronize() -> None:
    """Wait for all work of the accelerator in use."""
    if kind_in_use():
        _current()[1].synchronize()


# ---- memory of the device in use


def peak_bytes() -> int | None:
    """Return the most memory that tensors took since `forget_peak`; None if unknown."""
    allocated = _asked("max_memory_allocated")
    return None if allocated is None else int(allocated)


def forget_peak() -> None:
    """Reset `peak_bytes`."""
    _asked("reset_peak_memory_stats")


def free_device_bytes() -> int | None:
    """Return how much memory of the device is free; None if unknown."""
    free_and_total = _asked("mem_get_info")
    return None if free_and_total is None else int(free_and_total[0])


def _asked(name: str) -> Any:
    ask = getattr(_current()[1], name, None) if kind_in_use() else None
    return None if ask is None else ask()


def _torch() -> Any:
    return sys.modules.get("torch")


def _current() -> tuple[str, Any]:
    """Return the kind of accelerator that this torch is built for, and its module; no device need be there."""
    torch = _torch()
    device = None if torch is None else torch.accelerator.current_accelerator()
    if device is None:
        return "", None
    with suppress(RuntimeError):  # its maker has given it no module
        return device.type, torch.get_device_module(device)
    return device.type, None


def _asker(device: torch.device) -> Any:
    torch = _torch()
    current_stream_of = getattr(getattr(torch, device.type, None), "current_stream", None)
    return current_stream_of or (torch.accelerator.current_stream if device.type == _current()[0] else None)
