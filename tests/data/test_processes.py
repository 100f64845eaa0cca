"""Real ranks, a process that is killed and resumed, and workers that die."""

import contextlib
import gc
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from samebits.base.errors import WorkerDiedError
from samebits.data import DataLoader
from tests.data.augment import KINDS
from tests.data.killed_probe import TAKEN
from tests.data.test_matrix import joined, plain

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def run(*command: str, status: int = 0, **environ: str) -> None:
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environ},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == status, done.stderr


def as_json(epochs: Any) -> Any:
    return json.loads(json.dumps(epochs))


@pytest.mark.parametrize(
    ("ranks", "after", "workers", "workers_after"),
    [(2, 1, 0, 2), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((2, 3, 1, 0), (4, 1, 0, 2)))],
)
def test_real_ranks(tmp_path: Path, ranks: int, after: int, workers: int, workers_after: int) -> None:
    """Processes that torchrun starts make up the global batches, and others go on where they were broken off."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
    probe = (str(HERE / "ranks_probe.py"), str(tmp_path))
    run(*torchrun, str(ranks), *probe, WORKERS=str(workers))
    run(*torchrun, str(after), *probe, "resume", WORKERS=str(workers_after))

    begun = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(ranks)]
    rest = [json.loads((tmp_path / f"rank{rank}-resumed.json").read_text()) for rank in range(after)]
    for kind in KINDS:
        whole = as_json(plain(kind)[0])
        assert joined([[part[kind]] for part in begun]) == [whole[:TAKEN]]
        assert joined([[part[kind]] for part in rest]) == [whole[TAKEN:]]


@pytest.mark.parametrize(("workers", "workers_after"), [(2, 0), (0, 2)])
def test_killed_and_resumed(tmp_path: Path, workers: int, workers_after: int) -> None:
    """SIGKILL in mid-epoch, and the next process goes on with the very next sample."""
    probe = (str(HERE / "killed_probe.py"), str(tmp_path))
    run(*probe, str(workers), "kill", status=-signal.SIGKILL)
    run(*probe, str(workers_after), "resume")

    for kind in KINDS:
        rest = json.loads((tmp_path / f"{kind}-rest.json").read_text())
        assert rest == as_json(plain(kind)[0][TAKEN:])


class Deadly(torch.utils.data.Dataset[int]):
    """One sample kills whoever fetches it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> int:
        if index == 13:
            # What was fetched before is on its way, and must not be held back by the death.
            time.sleep(0.3)
            os.kill(os.getpid(), self.number)
        return index


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_dead_worker_is_told_with_its_sample(number: int) -> None:
    """Which of several workers it was, and what it fetched; the batches before it come through."""
    loader = DataLoader(Deadly(number), batch_size=4, num_workers=2, seed=0)
    iterator = iter(loader)
    taken = [next(iterator).tolist() for _ in range(2)]

    with pytest.raises(WorkerDiedError, match=r"while fetching sample 13 \(number 13 of epoch 0\)") as caught:
        list(iterator)
    assert taken == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert loader.state_dict()["samples"] in (8, 12)
    assert isinstance(caught.value, RuntimeError)
    assert "samebits.data.fetch" in str(caught.value)


def test_no_worker_outlives_a_dead_one() -> None:
    """Nor does anybody wait for them: the error keeps nothing alive."""
    gc.disable()
    try:
        before = set(torch.multiprocessing.active_children())
        start = time.monotonic()
        with contextlib.suppress(WorkerDiedError):
            list(DataLoader(Deadly(signal.SIGKILL), batch_size=4, num_workers=2, seed=0))
        seconds = time.monotonic() - start

        assert set(torch.multiprocessing.active_children()) == before
        assert seconds < 5
    finally:
        gc.enable()


def test_a_worker_that_stays_alive_is_no_worry() -> None:
    """The nearest legal dataset: the same with a signal that does nothing."""
    loader = DataLoader(Deadly(0), batch_size=4, num_workers=2, seed=0)

    assert list(itertools.chain(*(batch.tolist() for batch in loader))) == list(range(40))
