"""A run held against what is locked: the same, or since when and in what it is not. Recordings are written by hand."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samebits.base.errors import DigestError
from samebits.base.records import to_data
from samebits.locking.comparing import compare_with_lock, differing_files
from samebits.locking.digests import kept_steps, locked_of
from samebits.locking.entries import Locked
from samebits.locking.toml import toml_text
from samebits.locking.verdict import LockDivergence
from samebits.runfolder.lane_ids import LaneId
from samebits.runfolder.steps import Column, Recording, Writer

NUMBER = count()
FIRST = "optimizer", "artifact", "end"


def recorded(
    folder: Path,
    steps: int,
    changed: tuple[int, str] | None = None,
    *,
    rank: int = 0,
    seed: int = 0,
    digest: str = "xxh3, sums 2",
    complete: bool = True,
    has_end: bool = True,
) -> Recording:
    """A training of so many steps; at one of them, and in one stream, a digest differs by one bit."""
    own = folder / str(next(NUMBER))
    own.mkdir(parents=True)
    writer = Writer(own, rank, LaneId(), digest)
    for step in range(steps):
        columns = {
            stream: Column(
                (f"{stream}.a", f"{stream}.b"),
                [seed * 7919 + step * 31 + number, step ^ int((step, stream) == changed)],
            )
            for number, stream in enumerate(("batch", "loss", "grad", "param"))
        }
        writer.write(step, "step", columns | {"number": Column(("0 float32",), [0x3FF8000000000000 + step])})
    if has_end:
        writer.write(steps, "end", {"end": Column(("a",), [int(changed == (steps, "end"))])})
    writer.close(complete)
    return Recording(writer.path)


def locked(*recordings: Recording, most_steps: int = 0) -> Locked:
    return locked_of(recordings, most_steps)


def parting(expected: Locked, *recordings: Recording) -> LockDivergence:
    """Where a whole run parts from what is locked; it does."""
    place = compare_with_lock(expected, recordings, is_whole=True).divergence
    assert place is not None
    return place


def test_the_steps_that_are_kept() -> None:
    """0, the powers of two, and the last one."""
    assert kept_steps(1) == [0]
    assert kept_steps(2) == [0, 1]
    assert kept_steps(40) == [0, 1, 2, 4, 8, 16, 32, 39]


def test_the_same_is_the_same(tmp_path: Path) -> None:
    """And nothing but that: all that follows is held against this twin."""
    held = compare_with_lock(locked(recorded(tmp_path, 40)), [recorded(tmp_path, 40)], is_whole=True)

    assert (held.divergence, held.reaches_end, held.agreed) == (None, True, 40)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.integers(1, 96), data=st.data())
def test_one_bit_anywhere_is_found_at_its_step(tmp_path: Path, steps: int, data: st.DataObject) -> None:
    """In any stream of any step of a short training: the step exactly, the stream where it is kept."""
    step = data.draw(st.integers(0, steps - 1))
    stream = data.draw(st.sampled_from(["batch", "loss", "grad", "param"]))
    held = compare_with_lock(
        locked(recorded(tmp_path, steps)), [recorded(tmp_path, steps, (step, stream))], is_whole=True
    )
    place = held.divergence

    assert place is not None
    assert (place.step, place.is_exact, held.agreed) == (step, True, step)
    if step in kept_steps(steps):
        assert (place.streams, place.seen) == ((stream,), str(step))


@pytest.mark.parametrize("step", [0, 1, 3, 500, 511, 512, 900, 998, 999])
def test_in_a_long_training_the_steps_between_are_named(tmp_path: Path, step: int) -> None:
    """Of a thousand steps the first that differs lies in the range that is named, and the range is short."""
    expected = locked(recorded(tmp_path, 1000))
    place = parting(expected, recorded(tmp_path, 1000, (step, "param")))

    assert place.step is not None
    first = 0 if place.agreed is None else place.agreed + 1
    assert first <= step <= place.step
    assert place.step - first <= expected.stride


def test_the_final_state_counts(tmp_path: Path) -> None:
    """All steps agree, and what the models hold at the end does not."""
    place = parting(locked(recorded(tmp_path, 9)), recorded(tmp_path, 9, (9, "end")))

    assert (place.seen, place.streams, place.agreed, place.losses) == ("end", ("end",), 8, None)


@pytest.mark.parametrize(("taken", "agreed"), [(12, 8), (5, 4)])
def test_more_and_fewer_steps_than_locked(tmp_path: Path, taken: int, agreed: int) -> None:
    """A training that ends elsewhere is another one, though all that both did agrees."""
    place = parting(locked(recorded(tmp_path, 9)), recorded(tmp_path, taken))

    assert (place.what, place.lengths, place.agreed) == ("length", (9, taken), agreed)


def test_what_was_cut_off_says_nothing_of_what_it_lacks(tmp_path: Path) -> None:
    """Neither the same nor different as far as it agrees; different where it does not."""
    expected = locked(recorded(tmp_path, 9))
    short = recorded(tmp_path, 5, complete=False, has_end=False)
    wrong = recorded(tmp_path, 5, (3, "grad"), complete=False, has_end=False)
    whole = recorded(tmp_path, 9, complete=False, has_end=False)

    assert compare_with_lock(expected, [short], is_whole=False).divergence is None
    assert not compare_with_lock(expected, [short], is_whole=False).reaches_end
    assert not compare_with_lock(expected, [whole], is_whole=False).reaches_end
    assert compare_with_lock(expected, [wrong], is_whole=False).divergence is not None


def test_the_first_steps_alone(tmp_path: Path) -> None:
    """Up to a limit, a run that was stopped there and one that went on are the same; a difference before it counts."""
    expected = locked(recorded(tmp_path, 9, complete=False, has_end=False), most_steps=9)
    for run in (recorded(tmp_path, 9, complete=False, has_end=False), recorded(tmp_path, 30)):
        assert compare_with_lock(expected, [run], True, 9) == compare_with_lock(expected, [run], False, 9)
        assert compare_with_lock(expected, [run], True, 9).divergence is None
    assert compare_with_lock(expected, [recorded(tmp_path, 30, (8, "param"))], True, 9).divergence is not None
    assert compare_with_lock(expected, [recorded(tmp_path, 30, (9, "param"))], True, 9).divergence is None
    assert compare_with_lock(expected, [recorded(tmp_path, 7)], True, 9).divergence is not None


def test_digests_of_two_definitions_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(DigestError, match="cannot be compared"):
        compare_with_lock(
            locked(recorded(tmp_path, 3)), [recorded(tmp_path, 3, digest="blake2b, sums 2")], is_whole=True
        )


def test_ranks_and_trainings_come_in_any_order(tmp_path: Path) -> None:
    """Two ranks and three trainings of one rank, shuffled, are the same; one bit in one of them is counted."""
    ranks = [recorded(tmp_path, 9), recorded(tmp_path, 9, rank=1, seed=1)]
    several = [recorded(tmp_path, 5 + seed, seed=seed) for seed in range(3)]
    for own in (ranks, several):
        assert compare_with_lock(locked(*own), own[::-1], is_whole=True).divergence is None
    place = parting(locked(*ranks), ranks[0], recorded(tmp_path, 9, (6, "grad"), rank=1, seed=1))
    assert (place.step, place.recordings) == (6, (1, 2))
    # The same bits on the other ranks are other bits.
    swapped = [recorded(tmp_path, 9, rank=1), recorded(tmp_path, 9, seed=1)]
    assert parting(locked(*ranks), *swapped)
    assert parting(locked(*ranks), ranks[0])


def test_losses_are_locked_as_they_are(tmp_path: Path) -> None:
    """As hex floats, which lose nothing."""
    assert [row.losses for row in locked(recorded(tmp_path, 3)).rows] == [
        ("0x1.8000000000000p+0",),
        ("0x1.8000000000001p+0",),
        ("0x1.8000000000002p+0",),
        (),
    ]


def test_a_long_training_is_a_small_entry(tmp_path: Path) -> None:
    """Of ten thousand steps: its digests take less than 4 KB."""
    code = {f"src/package/module{number}.py": "0123456789ab" for number in range(12)}
    entry = replace(locked(recorded(tmp_path, 10_000)), code=code, commit="c" * 40)

    assert len(toml_text({"run": {"train": {"on": {"cpu-01234567": to_data(entry)}}}})) < 4096


def test_files_that_differ_or_are_gone() -> None:
    locked_ones = {"a": "1", "b": "2", "c": "3"}
    found = differing_files(locked_ones, {"a": "1", "b": "x", "c": None}, "artifact")

    assert [(one.path, one.why) for one in found] == [("b", ""), ("c", "the run did not write it")]
    assert differing_files(locked_ones, {}, "data") == ()
