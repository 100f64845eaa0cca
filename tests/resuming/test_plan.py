"""Where a training is killed, from how it saves; and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samebits.base.errors import UsageError
from samebits.checking.pool import BudgetSpentError
from samebits.checking.verdict import Run
from samebits.launch.command import Command
from samebits.resuming.experiments import _ResumeTrial, need_saves
from samebits.resuming.plan import KillPoint, ResumeRequest, kills, repeated_run, uninterrupted_run
from samebits.resuming.training_notes import SavePlace, TrainingNotes
from samebits.runfolder.notes import Interrupted, Saved
from samebits.runfolder.spec import RunSpec
from tests.resuming.by_hand import SAVED, STEPS, rows, track

COMMAND = Command(("python", "train.py"), ("train.py",))


def request(**more: object) -> ResumeRequest:
    return ResumeRequest(COMMAND, again=COMMAND, **more)  # type: ignore[arg-type]


def saves(*steps: int, epoch: int = 8) -> dict[int, SavePlace]:
    return {step: SavePlace((step - 1) // epoch, step % epoch == 0) for step in steps}


def test_early_and_late() -> None:
    """Past the first epoch, in which nothing begins anew; and where counters count, and much is left to compare."""
    assert kills(request(), saves(5, 10, 15, 20), 40) == [KillPoint(12, 10, most=10), KillPoint(22, 20)]
    assert kills(request(), saves(*range(5, 40, 5)), 40) == [KillPoint(12, 10, most=10), KillPoint(32, 30)]
    assert kills(request(), saves(6), 8) == [KillPoint(6, 6)]  # before the last step


def test_within_an_epoch_and_at_its_end() -> None:
    """Where both are seen, one of the two is this and the other is that."""
    assert kills(request(), saves(4, 8, 12, 16, 20, 24, 28), 40) == [KillPoint(14, 12, most=10), KillPoint(26, 24)]


def test_where_the_files_saved_are_of_different_steps() -> None:
    """The late one lies there if it can; else there is one more."""
    known = saves(*range(5, 40, 5), epoch=100)

    def mixed(*steps: int) -> list[int]:
        old = {step: replace(known[step], is_mixed=True) for step in steps}
        return [kill.saved for kill in kills(request(), known | old, 40)]

    assert mixed() == [5, 30]
    assert mixed(20, 25) == [5, 25]
    assert mixed(10) == [5, 10, 30]
    assert mixed(5) == [5, 30]


def test_after_a_late_kill_a_run_goes_to_its_end(tmp_path: Path) -> None:
    """What a program saves once, at the very end, is made by then; after an early kill ten steps are enough."""
    whole: Any = SimpleNamespace(steps=STEPS, is_whole=True, tracks={0: track(tmp_path, rows(0, STEPS))})
    seen = TrainingNotes(saves=(Saved("/last", SAVED, "torch.save"),), stops=(Interrupted(SAVED + 2, "KILL"),))
    killed: Any = SimpleNamespace(seen=seen, run=SimpleNamespace(path=tmp_path))

    def ends_after(most: int | None) -> int | None:
        specs: list[RunSpec] = []

        def run(spec: RunSpec, **_: object) -> Run:
            specs.append(spec)
            raise BudgetSpentError

        pool: Any = SimpleNamespace(run=run)
        with pytest.raises(BudgetSpentError):
            _ResumeTrial(request(), pool, whole, killed).trial(most)
        return specs[0].stop_after

    assert ends_after(None) is None
    assert ends_after(10) == 9  # its tenth step


def test_half_an_accumulation_is_preferred() -> None:
    """What is lost there is not lost at any other save."""
    known = saves(10, 12, 15, 20) | {15: SavePlace(1, is_within_step=True)}

    assert kills(request(), known, 40)[0] == KillPoint(17, 15, most=10)


def test_before_the_next_save() -> None:
    """Where every step is saved, the kill comes at once: the checkpoint is the one that was meant."""
    assert kills(request(), saves(*range(1, 40), epoch=100), 40)[0] == KillPoint(1, 1, most=10)


def test_steps_that_were_asked_for_and_steps_by_chance() -> None:
    """`--at` is taken as it is; `--kills` chooses between the first save and the end, the same ones for one seed."""
    assert kills(request(at=(7, 21)), saves(5, 20), 40) == [KillPoint(7, 5), KillPoint(21, 20)]
    chosen = kills(request(kills=5), saves(5, 20), 40)
    assert chosen == kills(request(kills=5), saves(5, 20), 40)
    assert len({kill.after for kill in chosen}) == 5
    assert all(5 <= kill.after < 39 and kill.saved == (5 if kill.after < 20 else 20) for kill in chosen)
    assert kills(request(kills=5, seed=1), saves(5, 20), 40) != chosen
    need_saves(request(kills=5), [5, 20], 40)
    with pytest.raises(UsageError, match="made when 39 of 40 steps are done, so none is left to choose"):
        need_saves(request(kills=5), [39], 40)


def test_within_a_save() -> None:
    """The second one: the first is whole, to go back to."""
    assert kills(request(during_save=True), saves(5, 10), 40) == [KillPoint(9, 5, torn=10)]


def test_what_makes_no_sense_together_is_refused() -> None:
    """Each pair by name; each alone is fine."""
    for more, words in (
        ({"at": (3,), "kills": 2}, "--at says after which steps"),
        ({"during_save": True, "signal": "TERM"}, "--during-save kills at once"),
        ({"at": (-1,)}, "--at must be a step"),
        ({"timeout": 0.0}, "--timeout must be more than 0"),
    ):
        with pytest.raises(UsageError, match=words):
            request(**more)
    assert request(at=(3,)).at == (3,)


def test_everything_that_moves_is_held_and_nothing_else() -> None:
    """Its clock and generators are held; what a check only varies is left as it is."""
    settings = uninterrupted_run(request()).settings

    assert {"torch-rng", "numpy-rng", "python-rng", "clock", "hash-seed"} <= settings.keys()
    assert settings.keys().isdisjoint(("cpu-threads", "data-workers"))
    assert uninterrupted_run(request()).begins == repeated_run(request(), 3).begins == "found"
