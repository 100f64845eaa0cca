"""What runs printed: a result that differs is found, times that differ are not."""

from pathlib import Path

import pytest

from samebits.checking.printed import first_difference

SAME = [
    ("took 3.2 s", "took 4 s"),
    ("2026-11-22 10:00:01,123 INFO begin", "2026-11-23 11:05:09,001 INFO begin"),
    ("epoch 1: 12.3it/s, loss 0.5", "epoch 1: 9.9it/s, loss 0.5"),
    ("<object at 0x7f01>", "<object at 0x7f99>"),
    ("saved /tmp/abc/model.pt", "saved /tmp/xyz/model.pt"),
    ("time: 1.25", "time: 1.5"),
    ("Epoch 1/1 ━━━━ 5/5 0:00:00 118.91it/", "Epoch 1/1 ━━━━━ 5/5 0:00:00 98.2it/"),
    ("100%|#| 2/2 [00:00<00:00, 1183.85it/s]\x1b[A", "100%|#| 2/2 [00:00<00:00, 961.89it/s] \x1b[A"),
    ("", ""),
    ("saved lightning_logs/version_0/last.ckpt", "saved lightning_logs/version_1/last.ckpt"),
    ("Epoch 1/1 4/4 0:00:00 8.33it/s v_num: 0.000 loss: 0.5", "Epoch 1/1 4/4 0:00:01 5.80it/s v_num: 1.000 loss: 0.5"),
    ("{'train_runtime': '3.078', 'loss': 1}", "{'train_runtime': '2.9', 'loss': 1}"),
    ("events in runs/Nov22_10-00-01_here", "events in runs/Nov22_10-01-13_here"),
]
OTHER = [("{'acc': 0.95, 'low': 0.93}", "{'acc': 0.95, 'low': 0.925}"), ("loss 0.1", ""), ("epoch 1", "epoch 2")]


@pytest.mark.parametrize(("left", "right"), SAME + OTHER)
def test_only_what_is_no_time_is_a_difference(left: str, right: str, tmp_path: Path) -> None:
    """With the number of the line, and both lines."""
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text(f"begin\n{left}\n")
    b.write_text(f"begin\n{right}\n")

    assert first_difference(a, b) == ((2, left, right) if (left, right) in OTHER else None)


def test_a_progress_bar_counts_as_it_stands_in_the_end(tmp_path: Path) -> None:
    """However often it was written over; a result in it is compared."""
    a, b, other = tmp_path / "a", tmp_path / "b", tmp_path / "other"
    a.write_text(
        "begin\n 0%| 0/4 [?it/s]\r 50%| 2/4 [3.1it/s]\r100%| 4/4 [00:01, 3.0it/s, loss=0.5]\nend\n", newline=""
    )
    b.write_text("begin\n 0%| 0/4 [?it/s]\r100%| 4/4 [00:00, 8.2it/s, loss=0.5]\nend\n", newline="")
    other.write_text("begin\n100%| 4/4 [00:00, 8.2it/s, loss=0.6]\nend\n")

    assert first_difference(a, b) is None
    assert first_difference(a, other) is not None


def test_what_was_not_kept_is_no_difference(tmp_path: Path) -> None:
    """Where runs printed to a terminal, or nothing, there is no file."""
    assert first_difference(tmp_path / "a", tmp_path / "b") is None
