import os
import random
import sys

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

FAULTS = sys.argv[1:]


class Files(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.names = sorted(os.listdir(folder))
        if "unsorted" in FAULTS:
            self.names = os.listdir(folder)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        number = int(self.names[index].split("-")[1])
        return torch.arange(6.0) * number / 100, number % 3


def noisy(samples):
    x, y = torch.utils.data.default_collate(samples)
    seed = torch.initial_seed() % 1000
    if "collator" in FAULTS:
        seed = int.from_bytes(os.urandom(2), "little")
    return x + torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)), y


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
        self.rng = random.Random(3)
        if "evaluation" in FAULTS:
            self.rng = random.Random()
        self.threshold = 1.0

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y) * self.threshold
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("accuracy", self.net(x).argmax(1).eq(y).float().mean())
        self.threshold = 1 + self.rng.random() / 10

    def on_validation_epoch_end(self):
        names = sorted({"recall", "precision", "top1", "top5"})
        if "metric" in FAULTS:
            names = list({"recall", "precision", "top1", "top5"})
        self.threshold += sum(len(name) * 0.01**place for place, name in enumerate(names))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


if __name__ == "__main__":
    L.seed_everything(1, workers=True)
    data = Files("samples")
    train = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, collate_fn=noisy)
    evaluated = torch.utils.data.DataLoader(data, batch_size=16)
    best = ModelCheckpoint(monitor="accuracy")
    trainer = L.Trainer(max_epochs=2, accelerator="cpu", log_every_n_steps=1, callbacks=[best])
    trainer.fit(Classifier(), train, evaluated)
