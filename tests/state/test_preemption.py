"""SIGTERM ends a training only where a checkpoint was written, and as it would have ended otherwise."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from samebits.base.errors import UsageError
from samebits.state import Training
from tests.state.trainings import Loop


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    """Whatever a test does, the signal does afterwards what it did before."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def terminated(folder: Path, at: int) -> Loop:
    """A training that is asked to end in the middle of a step."""
    loop = Loop()

    def train() -> None:
        for step in loop.training.steps(8, folder, every=100):
            loop.micro_step()
            if step == at:
                os.kill(os.getpid(), signal.SIGTERM)
            loop.micro_step()
            loop.finish_step()

    with pytest.raises(SystemExit) as ended:
        train()
    assert ended.value.code == 143
    return loop


@pytest.mark.parametrize("at", [0, 3, 7])
def test_it_saves_and_ends_after_the_step(tmp_path: Path, at: int) -> None:
    """And goes on to the bits of the uninterrupted training."""
    assert terminated(tmp_path, at).training.steps_done == at + 1
    assert [one.name for one in tmp_path.iterdir()] == [f"step-{at + 1}"]
    resumed = Loop(seed=9)
    for _ in resumed.training.steps(8, tmp_path, every=100):
        resumed.step()

    assert resumed.digest() == Loop().run(8).digest()


def test_nobody_asks_and_nothing_happens(tmp_path: Path) -> None:
    """No checkpoint; afterwards the signal does what it did before."""
    before = signal.getsignal(signal.SIGTERM)
    with Training().preemptible(tmp_path / "ckpt") as preemption:
        assert signal.getsignal(signal.SIGTERM) is not before
        assert not preemption.is_asked()
        preemption.end_if_asked(1)

    assert signal.getsignal(signal.SIGTERM) is before
    assert not (tmp_path / "ckpt").exists()


def test_a_handler_that_was_there_is_called_after_the_checkpoint(tmp_path: Path) -> None:
    """That of a launcher, which asks to be queued again."""
    seen: list[Any] = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append((number, (tmp_path / "step-1").is_dir())))

    def train() -> None:
        with Training().preemptible(tmp_path) as preemption:
            os.kill(os.getpid(), signal.SIGTERM)
            preemption.end_if_asked(1)

    with pytest.raises(SystemExit):
        train()

    assert seen == [(signal.SIGTERM, True)]


class Signalled:
    """A part that the signal comes to while it is saved."""

    def state_dict(self) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


@pytest.mark.parametrize("leaves_early", [False, True])
def test_a_signal_that_nobody_asks_about_is_obeyed_at_the_end(tmp_path: Path, leaves_early: bool) -> None:
    """It came during the last save, or the loop was left: the handler that was there before hears it, once."""
    seen: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    for _ in Training(part=Signalled()).steps(1, tmp_path):
        if leaves_early:
            os.kill(os.getpid(), signal.SIGTERM)
            break

    assert seen == [signal.SIGTERM]
    assert (tmp_path / "step-1").exists() != leaves_early


def test_children_end_at_once(tmp_path: Path) -> None:
    """A process that is forked in the block dies of the signal, as it would outside; the training goes on."""
    context = multiprocessing.get_context("fork")
    with Training().preemptible(tmp_path) as preemption:
        begun = context.Event()
        child = context.Process(target=lambda: begun.set() or time.sleep(60))
        child.start()
        begun.wait()  # while it is forked, Python forgets the signals that come
        child.terminate()
        child.join(20)

        assert not preemption.is_asked()
    assert child.exitcode == -signal.SIGTERM


def test_only_the_main_thread_hears_signals(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as threads:
        entering = threads.submit(Training().preemptible(tmp_path).__enter__)

        with pytest.raises(UsageError, match="signals come to the main thread"):
            entering.result()
