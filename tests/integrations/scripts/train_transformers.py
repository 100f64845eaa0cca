import os
import random
import sys

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

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
        return {"x": torch.arange(6.0) * number / 100, "labels": number % 3}


def noisy(samples):
    batch = torch.utils.data.default_collate(samples)
    seed = torch.initial_seed() % 1000
    if "collator" in FAULTS:
        seed = int.from_bytes(os.urandom(2), "little")
    batch["x"] += torch.randn(batch["x"].shape, generator=torch.Generator().manual_seed(seed))
    return batch


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
        self.threshold = 1.0

    def forward(self, x, labels):
        outputs = self.net(x)
        return {"loss": nn.functional.cross_entropy(outputs, labels) * self.threshold, "logits": outputs}


class Thresholds(TrainerCallback):
    def __init__(self, model):
        self.model = model
        self.rng = random.Random(3)
        if "evaluation" in FAULTS:
            self.rng = random.Random()

    def on_evaluate(self, args, state, control, **kwargs):
        self.model.threshold += self.rng.random() / 10


def metrics(predictions):
    names = sorted({"recall", "precision", "top1", "top5"})
    if "metric" in FAULTS:
        names = list({"recall", "precision", "top1", "top5"})
    model.threshold = 1 + sum(len(name) * 0.01**place for place, name in enumerate(names))
    return {"accuracy": float((predictions.predictions.argmax(1) == predictions.label_ids).mean())}


if __name__ == "__main__":
    set_seed(1)
    model, data = Classifier(), Files("samples")
    args = TrainingArguments(
        "out",
        num_train_epochs=2,
        per_device_train_batch_size=8,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="no",
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        remove_unused_columns=False,
        full_determinism="full-determinism" in FAULTS,
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=data,
        eval_dataset=data,
        data_collator=noisy,
        compute_metrics=metrics,
        callbacks=[Thresholds(model)],
    )
    trainer.train()
