"""The environment in which a run computed: what can change its bits though its code did not change."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields

from samebits.base.records import published


@dataclass(frozen=True)
class Environment:
    """What a process computed with; empty where there is no such thing, or where it is not known.

    Attributes:
        device: name of the accelerators in use, or `cpu`.
        torch, torch_git: its version, and the commit it was built from.
        cuda, cudnn, driver: of the accelerator in use (ROCm counts as CUDA).
        blas, onednn: the libraries that torch multiplies with.
        instructions: the vector instructions that torch chose, and what variables say of those of MKL and oneDNN.
        threads: that an operation of torch's is split over.
        cpu: name, vendor, family and model.
        numpy, numpy_blas: its version, and the library that it multiplies with.
        python, libc, machine: the interpreter, the C library with its mathematics, and the architecture.
        cores, system: that the process may use, and the kernel; they change no bits by themselves.
    """

    device: str = ""
    torch: str = ""
    torch_git: str = ""
    cuda: str = ""
    cudnn: str = ""
    driver: str = ""
    blas: str = ""
    onednn: str = ""
    instructions: str = ""
    threads: str = ""
    cpu: str = ""
    machine: str = ""
    numpy: str = ""
    numpy_blas: str = ""
    python: str = ""
    libc: str = ""
    cores: str = ""
    system: str = ""

    @property
    @published()
    def name(self) -> str:
        """A short name that says which environment it is; what changes no bits has no part in it."""
        content = "\0".join(f"{name}={getattr(self, name)}" for name in DECISIVE)
        device = re.sub(r"[^A-Za-z0-9]+", "-", self.device or "unknown").strip("-")
        return f"{device}-{hashlib.blake2b(content.encode(), digest_size=4).hexdigest()}"

    def differing(self, other: Environment) -> tuple[str, ...]:
        """The fields that both know and that are not the same, in the order in which they are declared."""
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in ALL)
        return tuple(name for name, a, b in pairs if a and b and a != b)

    def is_like(self, other: Environment) -> bool:
        """Whether nothing is known that could make their bits differ."""
        return not set(self.differing(other)) & set(DECISIVE)


# What is told, and decides nothing: all else can change bits.
IDLE = ("cores", "system")
ALL = tuple(field.name for field in fields(Environment))
DECISIVE = tuple(name for name in ALL if name not in IDLE)


def together(environments: Iterable[Environment]) -> Environment:
    """One environment of all processes of a run; what they do not share is listed."""
    known = list(environments)
    return Environment(**{name: ", ".join(sorted({getattr(one, name) for one in known} - {""})) for name in ALL})
