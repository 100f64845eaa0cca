"""record, compare and assert_repeats: the same experiments from Python."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import samebits

COUNT = [0]


def train(noise: float = 0.0, steps: int = 3) -> None:
    COUNT[0] += 1
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        loss = model(torch.randn(16, 4)).square().mean()
        if step == 1:
            loss = loss * (1 + noise * COUNT[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_what_repeats_passes() -> None:
    """The twin of the failure below."""
    samebits.assert_repeats(train, runs=3)


def test_what_does_not_repeat_is_located() -> None:
    """An AssertionError that names step, operation and line."""
    with pytest.raises(samebits.DivergenceError, match=r"step 1, op \d+: argument: aten::mul.Tensor") as caught:
        samebits.assert_repeats(train, noise=0.1)

    assert isinstance(caught.value, AssertionError)
    assert "test_library.py" in str(caught.value)
    assert "loss = loss * (1 + noise * COUNT[0])" in str(caught.value)


def test_what_does_nothing_cannot_be_judged() -> None:
    """A function without torch operations is no evidence of anything."""
    with pytest.raises(samebits.SamebitsError, match="no torch operation was seen"):
        samebits.assert_repeats(lambda: None)
    with pytest.raises(ValueError, match="runs must be at least 2, got 1"):
        samebits.assert_repeats(train, runs=1)


@pytest.mark.parametrize("level", ["step", "op"])
def test_two_recordings_are_compared(level: str, tmp_path: Path) -> None:
    """At level step the stream is known, at level op the operation too."""
    for name, noise in (("one", 0.0), ("two", 0.0), ("three", 0.1)):
        with samebits.record(tmp_path / name, level=level):
            train(noise)
    same, other = (samebits.compare(tmp_path / "one", tmp_path / name) for name in ("two", "three"))

    streams = "init, batch, loss, grad, param, optimizer" + (", operations" if level == "op" else "")
    assert (same.same, str(same)) == (True, f"same bits: {streams}")
    assert other.divergence is not None
    assert (other.same, other.divergence.step, other.divergence.stream) == (False, 1, "loss")
    assert (other.op is not None) == (level == "op")


def test_torch_is_as_it_was_afterwards(tmp_path: Path) -> None:
    """Functions, hooks and modes, also after an exception."""
    hooks = torch.nn.modules.module
    before = (torch.save, torch.autograd.backward, torch.optim.Optimizer.__init__, hooks._has_any_global_hook)
    with pytest.raises(TypeError), samebits.record(tmp_path / "run", level="op"):
        train(steps="three")  # type: ignore[arg-type]

    after = (torch.save, torch.autograd.backward, torch.optim.Optimizer.__init__, hooks._has_any_global_hook)
    assert after == before
    assert not hooks._global_forward_hooks
    assert not hooks._global_forward_pre_hooks
    assert not _get_current_dispatch_mode_stack()


def test_a_folder_in_use_is_not_touched(tmp_path: Path) -> None:
    """Nothing is overwritten, and nothing runs before that is known."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(samebits.SamebitsError, match="is not empty"), samebits.record(tmp_path):
        raise AssertionError("must not run")
    with pytest.raises(ValueError, match="level takes 'step' or 'op', got 'ops'"), samebits.record("x", level="ops"):
        raise AssertionError("must not run")
