"""Whole commands on the stand-in: a lock, a resume, prices and a replay of what a device computes."""

from pathlib import Path
from typing import Any

import pytest

from tests.answers import answer_of, samebits
from tests.standin import NAMES, environment, missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.parametrize("name", NAMES),
]

TRAIN = """import os, sys
import torch
from torch import nn

device = torch.accelerator.current_accelerator()
own = torch.get_device_module(device)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
start = 0
if os.path.exists("last.pt"):
    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    torch.set_rng_state(state["host"])
    start = state["step"]
    if "loses" not in sys.argv:
        own.set_rng_state(state["device"])
for step in range(start, {steps}):
    x = torch.randn(32, 8).to(device)
    loss = model(x).logsumexp(1).mean(){more}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4 and "saves" in sys.argv:
        states = {{"host": torch.get_rng_state(), "device": own.get_rng_state()}}
        torch.save({{"model": model.state_dict(), "step": step + 1, **states}}, "last.pt")
"""


def write(folder: Path, steps: int = 6, more: str = "") -> None:
    (folder / "train.py").write_text(TRAIN.format(steps=steps, more=more))


def answer(folder: Path, words: str, name: str, *faults: str, **settings: object) -> dict[str, Any]:
    """What a command says as data, with its exit status as `status`."""
    done = samebits(folder, *words.split(), **environment(name, "late", *faults, **settings))
    return answer_of(done) | {"status": done.returncode}


def test_a_lock_holds_on_its_device_alone(name: str, tmp_path: Path) -> None:
    """It is verified there; another device or driver is named, and nothing is claimed of its bits."""
    write(tmp_path)
    locked = answer(tmp_path, "lock --no-check --format json train.py", name, "rubbish")
    others: list[dict[str, object]] = [{"called": "Other"}, *([{"driver": "2.0"}] if name == "standin" else [])]
    same, *differ = [answer(tmp_path, "verify --format json", name, "rubbish", **own) for own in ({}, *others)]

    assert (locked["status"], same["status"], same["verdict"]) == (0, 0, "same")
    assert same["entries"][0]["environment"]["device"] == "Stand-in"
    for found, own in zip(differ, others, strict=True):
        (known,) = own.values()
        names = [(one["name"], one["here"]) for one in found["entries"][0]["differences"] if one["can_change_bits"]]
        assert names == [("device" if "called" in own else "driver", known)]
        assert (found["status"], found["entries"][0]["verdict"]) == (2, "unknown")


def test_a_resume_that_loses_the_devices_generator_is_told(name: str, tmp_path: Path) -> None:
    """With the device, confirmed by giving it back; one that restores it is right."""
    for lost in ("keeps", "loses"):
        (tmp_path / lost).mkdir()
        write(tmp_path / lost, steps=12)
    right = answer(tmp_path / "keeps", "resume --format json train.py saves", name)
    wrong = answer(tmp_path / "loses", "resume --format json train.py saves loses", name)

    assert (right["status"], right["verdict"], right["first"]["missing"]) == (0, "same", [])
    assert (wrong["status"], wrong["verdict"]) == (1, "different")
    (lost_one,) = wrong["first"]["missing"]
    assert (lost_one["state"], lost_one["confirmed"]) == ("generators", True)
    assert f"torch {name}:0" in lost_one["evidence"]


def test_prices_are_those_of_the_device(name: str, tmp_path: Path) -> None:
    """A step takes as long as the device does, though the host has queued it soon, and memory is the device's."""
    write(tmp_path, steps=3000, more=" + torch.ones(1 << 24, device=device)[0] * 0" + " * 1" * 40)
    words = "cost --format json --warm-up 6 --budget 90 --factor torch-algorithms --factor cudnn-autotune train.py"
    found = answer(tmp_path, words, name, rest_us=1000)

    assert found["status"] == 0
    for price in (found["plain"], *found["prices"]):
        assert price["step_seconds"] > 0.04
        assert 64 << 20 <= price["peak_bytes"] < 100 << 20
    labels = {price["candidate"]["label"] for price in found["prices"]}
    assert {"torch-algorithms", "cudnn-autotune", "cudnn-autotune, the other way"} <= labels


def test_a_race_is_replayed(name: str, tmp_path: Path) -> None:
    """The operation that a check has located, again and again, by itself."""
    kinds, rows = "(torch.arange(60_000) % 4).to(device)", "model[0].weight.sum() * torch.randn(60_000).to(device)"
    more = f" + torch.zeros(4, device=device).index_add(0, {kinds}, {rows}).sum()"
    write(tmp_path, more=more)
    checked = answer(tmp_path, "check --format json train.py", name, "races")
    assert [cause["factor"] for cause in checked["causes"]] == ["torch-algorithms"]
    found = answer(tmp_path, f"replay --format json {checked['origins'][0]['operands']}", name, "races")

    assert (found["status"], found["verdict"], found["is_racy"]) == (1, "different", True)
    assert {"in used memory", "on two streams"} <= {one["name"] for one in found["conditions"]}


LARGE = """import torch
device = torch.accelerator.current_accelerator()
model = torch.nn.Linear(1024, 1024).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.ones(4, 1024).to(device)).square().mean().backward()
    optimizer.step()
"""


def test_a_device_without_memory_to_record_with_is_no_mistake_of_ours(name: str, tmp_path: Path) -> None:
    """A weight and its gradient, of 4 MB each, fit into 9; the digest makes eight bytes of each number."""
    (tmp_path / "train.py").write_text(LARGE)
    found = answer(tmp_path, "check --format json train.py", name, bytes=9 << 20)

    assert (found["status"], found["error"]["kind"]) == (2, "storage")
    assert found["error"]["message"].startswith("the run left no memory to record with: ")
