"""transformers: every resume point is exact, and what cannot be is refused."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", exc_type=ImportError)
pytest.importorskip("accelerate", exc_type=ImportError)

from samebits.base.errors import UsageError
from tests.integrations import transformers_training as training
from tests.integrations.small import Noisy, Seen, Stream, samples_of
from tests.integrations.together import run_ranks


def inexact(whole: Seen, folder: Path, batches: int = 1, **options: Any) -> tuple[int, list[int]]:
    """How many checkpoints there are but for the last, and those from which the rest is not the same."""
    steps = sorted(int(path.name.rpartition("-")[2]) for path in folder.glob("checkpoint-*"))[:-1]
    differing = []
    for step in steps:
        rest = training.train(folder / "resumed", folder / f"checkpoint-{step}", salt=step, **options)
        if rest != whole.since(len(whole.rows) - len(rest.rows)) or len(rest.rows) > len(whole.rows) - step * batches:
            differing.append(step)
    return len(steps), differing


@pytest.mark.slow
def test_every_point_without_evaluation(tmp_path: Path) -> None:
    """29 of 29, with a collator that draws: order, draws and weights."""
    whole = training.train(tmp_path, saves=True)

    assert len(whole.rows) == 30
    assert inexact(whole, tmp_path) == (29, [])


def test_every_point_with_workers_accumulation_and_evaluation(tmp_path: Path) -> None:
    """Neither workers nor evaluations move anything."""
    whole = training.train(tmp_path, accumulated=2, saves=True)
    options: dict[str, Any] = {"accumulated": 2, "evaluates": True, "workers": 2}

    assert training.train(tmp_path / "again", salt=5, **options) == whole
    assert inexact(whole, tmp_path, batches=2, **options) == (14, [])


@pytest.mark.slow
def test_ranks(tmp_path: Path) -> None:
    """Two ranks see what one sees, resume exactly, and one goes on with what two began."""
    if training.transformers.__version__.startswith("4."):
        pytest.skip("on several ranks without an accelerator this one cannot load its own optimizer's state ('cpu:0')")
    ranks = run_ranks("tests.integrations.transformers_training", tmp_path)
    alone = training.train(tmp_path / "alone")

    # Two ranks fill up the last batch of an epoch, so that all of them have as many samples.
    together = samples_of(*ranks)
    assert [batch[: len(own)] for batch, own in zip(together, samples_of(alone), strict=True)] == samples_of(alone)
    rest = training.train(tmp_path / "resumed", tmp_path / "checkpoint-10")
    assert samples_of(rest) == samples_of(alone)[10:]


@pytest.mark.slow
def test_orders_that_draw(tmp_path: Path) -> None:
    """An order that depends on lengths draws from the global generator, elsewhere where it is resumed."""
    has_strategies = hasattr(training.transformers.TrainingArguments, "train_sampling_strategy")
    grouped: dict[str, Any] = (
        {"train_sampling_strategy": "group_by_length"} if has_strategies else {"group_by_length": True}
    )
    dataset = Worded()
    whole = training.train(tmp_path, saves=True, dataset=dataset, **grouped)
    rest = training.train(tmp_path / "resumed", tmp_path / "checkpoint-4", salt=3, dataset=dataset, **grouped)

    assert rest == whole.since(4)
    assert len({row[0] for row in whole.rows}) == len(whole.rows)


class Worded(Noisy):
    """With texts of different lengths."""

    def __init__(self) -> None:
        super().__init__(16)

    def __getitem__(self, index: int) -> Any:
        if index >= self.samples:
            raise IndexError(index)
        return {**super().__getitem__(index), "input_ids": [0] * (index + 1)}


def test_what_would_not_go_on_is_refused(tmp_path: Path) -> None:
    """A stream has no indices; a resume that begins the epoch anew is none."""
    with pytest.raises(UsageError, match="samples are keyed by their index"):
        training.train(tmp_path, dataset=Stream(16), max_steps=3)
    training.train(tmp_path, saves=True, dataset=Noisy(16))
    checkpoint = tmp_path / "checkpoint-3"
    with pytest.raises(UsageError, match="begins the epoch anew at step 3"):
        training.train(tmp_path, checkpoint, dataset=Noisy(16), ignore_data_skip=True)
    training.train(tmp_path, checkpoint, dataset=Noisy(16))
