"""What the adapters add to a step of Lightning, transformers and accelerate, in turns with the framework by itself.

    python benchmarks/integrations.py [FRAMEWORK...]

The training process is measured, while two workers fetch. Each block is a short training; the cost of a step is the
processor time of the main thread from one forward pass to the next, without waiting. Other programs make steps slower,
never quicker, so shown is the first decile of all steps, the difference, and what it is of a step of 20 ms.
"""

import logging
import platform
import statistics
import sys
import tempfile
import time
import warnings

import torch
from torch import nn

TURNS, BATCH, STEPS, WARM_UP, STEP_SECONDS = 8, 32, 60, 10, 0.020


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return BATCH * STEPS

    def __getitem__(self, index):
        return {"x": torch.full((64,), index / 100), "labels": index % 10}


class Net(nn.Module):
    """A transformer-like stack of 40 modules, that notes when it is called."""

    def __init__(self):
        super().__init__()
        blocks = [nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1)) for _ in range(8)]
        self.net, self.times = nn.Sequential(*blocks, nn.Linear(64, 10)), []

    def forward(self, x, labels):
        self.times.append(time.thread_time())
        return {"loss": nn.functional.cross_entropy(self.net(x), labels)}

    def seconds(self):
        """Of each step but the first ones."""
        return [after - before for before, after in zip(self.times[WARM_UP:], self.times[WARM_UP + 1 :], strict=False)]


def lightning(is_ours):
    import lightning as L

    from samebits.integrations.lightning import Loader, SamebitsCallback

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = Net()

        def training_step(self, batch, batch_idx):
            return self.inner(**batch)["loss"]

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    module = Module()
    options = {"batch_size": BATCH, "shuffle": True, "num_workers": 2}
    loader = Loader(Samples(), seed=0, **options) if is_ours else torch.utils.data.DataLoader(Samples(), **options)
    trainer = L.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[SamebitsCallback(seed=0)] if is_ours else [],
    )
    trainer.fit(module, loader)
    return module.inner.seconds()


def transformers(is_ours):
    from transformers import PrinterCallback, Trainer, TrainingArguments

    from samebits.integrations.transformers import SamebitsCallback

    model = Net()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder,
            num_train_epochs=1,
            per_device_train_batch_size=BATCH,
            dataloader_num_workers=2,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
        )
        callbacks = [SamebitsCallback(seed=0)] if is_ours else []
        trainer = Trainer(
            model,
            args,
            train_dataset=Samples(),
            data_collator=torch.utils.data.default_collate,
            callbacks=callbacks,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return model.seconds()


def accelerate(is_ours):
    from accelerate import Accelerator

    from samebits.integrations.accelerate import Loader, WaitingGradients

    accelerator = Accelerator(cpu=True)
    model = Net()
    options = {"batch_size": BATCH, "shuffle": True, "num_workers": 2}
    loader = Loader(Samples(), seed=0, **options) if is_ours else torch.utils.data.DataLoader(Samples(), **options)
    prepared, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), loader)
    if is_ours:
        accelerator.register_for_checkpointing(WaitingGradients(model=prepared))
    for batch in loader:
        accelerator.backward(prepared(**batch)["loss"])
        optimizer.step()
        optimizer.zero_grad()
    accelerator.free_memory()
    return model.seconds()


def main(names):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}")
    print(f"batches of {BATCH}, 2 workers, {TURNS} turns of {STEPS} steps; µs of processor time in a step\n")
    print(f"{'':14} {'by itself':>10} {'with ours':>10} {'added':>7}   of 20 ms")
    for name in names:
        train = {"lightning": lightning, "transformers": transformers, "accelerate": accelerate}[name]
        steps = {True: [], False: []}
        for turn in range(2 * TURNS + 2):
            taken = train(turn % 2 == 0)
            if turn >= 2:
                steps[turn % 2 == 0] += taken
        plain, ours = (statistics.quantiles(steps[is_ours], n=10)[0] for is_ours in (False, True))
        share = (ours - plain) / STEP_SECONDS
        print(f"{name:14} {plain * 1e6:10.0f} {ours * 1e6:10.0f} {(ours - plain) * 1e6:7.0f}   {share:.2%}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["lightning", "transformers", "accelerate"])
