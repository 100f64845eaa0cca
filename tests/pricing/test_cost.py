"""`samebits cost` on real scripts with planted prices."""

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from samebits.runfolder.notes import Started, read_notes
from tests.schemas import assert_valid

TRAIN = """
import sys, time, torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range({steps}):
    loss = model(torch.ones(2 + {shapes}, 4)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {body}
"""


def cost(
    tmp_path: Path, *options: str, body: str = "pass", steps: int = 400, shapes: str = "0"
) -> tuple[int, Any, str]:
    """Exit status, JSON document, stderr."""
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAIN.format(body=body, steps=steps, shapes=shapes)))
    command = [sys.executable, "-m", "samebits", "cost", "--format", "json", "--warm-up", "5", *options, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    document = json.loads(done.stdout)
    assert_valid(document)
    return done.returncode, document, done.stderr


# As many blocks of steps are timed as the script has: 25.
@pytest.mark.parametrize("no_op", [[], pytest.param(["--factor", "float-precision"], marks=pytest.mark.slow)])
def test_a_slow_pin_is_found_with_its_true_ratio_and_a_no_op_is_none(tmp_path: Path, no_op: list[str]) -> None:
    """A step sleeps 10 ms, with deterministic algorithms 5 ms more; the precision of products changes nothing here."""
    body = "time.sleep(0.015 if torch.are_deterministic_algorithms_enabled() else 0.010)"
    factors = ("--factor", "torch-algorithms", *no_op)
    status, found, _ = cost(tmp_path, "--budget", "120", *factors, body=body, steps=130, shapes="step % 3")
    prices = {price["candidate"]["label"]: price for price in found["prices"]}
    slow, without = prices["torch-algorithms"]["ratio"], prices["all but torch-algorithms"]["ratio"]

    # A step takes 10 ms and whatever its few operations and the clock's coarseness add.
    assert status == 0
    assert 1.25 < slow["low"] <= slow["high"] < 1.6
    assert slow["is_difference"]
    if no_op:
        assert prices["float-precision"]["ratio"]["low"] < 1.03
        assert prices["float-precision"]["ratio"]["high"] > 0.97
    assert without["high"] < slow["low"]
    assert all(price["repeats"] for price in found["prices"])
    assert "torch-algorithms" not in found["recommended"]["candidate"]["pins"]
    assert found["shapes"] == 3
    assert found["impossible"] == []


@pytest.mark.slow
def test_a_pin_under_which_the_script_fails_is_told_and_the_others_are_measured(tmp_path: Path) -> None:
    """With its message and line."""
    body = "assert not torch.are_deterministic_algorithms_enabled(), 'no such kernel'"
    factors = ("--factor", "torch-algorithms", "--factor", "uninitialized-memory")
    status, found, _ = cost(tmp_path, "--budget", "100", *factors, body=f"time.sleep(0.005); {body}")
    prices = {price["candidate"]["label"]: price for price in found["prices"]}

    assert status == 0
    assert "no such kernel" in prices["torch-algorithms"]["failure"]
    assert "no such kernel" in prices["default set"]["failure"]
    assert prices["uninitialized-memory"]["ratio"]["pairs"] >= 5
    assert prices["uninitialized-memory"]["repeats"]
    assert found["recommended"]["candidate"]["label"] in ("nothing", "uninitialized-memory")


@pytest.mark.parametrize(
    ("options", "given", "kind", "told"),
    [
        (["--budget", "1"], {}, "budget", "--budget"),
        pytest.param(
            *(["--budget", "60"], {"steps": 1}, "nothing_trained", "or a few more than 2 with --warm-up 2"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(["--budget", "60"], {"body": "raise OSError('disk')"}, "script_failed", "OSError: disk"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_cannot_be_measured(tmp_path: Path, options: list[str], given: Any, kind: str, told: str) -> None:
    """One clear error, with what to do."""
    status, found, _ = cost(tmp_path, *options, **given)

    assert status == 2
    assert found["error"]["kind"] == kind
    assert told in f"{found['error']['message']} {found['error']['hint']}"
    assert found["recommended"] is None


def test_a_factor_without_a_price_is_refused(tmp_path: Path) -> None:
    """Seeds make no step slower."""
    status, found, _ = cost(tmp_path, "--factor", "python-rng")

    assert (status, found["error"]["kind"]) == (2, "usage")
    assert "python-rng has no effect on the time of a step" in found["error"]["message"]


@pytest.mark.slow
def test_an_interrupt_leaves_no_run_behind(tmp_path: Path) -> None:
    """Neither those that wait for their turn nor those that are starting; the status is the shell's for Ctrl-C."""
    (tmp_path / "train.py").write_text(
        textwrap.dedent(TRAIN.format(body="time.sleep(0.01)", steps=100_000, shapes="0"))
    )
    command = [sys.executable, "-m", "samebits", "cost", "--budget", "900", "--warm-up", "5", "--out", "it", "train.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    pids: set[int] = set()
    while len(pids) < 3 and process.poll() is None:
        time.sleep(0.2)
        pids = {note.pid for path in tmp_path.glob("it/*") for note in read_notes(path, Started)}
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)

    assert len(pids) >= 3
    assert process.returncode == 130
    assert "interrupted; every process was ended" in told
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_several_ranks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for its turn would have the others wait for it; said at once, with what to do instead."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    status, found, _ = cost(tmp_path, "--budget", "60")

    assert (status, found["error"]["kind"]) == (2, "usage")
    assert "2 ranks" in found["error"]["message"]
    assert "without torchrun" in found["error"]["hint"]
