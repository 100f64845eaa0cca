"""Programs do unusual things with functions, objects and signals; nothing is different when they are recorded."""

import subprocess
import sys
from pathlib import Path

import pytest

from samebits.factors.context import Setting
from samebits.launch.command import parse_command
from samebits.runfolder.spec import OpWindow, RunSpec
from tests.running import run_recorded

SCRIPT = """
import copy, io, os, pickle, random, signal, threading, time, uuid
from collections import OrderedDict, UserDict
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import torch

random.seed(0)
np.random.seed(0)


class Codec:
    dump = pickle.dump


class Augmented(Mapping):
    # Its fields are drawn when they are read.
    def __init__(self, fields):
        self.fields = fields

    def __getitem__(self, name):
        return self.fields[name] + torch.randn(())

    def __iter__(self):
        return iter(self.fields)

    def __len__(self):
        return len(self.fields)


@dataclass(frozen=True)
class BadSample(Exception):
    number: int


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, number):
        if number == 1:
            raise BadSample(number)
        return torch.full((2,), float(number))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x, beside=None):
        return self.linear(x["x"] if isinstance(x, Mapping) else x) + 1


class Slow(Exception):
    pass


def ring(*_):
    raise Slow


@torch.jit.script
def force(x):
    y = (x * x).sum()
    grad = torch.autograd.grad([y], [x])[0]
    assert grad is not None
    return grad


@torch.jit.script
def drawn(x):
    torch.manual_seed(7)
    return torch.rand(2) + x


def tree(depth, parent=None):
    node = {"parent": parent, "name": depth}
    node["children"] = [tree(depth - 1, node) for _ in range(2)] if depth else []
    return node


if __name__ == "__main__":
    print(torch.jit.trace(Net(), torch.ones(1, 2))(torch.ones(1, 2)).shape)
    torch.manual_seed(0)
    print(force(torch.ones(2, requires_grad=True)).tolist(), drawn(torch.ones(2)).tolist())
    torch.manual_seed(0)

    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        pool.submit(torch.save, {"x": torch.ones(2)}, "sent.pt").result()
    with get_context("fork").Pool(1) as pool:
        print(pool.starmap(random.uniform, [(0, 1)] * 2), pool.starmap(np.random.randint, [(1000,)] * 2))
    draw = copy.deepcopy([random.uniform])[0]
    print(draw(0, 1) == random.uniform(0, 1), copy.deepcopy(np.random.rand) is np.random.rand)
    file = io.BytesIO()
    Codec().dump([1], file)

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    first, second = {"x": torch.ones(2)}, {"x": torch.zeros(2)}
    first["next"], second["next"] = second, first
    for inputs in (first, Augmented({"x": torch.ones(2)}), UserDict(x=torch.ones(2)), OrderedDict(x=torch.ones(2))):
        optimizer.zero_grad()
        loss = net(inputs, [first, second] * 20).sum()
        loss.backward()
        optimizer.step()
        print(loss.item())
    with open("tree.pkl", "wb") as opened:
        pickle.dump(tree(6), opened)

    loaded = iter(torch.utils.data.DataLoader(Samples(), batch_size=None))
    for _ in range(2):
        try:
            print(next(loaded).tolist())
        except BadSample as error:
            print("skipped", error.number)

    names, caught = [], 0
    threads = [threading.Thread(target=lambda: names.extend(uuid.uuid4() for _ in range(500))) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    signal.signal(signal.SIGALRM, ring)
    for number in range(15):
        try:
            # Python loses an exception that is raised in a callback of a weak reference: then the next one comes.
            signal.setitimer(signal.ITIMER_REAL, 0.02 + 0.001 * number, 0.02)
            while True:
                optimizer.zero_grad()
                net(torch.ones(2, 2)).sum().backward()
                optimizer.step()
        except Slow:
            signal.setitimer(signal.ITIMER_REAL, 0)
            caught += 1
            torch.set_grad_enabled(True)  # torch's own optimizers leave it off where they are interrupted
    print(len({*names}), caught)
"""


PLANS = {
    "recorded": RunSpec(),
    "watched": RunSpec(witness=True),
    "by operation": RunSpec(ops=OpWindow(0, None)),
    "varied": RunSpec(settings={"os-entropy": Setting("varied", variant=1)}),
}


def test_nothing_is_different_for_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions in other processes, classes and TorchScript; objects that draw, refer to themselves, or freeze."""
    monkeypatch.setenv("PYTHONPATH", "")  # a trace needs all of torch
    for name in ("plain", *PLANS):
        (tmp_path / name).mkdir()
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py")]
    plain = subprocess.run(command, cwd=tmp_path / "plain", capture_output=True, text=True, check=True, timeout=300)
    assert plain.stdout.splitlines()[-1] == "2000 15"

    for name, plan in PLANS.items():
        monkeypatch.chdir(tmp_path / name)
        outcome = run_recorded(parse_command(command), plan, tmp_path / f"run {name}", 300)
        assert outcome.folder.stdout.read_text() == plain.stdout, (name, outcome.folder.stderr.read_text())
