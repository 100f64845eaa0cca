"""The step-level recording of every usual way to train: how many steps, which streams, which names."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import samebits
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.steps import COMPARED, Recording
from tests.agent import styles
from tests.sharing import made_once

STEPS = styles.STEPS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """One run of all styles; every style is one forked process with a recording of its own."""
    return RunFolder(made_once(tmp_path_factory, "styles", run_styles) / "run")


def run_styles(folder: Path) -> None:
    script = Path(__file__).with_name("styles.py")
    command = [sys.executable, "-m", "samebits", "run", "--no-pin", "--out", str(folder / "run"), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.fixture(scope="module")
def recordings(folder: RunFolder) -> dict[str, Recording]:
    return dict(zip((style.__name__ for style in styles.STYLES), folder.recordings(), strict=True))


ALL = {"init", "batch", "loss", "grad", "param", "optimizer"}
EXPECTED = {
    "sgd": (STEPS, ALL),
    "foreach_adam": (STEPS, ALL),
    "fused_adamw": (STEPS, ALL),
    "custom_optimizer": (STEPS, ALL),
    "gan": (2 * STEPS, ALL),
    "accumulation": (STEPS, ALL),
    "autocast": (STEPS, ALL),
    "lbfgs": (STEPS, ALL),
    "no_optimizer": (STEPS, ALL - {"optimizer"}),
    "no_module": (STEPS, {"loss", "grad", "param"}),
    "forward_only": (STEPS, {"init", "batch", "output"}),
    "loader": (3, ALL),
    "sparse": (STEPS, ALL),
    # The call that makes the parameters is nobody's training.
    "lazy": (STEPS, ALL | {"output", "buffer"}),
    "saved": (STEPS, ALL),
    "checkpointed": (STEPS, ALL),
}


@pytest.mark.parametrize("style", EXPECTED)
def test_steps_and_streams(recordings: dict[str, Recording], style: str) -> None:
    """A step is an optimizer step, else a backward, else a call of the outermost module."""
    recording = recordings[style]
    steps, streams = EXPECTED[style]

    assert recording.complete
    assert recording.steps == steps
    found = recording.columns(0)
    assert set(found) - {"rng", "number"} == streams
    assert ("number" in found) == ("loss" in found)


def test_losses_are_there_as_numbers(tmp_path: Path) -> None:
    """As the 64 bits of a double, under their dtype; they explain, and are no part of what is compared."""
    with samebits.record(tmp_path / "a"):
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            optimizer.zero_grad()
            weight.sum().to(dtype).backward()
            optimizer.step()
    (recording,) = RunFolder(tmp_path / "a").recordings()
    words = [recording.columns(step)["number"] for step in range(3)]
    losses = [struct.unpack("<d", struct.pack("<Q", column.digests[0]))[0] for column in words]

    assert [column.names for column in words] == [("0 float32",), ("0 float64",), ("0 bfloat16",)]
    assert losses[0] == 3.0
    assert "number" not in COMPARED


def test_every_style_is_expected() -> None:
    """No style lies about unchecked."""
    assert set(EXPECTED) == {style.__name__ for style in styles.STYLES}


def test_parameters_have_their_names(recordings: dict[str, Recording]) -> None:
    """As the module calls them; every stream of one optimizer in the same order."""
    columns = recordings["sgd"].columns(0)

    assert columns["init"].names == columns["grad"].names == columns["param"].names
    assert columns["param"].names == ("0.weight", "0.bias", "2.weight", "2.bias")
    assert "0.weight.momentum_buffer" in columns["optimizer"].names


def test_parameters_change_and_the_batch_does_not(recordings: dict[str, Recording]) -> None:
    """The digests follow the tensors: other parameters in every step, the same batch in every step."""
    recording = recordings["sgd"]
    params = [tuple(recording.columns(step)["param"].digests) for step in range(STEPS)]
    batches = [tuple(recording.columns(step)["batch"].digests) for step in range(STEPS)]

    assert len(set(params)) == STEPS
    assert len(set(batches)) == 1


def test_what_a_model_has_made_is_no_data(tmp_path: Path) -> None:
    """Where a program calls the parts of its model one by one, only what the first one is given is data."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with samebits.record(tmp_path / "a"):
        hidden = net[:2](torch.ones(3, 2)).cumsum(0)
        torch.nn.MSELoss()(net[2](hidden), torch.zeros(3, 1)).backward()
        optimizer.step()
    (recording,) = RunFolder(tmp_path / "a").recordings()

    # The target of the loss is data, too.
    assert recording.columns(0)["batch"].names == ("0[0]", "1[1]")


def test_two_optimizers_take_turns(recordings: dict[str, Recording]) -> None:
    """A GAN's steps alternate between the parameters of both networks."""
    names = [recordings["gan"].columns(step)["param"].names for step in range(4)]

    assert names[0] == names[2] != names[1] == names[3]


@pytest.mark.parametrize(
    ("style", "step", "stream", "names"),
    [
        # Two backwards, two losses, one step.
        ("accumulation", 1, "loss", ("0", "1")),
        # LBFGS evaluates its closure more than once in a step.
        ("lbfgs", 0, "loss", ("0", "1", "2", "3")),
        # Both tensors of a pair, once, and not again as the input of the module.
        ("loader", 0, "batch", ("0[0]", "0[1]")),
    ],
)
def test_what_a_step_has_of_a_stream(
    style: str, step: int, stream: str, names: tuple[str, ...], recordings: dict[str, Recording]
) -> None:
    """Everything that came in it, in its order."""
    assert recordings[style].columns(step)[stream].names == names


def test_what_is_saved_is_an_artifact_of_tensors(recordings: dict[str, Recording]) -> None:
    """After the last step comes an end row; the date in the checkpoint is no evidence."""
    recording = recordings["saved"]

    assert recording.kind(STEPS) == "end"
    names = recording.columns(STEPS)["artifact"].names
    assert "0.model.0.weight" in names
    assert not any("when" in name for name in names)


def test_workers_record_nothing_themselves(folder: RunFolder) -> None:
    """A DataLoader worker is no training process: one recording per style, and no more."""
    assert len(folder.recordings()) == len(styles.STYLES)
