"""The operation at which runs diverge, found by `check` in real runs: races, threads, ranks, and what passes us by."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.schemas import assert_valid

SAMEBITS = str(Path(sys.executable).with_name("samebits"))
TORCHRUN = (str(Path(sys.executable).with_name("torchrun")), "--standalone", "--nproc-per-node", "2")


def check(folder: Path, source: str, *options: str, launcher: tuple[str, ...] = ()) -> dict[str, Any]:
    (folder / "train.py").write_text(textwrap.dedent(source))
    words = [SAMEBITS, "check", "--format", "json", *options, *(["--", *launcher] if launcher else []), "train.py"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    document: dict[str, Any] = json.loads(done.stdout)
    assert_valid(document)
    return document


@pytest.mark.slow
def test_an_operation_whose_bits_depend_on_the_threads(tmp_path: Path) -> None:
    """With --level op the varied factor is told down to its kernel, and replaying shows that threads make the bits."""
    source = """
        import torch
        from torch import nn
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            images = torch.randn(64, 1, 8, 8)
            optimizer.zero_grad()
            loss = net(images).square().mean()
            loss.backward()
            optimizer.step()
    """
    found = check(tmp_path, source, "--level", "op", "--vary", "cpu-threads")
    (origin,) = found["origins"]
    place = origin["first"]["place"]
    kind = place["row"]["kind"]

    assert [cause["factor"] for cause in found["causes"]] == ["cpu-threads"]
    assert (place["finding"], kind["pass_"], origin["unobserved_write"]) == ("op", "backward", [])
    assert kind["op"] in ("aten::convolution_backward", "aten::mm", "aten::sum.dim_IntList")
    assert kind["module"].startswith("net.")
    assert origin["distance"]["max_ulp"] > 0
    assert (origin["replay"]["is_confirmed"], origin["replay"]["is_racy"]) == (True, False)


@pytest.mark.slow
def test_numpy_writing_through_shared_memory_is_not_the_operations_fault(tmp_path: Path) -> None:
    """The recorder knew the tensor and did not see the write; it reads what an operation is given each time."""
    source = """
        import torch, numpy as np
        torch.manual_seed(0)
        buffer = np.ones(8, dtype=np.float32)
        shared = torch.from_numpy(buffer)
        weight = torch.ones(8, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(3):
            first = (shared * 2).sum()
            buffer[:] = np.frombuffer(open("/proc/sys/kernel/random/uuid", "rb").read(8), np.uint8)
            optimizer.zero_grad()
            (weight * shared).sum().backward()  # reads what NumPy wrote
            optimizer.step()
    """
    found = check(tmp_path, source)
    (origin,) = found["origins"]
    place = origin["first"]["place"]
    kind = place["row"]["kind"]

    assert (found["causes"], found["unknown"] is None) == ([], False)
    assert (kind["op"], place["finding"], place["names"]) == ("aten::mul.Tensor", "input", ["other"])
    assert kind["source"].endswith("# reads what NumPy wrote")
    assert origin["replay"] is None


@pytest.mark.slow
def test_the_rank_where_it_began_and_the_rank_that_received_it(tmp_path: Path) -> None:
    """Under DistributedDataParallel both ranks part; only one is to blame."""
    source = """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            noise = torch.zeros(1)
            if dist.get_rank() == 1:
                byte = bytearray.fromhex(open("/proc/sys/kernel/random/uuid").read(2))
                noise = torch.frombuffer(byte, dtype=torch.uint8) / 255  # rank 1 reads it
            optimizer.zero_grad()
            (model(torch.randn(32, 8)) + noise).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    found = check(tmp_path, source, "--runs", "2", launcher=TORCHRUN)
    (origin,) = found["origins"]
    place = origin["first"]["place"]
    received = {one["place"]["rank"]: one["is_received"] for one in origin["ranks"]}

    assert (place["rank"], place["finding"]) == (1, "input")
    assert place["row"]["kind"]["source"].endswith("# rank 1 reads it")
    assert received == {0: True, 1: False}
