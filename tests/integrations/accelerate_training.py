"""A training by accelerate, saved after every batch."""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from torch import nn

from samebits.integrations.accelerate import Loader, WaitingGradients
from tests.integrations.small import Noisy, Seen, digest, disturb, network
from tests.integrations.together import write

SAMPLES, BATCH, EPOCHS = 30, 4, 2


def train(
    folder: Path | None = None,
    checkpoint: Path | None = None,
    workers: int = 0,
    accumulated: int = 1,
    evaluates: bool = False,
    salt: int = 0,
    dataset: Any = None,
    loads_gradients: bool = True,
    batches: int = SAMPLES,
) -> Seen:
    """One training of so many batches per epoch; saved in `folder`, begun from `checkpoint`."""
    AcceleratorState._reset_state(reset_partial_state=False)
    GradientState._reset_state()
    seen, model = Seen(), network()
    disturb(salt + 1 if checkpoint else 0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulated)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    loader = Loader(dataset or Noisy(SAMPLES), batch_size=BATCH, shuffle=True, seed=7, num_workers=workers)
    assert accelerator.prepare(loader) is loader
    prepared, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
    if loads_gradients:
        accelerator.register_for_checkpointing(WaitingGradients(model=prepared))
    if checkpoint:
        accelerator.load_state(str(checkpoint))
    done = int(checkpoint.name[:2]) if checkpoint else 0
    for _ in range(int(str(loader.state_dict()["epoch"])), EPOCHS):
        for batch in loader:
            with accelerator.accumulate(prepared):
                seen.note(batch)
                accelerator.backward(nn.functional.cross_entropy(prepared(batch["x"]), batch["labels"]))
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            done += 1
            if evaluates and done % 3 == 0:
                torch.rand(5)
            if folder:
                accelerator.save_state(str(folder / f"{done:02d}-batch"))
            if done % batches == 0:
                break
        if folder:
            accelerator.save_state(str(folder / f"{done:02d}-epoch"))
    seen.weights = digest(*model.parameters())
    return seen


def main(folder: Path) -> None:
    """On several ranks: the whole training, and from every place on."""
    seen = {"whole": train(folder, accumulated=2)}
    for path in sorted(folder.iterdir()):
        seen[path.name] = train(None, path, accumulated=2, salt=int(os.environ["RANK"]) + 3)
    write(folder, seen)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
