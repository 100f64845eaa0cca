"""The experiment of a check: which factors each run pinned and varied, and which runs have the same bits."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase

from samebits.base.errors import RecordingError
from samebits.checking.verdict import RunRecord
from samebits.comparison.locate import agreeing
from samebits.report.rows import WIDTH, counted
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.reading import safe_path
from samebits.runfolder.steps import Recording


@dataclass(frozen=True)
class Experiment:
    """The factors that were treated in any run, and the runs."""

    factors: Sequence[str] = ()
    runs: Sequence[RunRecord] = ()
    # Run → a letter; runs with the same letter have the same bits, as far as both went.
    bits: Mapping[int, str] = field(default_factory=dict)
    # Run that went to the end → step and loss of its first rank.
    losses: Mapping[int, Sequence[tuple[int, float]]] = field(default_factory=dict)

    def modes(self, run: RunRecord) -> list[str]:
        """Return how a run treated each factor: `pinned`, `varied`, or empty where it was left alone."""
        return ["pinned" if name in run.pinned else "varied" if name in run.varied else "" for name in self.factors]

    def kind(self, number: int) -> str:
        """Return the number of a run's colour, one of six, by its bits; empty where it took no step."""
        return str(sum(map(ord, self.bits[number]), -ord("a")) % 6) if number in self.bits else ""


def experiment_in(home: Path, runs: Sequence[RunRecord]) -> Experiment:
    """Read what the runs in a folder have shown; the folder may have been moved."""
    recorded: dict[int, list[Recording]] = {}
    for run in runs:
        folder = RunFolder(safe_path(home / run.folder.name, home))
        with suppress(RecordingError):  # a damaged run is shown without its bits
            recorded[run.id] = folder.recordings()
    most = max((run.steps for run in runs), default=0)
    whole = [run.id for run in runs if run.steps == most and run.exit_code == 0 and not run.stopped]
    losses = {number: [*_losses(recorded[number][0])] for number in whole if recorded.get(number)}
    factors = [*dict.fromkeys(name for run in runs for name in (*run.pinned, *run.varied))]
    return Experiment(factors, runs, _letters(runs, agreeing(recorded)), losses)


def _letters(runs: Sequence[RunRecord], agree: Mapping[int, Sequence[int]]) -> dict[int, str]:
    """Give equal runs one letter, that of the longest of them: a short run may agree with two that differ later."""
    same_as: dict[int, int] = {}
    for run in sorted(runs, key=lambda run: -run.steps):
        if run.steps:
            alike = (same_as[longer] for longer in same_as if longer in agree.get(run.id, ()))
            same_as[run.id] = next(alike, run.id)
    kinds = [*dict.fromkeys(same_as[run.id] for run in runs if run.steps)]
    letters = {kind: ascii_lowercase[at % 26] * (1 + at // 26) for at, kind in enumerate(kinds)}
    return {run.id: letters[same_as[run.id]] for run in runs if run.steps}


def _losses(recording: Recording) -> Iterator[tuple[int, float]]:
    # Of a long run, only every n-th step: a picture has so many columns at most.
    for step in range(0, len(recording), max(1, len(recording) // 400)):
        column = recording.columns(step).get("number")
        if column is not None and column.names:
            (loss,) = struct.unpack("<d", struct.pack("<Q", column.digests[0]))
            yield step, float(loss)


def experiment_text(found: Experiment) -> str:
    """Return a table, factors down and runs across: `p` pinned, `v` varied, `.` left alone; a letter for equal bits."""
    names = ["run", *found.factors, "bits"]
    column = max(map(len, names)) + 2
    cells = [
        [str(run.id), *(mode[:1] or "." for mode in found.modes(run)), found.bits.get(run.id, "-")]
        for run in found.runs
    ]
    wide = max((len(cell) for run in cells for cell in run), default=1) + 1
    fit = max(1, (WIDTH - 4 - column) // wide)
    lines = ["experiment: p pinned, v varied; runs with the same letter have the same bits"]
    for start in range(0, len(cells), fit):
        lines.append("")
        for name, row in zip(names, zip(*cells[start : start + fit], strict=True), strict=True):
            lines.append(f"    {name:<{column}}{''.join(f'{cell:>{wide}}' for cell in row)}")
    lines.append("")
    for run in found.runs:
        lines.append(f"    run {run.id:<3} {counted(run.steps, 'step'):>11} {run.wall_seconds:>8.1f} s  {run.role}")
    return "\n".join(lines)
