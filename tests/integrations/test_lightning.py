"""Lightning: every resume point is exact, and what cannot be is refused."""

import importlib
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip(os.environ.get("LIGHTNING_PACKAGE", "lightning"), exc_type=ImportError)

from samebits.base.errors import StateError, StateWarning, UsageError
from samebits.data import DataLoader, Mapped
from samebits.integrations.lightning import Loader, SamebitsCallback
from tests.integrations import lightning_training as training
from tests.integrations.small import Noisy, Seen, Stream, checkpoints, inexact, samples_of
from tests.integrations.together import run_ranks
from tests.running import ROOT, printed_by

utilities: Any = importlib.import_module(f"{training.PACKAGE}.utilities")


@pytest.mark.slow
def test_every_point_without_evaluation(tmp_path: Path) -> None:
    """32 batches and 4 epoch ends: order, draws and weights."""
    whole = training.train(tmp_path)

    assert len(whole.rows) == 32
    assert len(list(checkpoints(tmp_path))) == 36
    assert inexact(training.train, whole, tmp_path) == []


def test_every_point_with_workers_accumulation_and_evaluation(tmp_path: Path) -> None:
    """Every second batch leaves gradients that wait, and an evaluation that draws comes in between."""
    whole = training.train(tmp_path, accumulated=2, evaluates=True)

    assert training.train(accumulated=2, workers=2, salt=9) == whole
    assert inexact(training.train, whole, tmp_path, accumulated=2, evaluates=True, workers=2) == []


@pytest.mark.slow
def test_ranks(tmp_path: Path) -> None:
    """Two ranks see what one sees, resume exactly, and one goes on with what two began."""
    ranks = run_ranks("tests.integrations.lightning_training", tmp_path)
    alone = training.train(accumulated=2)

    assert samples_of(*ranks) == samples_of(alone)
    for name in ("04-batch", "08-epoch"):
        rest = training.train(None, tmp_path / f"{name}.ckpt", accumulated=2)
        assert samples_of(rest) == samples_of(alone)[int(name[:2]) :], name
    with pytest.raises(StateError, match="gradients of 2 ranks that wait"):
        training.train(None, tmp_path / "03-batch.ckpt", accumulated=2)


@pytest.mark.slow
def test_the_end_of_a_stream(tmp_path: Path) -> None:
    """Of unknown length, so that the Trainer fetches a batch ahead of the one that it saves after."""

    def loader() -> Loader:
        return Loader(Stream(training.SAMPLES), batch_size=4, seed=7)

    whole = training.train(tmp_path, loader=loader())
    differing = [
        path.name
        for done, path in checkpoints(tmp_path)
        if 6 <= done <= 9 and training.train(None, path, salt=done + 1, loader=loader()) != whole.since(done)
    ]

    assert len(whole.rows) == 32
    assert differing == []


class Broken(Noisy):
    """A batch of samples that raise, in the order that the seed gives."""

    def __getitem__(self, index: int) -> Any:
        if index in self.broken:
            raise ValueError("broken")
        return super().__getitem__(index)


@pytest.mark.slow
def test_batches_that_are_skipped_whole(tmp_path: Path) -> None:
    """A batch of which every sample was skipped counts for the place in the epoch."""
    order = [batch.tolist() for batch in DataLoader(list(range(training.SAMPLES)), batch_size=4, shuffle=True, seed=7)]

    def loader() -> Loader:
        dataset = Broken(training.SAMPLES)
        dataset.broken = order[1]
        return Loader(dataset, batch_size=4, shuffle=True, seed=7, on_error="skip")

    whole = training.train(tmp_path, loader=loader())
    first = [path for done, path in checkpoints(tmp_path) if done < 7]
    rest = [training.train(None, path, loader=loader()) for path in first]

    assert len(whole.rows[0][0]) == 4
    assert whole.rows[1][0] == tuple(order[2])
    assert [one.rows[0] for one in rest] == [whole.rows[int(path.name[:2])] for path in first]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["max_size_cycle", "max_size"])
def test_loaders_side_by_side(mode: str, tmp_path: Path) -> None:
    """Beside a longer loader a shorter one is iterated again, in another order, or gives no more; both are resumed."""
    rows: list[Any] = []

    class Both(training.Classifier):
        def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
            return batch

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            rows.append([one and (one["index"].tolist(), one["noise"].tolist()) for one in batch.values()])
            return super().training_step(batch["long"], batch_idx)

    def train(checkpoint: Path | None = None) -> list[Any]:
        loaders = {
            "long": Loader(Noisy(20), batch_size=4, shuffle=True, seed=7),
            "short": Loader(Noisy(8), batch_size=4, shuffle=True, seed=8),
        }
        rows.clear()
        trainer = training.trainer_of(*([] if checkpoint else [training.Saving(tmp_path)]), max_epochs=2)
        trainer.fit(Both(Seen()), utilities.CombinedLoader(loaders, mode), ckpt_path=checkpoint)
        return list(rows)

    whole = train()
    shorts = [row[1] and row[1][0] for row in whole]

    assert len(whole) == 10
    assert shorts[:2] != shorts[2:4]
    assert (shorts[2:5] == [None] * 3) is (mode == "max_size")
    assert len(list(checkpoints(tmp_path))) == 12
    assert [path.name for done, path in checkpoints(tmp_path) if train(path) != whole[done:]] == []


class Plateau(training.Classifier):
    """Its learning rate falls with every evaluation but the first."""

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val", 1.0)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "val"}}


@pytest.mark.slow
def test_a_plateau_that_is_missed_is_said(tmp_path: Path) -> None:
    """Lightning leaves its update out of the epoch that it resumes in; after whole epochs none is missed."""

    class SavingAtTheEnd(training.L.Callback):
        def on_train_end(self, trainer: Any, pl_module: object) -> None:
            trainer.save_checkpoint(tmp_path / f"{trainer.current_epoch:02d}-end.ckpt")

    def rate(checkpoint: Path | None = None, epochs: int = 3, *callbacks: Any) -> float:
        trainer = training.trainer_of(*callbacks, max_epochs=epochs)
        loaders = [Loader(Noisy(8), batch_size=4, seed=0) for _ in range(2)]
        trainer.fit(Plateau(Seen()), *loaders, ckpt_path=checkpoint)
        return float(trainer.optimizers[0].param_groups[0]["lr"])

    with warnings.catch_warnings():
        warnings.simplefilter("error", StateWarning)
        whole = rate(None, 3, training.Saving(tmp_path))
        rate(None, 2, SavingAtTheEnd())

        assert rate(tmp_path / "02-end.ckpt") == whole
    for name in ("01-batch", "02-batch", "02-epoch", "02-evaluation", "03-batch"):
        with pytest.warns(StateWarning, match="skips the update of ReduceLROnPlateau"):
            assert rate(tmp_path / f"{name}.ckpt") > whole


def test_a_loader_for_evaluation_gives_the_same_samples_every_time() -> None:
    """However often, and from wherever it is resumed."""
    passes: list[Any] = []

    class Evaluated(training.Classifier):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            passes.append(batch["noise"].tolist())

    trainer = training.trainer_of(max_epochs=3, num_sanity_val_steps=0)
    trainer.fit(Evaluated(Seen()), Loader(Noisy(8), batch_size=4, seed=0), Loader(Noisy(4), batch_size=4, seed=0))

    assert len(passes) == 3
    assert passes[0] == passes[1] == passes[2]


def test_what_would_not_go_on_is_said(tmp_path: Path) -> None:
    """A loader without the callback is not saved; a callback without the loader warns."""
    options = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = training.L.Trainer(max_epochs=1, default_root_dir=tmp_path, **options)
    with pytest.raises(UsageError, match="without a SamebitsCallback"):
        trainer.fit(training.Classifier(Seen()), Loader(Noisy(8), batch_size=4, seed=0))
    trainer = training.L.Trainer(max_epochs=1, enable_checkpointing=False, callbacks=[SamebitsCallback(0)], **options)
    with pytest.warns(StateWarning, match="resumed within an epoch it continues with other batches"):
        trainer.fit(training.Classifier(Seen()), torch.utils.data.DataLoader(Noisy(8), batch_size=4))


def test_without_a_trainer_it_is_a_plain_loader() -> None:
    """Epochs count up, as of samebits.data.DataLoader."""
    own, plain = Loader(range(8), batch_size=4, shuffle=True, seed=3), DataLoader(range(8), 4, shuffle=True, seed=3)

    assert [batch.tolist() for _ in range(2) for batch in own] == [batch.tolist() for _ in range(2) for batch in plain]
    assert len(Loader(Mapped(range(8), int), batch_size=4, seed=0).dataset.stream) == 8


@pytest.mark.skipif(training.PACKAGE != "lightning.pytorch", reason="this is the run that it starts")
@pytest.mark.parametrize(
    ("which", "skipped"),
    [
        (("-k", "workers or pytorch"), 1),
        pytest.param(("-m", "slow or not slow"), 2, marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_pytorch_lightning_is_served_too(which: tuple[str, str], skipped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of this in a process of its own, in which `pytorch_lightning` is imported and `lightning.pytorch` is not."""
    pytest.importorskip("pytorch_lightning", exc_type=ImportError)
    monkeypatch.setenv("LIGHTNING_PACKAGE", "pytorch_lightning")

    words = ("pytest", "-p", "no:cacheprovider", Path(__file__).relative_to(ROOT), *which)
    assert f" passed, {skipped} skipped" in printed_by(*words, timeout=900)
