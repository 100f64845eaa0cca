"""Trainings that are killed in a step, inside a save or at any time, and begun again until they end.

python -m tests.state.killing FOLDER TRIALS SEED

torch is imported once; every training is a fork that has its own folder and really ends by SIGKILL. Prints, as JSON,
the digest of the uninterrupted training and for each trial where it was killed and what it ended with.
"""

import json
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from samebits.state import checkpoints
from tests.running import forked
from tests.state.trainings import ACCUMULATED, Loop

STEPS = 12
EVERY = 2
# What a save does, and a training that is killed dies in the middle of.
SAVING = ((checkpoints._Digesting, "write"), (os, "fsync"), (os, "rename"), (os, "mkdir"), (Path, "unlink"))


def main() -> None:
    torch.set_num_threads(1)
    # What torch imports with the first step is imported once.
    Loop().run(1).digest()
    home, trials, draw = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    whole = home / "whole"
    was_killed(lambda: train(whole))
    events, seconds = json.loads((whole / "events.json").read_text())
    answers = []
    for number in range(trials):
        folder = home / f"trial-{number}"
        killed = []
        for kind in [("step", "save", "time")[number % 3]] * (1 + number % 2):
            name = "micro step" if kind == "step" else draw.choice(sorted(events))
            where = name, draw.randrange(ACCUMULATED * STEPS if kind == "step" else events[name])
            after = draw.random() * seconds
            died = was_killed(
                lambda folder=folder, kind=kind, where=where: train(folder, where if kind != "time" else ("", -1)),  # type: ignore[misc]
                after if kind == "time" else None,
            )
            killed.append([kind, round(after, 3) if kind == "time" else where, died])
        was_killed(lambda folder=folder: train(folder))  # type: ignore[misc]
        answers.append({"killed": killed, "digest": ending(folder), "losses": losses(folder)})
    print(json.dumps({"digest": ending(whole), "losses": losses(whole), "trials": answers}))


def train(folder: Path, where: tuple[str, int] = ("", -1)) -> None:
    """The training, from wherever it is; killed at a micro step, or before an event of a save."""
    # What is passed over is part of the game here, and tested elsewhere.
    warnings.simplefilter("ignore")
    folder.mkdir(exist_ok=True)
    # What begins anew has its seed; what goes on must not need it.
    seed = os.getpid() if any(folder.glob("step-*/manifest.json")) else 0
    events, begin = Events(where), time.monotonic()
    loop = Loop(seed)
    micro = 0
    for step in loop.training.steps(STEPS, folder, every=EVERY):
        for _ in range(ACCUMULATED):
            loop.micro_step()
            if where == ("micro step", micro):
                os.kill(os.getpid(), signal.SIGKILL)
            micro += 1
        loop.finish_step()
        (folder / f"losses-{step}").write_text("".join(one.hex() for one in loop.losses[-ACCUMULATED:]))
    seconds = time.monotonic() - begin
    (folder / "digest").write_text(loop.digest())
    (folder / "events.json").write_text(json.dumps([events.seen, seconds]))


class Events:
    """Counts what saves do, and kills the process before one of them."""

    def __init__(self, last: tuple[str, int]) -> None:
        self.seen, self.last = {name: 0 for _, name in SAVING}, last
        for owner, name in SAVING:
            setattr(owner, name, self.counting(name, getattr(owner, name)))

    def counting(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **options: object) -> object:
            if (name, self.seen[name]) == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
            self.seen[name] += 1
            return function(*arguments, **options)

        return counted


def was_killed(work: Callable[[], None], seconds: float | None = None) -> bool:
    """Do the work in a process of its own, which is killed after so many seconds; whether it was killed."""
    pid = forked(work)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if status and not os.WIFSIGNALED(status):
        raise SystemExit(f"a training failed with status {status}")
    return status != 0


def ending(folder: Path) -> str:
    return (folder / "digest").read_text()


def losses(folder: Path) -> str:
    return "".join((folder / f"losses-{step}").read_text() for step in range(STEPS))


if __name__ == "__main__":
    main()
