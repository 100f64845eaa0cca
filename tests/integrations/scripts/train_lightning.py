import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from planted import Evaluation, Files, network, noisy
from torch import nn


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.evaluation = network(), Evaluation()

    def training_step(self, batch, batch_idx):
        loss = nn.functional.cross_entropy(self.net(batch["x"]), batch["labels"]) * self.evaluation.threshold
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("accuracy", self.net(batch["x"]).argmax(1).eq(batch["labels"]).float().mean())
        self.evaluation.draw()

    def on_validation_epoch_end(self):
        self.evaluation.score()

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
