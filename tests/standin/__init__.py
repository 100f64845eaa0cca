"""An accelerator that is not there and misbehaves as GPUs do: CPU kernels behind a device of its own.

It has two names, chosen by STANDIN_AS before torch is imported: `standin` (PyTorch's PrivateUse1: `torch.standin`) and
`cuda`, under CUDA's dispatch key in a torch that was built without CUDA, so that `torch.cuda` itself is what runs. Each
stream is a thread. Two devices (STANDIN_DEVICES), each of 8 GB (STANDIN_BYTES); beyond that it is out of memory. Its
name (STANDIN_CALLED) and, by its own name, its driver's version (STANDIN_DRIVER) are what one says.

STANDIN_FAULTS, by commas:

    races       sums by atomics come in another order in every call, but for deterministic algorithms
    benchmark   with cudnn.benchmark, products take one of two algorithms for each shape and process
    workspace   products come in another order in every call, unless CUBLAS_WORKSPACE_CONFIG is set at the first one
    rubbish     fresh memory is full of numbers, and used memory comes back as it was, in any order
    late        calls return before anything is done, STANDIN_REST_US later each; an index out of range, told when the
                device is waited for, breaks all that follows

Whatever has no deterministic kernel on a GPU refuses deterministic algorithms here, with or without faults.

It can show how samebits gets along with threads of autograd, late results, streams, events, generators that are seeded
before they are used, memory that is used again, several devices, pinned copies and autocast. It cannot show a GPU's
numbers or speed, nor CUDA graphs, Triton, Inductor, NCCL, cuDNN (nn.LSTM goes step by step, nn.GRU has no kernel),
fused attention or IPC; and an order drawn at random differs more often than a GPU's does. Under CUDA's name it knows
one version of torch.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import torch

HERE = Path(__file__).parent
NAMES = ("standin", "cuda")
KNOWN = "2.13"


def missing() -> str:
    """Why there can be no stand-in here; empty where there can."""
    if sys.platform != "linux":
        return "the stand-in accelerator is for Linux"
    if not torch.__version__.startswith(f"{KNOWN}.") or torch.version.cuda or getattr(torch.version, "hip", None):
        return f"the stand-in accelerator needs torch {KNOWN} built for the CPU, here is {torch.__version__}"
    return "" if _compiler() else "the stand-in accelerator needs a C++ compiler, here is none"


def environment(name: str, *faults: str, **settings: object) -> dict[str, str]:
    """The environment of a process in which it is there; built on the way, where it was not yet.

    Args:
        name: `standin` or `cuda`.
        faults: what it does as GPUs do.
        settings: others of its variables, in lower case and without STANDIN_.
    """
    paths = [str(_built()), str(HERE / "site-packages"), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"AS": name, "FAULTS": ",".join(faults)} | {key.upper(): str(value) for key, value in settings.items()}
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("STANDIN_", "CUBLAS_"))}
    return {**plain, "PYTHONPATH": os.pathsep.join(paths), **{f"STANDIN_{key}": value for key, value in own.items()}}


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))), None)


def _built() -> Path:
    """The folder with the extension, made by one call of the compiler; kept for the next time."""
    sources = sorted((HERE / "device").iterdir())
    digest = hashlib.sha256(repr([torch.__version__, torch.__file__, sys.version]).encode())
    for source in sources:
        digest.update(source.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "samebits-standin"
    folder = cache / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        library = folder / "_standin.so"
        if not library.exists():
            subprocess.run([*_command(), "-o", str(library.with_suffix(".part"))], check=True)
            library.with_suffix(".part").rename(library)
    return folder


def _command() -> Iterator[str]:
    own = Path(torch.__file__).parent
    includes = [own / "include", own / "include/torch/csrc/api/include", sysconfig.get_paths()["include"]]
    yield from (_compiler() or "c++", "-std=c++20", "-O1", "-fPIC", "-shared", "-w", str(HERE / "device/device.cpp"))
    yield from (f"-I{path}" for path in includes)
    yield from (f"-L{own / 'lib'}", f"-Wl,-rpath,{own / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10")
