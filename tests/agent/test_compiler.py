"""torch's compiler in recorded processes: unread while nothing needs it, and whole from then on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What the whole torch does, and what it does in a recorded run: the script says so in a file of its own.
SCRIPT = """
import gc
import sys
import weakref
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)

def train(one_step=optimizer.step):
    for _ in range(3):
        model(torch.rand(5, 4)).square().mean().backward()
        one_step()
        optimizer.zero_grad()
        scheduler.step()

train()
optimizer.load_state_dict(optimizer.state_dict())
optimizer.add_param_group({{"params": [torch.ones(2, requires_grad=True)]}})
is_early = "torch._dynamo" in sys.modules

def made():
    function = torch._disable_dynamo(lambda: None).__wrapped__
    return weakref.ref(function)

gone = made()
gc.collect()
{more}
train()
sums = [one.double().sum().item().hex() for one in model.parameters()]
with open(sys.argv[1], "w") as file:
    print(is_early, torch.is_grad_enabled(), gone(), *sums, file=file)
"""
COMPILED = """
model = torch.compile(model, backend="eager")
train(torch.compile(optimizer.step, backend="eager"))
"""
# As torch makes them: a step that asks the compiler, and no function that does without a mark.
AS_MADE = """
import torch._dynamo
step = torch.optim.SGD.step
while step.__code__.co_name != "_use_grad":
    step = step.__wrapped__
assert "torch._dynamo" in step.__code__.co_names
functions = [one.__wrapped__ for one in (torch.optim.Optimizer.state_dict, torch.optim.Optimizer.load_state_dict)]
assert all(vars(one).get("__dynamo_disable") is not one for one in functions)
"""
FAILS = """
model[0].weight.grad = torch.ones(3, 4).to_sparse()
try:
    optimizer.step()
except RuntimeError:
    optimizer.zero_grad()
else:
    raise SystemExit("no error")
"""


def said(folder: Path, *words: str) -> str:
    """What the script writes, run by a command with the whole of torch."""
    paths = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if not one.endswith("lazily")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *words, "train.py", f"{len(words)}.txt"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return (folder / f"{len(words)}.txt").read_text()


@pytest.mark.parametrize(
    ("optimizer", "more"),
    [("SGD", AS_MADE), ("Adam", COMPILED), pytest.param("RMSprop", FAILS, marks=pytest.mark.slow)],
    ids=["read", "compiled", "failed"],
)
def test_a_recorded_run_reads_it_when_it_is_needed(optimizer: str, more: str, tmp_path: Path) -> None:
    """And has the same bits as without us, before and after."""
    (tmp_path / "train.py").write_text(SCRIPT.format(optimizer=optimizer, more=more))
    early, *plain = said(tmp_path).split()
    late, *recorded = said(tmp_path, "-m", "samebits", "run").split()

    assert (early, late, plain[1]) == ("True", "False", "None")
    assert plain == recorded
