import sys
from pathlib import Path

import torch
from torch import nn
from transformers import Trainer, TrainingArguments, set_seed

from samebits.integrations.transformers import SamebitsCallback

IS_OURS = "ours" in sys.argv


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return {"tokens": torch.arange(6) + index % 10}


def masked(samples):
    labels = torch.stack([one["tokens"] for one in samples])
    return {"tokens": labels.masked_fill(torch.rand(labels.shape) < 0.15, 0), "labels": labels}


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Embedding(16, 8), nn.Dropout(0.2), nn.Linear(8, 16))

    def forward(self, tokens, labels):
        outputs = self.net(tokens)
        return {"loss": nn.functional.cross_entropy(outputs.flatten(0, 1), labels.flatten())}


if __name__ == "__main__":
    set_seed(1)
    args = TrainingArguments(
        "out",
        num_train_epochs=4,
        per_device_train_batch_size=8,
        save_steps=3,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        remove_unused_columns=False,
    )
    callbacks = [SamebitsCallback(seed=0)] if IS_OURS else []
    trainer = Trainer(Denoiser(), args, train_dataset=Tokens(), data_collator=masked, callbacks=callbacks)
    trainer.train(resume_from_checkpoint=any(Path("out").glob("checkpoint-*")))
