"""A training by Lightning, saved after every batch and epoch."""

import importlib
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.integrations.small import Gated, Noisy, Seen, digest, disturb, network
from tests.integrations.together import write

PACKAGE = os.environ.get("LIGHTNING_PACKAGE", "lightning.pytorch")
L: Any = importlib.import_module(PACKAGE)

from samebits.integrations.lightning import Loader, SamebitsCallback  # noqa: E402

SAMPLES, BATCH, EPOCHS = 30, 4, 4
for name in ("lightning.pytorch", "pytorch_lightning", "lightning.fabric", "lightning_fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)


class Classifier(L.LightningModule):  # type: ignore[misc]
    """Draws while a batch is moved, in its layers, and in its evaluation."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.net, self.seen = network(Gated()), seen

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return {**batch, "x": batch["x"] + torch.rand(batch["x"].shape)} if self.trainer.training else batch

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        self.seen.note(batch)
        return nn.functional.cross_entropy(self.net(batch["x"]), batch["labels"])

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        torch.rand(3)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.05)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Saving(L.Callback):  # type: ignore[misc]
    """Saves at the end of every batch and of every epoch, and after every evaluation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, trainer: Any, name: str) -> None:
        trainer.save_checkpoint(self.folder / f"{trainer.fit_loop.epoch_loop.total_batch_idx + 1:02d}-{name}.ckpt")

    def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
        self.save(trainer, "batch")

    def on_train_epoch_end(self, trainer: Any, *args: Any) -> None:
        self.save(trainer, "epoch")

    def on_validation_end(self, trainer: Any, *args: Any) -> None:
        if not trainer.sanity_checking:
            self.save(trainer, "evaluation")


def trainer_of(*callbacks: Any, **options: Any) -> Any:
    """One that is quiet, keys everything, and saves nothing by itself."""
    return L.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[SamebitsCallback(seed=1), *callbacks],
        **options,
    )


def train(
    folder: Path | None = None,
    checkpoint: Path | None = None,
    workers: int = 0,
    accumulated: int = 1,
    evaluates: bool = False,
    salt: int = 0,
    loader: Any = None,
    devices: int = 1,
) -> Seen:
    """One training; saved in `folder`, begun from `checkpoint`."""
    seen = Seen()
    model = Classifier(seen)
    disturb(salt)
    warnings.simplefilter("ignore")
    if loader is None:
        loader = Loader(Noisy(SAMPLES), batch_size=BATCH, shuffle=True, seed=7, num_workers=workers)
    trainer = trainer_of(
        *([Saving(folder)] if folder else []),
        max_epochs=EPOCHS,
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        accumulate_grad_batches=accumulated,
        **({"val_check_interval": 3} if evaluates else {"limit_val_batches": 0}),
    )
    evaluated = torch.utils.data.DataLoader(Noisy(8), batch_size=4, shuffle=True) if evaluates else None
    trainer.fit(model, loader, evaluated, ckpt_path=checkpoint)
    seen.weights = digest(*model.parameters())
    return seen


def main(folder: Path) -> None:
    """On several ranks: the whole training, and from some places on."""
    world_size = int(os.environ["WORLD_SIZE"])
    seen = {"whole": train(folder, accumulated=2, devices=world_size)}
    for name in ("03-batch", "04-batch", "08-epoch", "13-batch"):
        checkpoint = folder / f"{name}.ckpt"
        seen[name] = train(None, checkpoint, accumulated=2, salt=int(os.environ["RANK"]) + 3, devices=world_size)
    write(folder, seen)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
