import os
import sys

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from planted import Noisy, network
from torch import nn

from samebits.integrations.lightning import Loader, SamebitsCallback

IS_OURS = "ours" in sys.argv


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = network()

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


if __name__ == "__main__":
    L.seed_everything(1)
    loader = torch.utils.data.DataLoader(Noisy(), batch_size=8, shuffle=True)
    callbacks = [ModelCheckpoint("saved", every_n_train_steps=2, save_last=True, save_top_k=1)]
    if IS_OURS:
        loader = Loader(Noisy(), batch_size=8, shuffle=True, seed=0)
        callbacks.append(SamebitsCallback(seed=0))
    trainer = L.Trainer(
        max_epochs=4,
        accelerator="cpu",
        callbacks=callbacks,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), loader, ckpt_path="saved/last.ckpt" if os.path.exists("saved/last.ckpt") else None)
