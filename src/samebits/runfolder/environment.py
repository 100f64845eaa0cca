"""The environment in which a run computed: hardware and software that can change its bits without a change of code."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields

from samebits.base.records import published


@dataclass(frozen=True)
class Environment:
    """The hardware and software that a process computed with; a field is empty where it does not apply or is unknown.

    Attributes:
        device: names of the accelerators in use, or `cpu`.
        torch, torch_git: torch's version, and the commit it was built from.
        cuda, cudnn, driver: the versions of these, where an accelerator is in use (ROCm counts as CUDA).
        blas, onednn: the libraries that torch multiplies matrices with.
        instructions: the vector instructions that torch chose, and the variables by which its libraries choose theirs.
        threads: how many threads torch splits an operation over.
        cpu: name, vendor, family and model.
        numpy, numpy_blas: NumPy's version, and the library that it multiplies matrices with.
        python, libc, machine: the interpreter, the C library with its mathematics, and the architecture.
        cores, system: how many cores the process may use, and the kernel; they change no bits by themselves.
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
        """A short name of the environment: its device, and a digest of all fields that can change bits."""
        content = "\0".join(f"{name}={getattr(self, name)}" for name in DECISIVE)
        device = re.sub(r"[^A-Za-z0-9]+", "-", self.device or "unknown").strip("-")
        return f"{device}-{hashlib.blake2b(content.encode(), digest_size=4).hexdigest()}"

    def differing(self, other: Environment) -> tuple[str, ...]:
        """Return the fields that are known in both environments and differ, in the order of their declaration."""
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in ALL)
        return tuple(name for name, a, b in pairs if a and b and a != b)

    def is_like(self, other: Environment) -> bool:
        """Whether no field that can change bits is known to differ."""
        return not set(self.differing(other)) & set(DECISIVE)


# Fields that are only reported; all others can change bits.
REPORTED_ONLY = ("cores", "system")
ALL = tuple(field.name for field in fields(Environment))
DECISIVE = tuple(name for name in ALL if name not in REPORTED_ONLY)


def merge_environments(environments: Iterable[Environment]) -> Environment:
    """Merge the environments of all processes of a run into one; where they differ, a field lists all values."""
    each = list(environments)
    return Environment(**{name: ", ".join(sorted({getattr(own, name) for own in each} - {""})) for name in ALL})
