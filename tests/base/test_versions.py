"""Names that are numbered anew in every run."""

import pytest

from samebits.base.run_numbers import without_run_number


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("lightning_logs/version_3/metrics.csv", "lightning_logs/version_12/metrics.csv"),
        ("saved/last.ckpt", "saved/last-v1.ckpt"),
        ("epoch=0-step=6-v2.ckpt", "epoch=0-step=6-v13.ckpt"),
        ("runs/Nov22_14-32-47_host/events", "runs/Nov23_09-00-01_host/events"),
    ],
)
def test_the_numbers_of_runs_make_no_difference(text: str, other: str) -> None:
    """Two runs of one program."""
    assert without_run_number(text) == without_run_number(other)


@pytest.mark.parametrize("text", ["epoch=0-step=6.ckpt", "net-v2", "version", "model-v1.pt"])
def test_other_numbers_stay(text: str) -> None:
    """What a program calls things by is its own business."""
    assert without_run_number(text) == text
