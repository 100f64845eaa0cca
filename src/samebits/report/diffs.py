"""Words for the comparison of two runs."""

from __future__ import annotations

from samebits.base.sites import shown_path
from samebits.comparison.runs import Diff, RunComparison
from samebits.report.origins import describe_op
from samebits.report.places import compared_streams, difference_words, distance_words, place_words, stream_list
from samebits.report.rows import AnswerReport, Rows, counted
from samebits.runfolder.steps import TRAINED


def diff_report(diff: Diff) -> AnswerReport:
    """Return the answer of `samebits diff`."""
    comparison = diff.comparison
    remarks = [("note", note) for note in _notes(diff)] + [("not seen", text) for text in comparison.not_seen]
    place, op = comparison.divergence, comparison.op
    agree = f"{counted(comparison.steps, 'step')} {'agrees' if comparison.steps == 1 else 'agree'} in"
    if comparison.same:
        return AnswerReport(f"same bits: {agree} {compared_streams(comparison)}", remarks)
    rows: Rows = [("op", "" if op is None else describe_op(op))]
    where = "" if place is None else place_words(place)
    if place is not None:
        first = [where if comparison.is_op_first else "", difference_words(place)]
        rows.append(("first", ", ".join(filter(None, first))))
    rows.append(("by", distance_words(diff.distance)))
    if place is not None and place.generators:
        names = ", ".join(place.generators)
        rows.append(("rng", f"already in another state at the end of step {place.step - 1}: {names}"))
    runs = f"{shown_path(diff.a)} and {shown_path(diff.b)}"
    rows += [("compared", compared_streams(comparison)), ("runs", runs), *remarks]
    if op is not None and (comparison.is_op_first or place is None):
        where = f"at step {op.step}, op {op.index}"
    difference = f"the runs diverge {where}"
    trained = f"{agree} {stream_list([stream for stream in comparison.streams if stream in TRAINED])}"
    if diff.same:
        return AnswerReport(f"same bits in what was trained: {trained}", [("besides", difference), *rows])
    agreement = ("trained", trained if comparison.same_training else "")
    return AnswerReport(f"different bits: {difference}", [agreement, *rows])


def _notes(found: Diff) -> list[str]:
    """Return what the comparison does not cover, and how to learn more."""
    notes = [
        f"{cut.path} is incomplete: its process did not end by itself; {cut.steps} steps were read"
        for cut in found.incomplete
    ]
    divergence = found.comparison.divergence
    if divergence is not None and found.distance is None and divergence.stream not in ("length", "outcome"):
        again = f"run both again with --keep-values {divergence.step}, which keeps every tensor of that step on disk"
        notes.append(f"to measure by how much, {again}: several times the size of the model")
    return notes


def comparison_text(found: RunComparison) -> str:
    """Return in what two runs agree, or the first place at which they differ."""
    if found.same:
        return f"same bits: {compared_streams(found)}"
    words = [] if found.op is None else [describe_op(found.op)]
    if found.divergence is not None:
        words += [place_words(found.divergence), difference_words(found.divergence)]
    return f"different bits: {'; '.join(filter(None, words))}"
