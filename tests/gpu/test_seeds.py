"""On a device: seeds of its generators are seen, and one from the operating system is derived where that is pinned."""

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
