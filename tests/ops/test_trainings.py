"""Trainings that deterministic algorithms refuse repeat with operations replaced, and are told which."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.schemas import assert_valid
from tests.standin import environment, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

NETS_FOLDER = Path(__file__).parent / "nets"
# What of each net is replaced, and how often in a step.
NETS = {
    "segmentation": {
        "_adaptive_avg_pool2d_backward": 2,
        "nll_loss2d_forward": 1,
        "upsample_bicubic2d_backward": 1,
        "upsample_bilinear2d_backward": 4,
    },
    "detection": {"grid_sampler_2d_backward": 1, "nll_loss2d_forward": 1, "upsample_bilinear2d_backward": 1},
    "ocr": {"_ctc_loss_backward": 1, "adaptive_max_pool2d_backward": 1, "reflection_pad1d_backward": 1},
    "medical": {
        "_adaptive_avg_pool3d_backward": 1,
        "adaptive_max_pool3d_backward": 1,
        "avg_pool3d_backward": 1,
        "max_pool3d_with_indices_backward": 1,
        "nll_loss2d_forward": 1,
        "upsample_trilinear3d_backward": 2,
    },
    "graph": {"bincount": 1, "index_reduce": 2},
}
STEPS = 3


def run(
    folder: Path, net: str, *words: str, steps: int = STEPS, threads: int = 2
) -> "subprocess.CompletedProcess[str]":
    shutil.copy(NETS_FOLDER / f"{net}.py", folder)
    script = [f"{net}.py", "--steps", str(steps), "--batch", "2"]
    env = environment("cuda", "races") | {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "samebits", *words, *script]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "net", ["medical", *(pytest.param(one, marks=pytest.mark.slow) for one in NETS if one != "medical")]
)
def test_a_training_repeats(net: str, tmp_path: Path) -> None:
    """Left alone, it does not."""
    free = {run(tmp_path, net, "run", "--no-pin").stdout for _ in range(2)}
    # Unasked, and by its name.
    ours = [run(tmp_path, net, "run", *pins) for pins in ([], ["--pin", "torch-algorithms=replace"])]

    assert len(free) == 2
    assert [one.returncode for one in ours] == [0, 0], ours[0].stderr
    assert ours[0].stdout == ours[1].stdout
    (line,) = [one for one in ours[0].stderr.splitlines() if one]
    found = Counter[str]()
    for name, calls in re.findall(rf"(\w+) \(\S*{net}.py:\d+, (\d+) calls?\)", line):
        found[name] += int(calls)
    assert found == {name: STEPS * calls for name, calls in NETS[net].items()}


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
def test_torch_refuses(net: str, tmp_path: Path) -> None:
    """Where nothing is replaced, with the line that called it."""
    refused = run(tmp_path, net, "run", "--pin", "torch-algorithms=strict")

    assert refused.returncode == 1
    assert re.search(rf"called at \S*{net}.py:\d+", refused.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
def test_a_training_repeats_with_one_thread(net: str, tmp_path: Path) -> None:
    """In which nothing but the device races."""
    assert (
        len({run(tmp_path, net, "run", "--pin", "torch-algorithms=replace", threads=1).stdout for _ in range(2)}) == 1
    )


@pytest.mark.slow
def test_its_price_is_measured(tmp_path: Path) -> None:
    """With what was replaced in the recorded steps, by itself and in the default set."""
    options = ["--format", "json", "--budget", "400", "--warm-up", "5", "--factor", "torch-algorithms"]
    found = json.loads(run(tmp_path, "detection", "cost", *options, steps=2000).stdout)
    assert_valid(found)
    prices = {price["candidate"]["label"]: price for price in found["prices"]}

    assert not found["plain"]["repeats"]
    for ours in (prices["default set"], prices["torch-algorithms"]):
        assert ours["repeats"]
        assert ours["ratio"]["low"] > 0
        assert re.findall(r"(\w+) \(\S*detection.py:\d+, (\d) calls\)", ours["replaced"]) == [
            (name, "5") for name in NETS["detection"]
        ]


@pytest.mark.slow
def test_a_check_tells_what_was_replaced(tmp_path: Path) -> None:
    """Beside its verdict, also where runs are ended before their script does."""
    checked = run(tmp_path, "detection", "check", "--max-steps", "2", "--pin", "torch-algorithms")

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert re.search(r"note +replaced: grid_sampler_2d_backward \(\S*detection.py:\d+, 2 calls\)", checked.stdout), (
        checked.stdout
    )
