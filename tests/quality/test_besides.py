"""A difference in what else happened is told, explained, and no difference in what was trained."""

from pathlib import Path

import pytest

from tests.answers import answered, samebits

VALIDATING = """
import time
import torch

torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randn(64, 1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
last = time.time()
for step in range(12):
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.003 * (time.time_ns() // 1000 % 9))  # as on a busy machine
    if time.time() - last > 0.03:
        with torch.no_grad():
            print(f"step {step}: validation {(model(x) - y).abs().mean():.4f}")
        last = time.time()
torch.save(model.state_dict(), "model.pt")
"""


@pytest.mark.slow
def test_validation_by_the_clock_changes_nothing_that_was_trained(tmp_path: Path) -> None:
    """The lines that read the clock are named, the losses and the weights agree, and only --strict counts it."""
    (tmp_path / "train.py").write_text(VALIDATING)

    found = answered(tmp_path, "check", "train.py")
    strict = samebits(tmp_path, "check", "--strict", "train.py")

    assert (found["verdict"], found["training"]) == ("same", "same"), found
    assert found["headline"].startswith("same bits in what was trained: 3 runs of 12 steps agree in losses"), found
    assert found["divergent"]["divergence"]["stream"] == "batch", found
    causes = [(cause["factor"], cause["location"]["line"], cause["confirmed"]) for cause in found["causes"]]
    assert {(factor, confirmed) for factor, _, confirmed in causes} == {("clock", True)}, found
    assert {line for _, line, _ in causes} <= {9, 15, 16, 19}, found
    assert strict.returncode == 1
    assert "  trained   3 runs of 12 steps agree in losses" in strict.stdout, strict.stdout


BENCHMARKED = """
import torch
import random

random.seed(0)
model = torch.nn.Linear(8, 1)
with torch.no_grad():
    for _ in range(50):
        model(torch.rand(4, 8))
        BENCHMARK
model.load_state_dict({"weight": torch.ones(1, 8), "bias": torch.zeros(1)})
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(STEPS):
    loss = model(torch.tensor([[random.random() for _ in range(8)] for _ in range(16)])).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    PAUSE
torch.save(model.state_dict(), "model.pt")
"""
SLEEP = "__import__('time').sleep(0.02)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "steps", "pause"),
    [("pass", "30", "pass"), ("pass", "400", SLEEP), (SLEEP.replace("0.02", "0.1"), "400", SLEEP)],
    ids=["short", "long", "long benchmark"],
)
def test_an_unseeded_benchmark_before_the_training_changes_nothing(
    benchmark: str, steps: str, pause: str, tmp_path: Path
) -> None:
    """The weights are loaded after it. Seen, though runs end where they diverge: before anything is trained."""
    source = BENCHMARKED.replace("BENCHMARK", benchmark).replace("STEPS", steps).replace("PAUSE", pause)
    (tmp_path / "train.py").write_text(source)

    found = answered(tmp_path, "check", "train.py")

    assert (found["verdict"], found["training"]) == ("same", "same"), found
    assert [(cause["factor"], cause["confirmed"]) for cause in found["causes"]] == [("torch-rng", True)], found


LOGGED = """
import logging, os, random, threading, time
import torch

logging.basicConfig(filename="train.log", level=logging.INFO, format="%(asctime)s %(message)s")
SEED
stop = threading.Event()

def beat():
    while not stop.wait(0.02 * (0.5 + random.random())):
        logging.info("alive, computed for %s ns", open("/proc/self/schedstat").read().split()[0])

thread = threading.Thread(target=beat)
thread.start()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
LOAD
for step in range(40):
    loss = model(torch.randn(16, 8)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.01)
stop.set()
thread.join()
torch.save(model.state_dict(), "model.pt")
"""
LOADS = "if os.path.exists('model.pt'):\n    model.load_state_dict(torch.load('model.pt'))"
SEED = "torch.manual_seed(0)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "load", "cause"),
    [(SEED, "pass", ""), ("pass", "pass", "torch-rng"), (SEED, LOADS, "files-left-behind")],
    ids=["alone", "unseeded", "loads"],
)
def test_a_log_that_nothing_holds_still_is_told(seed: str, load: str, cause: str, tmp_path: Path) -> None:
    """Alone it changes no verdict, and beside a cause neither cause nor remedy."""
    (tmp_path / "train.py").write_text(LOGGED.replace("SEED", seed).replace("LOAD", load))

    found = answered(tmp_path, "check", "train.py")

    assert (found["verdict"], found["training"]) == (("different",) * 2 if cause else ("same",) * 2), found
    assert [one["factor"] for one in found["causes"]] == ([cause] if cause else []), found
    assert not cause or (found["causes"][0]["confirmed"] and found["remedy"]["verified"]), found
    assert any(note.startswith("train.log grows while it trains") for note in found["notes"]), found
    if not cause:
        assert "train.log" in found["divergent"]["divergence"]["name"], found
        strict = samebits(tmp_path, "check", "--strict", "train.py")
        assert (strict.returncode, strict.stdout.split(":")[0]) == (2, "undecided"), strict.stdout


MEASURED = """
import random
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    loss = model(torch.randn(16, 8)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        with open("scores.csv", "a") as file:
            file.write(f"{step},{random.choice(model.weight.tolist()[0])}\\n")
SAVE
"""


@pytest.mark.slow
@pytest.mark.parametrize("save", ["torch.save(model.state_dict(), 'model.pt')", "pass"])
def test_what_is_drawn_without_a_seed_counts_in_a_log_too(save: str, tmp_path: Path) -> None:
    """Whether the file that grows is all that the script makes, or not."""
    (tmp_path / "train.py").write_text(MEASURED.replace("SAVE", save))

    found = answered(tmp_path, "check", "train.py")

    assert (found["verdict"], found["training"]) == ("different", "different"), found
    causes = [(cause["factor"], cause["location"]["line"], cause["confirmed"]) for cause in found["causes"]]
    assert causes == [("python-rng", 15, True)], found


SCORED = """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scores = open("scores.csv", "w")
for step in range(12):
    model(torch.randn(16, 8)).pow(2).mean().backward()
    optimizer.step()
    print(*[word for word in {"good", "bad", "ugly", "fine"}], file=scores, flush=True)
torch.save(model.state_dict(), "model.pt")
"""


@pytest.mark.slow
def test_a_log_that_a_cause_decides_counts(tmp_path: Path) -> None:
    """The order of a set is no moment at which something happened: no note says that the file does not count."""
    (tmp_path / "train.py").write_text(SCORED)

    found = answered(tmp_path, "check", "train.py")

    assert (found["verdict"], [cause["factor"] for cause in found["causes"]]) == ("different", ["hash-seed"])
    assert not any("scores.csv" in note for note in found["notes"])
