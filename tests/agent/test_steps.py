"""What counts as a step of a training: not what only fills an optimizer in, and also of one that was unpickled."""

import pickle
from pathlib import Path

import torch

import samebits
from samebits.runfolder.folder import RunFolder


def steps_of(folder: Path, is_unpickled: bool, fills_in: bool) -> list[list[str]]:
    """What each row holds of a training of three steps."""
    model = torch.nn.Linear(3, 1)
    kept = pickle.dumps((model, torch.optim.Adam(model.parameters())))
    with samebits.record(folder):
        model, optimizer = pickle.loads(kept) if is_unpickled else (model, torch.optim.Adam(model.parameters()))
        if fills_in:
            rate = optimizer.param_groups[0]["lr"]
            optimizer.param_groups[0]["lr"] = 0.0
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            optimizer.step()
            optimizer.param_groups[0]["lr"] = rate
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    (recording,) = RunFolder(folder).recordings()
    return [[*recording.columns(step)] for step in range(recording.steps)]


def test_what_only_fills_state_in_is_no_step(tmp_path: Path) -> None:
    """As `torch.distributed.checkpoint` does before it loads: rates and gradients are zero, and there is no loss."""
    assert len(steps_of(tmp_path / "plain", False, fills_in=False)) == 3
    assert len(steps_of(tmp_path / "filled", False, fills_in=True)) == 3


def test_an_unpickled_optimizer_is_seen(tmp_path: Path) -> None:
    """It never ran `__init__`; its rows end with its steps, and not with backwards."""
    found = steps_of(tmp_path / "unpickled", True, fills_in=False)

    assert len(found) == 3
    assert all({"loss", "grad", "param"} <= set(row) for row in found)
    assert "optimizer" in found[0]
