"""Runs side by side and alone: what slows a run down, and is no property of the script, is not held against it."""

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from samebits.checking.plan import CheckRequest
from samebits.checking.pool import APART_SECONDS, RunPool, Watch
from samebits.factors.context import Setting
from samebits.launch.command import parse_command
from samebits.launch.process import Outcome
from samebits.runfolder.spec import RunSpec
from samebits.workspace.place import Place
from tests.running import run_recorded

# What a program and a program that it starts see, and what is there for the libraries that they load.
VARIABLE = """import ctypes, os, subprocess, sys
there = ctypes.CDLL(None).getenv
there.restype = ctypes.c_char_p
print(os.environ.get("OMP_WAIT_POLICY"), there(b"OMP_WAIT_POLICY"))
if len(sys.argv) == 1:
    subprocess.run([sys.executable, __file__, "child"])
"""
TRAIN = """import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(8, 4)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), "model.pt")
"""


def pool_of(folder: Path, monkeypatch: pytest.MonkeyPatch, watch: Watch | None = None, **options: Any) -> RunPool:
    monkeypatch.chdir(folder)
    (folder / "home").mkdir()
    return RunPool(CheckRequest(parse_command(["train.py"]), **options), folder / "home", watch)


@pytest.mark.parametrize(
    ("own", "shares", "seen"),
    [
        ({}, False, "None None"),
        ({}, True, "None b'PASSIVE'"),
        ({"OMP_WAIT_POLICY": "active"}, True, "active b'active'"),
        ({"OMP_WAIT_POLICY": "passive"}, True, "passive b'passive'"),
    ],
)
def test_threads_wait_idly_beside_other_runs(
    own: dict[str, str], shares: bool, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs whose threads spin while they wait take ten times as long as one; the program sees no difference."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "it.py").write_text(VARIABLE)

    outcome = run_recorded(parse_command([str(tmp_path / "it.py")]), RunSpec(shares_cores=shares), tmp_path / "run", 60)

    assert outcome.folder.stdout.read_text().splitlines() == [seen, seen]


def test_a_run_that_took_too_long_beside_another_one_is_repeated_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody loads torch in half a second, so both of them are."""
    (tmp_path / "train.py").write_text(TRAIN)
    pool = pool_of(tmp_path, monkeypatch, jobs=2)
    monkeypatch.setattr(pool, "_limit", lambda plan: 0.5 if plan.shares_cores else None)

    runs = pool.run_all([RunSpec(role, stop_after=1) for role in ("control", "control again")])
    pool.close()

    assert [(run.steps, run.timed_out) for run in runs] == [(2, False)] * 2
    why = "it was ended by samebits after 0.5 s, its time limit"
    assert pool.remarks == [f"run {number} was repeated alone: {why}" for number in (1, 2)]
    assert pool.room == 1


@pytest.mark.parametrize(
    ("settings", "is_repeated"), [({}, True), ({"clock": "pinned"}, True), ({"thread-order": "pinned"}, False)]
)
def test_a_run_that_took_too_long_alone_is_made_once_more(
    settings: dict[str, str], is_repeated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine may have been busy; not where threads in turns may wait for each other for ever."""
    (tmp_path / "train.py").write_text(TRAIN)
    ended: list[float] = []

    def noted(outcome: Outcome, place: Place) -> None:
        ended.append(outcome.wall_seconds)

    pool = pool_of(tmp_path, monkeypatch)
    pool.at_end = noted
    monkeypatch.setattr(pool, "_limit", lambda plan: 0.01 if len(ended) == 1 else None)
    spec = RunSpec("control", settings={name: Setting(mode) for name, mode in settings.items()})
    first, second = pool.run(RunSpec("control")), pool.run(spec)
    pool.close()

    assert not first.timed_out
    assert second.timed_out is not is_repeated
    assert len(ended) == 2 + is_repeated
    assert len(pool.remarks) == is_repeated


@pytest.mark.parametrize(("earlier", "at_once"), [("clock", True), ("hash-seed", False), ("clock hash-seed", False)])
def test_runs_begin_apart_where_nothing_else_tells_their_moment(
    earlier: str, at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs that are compared with an earlier one, too, begin at once: one after the other takes twice as long."""
    (tmp_path / "train.py").write_text(TRAIN)
    began: dict[int, float] = {}

    def noted(number: int, *_: object) -> None:
        began.setdefault(number, time.monotonic())

    with closing(pool_of(tmp_path, monkeypatch, noted, jobs=2)) as pool:
        pool.run(RunSpec("pinned", dict.fromkeys(earlier.split(), Setting("pinned"))))
        first, second = pool.run_all([RunSpec("remedy", {"clock": Setting("pinned")})] * 2)

    apart = began[second.id] - began[first.id]
    assert apart < 1 if at_once else apart >= min(first.wall_seconds, APART_SECONDS)
