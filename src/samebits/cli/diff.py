"""`samebits diff`: two recorded runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from samebits.cli.options import answer, format_option
from samebits.comparison.locate import Divergence
from samebits.comparison.runs import compare_runs, recordings_of
from samebits.comparison.values import Distance, distance
from samebits.report.json import diff_json, dumped
from samebits.report.text import diff_text
from samebits.runfolder.folder import RunFolder, open_run
from samebits.runfolder.tensors import read_kept


@click.command(short_help="Compare two recorded runs.")
@format_option
@click.argument("a", type=click.Path(path_type=Path), metavar="RUN")
@click.argument("b", type=click.Path(path_type=Path), metavar="RUN")
def command(form: str, a: Path, b: Path) -> None:
    """Compare two recorded runs and name the first place at which they differ.

    \b
    samebits run --out one train.py
    samebits run --out two train.py
    samebits diff one two

    Exit status: 0 same bits, 1 different bits, 2 when a run cannot be read.
    """  # noqa: D301 - click wants the character itself
    left, right = open_run(a), open_run(b)
    found = compare_runs(left, right)
    measured = None if found.divergence is None else _distance(left, right, found.divergence)
    notes = [note for folder in (left, right) for note in _notes(folder)]
    if found.divergence is not None and measured is None and found.divergence.stream not in ("length", "outcome"):
        notes.append(
            f"to measure by how much, run both again with --keep-values {found.divergence.step}, which keeps every "
            "tensor of that step on disk: several times the size of the model"
        )
    if form == "json":
        answer(dumped(diff_json(str(left.path), str(right.path), found, measured, notes)), is_data=True)
    else:
        answer(diff_text(str(left.path), str(right.path), found, measured, notes))
    sys.exit(0 if found.same else 1)


def _distance(a: RunFolder, b: RunFolder, place: Divergence) -> Distance | None:
    left = read_kept(a.path, place.rank, place.step, place.stream).get(place.name)
    right = read_kept(b.path, place.rank, place.step, place.stream).get(place.name)
    return None if left is None or right is None else distance(left, right)


def _notes(folder: RunFolder) -> list[str]:
    if folder.manifest().get("status") == "stopped":
        return []
    return [
        f"{recording.path} is incomplete: its process did not end by itself; {recording.steps} steps were read"
        for recording in recordings_of(folder)
        if not recording.complete
    ]
