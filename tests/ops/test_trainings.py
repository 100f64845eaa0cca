"""A training that deterministic algorithms refuse repeats with operations replaced, and is told which."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standin import environment, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

SEGMENTS = """import hashlib
import torch
from torch import nn
from torch.nn import functional
torch.manual_seed(0)
device = torch.accelerator.current_accelerator()
net = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, 2, 1)).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(2, 3, 32, 32).to(device)
    y = (x.sum(1) > 0).long()
    logits = functional.interpolate(net(x), size=(32, 32), mode="bilinear")
    loss = functional.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
state = torch.cat([one.detach().cpu().flatten() for one in net.parameters()])
print(hashlib.sha256(state.numpy().tobytes()).hexdigest())
"""


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    (folder / "train.py").write_text(SEGMENTS)
    command = [sys.executable, "-m", "samebits", *words, "train.py"]
    env = environment("cuda", "races") | {"PYTHONWARNINGS": "ignore"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_a_segmentation_repeats(tmp_path: Path) -> None:
    """Where torch refuses at the loss; left alone, it does not repeat."""
    refused = run(tmp_path, "run", "--pin", "torch-algorithms")
    free = {run(tmp_path, "run", "--no-pin").stdout for _ in range(2)}
    ours = [run(tmp_path, "run", "--pin", "torch-algorithms=replace") for _ in range(2)]

    assert refused.returncode == 1
    assert "train.py:13" in refused.stderr
    assert len(free) == 2
    assert [one.returncode for one in ours] == [0, 0], ours[0].stderr
    assert ours[0].stdout == ours[1].stdout
    expected = "nll_loss2d_forward (train.py:13, 6 calls), upsample_bilinear2d_backward (train.py:15, 6 calls)"
    assert [line for line in ours[0].stderr.splitlines() if line] == [f"samebits: replaced: {expected}"]


@pytest.mark.slow
def test_a_check_tells_what_was_replaced(tmp_path: Path) -> None:
    """Beside its verdict."""
    checked = run(tmp_path, "check", "--pin", "torch-algorithms=replace")

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert re.search(r"note +replaced: nll_loss2d_forward \(train.py:13, 6 calls\)", checked.stdout), checked.stdout
