"""On a device: seeds of its generators are seen, and one from the operating system is derived where that is pinned."""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

import samebits
from tests.factors.contexts import watched
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


def test_a_draw_on_the_device_without_a_seed_is_witnessed() -> None:
    """With its line; after a seed, nothing is."""
    with watched("torch-rng") as seen:
        torch.rand(3, device=DEVICE)
        line = sys._getframe().f_lineno - 1
        torch.manual_seed(3)
        torch.rand(3, device=DEVICE)

    assert [(one.what, one.site and one.site.line) for one in seen] == [("torch.rand", line)]


# In a process of its own, in which nobody has used the device yet.
FIRST_USED = """
import json, sys
import torch
import samebits

device, case, *state = sys.argv[1:]
own = torch.get_device_module(device)

def begun(how):
    if "seeds" in how:
        torch.manual_seed(5)
    if "restores" in how:
        own.set_rng_state(torch.tensor(json.loads(state[0]), dtype=torch.uint8))

before, _, pinned = case.partition(", pinned")
begun(before)
inside = None
if pinned:
    with samebits.pinned(factors=["torch-rng"]):
        begun(pinned)
        inside = torch.rand(4, device=device).tolist() if "used" in pinned else None
print(json.dumps([inside, torch.rand(4, device=device).tolist()]))
"""


@pytest.fixture
def state() -> str:
    """A state of the device's generator that nobody has by accident."""
    return json.dumps(torch.Generator(DEVICE).manual_seed(4711).get_state().tolist())


@cache
def first_used(case: str, state: str = "", *command: str) -> tuple[list[float] | None, list[float]]:
    """What is drawn inside of a pin, and afterwards."""
    words = [sys.executable, *(command or ["-c", FIRST_USED]), DEVICE, case, *filter(None, [state])]
    inside, after = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return inside, after


ASKED = ["restores", *(pytest.param(how, marks=pytest.mark.slow) for how in ("seeds", "restores, seeds"))]


@pytest.mark.parametrize("before", ASKED)
def test_a_device_first_used_inside_a_pin_starts_afterwards_as_it_would_have(before: str, state: str) -> None:
    """From the seed or the state that waited for it; one that is still unused finds both waiting."""
    _, plain = first_used(before, state)
    inside, after = first_used(f"{before}, pinned and used", state)

    assert after == plain == first_used(f"{before}, pinned", state)[1]
    assert plain == first_used(f"{before}, pinned and seeds", state)[1]
    assert inside == first_used(", pinned and used")[0] != plain


def test_without_a_seed_it_starts_afterwards_from_entropy() -> None:
    """And not from the pin's seed."""
    inside, fresh = first_used(", pinned and used")

    assert fresh not in (inside, first_used(", pinned and used", "0")[1])


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["restores", "seeds", "restores, seeds"])
def test_what_the_program_asks_for_before_it_uses_the_device_counts(asked: str, state: str, tmp_path: Path) -> None:
    """Under a pin and under a recording: a state that is restored first, too, is not replaced by the pin's own seed."""
    (tmp_path / "first.py").write_text(FIRST_USED)
    run = ("-m", "samebits", "run", "--out", str(tmp_path / "run"), str(tmp_path / "first.py"))
    _, plain = first_used(asked, state)

    assert first_used(f", pinned and {asked}, used", state)[0] == plain
    assert first_used(asked, state, *run) == (None, plain)
