"""Several ranks of one training over gloo, each of which writes down what it saw."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from tests.integrations.small import Seen

ROOT = Path(__file__).parents[2]


def run_ranks(module: str, folder: Path, world_size: int = 2) -> list[dict[str, Seen]]:
    """For every rank: whole run and resumed ones, by name, as the module's `main` gives them to `write`."""
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    done = subprocess.run(
        [*command, f"--nproc-per-node={world_size}", "-m", module, str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [torch.load(folder / f"rank-{rank}.pt", weights_only=False) for rank in range(world_size)]


def write(folder: Path, seen: dict[str, Seen]) -> None:
    """What this rank saw. gloo's threads are ended first: left to the interpreter, they bring it down at times."""
    torch.save(seen, folder / f"rank-{os.environ['RANK']}.pt")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
