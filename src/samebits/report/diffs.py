"""What is said beside the comparison of two runs: the same in text and in JSON."""

from __future__ import annotations

from samebits.comparison.runs import Diff


def diff_notes(found: Diff) -> list[str]:
    """What the comparison does not hold for, and how to learn more."""
    notes = [
        f"{one.path} is incomplete: its process did not end by itself; {one.steps} steps were read"
        for one in found.incomplete
    ]
    place = found.comparison.divergence
    if place is not None and found.distance is None and place.stream not in ("length", "outcome"):
        notes.append(
            f"to measure by how much, run both again with --keep-values {place.step}, which keeps every "
            "tensor of that step on disk: several times the size of the model"
        )
    return notes
