"""Two ranks that torchrun begins again after one of them was killed, and then, to compare with, an uninterrupted run.

torchrun --max-restarts 1 -m tests.state.restarted FOLDER SEED
"""

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import samebits
from samebits.state import Training
from tests.state.trainings import Noisy, digest_of

STEPS = 9
EVERY = 2
ACCUMULATED = 2


class Distributed:
    """Accumulation, dropout of each rank's own, and AdamW with a schedule, under DistributedDataParallel."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
        self.model = nn.parallel.DistributedDataParallel(model)
        torch.manual_seed(samebits.derive(seed, "rank", torch.distributed.get_rank()))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, STEPS)
        self.loader = samebits.data.DataLoader(Noisy(), batch_size=8, shuffle=True, seed=7, last_batch="drop")
        self.batches: Any = iter(())
        self.training = Training(
            model=self.model, optimizer=self.optimizer, scheduler=self.scheduler, loader=self.loader
        )

    def batch(self) -> Any:
        while True:
            try:
                return next(self.batches)
            except StopIteration:
                self.batches = iter(self.loader)

    def step(self) -> None:
        for _ in range(ACCUMULATED - 1):
            with self.model.no_sync():
                self.backward()
        self.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.scheduler.step()

    def backward(self) -> None:
        x, y = self.batch()
        nn.functional.cross_entropy(self.model(x), y).backward()

    def run(self, folder: Path, killed_at: int = -1) -> tuple[int, str]:
        begin = None
        for step in self.training.steps(STEPS, folder, every=EVERY):
            begin = step if begin is None else begin
            self.step()
            if step == killed_at and torch.distributed.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        return begin or 0, digest_of(self.training.state_dict())


def main() -> None:
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    rank, restarts = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    # A store for each attempt: through that of torchrun, gloo (torch 2.13) meets the addresses of the one before.
    store = torch.distributed.FileStore(str(folder / f"store-{restarts}"), 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    killed_at = random.Random(seed).randrange(EVERY, STEPS) if restarts == 0 else -1
    # Begun again, with another seed: nothing may hang on it.
    began, resumed = Distributed(seed + 100 * restarts).run(folder / "ckpt", killed_at)
    answer = {
        "restarts": restarts,
        "began": began,
        "resumed": resumed,
        "whole": Distributed(seed).run(folder / "whole")[1],
        "other seed": Distributed(seed + 100).run(folder / "other")[1],
    }
    (folder / f"rank-{rank}.json").write_text(json.dumps(answer))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
