"""Two ranks that torchrun begins again after one of them was killed, and then, to compare with, an uninterrupted run.

torchrun --max-restarts 1 -m tests.state.restarted FOLDER SEED
"""

import json
import os
import random
import signal
import sys
from pathlib import Path

import torch

import samebits
from tests.state.trainings import Loop

STEPS = 9
EVERY = 2


def run(folder: Path, seed: int, killed_at: int = -1) -> tuple[int, str]:
    """Under DistributedDataParallel, with dropout of each rank's own: where it began, and what it ended with."""
    rank = torch.distributed.get_rank()
    loop = Loop(seed, torch.nn.parallel.DistributedDataParallel, batch_size=8, last_batch="drop")
    torch.manual_seed(samebits.derive(seed, "rank", rank))
    steps = []
    for step in loop.training.steps(STEPS, folder, every=EVERY):
        steps.append(step)
        loop.step()
        if step == killed_at and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    return steps[0], loop.digest()


def main() -> None:
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    rank, restarts = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    # A store for each attempt: through that of torchrun, gloo (torch 2.13) meets the addresses of the one before.
    store = torch.distributed.FileStore(str(folder / f"store-{restarts}"), 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    killed_at = random.Random(seed).randrange(EVERY, STEPS) if restarts == 0 else -1
    # Begun again, with another seed: nothing may hang on it.
    began, resumed = run(folder / "ckpt", seed + 100 * restarts, killed_at)
    answer = {
        "restarts": restarts,
        "began": began,
        "resumed": resumed,
        "whole": run(folder / "whole", seed)[1],
        "other seed": run(folder / "other", seed + 100)[1],
    }
    (folder / f"rank-{rank}.json").write_text(json.dumps(answer))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
