"""The environment of this process as torch sees it, read after the first step; reading it initializes no device."""

from __future__ import annotations

import os
import platform
import re
import sys
from contextlib import suppress
from pathlib import Path

import torch

from samebits.accelerators.devices import driver_in_use, names_in_use
from samebits.runfolder.environment import Environment

# Variables that choose between instructions where torch cannot be asked.
_CHOSEN_BY = ("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "OPENBLAS_CORETYPE")
# Variables that also choose between instructions on an accelerator.
_CHOSEN_THERE = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG")
_DRIVER = Path("/proc/driver/nvidia/version")
_CPU = Path("/proc/cpuinfo")
_CPU_KEYS = ("model name", "vendor_id", "cpu family", "model", "CPU implementer", "CPU part")


def environment_now() -> Environment:
    """Return what this process computes with at this moment.

    A device counts only once the program uses it: asking an unused device would initialize it.
    """
    devices = names_in_use()
    config = torch.__config__.show()
    numpy, numpy_blas = _numpy()
    return Environment(
        device=", ".join(devices) or "cpu",
        torch=str(torch.__version__),
        torch_git=str(getattr(torch.version, "git_version", None) or ""),
        cuda=str(torch.version.cuda or getattr(torch.version, "hip", None) or "") if devices else "",
        cudnn=str(torch.backends.cudnn.version() or "") if devices else "",  # type: ignore[no-untyped-call]
        driver=driver_in_use() or (_nvidias_driver() if devices and torch.version.cuda else ""),
        blas=_blas(config),
        onednn=_found(r"MKL-DNN v([\w.]+)", config),
        instructions=" ".join([torch.backends.cpu.get_cpu_capability(), *_chosen(bool(devices))]),
        threads=str(torch.get_num_threads()),
        cpu=_cpu(),
        machine=platform.machine(),
        numpy=numpy,
        numpy_blas=numpy_blas,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        libc=" ".join(platform.libc_ver()).strip(),
        cores=str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or ""),
        system=f"{platform.system()} {platform.release()}",
    )


def _nvidias_driver() -> str:
    with suppress(OSError):
        return _found(r"Kernel Module\s+(?:for \w+\s+)?([\d.]+)", _DRIVER.read_text())
    return ""


def _blas(config: str) -> str:
    mkl = _found(r"Math Kernel Library Version ([\w.]+)", config)
    return f"MKL {mkl}" if mkl else _found(r"BLAS_INFO=(\w+)", config)


def _chosen(is_elsewhere: bool) -> list[str]:
    names = (*_CHOSEN_BY, *_CHOSEN_THERE) if is_elsewhere else _CHOSEN_BY
    return [f"{name}={os.environ[name]}" for name in names if os.environ.get(name)]


def _cpu() -> str:
    """Return name and numbers of the processor: libraries choose kernels by these, not by instructions alone."""
    fields: dict[str, str] = {}
    with suppress(OSError):
        for line in _CPU.read_text().split("\n\n", 1)[0].splitlines():
            name, _, value = line.partition(":")
            fields[name.strip()] = value.strip()
    return " ".join(fields[name] for name in _CPU_KEYS if fields.get(name)) or platform.processor()


def _numpy() -> tuple[str, str]:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return "", ""
    blas = ""
    with suppress(Exception):  # what NumPy says of its build differs between versions
        library = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
        blas = f"{library['name']} {library['version']}"
    return str(getattr(numpy, "__version__", "")), blas


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return "" if match is None else match[1]
