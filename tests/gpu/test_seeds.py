"""On a device: seeds of its generators are seen, and one from the operating system is derived where that is pinned."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

import samebits
from tests.factors.test_seed_calls import seeds
from tests.gpu import DEVICE, ON_A_DEVICE, own

pytestmark = ON_A_DEVICE


def drawn(seed: Callable[[], object]) -> list[float]:
    seed()
    found: list[float] = torch.rand(4, device=DEVICE).tolist()
    return found


@pytest.mark.parametrize("name", ["seed", "seed_all"])
def test_a_seed_without_a_number_is_derived(name: str) -> None:
    """Pinned, the device draws the same again; else it does not."""

    def pinned() -> list[float]:
        with samebits.pinned(factors=["os-entropy"]):
            return drawn(getattr(own(), name))

    assert pinned() == pinned()
    assert drawn(getattr(own(), name)) != drawn(getattr(own(), name))


@pytest.mark.parametrize("name", ["manual_seed", "manual_seed_all"])
def test_a_seed_is_told_with_its_number(name: str) -> None:
    """By the name under which the program gave it."""
    with seeds() as found:
        getattr(own(), name)(4711)

    assert [(one.what, one.value) for one in found] == [(f"torch.{DEVICE}.{name}", 4711)]


# In a process of its own, in which nobody has used the device yet.
FIRST_USED = """
import json, sys
import torch
import samebits

device, case = sys.argv[1:]
if "seeded" in case:
    torch.manual_seed(5)
inside = None
if "pinned" in case:
    with samebits.pinned(factors=["torch-rng"]):
        inside = torch.rand(4, device=device).tolist() if "used" in case else None
print(json.dumps([inside, torch.rand(4, device=device).tolist()]))
"""


def first_used(case: str) -> tuple[list[float], list[float]]:
    """What is drawn inside of a pin, and afterwards."""
    words = [sys.executable, "-c", FIRST_USED, DEVICE, case]
    inside, after = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return inside, after


def test_a_device_first_used_inside_a_pin_starts_afterwards_as_it_would_have() -> None:
    """From the seed that waited for it, else from fresh entropy; one that is still unused finds its seed waiting."""
    if not hasattr(own(), "_lazy_seed_tracker"):
        pytest.skip("its maker keeps the seeds that wait for it where nobody else sees them")
    _, plain = first_used("seeded")
    inside, after = first_used("seeded, pinned, used")
    other, fresh = first_used("pinned, used")

    assert after == plain == first_used("seeded, pinned")[1]
    assert inside == other != plain
    assert fresh not in (plain, inside)
