"""On a device: what a recording must leave as it is, and what it must see and pass by, in trainings of every kind."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import samebits
from samebits.bits.digest import digests
from samebits.runfolder.folder import open_run
from samebits.runfolder.notes import Failed, read_notes
from samebits.runfolder.ops import OpKind, Ops
from tests.answers import answered
from tests.gpu import DEVICE, NEEDS_A_GPU, ON_A_DEVICE

pytestmark = ON_A_DEVICE
DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)


@NEEDS_A_GPU
@pytest.mark.parametrize("name", [name for name in DTYPES if hasattr(torch, name)])
def test_however_a_tensor_lies_it_has_one_digest(name: str) -> None:
    """Among others, alone, and as a copy in order."""
    dtype, generator = getattr(torch, name), torch.Generator().manual_seed(0)
    views = []
    for count in (1, 30, 4095 * 4, 4096 * 7 + 3, 5_000_000):
        raw = torch.randint(0, 2 if dtype is torch.bool else 256, (count * dtype.itemsize,), generator=generator)
        there = raw.to(torch.uint8).to(DEVICE).view(dtype)
        views += [there, there[1:], there[: count // 6 * 6].view(-1, 2, 3).transpose(0, 2)]
    found = digests(views)

    assert found == [digests([one])[0] for one in views] == digests([one.contiguous() for one in views])
    assert len(set(found)) == len({(one.numel(), str(one.shape)) for one in views})


@NEEDS_A_GPU
def test_a_digest_of_much_takes_little_memory() -> None:
    """Of 8 GB, as they lie and transposed: some dozens of megabytes."""
    big = torch.zeros(1 << 15, 1 << 16, device=DEVICE)
    digests([big[:1]])
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    digests([big])
    digests([big.t()])

    assert torch.cuda.max_memory_allocated() - before < 200e6


def mixed(level: str | None, folder: Path) -> list[int]:
    """The end of a pinned training of convolutions and attention in half precision."""
    with samebits.pinned(seed=0):
        net = nn.Sequential(
            nn.Conv2d(3, 16, 3),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Flatten(2),
            nn.Linear(196, 64),
            nn.TransformerEncoderLayer(64, 4, 128, batch_first=True),
            nn.Flatten(),
            nn.Linear(16 * 64, 10),
        ).to(DEVICE)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

        def train() -> None:
            for _ in range(6):
                x, y = torch.randn(32, 3, 16, 16).to(DEVICE), torch.randint(0, 10, (32,)).to(DEVICE)
                with torch.autocast(DEVICE, dtype=torch.bfloat16):
                    loss = nn.functional.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        recorded(folder, train, level)
        return digests([*net.state_dict().values()])


def recorded(folder: Path, work: Callable[[], object], level: str | None) -> None:
    """Nothing failed that was ours; without a level, nothing is recorded."""
    if level is None:
        work()
        return
    with samebits.record(folder, level=level):
        work()
    assert not list(read_notes(folder, Failed))


@pytest.mark.filterwarnings("ignore::samebits.TooLateWarning")
@NEEDS_A_GPU
def test_bits_are_as_without_a_recording(tmp_path: Path) -> None:
    assert mixed(None, tmp_path) == mixed("step", tmp_path / "step") == mixed("op", tmp_path / "op")


def captured() -> list[int]:
    """The end of a training whose step was captured as a graph and replayed."""
    torch.manual_seed(0)
    model = nn.Linear(64, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(32, 64, device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    return digests(list(model.parameters()))


@NEEDS_A_GPU
def test_a_captured_step_stays_whole_and_each_replay_is_a_row(tmp_path: Path) -> None:
    found = [captured()]
    recorded(tmp_path / "run", lambda: found.append(captured()), "step")
    (recording,) = open_run(tmp_path / "run").recordings()

    assert found[0] == found[1]
    assert recording.steps == 8


@NEEDS_A_GPU
def test_compiled_code_with_graphs_is_passed_by(tmp_path: Path) -> None:
    """Kernels are tried out below it, in memory that belongs to a graph."""
    model = nn.Linear(64, 64, device=DEVICE)
    step = torch.compile(lambda x: model(x).relu().sum(), mode="reduce-overhead")

    def work() -> None:
        for _ in range(5):
            step(torch.ones(32, 64, device=DEVICE)).backward()
            model.zero_grad()  # or else torch refuses to add to what the last replay made

    recorded(tmp_path / "run", work, "op")
    recorded(tmp_path / "plain", lambda: model(torch.ones(32, 64, device=DEVICE)), "op")

    assert not {kind.op for kind in kinds(tmp_path / "run") if "mm" in kind.op}
    assert {kind.op for kind in kinds(tmp_path / "plain") if "mm" in kind.op}


def kinds(folder: Path) -> list[OpKind]:
    (recording,) = open_run(folder).recordings()
    return [row.kind for row in Ops(recording).rows()]


@NEEDS_A_GPU
@pytest.mark.parametrize("backend", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"])
def test_attention_repeats_by_every_backend(backend: str) -> None:
    """With what it keeps for its backward: seeds that nobody has set, say."""

    def work() -> None:
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, 4, 256, 64, device=DEVICE).bfloat16().requires_grad_() for _ in range(3))
        with sdpa_kernel(getattr(SDPBackend, backend)):
            nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).float().sum().backward()

    samebits.assert_repeats(work, runs=3)


@NEEDS_A_GPU
def test_recurrent_nets_and_late_copies_repeat() -> None:
    """CuDNN puts weights together before they have values; a copy may return before it is done."""

    def work() -> None:
        torch.manual_seed(0)
        net, norm = nn.LSTM(32, 64, 2, device=DEVICE), nn.BatchNorm2d(64, device=DEVICE)
        net(torch.randn(16, 8, 32, device=DEVICE))[0].sum().backward()
        images = torch.randn(4, 64, 16, 16, device=DEVICE).to(memory_format=torch.channels_last)
        norm(images).square().sum().backward()
        host = torch.full((4_000_000,), 1.5, device=DEVICE).to("cpu", non_blocking=True)
        torch.cuda.synchronize()
        host.sum()

    samebits.assert_repeats(work, runs=3)


@pytest.mark.parametrize("reentrant", [True, False])
def test_places_are_those_of_the_cpu(reentrant: bool, tmp_path: Path) -> None:
    """Of a backward that computes a part of the forward again, in the device's own thread: one recording, as there."""
    found = []
    for device in ("cpu", DEVICE):

        def work(device: str = device) -> None:
            torch.manual_seed(0)
            net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            x = torch.ones(2, 16, device=device, requires_grad=True)
            for _ in range(2):
                optimizer.zero_grad()
                (checkpoint(net, x, use_reentrant=reentrant) + net(x)).sum().backward()
                optimizer.step()

        recorded(tmp_path / device, work, "op")
        backward = [one for one in kinds(tmp_path / device) if one.pass_ == "backward"]
        # What a backward within a backward adds up has no line of the user's in that thread.
        found.append([(one.op, one.module, 0 if reentrant else one.line, one.backward_of) for one in backward])

    assert found[0] == found[1]
    assert {module for _, module, _, _ in found[0]} >= {"net.0", "net.2"}


ASSERTS = """
import torch
from torch import nn

device = torch.accelerator.current_accelerator()
model = nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    kinds = torch.tensor([0, 1, 2, 2 + (step == 1)]).to(device)
    loss = torch.eye(3, device=device).index_select(0, kinds).sum() * model(torch.ones(4, 4, device=device)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""


def test_a_device_that_fails_is_no_mistake_of_ours(tmp_path: Path) -> None:
    """An index out of range breaks all that follows, whoever hears of it first."""
    (tmp_path / "train.py").write_text(ASSERTS)
    error = answered(tmp_path, "check", "train.py")["error"]

    assert error["kind"] == "script_failed"
    assert "device-side assert triggered" in error["message"]
    assert "samebits' mistake" not in error["message"]
