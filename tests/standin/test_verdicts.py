"""Whole checks on a device that misbehaves: the right cause and line, and silence where nothing is wrong."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.answers import answered
from tests.standin import NAMES, environment, missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

# The data comes from a table by `index_select`, whose backward adds by atomics; the model is dense.
TRAIN = """import torch
from torch import nn
{before}
device = torch.accelerator.current_accelerator()
table = nn.Embedding(40, 8).to(device)
model = nn.Sequential({layers}).to(device)
optimizer = torch.optim.SGD([*table.parameters(), *model.parameters()], lr=0.1)
rows = torch.randint(0, 40, (256,))
for step in range(6):
    x = table.weight.index_select(0, rows.to(device)).view(-1, {shape}){more}
    loss = model(x).flatten(1).logsumexp(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), "model.pt")
print(loss.item())
"""
SEED = "torch.manual_seed(0)"
FORGOTTEN = Path(__file__).parents[1] / "gpu/scripts/forgotten_wait.py"
LAYERS = {
    "mlp": ("8", "nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)"),
    "cnn": ("8, 4, 4", "nn.Conv2d(8, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3)"),
    "transformer": ("8, 8", "nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 3)"),
}


@dataclass(frozen=True)
class Case:
    """What the device does wrong, what the script has more, and the cause: factor, and line where one is known."""

    faults: tuple[str, ...]
    factor: str = ""
    line: int | None = None
    before: str = SEED
    more: str = ""


CASES = {
    "clean": Case(("late", "rubbish")),
    "races": Case(("races", "late"), "torch-algorithms"),
    # Torch refuses its backward, which a formula computes.
    "refused": Case(
        ("races", "late"),
        "torch-algorithms",
        more=" + nn.functional.interpolate(table.weight[None, None], size=(80, 16), mode='bilinear').mean()",
    ),
    "benchmark": Case(("benchmark",), "cudnn-autotune", 3, f"torch.backends.cudnn.benchmark = True; {SEED}"),
    "workspace": Case(("workspace",), "cublas-workspace"),
    "rubbish": Case(("rubbish",), "uninitialized-memory", 10, more=" + torch.empty(1, device=device).clamp(-1, 1)"),
    "no seed": Case(("late",), "torch-rng", 5, before=""),
}


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", NAMES)
def test_what_misbehaves_is_named(name: str, case: str, layers: str, tmp_path: Path) -> None:
    """The factor, its line where it has one, and a remedy that is verified."""
    own, (shape, made) = CASES[case], LAYERS[layers]
    script = TRAIN.format(before=own.before, layers=made, shape=shape, more=own.more)
    found = answer(tmp_path, script, name, *own.faults)

    causes = [(cause["factor"], cause["location"] and cause["location"]["line"]) for cause in found["causes"]]
    assert causes == ([(own.factor, own.line)] if own.factor else [])
    assert found["verdict"] == ("different" if own.factor else "same")
    assert not own.factor or (found["causes"][0]["confirmed"] and found["remedy"]["verified"])
    assert (case == "refused") == ("call samebits.pin(factors=" in str(found["rows"]))


def answer(folder: Path, source: str, name: str, *faults: str) -> dict[str, Any]:
    (folder / "train.py").write_text(source)
    return answered(folder, "check", "train.py", **environment(name, *faults))


STREAMS = """import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential({layers}).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(16, 256, 8).pin_memory()
rows, batch = torch.randn(256, 8).cuda(), torch.zeros(256, 8, device="cuda")
average = [one.detach().clone() for one in model.parameters()]
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
torch.cuda.synchronize()
for step in range(16):
    {before}
    with torch.cuda.stream(side), torch.no_grad():
        x = {made}
    {after}
    loss = model(x.view(-1, {shape})).flatten(1).logsumexp(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.cuda.synchronize()
torch.save([model.state_dict(), average], "model.pt")
"""
USED = {"before": "pass", "after": "main.wait_stream(side); x.record_stream(main)"}
OVERWRITTEN = {"before": "side.wait_stream(main)", "after": "main.wait_stream(side)"}
WORK = {
    "copied": ("data[step].to('cuda', non_blocking=True) * 2 + 1", USED, "after"),
    "computed": ("sum(torch.sin(rows * n) for n in range(20))", USED, "after"),
    "overwritten": ("batch.copy_(data[step], non_blocking=True)", OVERWRITTEN, "before"),
    "averaged": ("(torch._foreach_lerp_(average, list(model.parameters()), 0.1), rows)[1]", OVERWRITTEN, "before"),
}


# With a transformer what is overwritten was read by then: the device is waited for in the middle of each step.
@pytest.mark.parametrize(
    ("work", "layers"), [one for one in product(WORK, LAYERS) if one != ("overwritten", "transformer")]
)
@pytest.mark.parametrize("waits", [True, False])
def test_a_stream_that_is_not_waited_for_is_named(waits: bool, work: str, layers: str, tmp_path: Path) -> None:
    """By the line that goes on with it, with a remedy that is verified; one that is waited for is not."""
    made, lines, forgotten = WORK[work]
    shape, layer = LAYERS[layers]
    told = lines if waits else lines | {forgotten: "pass"}
    found = answer(tmp_path, STREAMS.format(layers=layer, shape=shape, made=made, **told), "cuda", "late", "rubbish")

    causes = [(cause["factor"], cause["location"]["line"], cause["confirmed"]) for cause in found["causes"]]
    assert (found["verdict"], causes) == (("same", []) if waits else ("different", [("stream-order", 13, True)]))
    assert waits or found["remedy"]["verified"]


THREADS = """import queue
import threading
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(16, 256, 8)
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
batches = queue.Queue(2)
def feed():
    with torch.cuda.stream(side):
        for rows in data:
            x = rows.cuda()
            for _ in range(20):
                x = torch.sin(x) + x
            batches.put((x, side.record_event()))
thread = threading.Thread(target=feed)
thread.start()
for step in range(16):
    x, ready = batches.get()
    {waits}
    x.record_stream(main)
    loss = model(x).logsumexp(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
thread.join()
torch.save(model.state_dict(), "model.pt")
"""


@pytest.mark.parametrize("waits", [True, False])
def test_what_another_thread_makes_is_waited_for_or_named(waits: bool, tmp_path: Path) -> None:
    """By the line that takes it; where the race shows too rarely to be confirmed, that line is among those named."""
    script = THREADS.format(waits="ready.wait()" if waits else "pass")
    found = answer(tmp_path, script, "cuda", "late", "rubbish")

    if waits:
        assert (found["verdict"], found["causes"]) == ("same", [])
        return
    (cause,) = found["causes"]
    lines = [place["line"] for place in (cause["location"], *cause["others"])]
    assert (found["verdict"], cause["factor"]) == ("different", "stream-order")
    assert lines == [21] if cause["confirmed"] else 21 in lines


def test_the_script_for_a_gpu_is_told_on_the_stand_in(tmp_path: Path) -> None:
    """The same one, with its line."""
    found = answer(tmp_path, FORGOTTEN.read_text(), "cuda", "late", "rubbish")

    assert [(one["factor"], one["location"]["line"]) for one in found["causes"]] == [("stream-order", 12)]
