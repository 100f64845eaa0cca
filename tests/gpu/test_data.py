"""On a device: samples that draw there, memory that is pinned, and prices. Part of `pytest -m gpu tests/gpu`."""

from pathlib import Path
from typing import Any

import pytest
import torch

from samebits.data import DataLoader
from tests.answers import answer_of, samebits
from tests.gpu import DEVICE, NEEDS_A_GPU, ON_A_DEVICE, own

pytestmark = ON_A_DEVICE


class Drawing(torch.utils.data.Dataset[Any]):
    """Draws on the CPU or on the device."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        return torch.rand(3, device=self.device).cpu() + index


def batches(device: str, **options: Any) -> list[list[Any]]:
    return [batch.tolist() for batch in DataLoader(Drawing(device), batch_size=4, shuffle=True, seed=0, **options)]


def test_samples_that_draw_on_the_device_are_keyed() -> None:
    """By their index, whatever was drawn before; and the device's generator stands where it stood."""
    own().manual_seed_all(3)
    before = own().get_rng_state_all()
    first = batches(DEVICE)
    untouched = own().get_rng_state_all()
    torch.rand(7, device=DEVICE)

    assert all(torch.equal(a, b) for a, b in zip(before, untouched, strict=True))
    assert batches(DEVICE) == first
    assert len({str(sample) for batch in first for sample in batch}) == 12


@pytest.mark.parametrize("workers", [0, 2])
def test_pinned_memory_holds_the_same_bits(workers: int) -> None:
    """And is pinned, also where samples may be skipped."""
    plain = batches("cpu")
    for options in ({}, {"on_error": "skip"}):
        loader = DataLoader(
            Drawing("cpu"), batch_size=4, shuffle=True, seed=0, num_workers=workers, pin_memory=True, **options
        )
        found = list(loader)

        assert all(batch.is_pinned() for batch in found)
        assert [batch.tolist() for batch in found] == plain


TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10))
model = model.cuda()
model(torch.zeros(1, 3, 32, 32, device="cuda"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(600):
    loss = model(torch.randn(32 + step % 2, 3, 32, 32, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@NEEDS_A_GPU
def test_prices_on_the_device(tmp_path: Path) -> None:
    """What needs CUDA is measured, with the device's memory, and the autotuner both ways."""
    (tmp_path / "train.py").write_text(TRAIN)
    done = samebits(tmp_path, "cost", "--format", "json", "--budget", "200", "train.py", timeout=400)
    found = answer_of(done)
    prices = {price["candidate"]["label"]: price for price in found["prices"]}

    assert done.returncode == 0, done.stdout + done.stderr
    assert {"cudnn-autotune", "cudnn-autotune, the other way", "cublas-workspace"} <= set(prices)
    assert not {"cudnn-autotune", "cublas-workspace"} & {name for name, _ in found["impossible"]}
    assert found["shapes"] == 3  # the call that makes LazyLinear's weight is the third
    assert all(price["ratio"]["pairs"] >= 5 for price in prices.values() if price["ratio"])
    assert prices["default set"]["ratio"]
    assert prices["default set"]["repeats"]
