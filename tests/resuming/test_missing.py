"""Which state is named, from recordings written by hand; and that nothing is named where nothing differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from samebits.resuming.missing import missing_states, not_resumed
from samebits.resuming.tracks import Side, first_divergence
from samebits.resuming.verdict import Missing
from samebits.runfolder.notes import Fetched
from tests.resuming.by_hand import SAVED, STEPS, Change, Row, begun_after, digest, fetched, number, row_of, side


def found(one: Side, *others: Side) -> list[Missing]:
    """What is missing, by the earliest place at which ranks differ."""
    sides = {own.a.rank: own for own in (one, *others)}
    first = first_divergence([*sides.values()])
    return [] if first is None else missing_states(*first, sides)


def states(one: Side, *others: Side) -> list[str]:
    return [missing.state for missing in found(one, *others)]


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


def test_buffers_that_are_not_those_of_the_save(tmp_path: Path) -> None:
    """The parameters are right, and a buffer is not."""
    assert states(side(tmp_path, begun_with(bn_mean=1)))[0] == "buffers"


def test_initial_parameters_are_no_resume(tmp_path: Path) -> None:
    """Whatever else agrees: a run that begins with the initial parameters starts from step 0."""

    def change(row: int, columns: Row) -> None:
        columns.update(row_of(row))
        if row == 0:
            columns["init"] = begun_after(-1)

    one = side(tmp_path, change)

    assert one.start.is_from_the_start
    assert not_resumed(one, "").evidence.startswith("ignores its checkpoint: it starts from step 0; no checkpoint")
    assert "last.pt was torn, that is passed over" in not_resumed(one, "", "last.pt").evidence
    assert "or has none yet after 5 steps, as --saved-at says" in not_resumed(one, "", told=5).evidence


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (spoiled("loss", "grad", "param", "rng"), ["generators"]),
        (spoiled("loss", "grad", "param"), []),
        (spoiled("grad", "param"), []),  # of one loss nothing is accumulated
        (spoiled("param", "optimizer"), ["optimizer", "scheduler"]),
        (spoiled("buffer"), ["buffers"]),
    ],
)
def test_what_differs_first_names_the_state(tmp_path: Path, change: Change, expected: list[str]) -> None:
    """Loss with generators elsewhere, gradients, updates, buffers; where no rule explains it, nothing is named."""
    assert states(side(tmp_path, change)) == expected


def test_only_the_rate_differs(tmp_path: Path) -> None:
    """Equal moments and another learning rate: the schedule."""

    def change(row: int, columns: Row) -> None:
        spoiled("param")(row, columns)
        columns["optimizer"]["group0.lr"] = 1

    assert states(side(tmp_path, change)) == ["scheduler"]


def test_a_schedule_that_moves_the_betas(tmp_path: Path) -> None:
    """Other moments follow from other betas, or come after a step that agrees; from another rate alone they do not."""

    def spoil(columns: Row, *rates: str) -> None:
        spoiled("param")(1, columns)
        columns["optimizer"] |= {"fc.weight.exp_avg": 1, **dict.fromkeys(rates, 1)}

    def at_once(row: int, columns: Row) -> None:
        columns["optimizer"]["group0.betas"] = 0
        spoil(columns, "group0.lr", "group0.betas")

    def later(row: int, columns: Row) -> None:
        if row > 0:
            spoil(columns, "group0.lr")

    def uninterrupted(row: int, columns: Row) -> None:
        columns["optimizer"]["group0.betas"] = 0

    assert states(side(tmp_path / "a", at_once, of_a=uninterrupted)) == ["scheduler"]
    assert states(side(tmp_path / "b", later)) == ["scheduler"]
    assert states(side(tmp_path / "c", lambda row, columns: spoil(columns, "group0.lr"))) == ["optimizer", "scheduler"]


def test_gradients_of_several_losses(tmp_path: Path) -> None:
    """Where a step has two, what the first one left is lost."""

    def two(row: int, columns: Row) -> None:
        columns["loss"]["1"] = 1

    def change(row: int, columns: Row) -> None:
        two(row, columns)
        spoiled("grad", "param")(row, columns)

    assert states(side(tmp_path, change, of_a=two)) == ["accumulation"]


def test_an_order_that_generators_do_not_cure_is_that_of_another_epoch(tmp_path: Path) -> None:
    """A script that seeds every epoch, and counts them wrongly; generators that start anew give the first order."""

    def named(came: int, is_cured: bool | None) -> list[str]:
        batches = fetched(SAVED, STEPS, {0: came}, draws=True)
        change = spoiled("batch", "loss", "grad", "param", only_first=True)
        one = side(tmp_path / f"{came} {is_cured}", change, b_fetched=batches)
        first = first_divergence([one])
        assert first is not None
        return [missing.state for missing in missing_states(*first, {0: one}, is_cured)]

    assert named(20, False) == ["epoch"]
    assert named(20, None) == ["order"]
    assert named(4, False) == ["order"]


def test_only_the_average_differs(tmp_path: Path) -> None:
    """Weights that no optimizer trains, in a copy of the model."""

    def change(row: int, columns: Row) -> None:
        columns["buffer"]["averaged fc.weight"] = 1

    assert states(side(tmp_path, change)) == ["averaged"]


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        ("0.ema.fc.weight", "averaged"),
        ("0.shadows.fc.weight", "averaged"),
        ("0.other.fc.weight", "averaged"),
        ("0.scaler._growth_tracker", "scaler"),
        ("0.scheduler.last_epoch", "scheduler"),
        ("0.optimizer.state.0.exp_avg", "optimizer"),
        ("0.torch_rng_state", "generators"),
        ("0.epoch", "epoch"),
        ("0.n", "epoch"),
    ],
)
def test_what_only_the_next_save_shows(tmp_path: Path, leaf: str, expected: str) -> None:
    """The name of the leaf says what it is; the states of modules beside it say nothing."""

    def change(row: int, columns: Row) -> None:
        if row == 3:
            columns["artifact"] = {leaf: row, "0.state.Net.loaded0.weight": row}

    def uninterrupted(row: int, columns: Row) -> None:
        if row == SAVED + 3:
            columns["artifact"] = {leaf: 1, "0.state.Net.copy0.weight": 1}

    one = side(tmp_path, change, of_a=uninterrupted)

    assert states(one) == [expected]


def test_a_file_that_is_saved_in_one_run_only(tmp_path: Path) -> None:
    """As of the best result: what follows is numbered otherwise, and none of it is other than it was."""

    def change(row: int, columns: Row) -> None:
        if row == 3:
            columns["artifact"] = {"0.optimizer.state.0.exp_avg": 5, "1.optimizer.state.0.exp_avg": 5}

    def uninterrupted(row: int, columns: Row) -> None:
        if row == SAVED + 3:
            columns["artifact"] = {"0.optimizer.state.0.exp_avg": 5}

    assert states(side(tmp_path, change, of_a=uninterrupted)) == []


def test_a_loss_that_is_scaled_otherwise(tmp_path: Path) -> None:
    """All losses differ by one power of two; by another factor it is something else."""

    def change(row: int, columns: Row, factor: float = 0.25) -> None:
        spoiled("loss", "grad", "param")(row, columns)
        columns["number"] = {"0 float32": number((1.0 + SAVED + row) * factor)}

    assert states(side(tmp_path / "a", change, has_scaler=True)) == ["scaler"]
    assert states(side(tmp_path / "b", lambda row, columns: change(row, columns, 0.3), has_scaler=True)) == []
    assert states(side(tmp_path / "c", change)) == []  # a weight of the script's own


def test_half_an_accumulation(tmp_path: Path) -> None:
    """Another number of losses before the step."""

    def change(row: int, columns: Row) -> None:
        if row == 0:
            columns["loss"]["1"] = 1
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
    batches: list[Fetched] = fetched(SAVED, STEPS, came, **more)
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

    none = [Fetched(0, 0)]
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
