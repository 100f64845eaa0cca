"""What is suspected, from recordings written by hand; and which state is tried first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samebits.resuming.experiments import _Part, _ResumeTrial
from samebits.resuming.missing import (
    differences_clause,
    grouped_by_object,
    not_resumed,
    states_by_likelihood,
    suspected,
)
from samebits.resuming.resume_comparison import Recorded, ResumeComparison
from samebits.resuming.tracks import RankPair, RankTrack, Start, earliest_difference, start_of
from samebits.resuming.verdict import Missing, SavedCheckpoint
from samebits.runfolder.notes import BatchFetched, Lacks
from samebits.runfolder.spec import Restoration
from tests.resuming.by_hand import SAVED, STEPS, Change, Row, begun_after, digest, fetched, row_of, rows, side, track


def found(one: RankPair, *others: RankPair) -> list[Missing]:
    """What is missing, by the earliest place at which ranks differ."""
    sides = {own.a.rank: own for own in (one, *others)}
    first = earliest_difference([*sides.values()])
    return [] if first is None else suspected(*first, sides)


def states(one: RankPair, *others: RankPair) -> list[str]:
    return [missing.state for missing in found(one, *others)]


def beside(one: RankPair, is_aside: bool = False) -> ResumeComparison:
    return ResumeComparison([one], Restoration(""), SavedCheckpoint(), True, [], is_aside=is_aside)


def resumed_as(looked: ResumeComparison, folder: Path) -> _ResumeTrial:
    """A training of which nothing is known but that; no run can be made."""
    resumed = _ResumeTrial(None, None, None, Recorded(SimpleNamespace(path=folder)))  # type: ignore[arg-type]
    resumed.best_comparison = looked
    return resumed


def spoiled(*streams: str, only_first: bool = False) -> Change:
    """All that is in these streams is other than it was, and what follows from it too."""

    def change(row: int, columns: Row) -> None:
        if row == 0 or not only_first:
            for stream in streams:
                columns[stream] = {name: digest("other", one) for name, one in columns[stream].items()}

    return change


def begun_with(**names: int) -> Change:
    """Something is other before the first step, and so are the loss and what follows."""

    def change(row: int, columns: Row) -> None:
        if row == 0:
            columns["init"] |= {name.replace("_", "."): value for name, value in names.items()}
        spoiled("loss", "grad", "param")(row, columns)

    return change


def test_nothing_is_missing_where_all_agrees(tmp_path: Path) -> None:
    """The right twin: no step differs, and the first one is the one after the save."""
    one = side(tmp_path, lambda row, columns: None)

    assert (one.start.step, one.rows, one.first()) == (SAVED, STEPS - SAVED, None)


def test_parameters_that_are_no_steps_own(tmp_path: Path) -> None:
    """Parameters that the training never had say that they were not restored, and nothing else is guessed."""
    one = side(tmp_path, begun_with(fc_weight=1))

    assert not one.start.has_parameters
    assert states(one) == ["parameters"]


@pytest.mark.parametrize("change", [begun_with(fc_weight=1), spoiled("batch"), spoiled("loss", "rng"), spoiled("loss")])
@pytest.mark.parametrize("is_aside", [True, False])
def test_a_checkpoint_that_was_written_while_the_training_went_on(
    tmp_path: Path, change: Change, is_aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever differs first where it is loaded, and nothing that is given back explains it: the file is torn."""

    def nothing(_: _ResumeTrial, parts: Sequence[_Part]) -> None:
        # Its parameters are of later steps, so the data of these would fit them.
        assert not (is_aside and parts[0].state == "position")

    monkeypatch.setattr(_ResumeTrial, "_with", nothing)
    data = fetched(SAVED, STEPS, {row: SAVED + row - 4 for row in range(STEPS)})
    looked = beside(side(tmp_path, change, b_fetched=data), is_aside=is_aside)
    missing = resumed_as(looked, tmp_path).missing()

    assert looked.sides[0].start.step == SAVED
    assert any("saved in another thread" in one.evidence for one in missing) == is_aside
    assert not is_aside or [(one.state, one.confirmed) for one in missing] == [("snapshot", False)]


@pytest.mark.parametrize("is_tried", [True, False])
def test_generators_that_changed_nothing_are_not_suspected(
    tmp_path: Path, is_tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they stand follows from something else; they are where they could not be given back."""
    monkeypatch.setattr(_ResumeTrial, "_with", lambda *_: None)
    if not is_tried:
        monkeypatch.setattr(ResumeComparison, "to_give_back", lambda *_: None)
    one = side(tmp_path, spoiled("loss", "rng"))
    missing = resumed_as(beside(one), tmp_path).missing()

    assert [one.state for one in missing] == ([] if is_tried else ["generators"])


@pytest.mark.parametrize("is_cured", [True, False])
def test_a_loaders_own_generator_is_no_epoch(tmp_path: Path, is_cured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins anew, so an epoch looks like the one before; where giving it back fixes it, the order is missing."""
    change = spoiled("batch", "loss", "grad", "param", only_first=True)
    wrong, right = (
        side(tmp_path / name, own, b_fetched=fetched(SAVED, STEPS, came))
        for name, own, came in (("wrong", change, {0: SAVED - 8}), ("right", lambda *_: None, {}))
    )

    monkeypatch.setattr(_ResumeTrial, "_with", lambda *_: beside(right if is_cured else wrong))
    missing = resumed_as(beside(wrong), tmp_path).missing()

    assert [(one.state, one.confirmed) for one in missing] == [("order", True) if is_cured else ("epoch", False)]


def test_networks_that_are_trained_in_turns(tmp_path: Path) -> None:
    """As those of a GAN, of which each step trains one: both are parameters, at the save and where one is lost."""

    def turns(folder: str, first: int, other: int = 0) -> Any:
        found = rows(first, STEPS)
        for step, row in enumerate(found, first):
            name = ("g.weight", "d.weight")[step % 2]
            row["begun"], row["param"] = {name: digest(step - 2) + other * (step == first)}, {name: digest(step)}
        return track(tmp_path / folder, found)

    whole = turns("a", 0)

    assert start_of(whole, turns("b", SAVED), SAVED, SAVED + 3).has_parameters
    assert not start_of(whole, turns("c", SAVED, other=1), SAVED, SAVED + 3).has_parameters


def primed(folder: Path, came: Sequence[int], begun: Sequence[int]) -> RankTrack:
    """Rows of these steps, each with the parameters that one of the steps left: -1 stands for the initial ones."""
    found = [row_of(step) for step in came]
    for row, step in zip(found, begun, strict=True):
        row["init"] = row["begun"] = {"fc.weight": digest("param", step)}
    return track(folder, found)


@pytest.mark.parametrize(
    ("began", "loaded", "expected"),
    [
        ([11, 12, 13], 0, (12, 0)),
        ([11, 11, 12], 0, (12, 1)),  # undone once it was loaded
        ([11, 99, 98, 11, 12], 0, (12, 3)),
        ([11, 11, 77], 0, (12, 1)),  # and wrong after that
        ([-1, 11, 12], 1, (12, 1)),  # undone by what is loaded
        ([-1, -1, 11, 11, 12], 2, (12, 3)),
        ([77, 11, 12], 0, (12, None)),
        ([-1, 77, 78], 1, (12, None)),
        ([-1, 0, 1], 0, (0, 0)),
        ([-1, 0, 1, 11], 3, (12, 3)),
        ([-1, 0, 1, 2], 3, (0, 0)),  # what is loaded later in the training is no resume
    ],
)
def test_steps_that_were_undone_are_no_steps(
    tmp_path: Path, began: list[int], loaded: int, expected: tuple[int, int | None]
) -> None:
    """Rows that begin once more with the parameters of the save: the last of them is its step."""
    a = track(tmp_path / "a", rows(0, STEPS))
    start = start_of(a, primed(tmp_path / "b", [0] * len(began), began), SAVED, SAVED + 3, loaded)

    assert (start.step, start.row if start.has_parameters else None) == expected
    assert start.is_from_the_start == (expected[0] == 0)


def test_a_step_that_changes_nothing_is_not_undone(tmp_path: Path) -> None:
    """With a learning rate of zero, the next step begins with the same parameters, in both runs."""
    still = [*range(-1, 11), 11, 11, *range(13, STEPS - 1)]
    a = primed(tmp_path / "a", range(STEPS), still)
    b = primed(tmp_path / "b", range(SAVED, STEPS), still[SAVED:])

    assert start_of(a, b, SAVED, SAVED + 3) == Start(SAVED)


def test_what_begins_as_at_first_was_not_resumed(tmp_path: Path) -> None:
    """Where a rate warms up from zero, another step fits too, and is that of the save only if that was loaded."""
    warming = [-1, -1, *range(1, STEPS - 1)]
    a = primed(tmp_path / "a", range(STEPS), warming)
    b = primed(tmp_path / "b", range(STEPS), warming)
    c = primed(tmp_path / "c", range(1, STEPS), warming[1:])

    assert start_of(a, b, None, 8) == Start(0, is_from_the_start=True)
    assert start_of(a, b, 5, 8) == Start(0, is_from_the_start=True)
    assert start_of(a, c, 1, 8) == Start(1)


def given_back(
    monkeypatch: pytest.MonkeyPatch, folder: Path, cures: Sequence[set[str]], known: Sequence[Lacks], steps: int = 4
) -> list[Missing]:
    """What is missing where all that is in one of `cures` has to be given back; each value moves the difference."""
    whole = side(folder / "whole", lambda *_: None)

    def after(number: int) -> ResumeComparison:
        def change(row: int, columns: Row) -> None:
            if row >= number * steps:
                spoiled("loss")(row, columns)

        return replace(beside(side(folder / f"after{number}", change)), lacks=list(known))

    found = [after(number) for number in range(2 + max(map(len, cures)))]

    def compared(_: _ResumeTrial, parts: Sequence[_Part]) -> ResumeComparison:
        paths = {lack.path for part in parts for lack in part.lacks}
        if any(cure <= paths for cure in cures):
            return beside(whole)
        return found[len(paths & cures[0])]

    monkeypatch.setattr(_ResumeTrial, "_with", compared)
    resumed = resumed_as(found[0], folder)
    resumed.lacks = list(known)
    return resumed.missing()


def test_confirmed_is_what_leaves_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the values of a state, those that matter; what only moves the difference is suspected, and says where to."""
    known = [lacks(name, "counter", "1", "0") for name in ("a", "b", "c")]
    (one,) = given_back(monkeypatch, tmp_path / "1", [{"b"}], known)
    (part,) = given_back(monkeypatch, tmp_path / "2", [{"b", "x"}], known)
    none = given_back(monkeypatch, tmp_path / "3", [{"b", "x"}], known, steps=0)

    assert (one.state, one.confirmed) == ("counter", True)
    assert one.evidence == "b is 0 in the first resumed step, but was 1 when it saved"
    assert (part.state, part.confirmed, part.moves_to) == ("counter", False, SAVED + 4)
    assert none == []


def test_what_helps_within_its_step_only_stays_suspected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As generators for the first sample that the script itself puts back later."""
    first = beside(side(tmp_path / "1", spoiled("batch", "loss", "rng")))
    then = beside(side(tmp_path / "2", spoiled("loss", "rng")))
    monkeypatch.setattr(_ResumeTrial, "_with", lambda *_: then)
    missing = resumed_as(first, tmp_path).missing()

    assert [(one.state, one.confirmed, one.moves_to) for one in missing] == [("sample-generators", False, None)]


def test_several_missing_states_are_given_back_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each is left out in turn: one without which no difference is left either is not missing."""
    known = [lacks("m.running", "buffers"), lacks("hidden", "carried"), lacks("s.scale", "scaler")]
    two = given_back(monkeypatch, tmp_path / "2", [{"m.running", "s.scale"}], known)
    one = given_back(monkeypatch, tmp_path / "1", [{"m.running", "hidden"}, {"hidden"}], known)

    assert [(missing.state, missing.confirmed) for missing in two] == [("buffers", True), ("scaler", True)]
    assert [missing.state for missing in one] == ["carried"]


def test_what_is_saved_once_at_the_end_counts(tmp_path: Path) -> None:
    """As an average of the weights is: where every step agrees, it is compared."""
    a = track(tmp_path / "a", rows(0, STEPS), end={"artifact": {"0.average": 1}})
    same, other = (
        track(tmp_path / f"b{value}", rows(SAVED, STEPS), end={"artifact": {"0.average": value}}) for value in (1, 2)
    )

    assert RankPair(a, same, start_of(a, same, SAVED, SAVED + 3)).first() is None
    assert RankPair(a, other, start_of(a, other, SAVED, SAVED + 3)).first() is not None


def test_initial_parameters_are_no_resume(tmp_path: Path) -> None:
    """Whatever else agrees: a run that begins with the initial state starts from step 0."""

    def change(row: int, columns: Row) -> None:
        columns.update(row_of(row))
        if row == 0:
            columns["init"] = begun_after(-1)

    one = side(tmp_path, change)

    assert one.start.is_from_the_start
    assert not_resumed(one, "").evidence.startswith("ignores its checkpoint: it starts from step 0; no checkpoint")
    assert "last.pt was torn, the script skips it" in not_resumed(one, "", "last.pt").evidence
    assert "or has none yet after 5 steps, as --saved-at says" in not_resumed(one, "", told=5).evidence


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (spoiled("loss", "grad", "param", "rng"), ["generators"]),
        (spoiled("loss", "grad", "param"), []),
        (spoiled("grad", "param"), []),
        (spoiled("param", "optimizer"), []),
        (spoiled("buffer"), []),
    ],
)
def test_what_recordings_do_not_say_is_not_guessed(tmp_path: Path, change: Change, expected: list[str]) -> None:
    """A loss with generators elsewhere; whatever else differs first is found out by giving states back."""
    assert states(side(tmp_path, change)) == expected


def test_an_optimizer_of_a_model_that_was_replaced(tmp_path: Path) -> None:
    """It steps what no model has that is called."""

    def change(row: int, columns: Row) -> None:
        for stream in ("grad", "param"):
            columns[stream] = {"optimizer0.param0": row}

    one = side(tmp_path, change)

    assert states(one) == ["optimizer"]
    assert found(one)[0].evidence.startswith("it steps optimizer0.param0, of no model that is called")


def called(model: str, later: str = "", change_at: int = STEPS) -> Change:
    """The model's parameters are those of a model of that name, and of another one from a row on."""

    def change(row: int, columns: Row) -> None:
        prefix = model if row < change_at else later
        for stream in {"init", "begun", "grad", "param", "optimizer"} & columns.keys():
            own = columns[stream]
            columns[stream] = {f"{prefix}{name}" if name[0] == "f" else name: one for name, one in own.items()}

    return change


def test_models_that_are_called_in_another_order(tmp_path: Path) -> None:
    """Their parameters are called otherwise then; they are known by their bits, and nothing differs."""

    def change(row: int, columns: Row) -> None:
        called("Net0.")(row, columns)
        if row == 0:
            columns["init"]["fc.weight"] = 1  # of the model that is called first now

    one = side(tmp_path, change)

    assert (one.start.step, one.start.has_parameters, one.first()) == (SAVED, True, None)


@pytest.mark.parametrize("is_right", [True, False])
def test_an_optimizer_that_is_made_anew(tmp_path: Path, is_right: bool) -> None:
    """As for every client of a federation: its number is lower where fewer were made before."""

    def numbered(number: int, spoils: bool = False) -> Change:
        def change(row: int, columns: Row) -> None:
            if spoils:
                spoiled("optimizer")(row, columns)
            columns["optimizer"] = {f"optimizer{number}.{name}": one for name, one in columns["optimizer"].items()}

        return change

    one = side(tmp_path, numbered(1, spoils=not is_right), of_a=numbered(4))

    assert (one.first() is None) == is_right


def test_models_of_which_fewer_were_made_before(tmp_path: Path) -> None:
    """The next fold's model has a lower number in a run that began with a later fold; nothing differs."""
    right = called("", "Net1.", 4)

    def wrong(row: int, columns: Row) -> None:
        if row == 6:
            spoiled("param")(row, columns)
        right(row, columns)

    there = called("Net3.", "Net4.", SAVED + 4)
    assert side(tmp_path / "right", right, of_a=there).first() is None
    assert (side(tmp_path / "wrong", wrong, of_a=there).first() or (0,))[0] == 6


def lacks(path: str, state: str, then: str = "", now: str = "", can_put: bool = True) -> Lacks:
    return Lacks(path, state, then, now, can_put)


def test_what_is_likely_is_tried_first() -> None:
    """After equal gradients the optimizer, with its rates where its state is lost; what cannot be put is not tried."""
    known = [
        lacks("model.trainer.loop.is_resumed", "counter", "False", "True"),
        lacks("best", "counter", "0.9", "inf"),
        lacks("opt.param_groups[0]", "scheduler"),
        lacks("opt.state[0]", "optimizer"),
        lacks("other.param_groups[0]", "scheduler"),
        lacks("flag", "mode", can_put=False),
    ]
    tried = states_by_likelihood(known, "param")

    assert [(state, [one.path for one in group]) for state, group in tried.items()] == [
        ("optimizer", ["opt.param_groups[0]", "opt.state[0]"]),
        ("scheduler", ["other.param_groups[0]"]),
        ("counter", ["best", "model.trainer.loop.is_resumed"]),
    ]


def test_what_one_object_holds_is_tried_together() -> None:
    """The arrays of a buffer with the place to which it is filled; what is of one state alone was tried already."""
    known = [lacks("buffer.rows", "carried"), lacks("buffer.size", "counter"), lacks("best", "counter")]

    held = grouped_by_object(states_by_likelihood(known, "batch"))
    assert [[one.path for one in group] for group in held] == [["buffer.rows", "buffer.size"]]
    assert not grouped_by_object(states_by_likelihood(known[1:], "batch"))


def test_what_differs_is_told_by_its_values() -> None:
    """Numbers and lengths as they are; of tensors, that they differ."""
    assert (
        differences_clause([lacks("best", "counter", "0.9", "inf")])
        == "best is inf in the first resumed step, but was 0.9 when it saved"
    )
    assert differences_clause([lacks("d.0.weight", "parameters"), lacks("d.0.bias", "parameters")]) == (
        "d.0.weight and 1 more are not as at the save"
    )
    # Both say how much there is, and not what.
    assert differences_clause([lacks("average", "averaged", "4 items", "4 items")]) == "average is not as at the save"


@pytest.mark.parametrize("is_more", [True, False])
def test_half_an_accumulation(tmp_path: Path, is_more: bool) -> None:
    """More losses before the step, or fewer."""

    def change(row: int, columns: Row) -> None:
        if row == 0:
            columns["loss"] = {**columns["loss"], "1": 1} if is_more else {}
            spoiled("grad", "param")(row, columns)

    assert states(side(tmp_path, change)) == ["accumulation"]


@pytest.mark.parametrize(
    ("came", "more", "expected"),
    [
        ({0: 8}, {}, ["position"]),  # the epoch is begun again
        ({0: 14}, {}, ["position"]),  # two batches are skipped
        ({0: 14}, {"ahead": 2}, ["look-ahead"]),  # which workers had fetched ahead
        ({0: 15}, {"ahead": 2}, ["position"]),  # more than they fetch
        ({0: 4}, {}, ["epoch"]),  # the same batch of the epoch before
        ({0: 4}, {"draws": True}, ["order"]),  # whose order is drawn anew
        ({0: 0}, {"draws": True}, ["position", "order"]),
        ({0: 99}, {}, ["order"]),  # made of other indices than any batch
        ({}, {}, ["sample-generators"]),
    ],
)
def test_other_data_are_told_apart_by_their_indices(
    tmp_path: Path, came: dict[int, int], more: dict[str, bool | int], expected: list[str]
) -> None:
    """Saved after 12 steps, in the middle of the second epoch of 8."""
    batches: list[BatchFetched] = fetched(SAVED, STEPS, came, **more)
    one = side(tmp_path, spoiled("batch", "loss", "grad", "param", only_first=True), b_fetched=batches)

    assert states(one) == expected
    is_told = expected != ["order"]
    assert ("trained twice" in found(one)[0].evidence) == (is_told and came.get(0, 99) < SAVED)


def test_data_without_indices_are_told_apart_by_their_contents(tmp_path: Path) -> None:
    """A script that draws its data itself: they are those of the first step, and so are the generators."""

    def change(row: int, columns: Row) -> None:
        spoiled("loss", "grad", "param")(row, columns)
        columns["batch"], columns["rng"] = row_of(row)["batch"], row_of(row)["rng"]

    def kept(row: int, columns: Row) -> None:
        change(row, columns)
        columns["rng"] = row_of(SAVED + row)["rng"]

    none = [BatchFetched(0, 0)]
    assert states(side(tmp_path / "a", change, a_fetched=none, b_fetched=none)) == ["generators"]
    assert states(side(tmp_path / "b", kept, a_fetched=none, b_fetched=none)) == ["position"]


def test_a_rank_that_goes_on_as_another_one(tmp_path: Path) -> None:
    """Rank 1 draws what rank 0 should draw: it was given the state of that one, and rank 0 is right."""

    def draws(row: int, columns: Row) -> None:
        columns["rng"] = {"torch": digest("rank 1", columns["rng"]["torch"])}

    def draws_and_is_wrong(row: int, columns: Row) -> None:
        draws(row, columns)
        spoiled("loss", "grad", "param")(row, columns)

    first = side(tmp_path / "0", lambda row, columns: None)
    given = side(tmp_path / "1", spoiled("loss", "grad", "param"), rank=1, of_a=draws)
    own = side(tmp_path / "2", draws_and_is_wrong, rank=1, of_a=draws)

    assert [(one.state, one.rank) for one in found(first, given)] == [("rank-state", 1)]
    assert states(first, own) == []
