"""Comparing two recordings: the first place at which they differ, whatever the difference is."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.base.errors import DigestError
from samebits.comparison.locate import Divergence, first_divergence
from samebits.comparison.ops import op_divergences
from samebits.comparison.streams import trained_in
from samebits.report.places import difference_words, place_words
from samebits.runfolder.steps import COMPARED, Column, Recording, Writer

STEPS = 20
Columns = dict[str, Column]


def recorded(
    folder: Path,
    steps: list[Columns],
    rank: int = 0,
    end: Columns | None = None,
    digest: str = "",
) -> Recording:
    folder.mkdir(parents=True, exist_ok=True)
    writer = Writer(folder, rank, digest=digest)
    for step, columns in enumerate(steps):
        writer.write(step, "step", columns)
    if end is not None:
        writer.write(len(steps), "end", end)
    writer.close()
    return Recording(writer.path)


def parting(tmp_path: Path, a: list[Columns], b: list[Columns], **end: Columns) -> Divergence:
    """The place at which one run of these steps and another part; there is one."""
    place = first_divergence([recorded(tmp_path / "a", a, **end)], [recorded(tmp_path / "b", b, **end)])
    assert place is not None
    return place


def told(place: Divergence | None) -> str | None:
    """The step and the stream of a place."""
    return None if place is None else f"{place.step} {place.stream}"


def plain(**changes: int) -> Columns:
    values = {"batch": 1, "loss": 2, "grad": 3, "param": 4} | changes
    return {stream: Column((f"{stream}.a", f"{stream}.b"), [value, value + 1]) for stream, value in values.items()}


def test_what_was_trained_is_told_from_what_else_happened(tmp_path: Path) -> None:
    """A call more, and a process that only calls, is something else; its planted twins are not.

    Where the end of the models was not seen, or nothing is trained, everything counts.
    """
    end = {"end": Column(("w",), [5])}
    called = {**plain(), "batch": Column(("batch.a", "batch.b", "1"), [1, 2, 9]), "output": Column(("0",), [7])}
    a = recorded(tmp_path / "a", [plain()] * STEPS, end=end)
    b = recorded(tmp_path / "b", [plain(), called, *[plain()] * (STEPS - 2)], end=end)
    c = recorded(tmp_path / "c", [plain(), called, plain(grad=9), *[plain()] * (STEPS - 3)], end=end)
    alone = recorded(tmp_path / "b", [{"batch": Column(("0",), [1])}])
    shorter = recorded(tmp_path / "d", [plain(), called], end=end)
    unseen = recorded(tmp_path / "e", [plain(), called, *[plain()] * (STEPS - 2)])
    evaluated = [recorded(tmp_path / f"f{n}", [{"output": Column(("0",), [n])}], end=end) for n in (1, 2)]

    def places(one: Recording, *other: Recording) -> tuple[str | None, ...]:
        streams = trained_in([[one], other])
        return tuple(told(first_divergence([one], other, streams=own)) for own in (COMPARED, streams))

    assert places(a, b) == ("1 batch", None)
    assert places(b, b, alone) == ("0 length", None)
    assert places(a, c) == ("1 batch", "2 grad")
    assert places(a, shorter) == ("1 batch", "2 length")
    assert places(recorded(tmp_path / "g", [plain()] * STEPS), unseen) == ("1 batch", "1 batch")
    assert places(*evaluated) == ("0 output", "0 output")


@pytest.mark.parametrize(("more", "trained"), [({}, None), ({"buffer": Column(("mean",), [3])}, "1 length")])
def test_who_only_calls_models_may_do_so_more_often(more: Columns, trained: str | None, tmp_path: Path) -> None:
    """Actors in threads share episodes as it comes, with somebody else's model; what they change themselves counts."""
    end, call = {"end": Column(("w",), [5])}, {"batch": Column(("0",), [1]), **more}
    runs = [
        [
            recorded(tmp_path / f"{calls}", [plain()] * STEPS, end=end),
            recorded(tmp_path / f"{calls} actor", [call] * calls, end=end),
        ]
        for calls in (1, 2)
    ]

    assert told(first_divergence(*runs)) == "1 length"
    assert told(first_divergence(*runs, streams=trained_in(runs))) == trained


@pytest.mark.parametrize(("last", "trained"), [(4, None), (9, "1 param")])
def test_who_of_several_threads_makes_a_step_is_no_difference(last: int, trained: str | None, tmp_path: Path) -> None:
    """The last thread at a barrier steps for all: the same parameters in other hands; the twin ends elsewhere."""

    def run(name: str, *shares: list[int]) -> list[Recording]:
        threads = enumerate([plain(param=value) for value in own] for own in shares)
        return [recorded(tmp_path / f"{name} {n}", steps, end={"end": Column(("w",), [5])}) for n, steps in threads]

    runs = [run("a", [1, 2, 3], [2, 4]), run("b", [1, 3], [2, 3, last])]

    assert first_divergence(*runs) is not None
    assert told(first_divergence(*runs, streams=trained_in(runs))) == trained


@pytest.mark.parametrize("digest", ["blake2b, sums 1", "sums 1"])
@pytest.mark.parametrize("value", [4, 5])
def test_digests_of_two_definitions_are_not_compared(tmp_path: Path, digest: str, value: int) -> None:
    """Neither "different" nor "same" would be true: an error names both recordings and both definitions."""
    a = recorded(tmp_path / "a", [plain()], digest="xxh3, sums 1")
    b = recorded(tmp_path / "b", [plain(param=value)], digest=digest)

    with pytest.raises(DigestError, match=f"a/recording.sqlite and .*b/recording.sqlite .*xxh3, sums 1.*{digest}"):
        first_divergence([a], [b])
    with pytest.raises(DigestError, match="record both again"):
        list(op_divergences([a], [b]))


@pytest.mark.parametrize("step", [0, 7, STEPS - 1])
@pytest.mark.parametrize("stream", ["batch", "loss", "grad", "param"])
def test_the_first_step_and_stream_are_found(tmp_path: Path, step: int, stream: str) -> None:
    """Later differences, and later streams of the same step, do not hide the first; equal runs have none."""
    same = [plain()] * STEPS
    changed = [plain()] * step + [plain(**{stream: 99, "param": 77})] + [plain(loss=5)] * (STEPS - step - 1)

    place = parting(tmp_path, same, changed)

    assert (place.step, place.stream, place.name) == (step, stream, f"{stream}.a")
    assert (place.differing, place.total) == (2, 2)
    assert first_divergence(*([recorded(tmp_path / name, same)] for name in ("c", "d"))) is None


def test_a_process_that_trains_is_named_before_one_that_only_calls(tmp_path: Path) -> None:
    """Of a model in shared memory that others have trained, what its first call finds is no beginning."""

    def run(name: str, found: int, trained: int) -> list[Recording]:
        called = {"init": Column(("w",), [found]), "output": Column(("0",), [found])}
        training = [plain()] * 3 + [plain(grad=trained)] * 2
        return [recorded(tmp_path / name, [called]), recorded(tmp_path / name / "other", training)]

    runs = [run(f"b{found}{trained}", found, trained) for found, trained in ((1, 3), (2, 3), (1, 9), (2, 9))]

    assert [told(first_divergence(run("a", 1, 3), own)) for own in runs] == [None, "0 init", "3 grad", "3 grad"]


def test_what_one_torch_alone_keeps_of_an_optimizer_is_no_difference(tmp_path: Path) -> None:
    """Across two versions the first difference in bits is named; within one, a key more is one like any other."""

    def step(loss: int, **names: int) -> dict[str, Column]:
        return plain(loss=loss) | {"optimizer": Column(tuple(names), [*names.values()])}

    a = recorded(tmp_path / "a", [step(2, lr=1), step(2, lr=1)])
    same = recorded(tmp_path / "b", [step(2, lr=1, decoupled=0), step(2, lr=1, decoupled=0)])
    other = recorded(tmp_path / "c", [step(2, lr=1, decoupled=0), step(3, lr=1, decoupled=0)])
    rate = recorded(tmp_path / "d", [step(2, lr=9, decoupled=0), step(2, lr=9, decoupled=0)])

    def places(across: bool) -> list[str | None]:
        return [told(first_divergence([a], [b], across=across)) for b in (same, other, rate)]

    assert places(across=True) == [None, "1 loss", "0 optimizer"]
    assert places(across=False) == ["0 optimizer"] * 3


def test_what_comes_twice_under_one_name_is_told_apart(tmp_path: Path) -> None:
    """The first of them differs, or is there in one run alone; the last one is the same."""
    once, twice, other = ([{"grad": Column(("w",) * len(digests), digests)}] for digests in ([2], [1, 2], [3, 2]))
    found, more = parting(tmp_path / "found", twice, other), parting(tmp_path / "more", once, twice)

    assert (found.stream, found.name) == ("grad", "w")
    assert (more.stream, more.only_in) == ("grad", "second")


def test_looking_up_to_a_step_leaves_out_what_comes_after(tmp_path: Path) -> None:
    """Runs that were stopped are compared as far as both went on purpose."""
    a = recorded(tmp_path / "a", [plain()] * 5)
    b = recorded(tmp_path / "b", [plain()] * 3 + [plain(loss=9)])

    assert first_divergence([a], [b], until=2) is None
    assert first_divergence([a], [b], until=3) is not None


NAMED, MOVED = ({"param": Column(names, digests)} for names, digests in ((("w", "b"), [1, 2]), (("b", "w"), [2, 1])))


@pytest.mark.parametrize(
    ("a", "b", "end", "told"),
    [
        ([plain()] * 5, [plain()] * 7, None, "at step 5: the first run took 5 steps and the second 7"),
        ([plain()] * 5, [plain()] * 6, plain(), "at step 5: the first run took 5 steps and the second 6"),
        ([plain()], [{**plain(), "grad": None}], None, "grad.a: only the first run has it, and 1 more"),
        ([NAMED], [{"param": Column(("w", "b", "extra"), [1, 2, 3])}], None, "extra: only the second run has it"),
        ([NAMED], [MOVED], None, "w: 2 of 2 tensors differ (the same names come in another order)"),
    ],
    ids=["longer", "an end where the other takes a step", "no such stream", "a name more", "another order"],
)  # fmt: skip
def test_what_one_run_lacks_is_named(
    tmp_path: Path, a: list[Columns], b: list[Any], end: Columns | None, told: str
) -> None:
    """Steps, streams, names, and their order: a missing counterpart is a finding of its own."""
    kept = [{stream: column for stream, column in step.items() if column is not None} for step in b]
    place = parting(tmp_path, a, kept, **({} if end is None else {"end": end}))

    assert told in (place_words(place), difference_words(place))


@pytest.mark.parametrize(
    ("b", "told"),
    [
        ([3], "at step 3, in the loss"),
        ([3, 2], "at step 2, in the loss of rank 1"),
        ([0, 0], "at step 0, in the loss of ranks 0 and 1"),
        ([0, 0, 0], "at step 0, in the loss of 3 ranks"),
        ([0, 5], "at step 0, in the loss of rank 0"),
        ([5, None], "at step 0: only the first run took steps on rank 1"),
    ],
)
def test_ranks_are_named_where_there_are_several(tmp_path: Path, b: list[int | None], told: str) -> None:
    """Those that part at the earliest place, each from its own step on; and one that has no counterpart."""
    first = [recorded(tmp_path / "a", [plain()] * 5, rank) for rank in range(len(b))]
    parts = [(rank, at) for rank, at in enumerate(b) if at is not None]
    second = [recorded(tmp_path / "b", [plain()] * at + [plain(loss=8)] * (5 - at), rank) for rank, at in parts]
    place = first_divergence(first, second)

    assert place is not None
    assert place_words(place) == told


def test_generators_that_stood_elsewhere_explain(tmp_path: Path) -> None:
    """The state at the end of the step before is reported with the divergence."""
    before = [{**plain(), "rng": Column(("python", "numpy"), [1, state])} for state in (2, 3)]

    assert parting(tmp_path, [before[0], plain()], [before[1], plain(batch=7)]).generators == ("numpy",)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 300), st.data())
def test_the_first_difference_is_found_in_any_recording(
    tmp_path_factory: pytest.TempPathFactory, steps: int, data: st.DataObject
) -> None:
    """Halving over chained roots finds exactly the first step that was changed."""
    first = data.draw(st.integers(0, steps - 1))
    a = [plain(loss=step) for step in range(steps)]
    b = [plain(loss=step + (1000 if step >= first else 0)) for step in range(steps)]

    assert parting(tmp_path_factory.mktemp("runs"), a, b).step == first


def test_what_a_killed_process_did_not_write_is_no_evidence(tmp_path: Path) -> None:
    """An incomplete recording is compared as far as it goes; a complete one that ends early is a difference."""
    a = recorded(tmp_path / "a", [plain()] * 7)
    (tmp_path / "b").mkdir()
    writer = Writer(tmp_path / "b", 0)
    for step in range(5):
        writer.write(step, "step", plain())
    writer.commit()

    assert first_divergence([a], [Recording(writer.path)]) is None
    writer.close()
    assert first_divergence([a], [Recording(writer.path)]) is not None
