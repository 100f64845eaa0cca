"""A training by transformers' Trainer, saved after every step."""

import os
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from samebits.integrations.transformers import SamebitsCallback
from tests.integrations.small import Gated, Noisy, Seen, digest, disturb, network
from tests.integrations.together import write

SAMPLES, BATCH, EPOCHS = 38, 4, 3
transformers.utils.logging.set_verbosity_error()


class Classifier(nn.Module):
    """Takes what the Trainer hands it, and gives the loss."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.net, self.seen = network(Gated()), seen

    def forward(self, x: torch.Tensor, labels: torch.Tensor, index: torch.Tensor, noise: torch.Tensor) -> Any:
        if self.training:
            self.seen.note({"x": x, "index": index, "noise": noise})
        outputs = self.net(x)
        return {"loss": nn.functional.cross_entropy(outputs, labels), "logits": outputs}


def masked(samples: list[Any]) -> Any:
    """A batch in which some numbers are masked, by the global generator."""
    batch = {name: torch.stack([one[name] for one in samples]) for name in samples[0] if name != "input_ids"}
    return {**batch, "x": batch["x"] * (torch.rand(batch["x"].shape) > 0.2)}


class NoisyEvaluation(transformers.TrainerCallback):  # type: ignore[misc]
    """Draws after every evaluation."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        torch.rand(3)


def train(
    folder: Path,
    checkpoint: Path | None = None,
    workers: int = 0,
    accumulated: int = 1,
    evaluates: bool = False,
    salt: int = 0,
    saves: bool = False,
    batch_size: int = BATCH,
    dataset: Any = None,
    **options: Any,
) -> Seen:
    """One training; saved in `folder`, begun from `checkpoint`."""
    seen = Seen()
    model = Classifier(seen)
    arguments = {
        "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": batch_size,
        "gradient_accumulation_steps": accumulated,
        "dataloader_num_workers": workers,
        "save_strategy": "steps" if saves else "no",
        "save_steps": 1,
        "eval_strategy": "steps" if evaluates else "no",
        "eval_steps": 5,
        "learning_rate": 0.05,
        "logging_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "dataloader_pin_memory": False,
        "ddp_find_unused_parameters": False,
        **options,
    }
    trainer = transformers.Trainer(
        model,
        transformers.TrainingArguments(str(folder), **arguments),
        train_dataset=Noisy(SAMPLES) if dataset is None else dataset,
        eval_dataset=Noisy(8),
        data_collator=masked,
        callbacks=[SamebitsCallback(seed=1), NoisyEvaluation()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    disturb(salt)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    seen.weights = digest(*model.parameters())
    return seen


def main(folder: Path) -> None:
    """On several ranks: the whole training, and from some places on."""
    size = BATCH // int(os.environ["WORLD_SIZE"])
    seen = {"whole": train(folder, saves=True, batch_size=size)}
    for step in (3, 10, 17):
        checkpoint = folder / f"checkpoint-{step}"
        seen[f"{step}"] = train(folder / "resumed", checkpoint, salt=int(os.environ["RANK"]) + 3, batch_size=size)
    write(folder, seen)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
