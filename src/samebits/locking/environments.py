"""How two environments differ, ranked by whether it can change bits."""

from __future__ import annotations

from collections.abc import Mapping

from samebits.locking.verdict import EnvironmentDifference
from samebits.runfolder.environment import IDLE, Environment

# The likeliest to change bits first, each with how it does. What has a factor goes by its name.
_EFFECTS: dict[str, tuple[str, str]] = {
    "device": ("device", "other hardware has other kernels"),
    "machine": ("machine", "another architecture has other kernels"),
    "torch": ("torch", "another version has other kernels"),
    "threads": ("cpu-threads", "sums split over another number of threads are added in another order"),
    "instructions": ("cpu-isa", "other vector instructions add in another order"),
    "cuda": ("cuda", "another version has other kernels"),
    "cudnn": ("cudnn", "another version has other kernels"),
    "blas": ("blas", "another library multiplies in another order"),
    "onednn": ("onednn", "another version has other kernels"),
    "torch_git": ("torch_git", "it was built from another commit"),
    "cpu": ("cpu", "libraries choose their kernels by the processor"),
    "numpy": ("numpy", "another version may draw and compute otherwise"),
    "numpy_blas": ("numpy_blas", "another library multiplies in another order"),
    "driver": ("driver", "it compiles kernels anew"),
    "libc": ("libc", "its mathematical functions may round otherwise"),
    "python": ("python", "its own generators and mathematics may be others"),
    "cores": ("cores", "only the number of threads counts"),
    "system": ("system", "the kernel computes nothing"),
}


def differences(locked: Environment, here: Environment) -> tuple[EnvironmentDifference, ...]:
    """What is known to differ, what can change bits first."""
    found = set(locked.differing(here))
    return tuple(
        EnvironmentDifference(name, getattr(locked, own), getattr(here, own), own not in IDLE, why)
        for own, (name, why) in _EFFECTS.items()
        if own in found
    )


def nearest(known: Mapping[str, Environment], here: Environment) -> str:
    """The name of the environment that is most like this one: it differs in the fewest things that matter.

    Args:
        known: name → environment; at least one.
        here: this one.
    """
    order = list(_EFFECTS)

    def distance(name: str) -> tuple[int, list[int], str]:
        ranks = sorted(order.index(own) for own in known[name].differing(here) if own not in IDLE)
        # Of as many differences, those that are the less likely to matter.
        return len(ranks), [-rank for rank in ranks], name

    return min(known, key=distance)
