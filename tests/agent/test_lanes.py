"""Trainings in other processes and threads: the same whichever comes first, and the one that differs is named."""

import textwrap
from pathlib import Path

import pytest

from samebits.comparison.locate import Divergence, first_divergence
from samebits.launch.command import parse_command
from samebits.launch.process import Outcome
from samebits.runfolder.notes import Failed, Unseen, read_notes
from samebits.runfolder.spec import RunSpec
from samebits.runfolder.steps import Recording
from tests.launch.conftest import PYTHON
from tests.running import run_recorded

# `late` holds back the trainings with odd numbers; `noise` draws from the system in number 3, at step 2.
TRAIN = """
import gc, multiprocessing, random, sys, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
import torch
gc.freeze()  # torch itself need not be looked through
LATE, NOISE = "late" in sys.argv, "noise" in sys.argv
def train(number):
    own = torch.Generator().manual_seed(number)
    model = torch.nn.Linear(4, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=own))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    time.sleep(0.2 if LATE == (number % 2) else 0)
    for step in range(4):
        noisy = NOISE and number == 3 and step == 2
        loss = model(torch.randn(8, 4, generator=own)).square().mean()
        loss = loss * (random.SystemRandom().random() if noisy else 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        gc.collect()
    return number
"""

WAYS = {
    "processes": """
        workers = [multiprocessing.Process(target=train, args=(number,)) for number in (1, 2, 3)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
    """,
    "a pool": """
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(train, range(5), chunksize=1) == list(range(5))
    """,
    "an executor of processes": """
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
            assert list(pool.map(train, range(5))) == list(range(5))
    """,
    "threads": """
        threads = [threading.Thread(target=train, args=(number,)) for number in (1, 2, 3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    """,
    "an executor of threads": """
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(train, range(5))) == list(range(5))
    """,
}
SPOKEN = {"processes": "process Process-", "a pool": "ForkPoolWorker-", "an executor of processes": "ForkProcess-"}


def run(folder: Path, name: str, way: str, *words: str, stop_after: int | None = None) -> Outcome:
    script = folder / "it.py"
    script.write_text(f"{TRAIN}\nif __name__ == '__main__':\n{textwrap.indent(textwrap.dedent(way), '    ')}")
    plan = RunSpec("control", stop_after=stop_after)
    outcome = run_recorded(parse_command([PYTHON, str(script), *words]), plan, folder / name, 120)
    assert outcome.succeeded, outcome.folder.stderr.read_text()
    assert not list(read_notes(outcome.folder.path, Failed))
    return outcome


def recordings(outcome: Outcome) -> list[Recording]:
    return outcome.folder.recordings()


def apart(a: Outcome, b: Outcome, until: int | None = None) -> Divergence | None:
    return first_divergence(recordings(a), recordings(b), until)


QUICK = ("threads",)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(
            way,
            marks=[] if way in QUICK else [pytest.mark.slow],
        )
        for way in WAYS
    ],
)
def test_order_of_arrival_makes_no_difference(way: str, tmp_path: Path) -> None:
    """Trainings of which the odd ones are late, then the even ones; noise in one of them is found there."""
    early, late = run(tmp_path, "early", WAYS[way]), run(tmp_path, "late", WAYS[way], "late")
    noise = run(tmp_path, "noise", WAYS[way], "noise")

    count = 5 if "range(5)" in WAYS[way] else 3
    assert [recording.steps for recording in recordings(early)] == [4] * count
    assert apart(early, late) is None
    place = apart(early, noise)
    assert place is not None
    assert (place.step, place.stream, place.name) == (2, "loss", "0")
    assert SPOKEN.get(way, "thread ") in place.process


@pytest.mark.slow
@pytest.mark.parametrize("way", ["a pool", "an executor of threads"])
def test_a_run_that_is_stopped_stops_every_training(way: str, tmp_path: Path) -> None:
    """Nothing hangs because a worker is gone, and all trainings are compared as far as was asked for."""
    whole, short = run(tmp_path, "whole", WAYS[way]), run(tmp_path, "short", WAYS[way], "late", stop_after=1)
    noise = run(tmp_path, "noise", WAYS[way], "noise", stop_after=2)

    assert [recording.steps for recording in recordings(short)] == [2] * 5
    assert apart(whole, short, until=1) is None
    place = apart(whole, noise, until=2)
    assert place is not None
    assert (place.step, place.stream) == (2, "loss")


STAGES = """
def prepared(number):
    torch.manual_seed(number)
    model = torch.nn.Linear(4, 1)
    return number, model, torch.optim.SGD(model.parameters(), lr=0.1), torch.Generator().manual_seed(number)
def go_on(trial):
    number, model, optimizer, own = trial
    time.sleep(0.1 if LATE == (number % 2) else 0)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4, generator=own)).square().mean().backward()
        optimizer.step()
    noise = random.SystemRandom().random() if NOISE and number == 3 else 1.0
    with torch.no_grad():
        return number, model(torch.ones(1, 4) * noise).item()
def halved(pool):
    left = trials
    while left:
        done = dict(pool.map(go_on, left))
        left = sorted(left, key=lambda trial: done[trial[0]] if not NOISE else trial[0])[:len(left) // 2]
trials = [prepared(number) for number in range(6)]
"""


@pytest.mark.parametrize("way", ["one executor", pytest.param("an executor for each rung", marks=pytest.mark.slow)])
def test_a_training_that_goes_on_in_another_thread_is_one(way: str, tmp_path: Path) -> None:
    """Successive halving: the next rung of a trial is trained by whichever thread is free."""
    code = "    with ThreadPoolExecutor(3) as pool:\n        halved(pool)\n"
    if way != "one executor":
        code = code.replace("with ThreadPoolExecutor(3) as pool:\n        halved(pool)", "halved(Anew)")
        code = f"""
    class Anew:
        def map(work, items):
            with ThreadPoolExecutor(3) as pool:
                return list(pool.map(work, items))
{code}"""
    stages = f"{STAGES}\nif True:\n{code}"
    early, late = run(tmp_path, "early", stages), run(tmp_path, "late", stages, "late")
    noise = run(tmp_path, "noise", stages, "noise")

    assert sorted(recording.steps for recording in recordings(early) if recording.holds("param")) == [4, 4, 4, 7, 7, 10]
    assert apart(early, late) is None
    assert apart(early, noise) is not None


def test_calls_of_workers_are_no_steps(tmp_path: Path) -> None:
    """Items go to whichever worker is free: what each computed altogether is left out, and that is said."""
    way = """
        model = torch.nn.Linear(2, 1)
        model(torch.ones(1, 2))
        def predict(number):
            time.sleep(0.05 if LATE == number % 2 else 0)
            return float(model(torch.full((1, 2), float(number))))
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(predict, range(6)))
    """
    early, late = (
        run(tmp_path, name, f"torch.manual_seed(0)\n{textwrap.dedent(way)}", *words)
        for name, words in (("early", ()), ("late", ("late",)))
    )

    assert apart(early, late) is None
    assert any("computed without training" in note.what for note in read_notes(early.folder.path, Unseen))
