"""Two run folders have one comparison: the command and the library say the same of them."""

import json
import sqlite3
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import samebits
from samebits.base.errors import RecordingError
from samebits.cli.commands.diff import command
from samebits.runfolder.steps import file_name
from tests.schemas import assert_valid

RECORDED = "initial state, data, losses, gradients, parameters, optimizer states"
SAME = f"same bits: 3 steps agree in {RECORDED} and the final state"
SAME_OPS = f"same bits: 3 steps agree in {RECORDED}, the final state and operations"


def train(noise: float = 0.0, at: int = 1, level_up: float = 0.0) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        # A product that nothing depends on: only operations show it.
        torch.ones(2) * level_up
        loss = model(torch.randn(8, 4)).square().mean()
        if step == at:
            loss = loss + loss.detach() * noise
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs at both levels."""
    monkeypatch.chdir(tmp_path)
    kinds = {"plain": {}, "again": {}, "noisy": {"noise": 0.1}, "unseen": {"level_up": 1.0}}
    for name, more in kinds.items():
        for level in ("step", "op"):
            with samebits.record(tmp_path / f"{name}-{level}", level=level):
                train(**more)
    return tmp_path


@pytest.mark.parametrize(
    ("a", "b", "is_same", "headline"),
    [
        ("plain-step", "again-step", True, SAME),
        ("plain-op", "again-op", True, SAME_OPS),
        ("plain-step", "again-op", True, SAME),
        ("plain-step", "unseen-step", True, SAME),
        ("plain-op", "unseen-op", False, "different bits: the runs diverge at step 0, op"),
        ("plain-op", "noisy-op", False, "different bits: the runs diverge at step 1, op"),
        ("plain-step", "noisy-step", False, "different bits: the runs diverge at step 1, in the loss"),
        ("plain-op", "noisy-step", False, "different bits: the runs diverge at step 1, in the loss"),
    ],
)
def test_the_command_and_the_library_agree(recorded: Path, a: str, b: str, is_same: bool, headline: str) -> None:
    """Whether operations were recorded in both, in one or in none of the runs; the text names what was compared."""
    text, data = (CliRunner().invoke(command, [*form, a, b]) for form in ([], ["--format", "json"]))
    library = samebits.compare(a, b)
    document = json.loads(data.stdout)

    assert_valid(document)
    assert text.stdout.startswith(headline)
    assert library.same is is_same
    assert (text.exit_code, data.exit_code) == (0, 0) if is_same else (1, 1)
    assert document["verdict"] == ("same" if is_same else "different")
    compared = document["comparison"]
    assert (compared["op"] is not None) == (library.op is not None) == headline.endswith(", op")
    assert ("operations" in text.stdout) == compared["compares_ops"] == (a.endswith("-op") and b.endswith("-op"))
    assert compared["streams"] == ["init", "batch", "loss", "grad", "param", "optimizer", "end"]


def test_of_a_killed_run_nothing_is_said_that_it_lacks(recorded: Path) -> None:
    """Its operations end in the middle: not a difference; one that was not killed differs."""
    for is_complete in (1, 0):
        with sqlite3.connect(recorded / "again-op" / file_name(0, 0)) as database:
            database.execute("DELETE FROM ops WHERE step = 2")
            database.execute("DELETE FROM steps WHERE step >= 2")
            database.execute("UPDATE meta SET value = ? WHERE key = 'complete'", (str(is_complete),))
        database.close()

        assert samebits.compare("plain-op", "again-op").same is not bool(is_complete)


def test_nothing_in_common_is_no_agreement(recorded: Path) -> None:
    """Recordings without any stream are an error, not "same bits"."""
    for name in ("plain-step", "again-step"):
        with sqlite3.connect(recorded / name / file_name(0, 0)) as database:
            database.execute("DELETE FROM steps")
            database.execute("DELETE FROM meta WHERE key = 'streams'")
        database.close()

    with pytest.raises(RecordingError, match="nothing that could be compared"):
        samebits.compare("plain-step", "again-step")
