"""Trainings that exist as recordings only: written by hand, one number for whatever a step holds."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from samebits.resuming.tracks import RankPair, RankTrack, Start, start_of
from samebits.runfolder.notes import BatchFetched
from samebits.runfolder.steps import Column, Recording, Writer

STEPS, SAVED, EPOCH = 24, 12, 8
Row = dict[str, dict[str, int]]
Change = Callable[[int, Row], None]


def digest(*words: object) -> int:
    """Another number for other words, the same in every process."""
    return zlib.crc32(repr(words).encode())


def row_of(step: int) -> Row:
    """What the uninterrupted training records in a step."""
    return {
        "batch": {"0": digest("batch", step)},
        "loss": {"0": digest("loss", step)},
        "grad": {"fc.weight": digest("grad", step)},
        "param": {"fc.weight": digest("param", step)},
        "buffer": {"bn.mean": digest("mean", step), "averaged fc.weight": digest("average", step)},
        "optimizer": {
            "fc.weight.step": digest("count", step),
            "fc.weight.exp_avg": digest("moment", step),
            "group0.lr": digest("lr", step),
        },
        "rng": {"torch": digest("rng", step)},
    }


def begun_after(step: int) -> dict[str, int]:
    """The parameters and buffers before the step that follows on `step`; those of the beginning after step -1."""
    return {"fc.weight": digest("param", step), "bn.mean": digest("mean", step)}


def rows(first: int, last: int, change: Change = lambda row, columns: None) -> list[Row]:
    """Steps of the training as a process records them that begins with `first`; `change` spoils them by row."""
    found = [row_of(step) | {"begun": {"fc.weight": digest("param", step - 1)}} for step in range(first, last)]
    found[0]["init"] = begun_after(first - 1)
    for number_, columns in enumerate(found):
        change(number_, columns)
    found[0]["begun"] = found[0]["init"]
    return found


def track(folder: Path, content: Sequence[Row], rank: int = 0, end: Row | None = None) -> RankTrack:
    """The rows as a recording, which is complete where it has an `end`."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = Writer(folder, rank)
    for step, row in enumerate([*content, *([] if end is None else [end])]):
        columns = {name: Column(tuple(own), [*own.values()]) for name, own in row.items()}
        writer.write(step, "step" if step < len(content) else "end", columns)
    writer.close(complete=end is not None)
    return RankTrack(Recording(writer.path))


def fetched(first: int, last: int, at: Mapping[int, int] | None = None, **more: bool | int) -> list[BatchFetched]:
    """The batches of steps, one for each; `at` says for a row whose step's batch comes instead."""
    found = []
    for row, step in enumerate(range(first, last)):
        came = (at or {}).get(row, step)
        batch = BatchFetched(row, 0, f"indices {came}", epoch=came // EPOCH, position=came % EPOCH)
        found.append(replace(batch, **more))  # type: ignore[arg-type]
    return found


def side(
    folder: Path,
    change: Change,
    *,
    rank: int = 0,
    of_a: Change = lambda row, columns: None,
    a_fetched: Sequence[BatchFetched] = (),
    b_fetched: Sequence[BatchFetched] = (),
) -> RankPair:
    """A training that was saved after 12 steps and resumed, beside the uninterrupted one; `change` is what is wrong."""
    a = track(folder / "a", rows(0, STEPS, of_a), rank)
    b = track(folder / "b", rows(SAVED, STEPS, change), rank)
    start: Start = start_of(a, b, SAVED, SAVED + 3)
    known = list(a_fetched) or fetched(0, STEPS)
    return RankPair(a, b, start, {}, known, list(b_fetched) or fetched(SAVED, STEPS))
