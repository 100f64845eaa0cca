"""On a device: operations whose backward has a thread of its own, how they are fetched and kept, and replay."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from samebits.accelerators import devices
from samebits.agent.ops.mode import ROWS_WAITING
from samebits.agent.process_end import features_used
from samebits.comparison.ops import first_op_divergence
from samebits.replay.runner import replay
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import OpDiverged, read_notes
from samebits.runfolder.ops import OPERANDS, read_call
from samebits.runfolder.spec import OpWindow
from tests.agent.recording import recorded, rows
from tests.gpu import DEVICE, ON_A_DEVICE, own

pytestmark = ON_A_DEVICE
BLOCKS = 60
# What a replay tries there.
ON_THE_DEVICE = ("beside a matmul", "in used memory", "on two streams")


def training(factor: float = 1.0) -> Callable[[], None]:
    """A deep network over a table, whose gradient is multiplied by a number on its way back."""

    def scaled(gradient: Tensor) -> Tensor:
        return gradient * factor

    def work() -> None:
        torch.manual_seed(0)
        table = nn.Embedding(50, 8).to(DEVICE)
        net = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(BLOCKS))).to(DEVICE)
        optimizer = torch.optim.SGD([*table.parameters(), *net.parameters()], lr=0.1)
        index = torch.arange(30, device=DEVICE) % 7
        for _ in range(2):
            optimizer.zero_grad()
            looked_up = table(index)
            looked_up.register_hook(scaled)
            net(looked_up).square().mean().backward()
            optimizer.step()

    return work


def test_a_backward_has_modules_and_lines(tmp_path: Path) -> None:
    """Of the operations whose backward they are, though the thread that calls them has neither."""
    found = [row for row in rows(recorded(tmp_path / "run", training())) if row.kind.pass_ == "backward"]

    assert len(found) > 2 * BLOCKS
    assert {row.kind.path for row in found} == {__file__}
    assert {f"{number}.0" for number in range(BLOCKS)} <= {row.kind.module.partition(".")[2] for row in found}
    assert {"addmm", "relu", "embedding"} <= {row.kind.backward_of for row in found}


@pytest.mark.slow
def test_another_run_is_read_along_by_the_devices_thread(tmp_path: Path) -> None:
    """Where more operations wait than may, that thread fetches and compares; an operation of the backward is found."""
    first = recorded(tmp_path / "first", training())
    assert len(rows(first)) > 4 * ROWS_WAITING
    recorded(tmp_path / "same", training(), OpWindow(against=str(tmp_path / "first")))
    other = recorded(tmp_path / "other", training(1.5), OpWindow(against=str(tmp_path / "first")))
    (note,) = read_notes(tmp_path / "other", OpDiverged)
    place = first_op_divergence(first, other)

    assert not list(read_notes(tmp_path / "same", OpDiverged))
    assert place is not None
    assert (note.step, note.index) == (place.step, place.index)
    assert place.row.kind.pass_ == "backward"

    keeping = OpWindow(against=str(tmp_path / "first"), keep=((note.step, note.index),))
    recorded(tmp_path / "kept", training(1.5), keeping)
    (kept,) = (tmp_path / "kept" / OPERANDS).glob("*.json")
    again = replay(RunFolder(tmp_path / "kept"), kept, times=2)

    assert set(ON_THE_DEVICE) <= {one.name for one in again.conditions}
    assert not again.is_racy


def drawing(seed: int) -> Callable[[], None]:
    def work() -> None:
        own().manual_seed_all(seed)
        functional.dropout(torch.ones(64, device=DEVICE), 0.5)

    return work


def test_a_draw_is_replayed_from_the_devices_generator(tmp_path: Path) -> None:
    """Its state is evidence, and is given back: the same numbers come out again, wherever the generator is by then."""
    first, other = recorded(tmp_path / "first", drawing(3)), recorded(tmp_path / "other", drawing(4))
    place = first_op_divergence(first, other)
    assert place is not None
    assert (place.finding, place.names) == ("generator", ("generator",))

    recorded(tmp_path / "kept", drawing(3), OpWindow(keep=((place.step, place.index),)))
    (kept,) = (tmp_path / "kept" / OPERANDS).glob("*.json")
    again = replay(RunFolder(tmp_path / "kept"), kept, times=2)

    assert set(ON_THE_DEVICE) <= {one.name for one in again.conditions}
    assert (again.failure, again.distinct, again.gives_recorded) == ("", 1, True)


def test_devices_of_one_process_are_recorded_alike(tmp_path: Path) -> None:
    """However late each of them is; what one of them does otherwise has its line."""
    if own().device_count() < 2:
        pytest.skip("there is one device here")

    def training(factor: float = 1.0) -> Callable[[], None]:
        def work() -> None:
            torch.manual_seed(0)
            layers = [nn.Linear(8, 8, device=f"{DEVICE}:{index}") for index in (0, 1)]
            for _ in range(3):
                x = torch.ones(4, 8, device=f"{DEVICE}:0")
                y = layers[0](x).to(f"{DEVICE}:1")
                y = y * factor  # on the second device
                layers[1](y).sum().backward()

        return work

    first, again = recorded(tmp_path / "first", training()), recorded(tmp_path / "again", training())
    place = first_op_divergence(first, recorded(tmp_path / "other", training(1.5)))

    assert first_op_divergence(first, again) is None
    assert place is not None
    assert place.row.kind.source.endswith("# on the second device")


def test_the_device_is_known_to_be_in_use() -> None:
    """With what its tensors took and what is left; a check makes one run at a time on it."""
    held = torch.ones(1 << 20, device=DEVICE)
    peak = devices.peak_bytes()

    assert devices.kind_in_use() == DEVICE
    assert "accelerator" in features_used()
    assert ("cuda" in features_used()) == (DEVICE != "mps")
    assert peak is not None
    assert peak >= held.nbytes
    assert devices.free_device_bytes()


def test_another_streams_work_is_known_as_such(tmp_path: Path) -> None:
    """Of an input, whether what wrote it was queued on the stream that reads it."""

    def work() -> None:
        side = own().Stream()
        with own().stream(side):
            x = torch.ones(8, device=DEVICE)
        own().current_stream().wait_stream(side)
        (x @ torch.ones(8, device=DEVICE)).sum()

    names = [row.kind.op for row in rows(recorded(tmp_path / "first", work))]
    keep = tuple((0, names.index(name)) for name in ("aten::dot", "aten::sum"))
    recorded(tmp_path / "kept", work, OpWindow(keep=keep))
    dot, total = (read_call(one, tmp_path / "kept") for one in sorted((tmp_path / "kept" / OPERANDS).glob("*.json")))

    assert {name: one.other_stream for name, one in dot.producers.items()} == {"self": True, "tensor": False}
    assert not total.producers["self"].other_stream


@pytest.mark.parametrize("kind", ["cpu", "meta"])
def test_what_is_no_device_has_no_streams(kind: str) -> None:
    assert devices.has_streams(torch.device(DEVICE))
    assert not devices.has_streams(torch.device(kind))
