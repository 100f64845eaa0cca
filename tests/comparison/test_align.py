"""Pairing the recordings of two runs: by content and order of creation, never by arrival."""

from pathlib import Path

import pytest

from samebits.comparison.align import align
from samebits.comparison.locate import first_divergence
from samebits.report.places import place_words
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.lane_ids import LaneId, current_lane_id
from samebits.runfolder.steps import Column, Recording, Writer

Rows = list[dict[str, Column]]


def worker(number: int) -> LaneId:
    """The process that was created after `number` others."""
    return LaneId(((1, 10), (2, 100 + number)), f"SpawnProcess-{number + 1}")


def row(seed: int, **more: int) -> dict[str, Column]:
    content = {"init": seed, "loss": seed + 1} | more
    return {stream: Column(("w",), [value]) for stream, value in content.items()}


def run(folder: Path, *processes: tuple[int, Rows], complete: bool = True) -> list[Recording]:
    """Recordings in the order of arrival: who it is by number of creation, and its rows."""
    folder.mkdir()
    for number, rows in processes:
        writer = Writer(folder, 0, worker(number))
        for step, columns in enumerate(rows):
            writer.write(step, "step", columns)
        writer.close(complete)
    return RunFolder(folder).recordings()


def training(seed: int, steps: int = 3) -> Rows:
    return [row(seed + step) for step in range(steps)]


ONE, TWO, THREE = (0, training(10)), (1, training(20)), (2, training(30))
Processes = list[tuple[int, Rows]]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([ONE, TWO, THREE], [THREE, ONE, TWO]),
        ([ONE, TWO], [(0, training(20)), (1, training(10))]),
        ([ONE, (1, training(10))], [ONE, (1, training(10))]),
    ],
    ids=["in another order", "done by another process", "equal ones"],
)
def test_the_same_is_the_same_whoever_did_it_and_when(tmp_path: Path, a: Processes, b: Processes) -> None:
    """Trainings that come in another order, or that other workers take; the numbers of their files differ."""
    assert first_divergence(run(tmp_path / "a", *a), run(tmp_path / "b", *b)) is None


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        (
            [ONE, TWO, THREE],
            [THREE, (1, [*training(20, 2), row(22, loss=99)]), ONE],
            "at step 2, in the loss of process SpawnProcess-2",
        ),
        (
            [(0, [row(10), row(11), row(12)]), (1, [row(20), row(21), row(22)])],
            [(0, [row(20), row(21), row(92)]), (1, [row(10), row(11), row(82)])],
            "at step 2, in the initial state of process SpawnProcess-1",
        ),
        ([ONE, TWO], [THREE, ONE, TWO], "at step 0: only the second run took steps in process SpawnProcess-3"),
        ([ONE, (1, training(10))], [ONE, TWO], "at step 0, in the initial state of process SpawnProcess-2"),
        ([(0, training(10, 1))], [ONE, TWO], "at step 0: only the second run took steps in process SpawnProcess-2"),
    ],
    ids=["its last step", "the longest agree", "one more", "twice the same is not once", "one more, of a longer run"],
)
def test_the_one_that_differs_is_named(tmp_path: Path, a: Processes, b: Processes, told: str) -> None:
    """Its twin in the other run is the one that agrees with it longest, whatever came first; equal ones are counted."""
    place = first_divergence(run(tmp_path / "a", *a), run(tmp_path / "b", *b))

    assert place is not None
    assert place_words(place) == told


def test_pairs_are_told_in_the_order_of_creation(tmp_path: Path) -> None:
    """Not in that of arrival."""
    a, b = run(tmp_path / "a", ONE, TWO, THREE), run(tmp_path / "b", THREE, ONE, TWO)

    assert [(pair.process, pair.b and pair.b.sequence) for pair in align(a, b)] == [
        *(("process SpawnProcess-1", 1), ("process SpawnProcess-2", 2), ("process SpawnProcess-3", 0)),
    ]


def test_of_two_that_differ_beginnings_tell_which_is_which(tmp_path: Path) -> None:
    """Both part in their first step; what they started from did not change."""
    a = run(tmp_path / "a", (0, [row(10)]), (1, [row(20)]))
    b = run(tmp_path / "b", (1, [row(10, loss=98)]), (0, [row(20, loss=99)]))

    pairs = [(pair.a and pair.a.sequence, pair.b and pair.b.sequence) for pair in align(a, b)]
    assert pairs == [(0, 0), (1, 1)]


def test_of_two_that_have_nothing_in_common_names_tell(tmp_path: Path) -> None:
    """Unseeded workers are paired as they were created."""
    a = run(tmp_path / "a", (0, training(10)), (1, training(20)))
    b = run(tmp_path / "b", (1, training(30)), (0, training(40)))

    assert [pair.b and pair.b.sequence for pair in align(a, b)] == [1, 0]


def test_a_run_that_was_stopped_is_not_blamed_for_what_it_did_not_come_to(tmp_path: Path) -> None:
    """Its main process ended after step 0, so it never started the worker; a run that was not stopped is blamed."""
    whole = run(tmp_path / "whole", (0, training(10)), (1, training(20)))
    stopped = run(tmp_path / "stopped", (0, training(10, 1)), complete=False)
    ended = run(tmp_path / "ended", (0, training(10)))

    assert first_divergence(whole, stopped, until=0) is None
    place = first_divergence(whole, ended)
    assert place is not None
    assert (place.only_in, place.process) == ("first", "process SpawnProcess-2")


def test_the_order_of_creation_is_that_of_the_system() -> None:
    """A process comes after its parent and before its own threads, and is called as it was typed."""
    here = current_lane_id(training=2)

    assert here.order[-1][0] >= here.order[0][0]
    assert here.order[:-1] < here.order
    assert here.name.startswith("training 2 of process `python")
