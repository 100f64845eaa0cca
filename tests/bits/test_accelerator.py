"""What accelerators are asked for, as far as it shows without one: launches, copies, waits, graphs, failures."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks import launches
from samebits.accelerators import devices
from samebits.agent import log
from samebits.agent.recorder import Recorder
from samebits.agent.taps import graphs
from samebits.bits import digest as digest_package
from samebits.bits.digest import Pending, digests, keys, numbers, pending, sums
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Failed, Journal, Unseen, read_notes
from samebits.runfolder.spec import RunSpec
from tests.agent.recording import record_in, train

COPIED_BIT_BY_BIT = {torch.float32, torch.float64, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
DTYPES = [
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "int16", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32"),
        *("complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"),
    )
    if hasattr(torch, name)
]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every tensor lay on an accelerator."""
    monkeypatch.setattr(digest_package, "host_digests", lambda tensors: [None] * len(tensors))
    monkeypatch.setattr(log, "digests_on_host", lambda tensors: [None] * len(tensors))


# ---- launches, copies, uploads


@pytest.mark.usefixtures("elsewhere")
def test_a_pack_holds_no_dtype_that_a_device_could_convert(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every dtype and look goes in as one that is copied bit by bit, with others of its kind."""
    packs: list[list[Tensor]] = []
    real = torch._C._nn.flatten_dense_tensors

    def flatten(parts: list[Tensor]) -> Tensor:
        packs.append(parts)
        return real(parts)

    monkeypatch.setattr(torch._C._nn, "flatten_dense_tensors", flatten)
    tensors = [torch.zeros(4 * 3 * 5 * 2 * dtype.itemsize, dtype=torch.uint8).view(dtype) for dtype in DTYPES]
    views = [look.view(4, 3, 5, 2).to(memory_format=torch.channels_last) for look in tensors]
    digests([*tensors, *views])

    assert {one.dtype for parts in packs for one in parts} <= COPIED_BIT_BY_BIT
    assert all(len({one.dtype for one in parts}) == 1 for parts in packs)
    assert sum(len(parts) for parts in packs) == 2 * 2 * len(DTYPES)


def test_a_step_takes_few_launches() -> None:
    """The counts of `benchmarks/launches.py`, and what a large tensor takes beside itself."""
    parameters, buffers = launches.resnet50()
    resnet = launches.counted(parameters, parameters, buffers)
    gpt = launches.counted(*2 * [launches.gpt2_medium()[0]])
    huge = launches.made((8, 1 << 20, 64)).transpose(1, 2)
    slabs = launches.counted([huge])

    assert resnet.launches <= 65
    assert gpt.launches <= 420
    assert gpt.bytes / sum(2 * one.nbytes for one in launches.gpt2_medium()[0]) < 6
    assert huge.nbytes == 1 << 31
    assert slabs.largest <= 32 << 20


@pytest.mark.usefixtures("elsewhere")
def test_plans_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network with two hundred lists of shapes uploads nothing from its second step on."""
    sums.plan_of.cache_clear()
    uploads: list[int] = []

    def upload(values: Tensor, device: torch.device) -> Tensor:
        uploads.append(values.nbytes)
        return values.to(device)

    monkeypatch.setattr(sums, "uploaded", upload)
    steps = []
    for _ in range(2):
        for count in range(200):
            digests([torch.ones(count + 1), torch.ones(3)])
        steps.append(len(uploads))

    assert steps == [200, 200]


def test_uploads_come_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """And are not waited for, on CUDA; elsewhere nothing is pinned."""
    asked: list[Any] = []
    with FakeTensorMode():
        values = torch.ones(3, dtype=torch.int64)
        monkeypatch.setattr(Tensor, "pin_memory", lambda tensor: asked.append("pinned") or tensor)
        monkeypatch.setattr(Tensor, "to", lambda tensor, *args, **more: asked.append((str(*args), more)) or tensor)
        keys.uploaded(values, torch.device("cuda", 1))
        keys.uploaded(values, torch.device("cpu"))

    assert asked == ["pinned", ("cuda:1", {"non_blocking": True}), ("cpu", {})]


# ---- several devices, and waiting


class Stream:
    """Stands in for a device's stream, and notes what is asked of it."""

    def __init__(self, device: Any, asked: list[str]) -> None:
        self.device, self.asked = device, asked

    def record_event(self) -> Any:
        self.asked.append(f"recorded on {self.device}")
        return SimpleNamespace(synchronize=lambda: self.asked.append(f"waited for {self.device}"))


def test_each_device_is_waited_for_on_its_own_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on the current device's, which may be another, nor where there are no sums."""
    asked: list[str] = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: Stream(device, asked))
    with FakeTensorMode():
        there = [torch.empty(2, dtype=torch.int64, device=device) for device in ("cuda:1", "cuda:0", "cuda:1", "cpu")]
    events = digest_package._events([([number], one) for number, one in enumerate(there)])
    recorded = list(asked)
    Pending([7], [], events).result()

    assert recorded == ["recorded on cuda:1", "recorded on cuda:0"]
    assert asked[2:] == ["waited for cuda:1", "waited for cuda:0"]
    assert [devices.current_stream(torch.device(kind)) for kind in ("cpu", "mps")] == [None, None]


@pytest.mark.parametrize("has_doubles", [True, False])
def test_numbers_without_doubles(has_doubles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device without float64 gives the same number for single precision; later writes do not reach it."""
    monkeypatch.setattr(digest_package, "_has_doubles", lambda tensor: has_doubles)
    monkeypatch.setattr(Tensor, "device", torch.device("mps"))
    losses = [torch.tensor(-1.1), torch.tensor([0.3], dtype=torch.bfloat16), torch.tensor(2.5, dtype=torch.float64)]
    expected = [int(struct.unpack("<Q", struct.pack("<d", float(loss.double())))[0]) for loss in losses]
    under_way = numbers(losses)
    monkeypatch.undo()
    for loss in losses:
        loss.zero_()

    assert isinstance(under_way, Pending)
    assert under_way.result() == expected


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(RunSpec(), Journal(tmp_path))
    made.install()
    yield made
    made.uninstall()


class Late(Pending):
    """Digests that lie on an accelerator, as far as anybody can see."""

    is_under_way = True  # type: ignore[assignment]


@pytest.fixture
def late(elsewhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if digests had to be fetched."""
    monkeypatch.setattr(log, "pending", lambda *args: Late(**vars(pending(*args))))


def fetched(monkeypatch: pytest.MonkeyPatch, fails: Callable[[int], bool] = lambda count: False) -> list[int]:
    """How many digests each fetch brings from now on; some may fail as a broken device does."""
    counts: list[int] = []
    real = log.results

    def results(waiting: Any) -> Any:
        counts.append(len(waiting))
        if fails(len(counts)):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return real(waiting)

    monkeypatch.setattr(log, "results", results)
    return counts


@pytest.mark.usefixtures("late")
def test_many_rows_are_fetched_at_once(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen steps are one look at the device, and what they hold is what one step at a time holds."""
    counts = fetched(monkeypatch)
    train(log.ROWS_WAITING)
    recorder.finish()
    (recording,) = RunFolder(tmp_path).recordings()

    assert len(counts) == 2  # the steps, and the end
    assert counts[0] > 4 * log.ROWS_WAITING
    assert recording.steps == log.ROWS_WAITING
    assert recording.complete
    assert len(set(recording.columns(0)["param"].digests) | set(recording.columns(9)["param"].digests)) == 4


@pytest.mark.usefixtures("late")
def test_a_device_that_fails_ends_the_recording_alone(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was fetched before is on disk, the mistake is noted, and whoever leaves gets away."""
    fetched(monkeypatch, fails=lambda count: count == 2)
    train(log.ROWS_WAITING + 2)
    recorder.finish()
    recorder.finish()
    (note,) = read_notes(tmp_path, Failed)
    (recording,) = RunFolder(tmp_path).recordings()

    assert "an illegal memory access" in note.message
    assert recording.steps == log.ROWS_WAITING
    assert not recording.complete


# ---- CUDA graphs


class Graph:
    """Stands in for `torch.cuda.CUDAGraph`: its replay calls nothing."""

    is_capturing = False

    def capture_begin(self, *_: Any, **__: Any) -> None:
        Graph.is_capturing = True

    def capture_end(self) -> None:
        Graph.is_capturing = False

    def replay(self) -> None:
        self.replays = getattr(self, "replays", 0) + 1


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch) -> type[Graph]:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: Graph.is_capturing)
    monkeypatch.setattr(torch.cuda, "default_generators", (), raising=False)
    return Graph


def captured_training(graph: Graph, replays: int) -> None:
    """A whole step captured, as torch's documentation has it, and replayed."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 4)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        optimizer.step()

    for _ in range(3):
        step()
    graph.capture_begin()
    step()
    graph.capture_end()
    for _ in range(replays):
        graph.replay()
        with torch.no_grad():
            # What the graph would have computed: no hook sees it.
            for parameter in model.parameters():
                parameter.mul_(0.5)


def test_a_capture_is_left_alone_and_a_replay_that_trains_is_a_step(graph: type[Graph], tmp_path: Path) -> None:
    """Three warm-up steps, nothing of the captured one, and a row of parameters for each replay, which is said."""
    digested_inside: list[bool] = []
    real = log.Log.add

    def add(self: Any, stream: str, named: Any) -> None:
        digested_inside.append(Graph.is_capturing)
        real(self, stream, named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log.Log, "add", add)
        one = graph()
        record_in(tmp_path, lambda: captured_training(one, replays=2), RunSpec())
    (recording,) = RunFolder(tmp_path).recordings()

    assert one.replays == 2
    assert digested_inside
    assert not any(digested_inside)
    assert recording.steps == 5
    assert recording.columns(3)["param"] != recording.columns(4)["param"]
    assert graphs.UNSEEN in [note.what for note in read_notes(tmp_path, Unseen)]
    assert Graph.replay.__name__ == "replay"
    assert not hasattr(Graph.replay, "__wrapped__")


def test_a_replay_that_does_not_train_is_no_step(graph: type[Graph], tmp_path: Path) -> None:
    """Graphed forwards and backwards within a plain loop: as many steps as the optimizer takes."""
    one = graph()

    def work() -> None:
        one.capture_begin()
        one.capture_end()
        one.replay()
        train(2)
        one.replay()

    record_in(tmp_path, work, RunSpec())
    (recording,) = RunFolder(tmp_path).recordings()

    assert recording.steps == 2
