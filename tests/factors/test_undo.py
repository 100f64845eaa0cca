"""Leaving a context puts everything back: generator states bit for bit, attributes as the very same objects."""

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import samebits
from samebits.factors.catalog import names
from samebits.factors.context import Mode
from tests.factors.contexts import differences, everything, treated, watched

each_factor = pytest.mark.parametrize("factor", names())
each_mode = pytest.mark.parametrize("mode", ["pinned", "varied"])


@pytest.fixture(autouse=True, scope="module")
def operations_looked_up() -> None:
    """Torch keeps what was looked up in `torch.ops` for TorchScript: the first formulas look up some."""
    with samebits.pinned(factors=("torch-algorithms",)):
        pass


@pytest.fixture(autouse=True)
def cached_gaussians() -> None:
    """Every generator stands somewhere in the middle, and holds half a pair of Gaussians."""
    random.gauss(0, 1)
    np.random.randn()
    torch.randn(1)


DRAWS = {"python-rng": lambda: random.gauss(0, 1), "numpy-rng": np.random.randn, "torch-rng": lambda: torch.rand(3)}


def use(*factors: str) -> None:
    """Let the factors enter; a generator that is not treated has to stand still by itself."""
    for draw in (DRAWS[name] for name in factors if name in DRAWS):
        draw()
    for enter in (lambda: torch.empty(2), lambda: os.urandom(3), os.listdir):
        enter()


@each_factor
@each_mode
@pytest.mark.parametrize("context", [treated, watched])
def test_leaving_a_context_leaves_nothing(factor: str, mode: Mode, context: Callable[..., Any]) -> None:
    """After a factor was pinned or varied, with or without somebody listening, all is as before."""
    before = everything()

    with context(factor, mode):
        use(factor)

    assert differences(before, everything()) == {}


def test_the_snapshot_sees_what_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself can fail: on a drawn number, a replaced function, a flag, a variable."""
    before = everything()

    random.random()
    monkeypatch.setattr(os, "listdir", lambda: [])
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.setenv("SAMEBITS_LEFT_BEHIND", "1")
    found = differences(before, everything())

    flag = next(key for key in found if key.endswith(".benchmark"))
    assert set(found) == {"python", "environ", f"names of {os}", flag}
    assert found[f"names of {os}"] == {"listdir"}


@pytest.mark.filterwarnings("ignore::samebits.TooLateWarning")
def test_pinned_is_undone_after_an_exception() -> None:
    """An exception passes through, and what it interrupted is undone."""
    before = everything()

    @samebits.pinned(factors=names())
    def fail() -> None:
        use(*DRAWS)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert differences(before, everything()) == {}


@pytest.mark.filterwarnings("ignore::samebits.TooLateWarning")
def test_nested_pinned_is_undone_level_by_level() -> None:
    """Leaving the inner block gives the outer one back as it was, and leaving that gives everything back."""
    before = everything()

    with samebits.pinned(seed=1, factors=names()):
        use(*DRAWS)
        outside = everything()
        with samebits.pinned(seed=2, factors=names()):
            use(*DRAWS)
        inside = everything()
    after = everything()

    assert differences(outside, inside) == {}
    assert differences(before, after) == {}


def test_a_generator_of_ones_own_under_numpy_is_kept() -> None:
    """NumPy's global functions may stand on any bit generator; only MT19937 can be seeded again."""
    before, own = np.random.get_bit_generator(), np.random.PCG64(3)
    np.random.set_bit_generator(own)
    try:
        state = np.random.get_state(legacy=False)
        with samebits.pinned(factors=["numpy-rng"]):
            first = np.random.rand()
        with samebits.pinned(factors=["numpy-rng"]):
            again = np.random.rand()
        kept = np.random.get_bit_generator() is own and np.random.get_state(legacy=False) == state
    finally:
        np.random.set_bit_generator(before)

    assert first == again
    assert kept


def test_settings_of_ones_own_come_back() -> None:
    """Whatever the program had switched on or off itself, in torch and in Inductor, is on or off again."""
    changed = {"fill": torch.utils.deterministic.fill_uninitialized_memory, "threads": torch.get_num_threads()}
    torch.utils.deterministic.fill_uninitialized_memory = not changed["fill"]
    torch.use_deterministic_algorithms(True, warn_only=True)
    if hasattr(torch._inductor.config, "deterministic"):
        torch._inductor.config.deterministic = False
    torch.set_float32_matmul_precision("medium")
    torch.set_num_threads(changed["threads"] + 1)
    try:
        before = everything()
        with samebits.pinned(factors=["torch-algorithms", "float-precision", "cpu-threads"], values={"cpu-threads": 1}):
            inside = torch.get_deterministic_debug_mode(), torch.get_num_threads(), torch.get_float32_matmul_precision()
        after = everything()
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = changed["fill"]
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(changed["threads"])

    assert inside == (2, 1, "highest")
    assert differences(before, after) == {}


def test_a_stand_in_taken_along_goes_back_to_the_original() -> None:
    """`from time import time` inside the block outlives it, and tells the real time again."""
    with samebits.pinned(factors=["clock", "os-entropy", "file-order"]):
        from datetime import datetime
        from os import urandom
        from time import time, time_ns

        pinned = time()

    assert 0 < pinned - 1.79e9 < 1
    assert abs(time() - time_ns() / 1e9) < 60
    assert time() > 1_700_000_000
    assert abs(datetime.now().timestamp() - time()) < 60
    assert urandom(16) != urandom(16)
