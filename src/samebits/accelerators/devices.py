"""What is asked of an accelerator, and no name of one: which is in use, its streams, its memory, what it is called.

A process has one kind of accelerator, of which there may be several devices. Asking never begins to use it. torch is
taken from `sys.modules`, never imported: where it is not loaded, nothing is in use.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

UNNAMED = "accelerator without a name"
# Metal's devices have one stream, one generator, and a module of another shape than all others.
_METAL = "mps"


def modules() -> dict[str, ModuleType]:
    """Kind of device → the module of torch that keeps a default generator for each such device."""
    torch = _torch()
    found = {} if torch is None else {"cuda": torch.cuda, "xpu": torch.xpu}
    # Whatever else there is, also of makers that torch has never heard of.
    kind, module = _current()
    if kind not in found and hasattr(module, "default_generators") and hasattr(module, "is_initialized"):
        found[kind] = module
    return found


def wake(module: ModuleType) -> None:
    """Begin to use an accelerator, given its module of torch."""
    getattr(module, "init", getattr(module, "_lazy_init", lambda: None))()


def kind_in_use() -> str:
    """`cuda`, `xpu`, `mps` or what its maker calls it; empty where this process uses none."""
    kind, module = _current()
    if kind == _METAL:
        with suppress(AttributeError, RuntimeError):
            return _METAL if module.current_allocated_memory() > 0 else ""
        return ""
    return kind if module is not None and getattr(module, "is_initialized", lambda: True)() else ""


def may_be_in_use() -> bool:
    """Whether runs side by side would share a device; Apple's does not say whether it was used and given back."""
    kind, module = _current()
    return bool(kind_in_use()) or (kind == _METAL and bool(module.is_available()))


def may_read_cudas_settings() -> bool:
    """Whether one is in use to which settings of CUDA, cuDNN, cuBLAS or Triton may matter.

    ROCm goes by CUDA's name, and makers of others read the same settings or not: only Apple's is known not to.
    """
    return kind_in_use() not in ("", _METAL)


def current_index() -> int:
    """The number of the device that this thread has chosen."""
    return int(getattr(_current()[1], "current_device", lambda: 0)())


def names_in_use() -> list[str]:
    """What the devices are called on which this process has put something; without memory in use, the current one."""
    kind = kind_in_use()
    if kind in ("", _METAL):
        return [kind] if kind else []
    module = _current()[1]
    with suppress(Exception):  # a driver that does not answer is no reason to stop recording
        used = [number for number in range(module.device_count()) if module.memory_reserved(number)]
        return sorted({module.get_device_name(number) for number in used or [module.current_device()]})
    return [UNNAMED]


def driver_in_use() -> str:
    """The version of what drives the device in use, where its module of torch says that; empty where it does not."""
    with suppress(Exception):
        module = _current()[1]
        return str(module.get_device_properties(module.current_device()).driver_version) if kind_in_use() else ""
    return ""


# ---- streams


def current_stream(device: torch.device) -> Any:
    """The stream that this thread queues work on; None where a device has none, or does all of it in one order."""
    return _asker(device)(device) if has_streams(device) else None


def has_streams(device: torch.device) -> bool:
    """Whether a device does work in several orders, each of which is waited for by itself."""
    return device.type not in ("cpu", "meta", _METAL) and _asker(device) is not None


def synchronize() -> None:
    """Wait for whatever the accelerator in use has not done yet."""
    if kind_in_use():
        _current()[1].synchronize()


# ---- memory of the device in use


def peak_bytes() -> int | None:
    """The most that tensors took since it was last forgotten; None where that is unknown."""
    found = _asked("max_memory_allocated")
    return None if found is None else int(found)


def forget_peak() -> None:
    """Begin to look for the most memory anew."""
    _asked("reset_peak_memory_stats")


def free_device_bytes() -> int | None:
    """What is left; None where that is unknown."""
    found = _asked("mem_get_info")
    return None if found is None else int(found[0])


def _asked(name: str) -> Any:
    ask = getattr(_current()[1], name, None) if kind_in_use() else None
    return None if ask is None else ask()


def _torch() -> Any:
    return sys.modules.get("torch")


def _current() -> tuple[str, Any]:
    """The kind of accelerator that this torch works with, and its module; whether one is there is not asked."""
    torch = _torch()
    device = None if torch is None else torch.accelerator.current_accelerator()
    if device is None:
        return "", None
    with suppress(RuntimeError):  # its maker has given it no module
        return device.type, torch.get_device_module(device)
    return device.type, None


def _asker(device: torch.device) -> Any:
    torch = _torch()
    own = getattr(getattr(torch, device.type, None), "current_stream", None)
    return own or (torch.accelerator.current_stream if device.type == _current()[0] else None)
