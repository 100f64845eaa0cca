"""Several ranks: one checkpoint of all or none, the same bits afterwards, and other numbers where that is possible."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.running import printed_by
from tests.sharing import made_once


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What every scenario came to."""

    def make(folder: Path) -> None:
        (folder / "found.json").write_text(printed_by("tests.state.groups", folder / "groups"))

    return json.loads((made_once(tmp_path_factory, "groups", make) / "found.json").read_text())


def digests(answers: list[Any]) -> set[str]:
    return {one["digest"] if isinstance(one, dict) else one for one in answers}


@pytest.mark.parametrize("change", ["2 to 1", "1 to 2", "2 to 3"])
def test_another_number_of_ranks_ends_in_the_same_bits(found: Any, change: str) -> None:
    """Where all that is drawn is drawn by samebits.data, and the arithmetic is the same; asked for, and not else."""
    answers = found["other_numbers"]
    (whole,) = digests(answers["1"])

    assert digests(answers["3"]) == digests(answers[change]) == {whole}
    assert {one["step"] for one in answers[change]} == {5}
    refused = answers[f"{change}, not asked for"]
    before, after = change.split(" to ")
    assert {one["message"] for one in refused} == {f"the state was saved with world_size={before}, here it is {after}"}


def test_generators_go_on_where_all_ranks_had_the_same(found: Any) -> None:
    """On every rank; of a single rank that is not known to be meant, and is said."""
    answers = found["other_numbers"]

    assert len({one["drawn"] for change in ("2 to 1", "1 to 2", "2 to 3") for one in answers[change]}) == 1
    assert [one["said"] for one in answers["2 to 3"]] == [[], [], []]
    assert "all ranks draw the same" in answers["1 to 2"][0]["said"][0]


def test_generators_begin_anew_where_ranks_had_different_ones(found: Any) -> None:
    """Each rank's with a seed of its own, and this is said, since the bits are other ones."""
    answers = found["same_number"]
    by_three = answers["by three"]

    assert "python, torch, numpy differed between ranks and start anew" in by_three[0]["said"][0]
    assert len({one["drawn"] for one in [*by_three, *answers["by one"]]}) == 4
    assert digests(answers["by one"]) != digests(answers["whole"])


def test_as_many_ranks_end_in_the_same_bits(found: Any) -> None:
    """Each with draws of its own."""
    answers = found["same_number"]

    assert digests(answers["resumed"]) == digests(answers["whole"])
    assert len(digests(answers["whole"])) == 1


def test_gradients_that_wait_belong_to_as_many_ranks(found: Any) -> None:
    """Refused; the same without them is taken."""
    (with_gradients,), (without,) = found["waiting_gradients"]

    assert "gradients of 2 ranks that wait for a step" in with_gradients["message"]
    assert {without["digest"]} == digests(found["other_numbers"]["1"])


def test_what_is_damaged_on_one_rank_is_used_by_none(found: Any) -> None:
    answers = found["damaged_file"]

    assert [one["step"] for one in answers] == [2, 2]
    assert digests(answers) == digests(found["other_numbers"]["1"])
    assert "rank-1.pt" in answers[0]["said"][0]
    assert "is truncated" in answers[0]["said"][0]


def test_a_full_disk_on_one_rank_is_an_error_on_all(found: Any) -> None:
    """No checkpoint is made of the other ranks' files, and the former one is used."""
    answers = found["full_disk"]

    assert [one["error"] for one in answers["failed"]] == ["StorageError", "StorageError"]
    assert answers["failed"][0]["message"].startswith("rank 1: the checkpoint ")
    assert answers["left"] == ["step-1", "step-2"]
    assert [one["step"] for one in answers["resumed"]] == [2, 2]
    assert [one["said"] for one in answers["resumed"]] == [[], []]


def test_what_fits_on_one_rank_only_is_restored_on_none(found: Any) -> None:
    messages = [one["message"] for one in found["unfit_on_one"]]

    assert messages[0] == f"rank 1: {messages[1]}"
    assert [one["unchanged"] for one in found["unfit_on_one"]] == [True, True]


def test_shares_of_a_model_need_as_many_ranks(found: Any) -> None:
    """Parameters that differ between ranks are not taken for those of all."""
    (answer,) = found["shares"]

    assert answer["message"] == "model is not the same on the 2 ranks that saved: state.0.bias differs"


def test_ranks_end_after_the_same_step(found: Any) -> None:
    """One of them is asked to end; both save, end, and go on to the bits of the uninterrupted training."""
    answers = found["preempted"]

    assert answers["ended"] == [143, 143]
    assert answers["reached"] == ["5", "5"]
    assert answers["saved"] == ["step-5"]
    assert digests(answers["resumed"]) == digests(answers["whole"])


def test_three_ranks_need_a_step_before_the_first(found: Any) -> None:
    """DistributedDataParallel adds up in another order in the first step of a process; a step before that cures it.

    The day that the planted difference is gone, the advice can go, too.
    """
    answers = found["buckets"]

    assert digests(answers["warm resumed"]) == digests(answers["warm whole"])
    assert digests(answers["resumed"]) != digests(answers["whole"])


def test_workers_are_there_until_the_checkpoint_is(found: Any) -> None:
    """Also where their whole process group is signalled; workers that were not told die of it in mid-step."""
    answers = found["group_is_asked"]

    assert answers["asked"] == answers["told"] == [143]
    assert digests(answers["resumed"]) == digests(found["other_numbers"]["1"])
    assert answers["not told"] == [-signal.SIGTERM]
    assert answers["died"]


def test_distributed_checkpoints_keep_what_is_each_ranks_own(found: Any) -> None:
    """Ranks that draw on their own go on with the same bits."""
    assert digests(found["through_dcp"]) == digests(found["same_number"]["whole"])
