"""What is said beside the comparison of two runs: the same in text and in JSON."""

from __future__ import annotations

from samebits.comparison.runs import Diff, RunComparison
from samebits.report.origins import describe_op
from samebits.report.places import compared_streams, where, which


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


def comparison_text(found: RunComparison) -> str:
    """What two runs have in common, or the first place at which they differ."""
    if found.same:
        return f"same bits: {compared_streams(found)}"
    words = [] if found.op is None else [describe_op(found.op)]
    if found.divergence is not None:
        words += [where(found.divergence), which(found.divergence)]
    return f"different bits: {'; '.join(filter(None, words))}"
