"""Trainings of one, two and three ranks over gloo, broken off, begun again with other numbers, and hindered.

python -m tests.state.groups FOLDER

torch is imported once; every rank is a fork. Prints what each scenario came to, as JSON.
"""

import copy
import json
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import samebits
from samebits.base.errors import SamebitsError, WorkerDiedError
from samebits.state import Preemption, Training
from tests.running import forked
from tests.state.trainings import Looping, Noisy, digest_of

STEPS = 8
Work = Callable[[], Any]


class Together(Looping):
    """Every rank computes the whole batch, of which it fetched and augmented its part: any number gives the same bits.

    Args:
        own_draws: each rank draws on its own, too, so that only as many ranks end in the same bits.
        workers: of the loader.
    """

    def __init__(self, own_draws: bool = False, workers: int = 0) -> None:
        rank = torch.distributed.get_rank()
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.5 if own_draws else 0.0), nn.Linear(8, 3))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.5)
        self.loader = samebits.data.DataLoader(Noisy(24), batch_size=6, shuffle=True, seed=7, num_workers=workers)
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(100 * rank if own_draws else 0)
        self.training = Training(
            model=self.model, optimizer=self.optimizer, scheduler=self.scheduler, loader=self.loader
        )
        # As in a script: an iterator that is gone would have left its epoch.
        self.training.loop = self  # type: ignore[attr-defined]

    def step(self) -> None:
        parts: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(parts, self.batch())
        x, y = (torch.cat([part[i] for part in parts]) for i in (0, 1))
        nn.functional.cross_entropy(self.model(x), y).backward()
        for parameter in self.model.parameters():
            # The larger of two is exact; where all ranks have the same, it is that.
            torch.distributed.all_reduce(parameter.grad, torch.distributed.ReduceOp.MAX)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.scheduler.step()
        self.training.steps_done += 1

    def digest(self) -> str:
        return digest_of(self.training.state_dict()["parts"])


def main() -> None:
    torch.set_num_threads(1)
    home = Path(sys.argv[1])
    # What torch imports with the first step is imported once.
    group_of(1, home, "warm", lambda: Together().run(1).digest())
    torch.optim.AdamW([nn.Parameter(torch.ones(1))]).step()
    print(json.dumps({name: scenario(home / name) for name, scenario in SCENARIOS.items()}))


def group_of(ranks: int, home: Path, name: str, work: Work) -> list[Any]:
    """What the work returned on each rank; of one that raised, its error; of one that ended, its status."""
    home.mkdir(parents=True, exist_ok=True)
    pids = [forked(partial(take_part, rank, ranks, home, name, work)) for rank in range(ranks)]
    for rank, pid in enumerate(pids):
        (home / f"pid-{rank}").write_text(str(pid))
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    answers = [home / f"{name}-{rank}.json" for rank in range(ranks)]
    return [
        json.loads(one.read_text()) if one.exists() else status for one, status in zip(answers, statuses, strict=True)
    ]


def take_part(rank: int, ranks: int, home: Path, name: str, work: Work) -> None:
    store = torch.distributed.FileStore(str(home / f"{name}.store"), ranks)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", samebits.state.StateWarning)
        try:
            answer = work()
        except SamebitsError as error:
            answer = {"error": type(error).__name__, "message": error.message}
    if isinstance(answer, dict):
        answer["said"] = [str(one.message) for one in said]
    (home / f"{name}-{rank}.json").write_text(json.dumps(answer))
    torch.distributed.barrier()


# ---- scenarios


def whole(own_draws: bool = False) -> Work:
    return lambda: Together(own_draws).run(STEPS).digest()


def begun(folder: Path, steps: int, own_draws: bool = False) -> Work:
    def work() -> str:
        loop = Together(own_draws)
        for step in range(steps):
            loop.step()
            loop.training.save(folder, step + 1)
        return loop.digest()

    return work


def resumed(folder: Path, own_draws: bool = False, ranks: Any = "same") -> Work:
    def work() -> dict[str, Any]:
        loop = Together(own_draws)
        torch.manual_seed(1234)
        step = loop.training.resume(folder, ranks=ranks)
        drawn = torch.rand(1).item() if ranks == "any" else 0.0
        return {"step": step, "digest": loop.run(STEPS - (step or 0)).digest(), "drawn": drawn}

    return work


def other_numbers(home: Path) -> Any:
    """The uninterrupted one on one rank, and on others after a change of the number."""
    answers: dict[str, Any] = {"1": group_of(1, home, "whole-1", whole()), "3": group_of(3, home, "whole-3", whole())}
    for before, after in ((2, 1), (1, 2), (2, 3)):
        folder = home / f"from-{before}-to-{after}"
        group_of(before, folder, "begun", begun(folder, 5))
        answers[f"{before} to {after}, not asked for"] = group_of(after, folder, "refused", resumed(folder))
        answers[f"{before} to {after}"] = group_of(after, folder, "resumed", resumed(folder, ranks="any"))
    return answers


def same_number(home: Path) -> Any:
    """Ranks that draw on their own, the same number of them."""
    group_of(2, home, "begun", begun(home / "ckpt", 5, own_draws=True))
    return {
        "whole": group_of(2, home, "whole", whole(own_draws=True)),
        "resumed": group_of(2, home, "resumed", resumed(home / "ckpt", own_draws=True)),
        "by one": group_of(1, home, "one", resumed(home / "ckpt", own_draws=True, ranks="any")),
        "by three": group_of(3, home, "three", resumed(home / "ckpt", own_draws=True, ranks="any")),
    }


def waiting_gradients(home: Path) -> Any:
    """Gradients of two ranks, and another number."""

    def work() -> None:
        loop = Together().run(2)
        nn.functional.cross_entropy(loop.model(torch.ones(2, 6)), torch.tensor([0, 1])).backward()
        loop.training.save(home / "with", 2)
        loop.training.save(home / "without", 2, gradients=False)

    group_of(2, home, "begun", work)
    return [group_of(1, home, name, resumed(home / name, ranks="any")) for name in ("with", "without")]


def damaged_file(home: Path) -> Any:
    """What one rank wrote is damaged: no rank uses it."""
    group_of(2, home, "begun", begun(home / "ckpt", 3))
    (path,) = (home / "ckpt" / "step-3").glob("rank-1.pt")
    path.write_bytes(path.read_bytes()[:-1])
    return group_of(2, home, "resumed", resumed(home / "ckpt"))


def full_disk(home: Path) -> Any:
    """One rank has no room: neither has a checkpoint, both say so, and what was there before is used."""
    group_of(2, home, "begun", begun(home / "ckpt", 2))

    def work() -> None:
        loop = Together().run(3)
        if torch.distributed.get_rank() == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        try:
            loop.training.save(home / "ckpt", 3)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    failed = group_of(2, home, "full", work)
    left = sorted(one.name for one in (home / "ckpt").iterdir())
    return {"failed": failed, "left": left, "resumed": group_of(2, home, "resumed", resumed(home / "ckpt"))}


def unfit_on_one(home: Path) -> Any:
    """What fits on one rank only is restored on none."""
    group_of(2, home, "begun", begun(home / "ckpt", 2))

    def work() -> dict[str, Any]:
        loop = Together()
        if torch.distributed.get_rank() == 1:
            loop.training = Training(model=nn.Linear(1, 1), optimizer=loop.optimizer, scheduler=loop.scheduler)
        before = digest_of(loop.training.state_dict())
        try:
            loop.training.resume(home / "ckpt")
        except SamebitsError as error:
            return {"message": error.message, "unchanged": digest_of(loop.training.state_dict()) == before}
        return {}

    return group_of(2, home, "resumed", work)


def shares(home: Path) -> Any:
    """Ranks with parameters of their own cannot be taken by another number of them."""

    def work() -> None:
        loop = Together()
        with torch.no_grad():
            loop.model[0].bias += torch.distributed.get_rank()
        loop.training.save(home / "ckpt", 1)

    group_of(2, home, "begun", work)
    return group_of(1, home, "resumed", resumed(home / "ckpt", ranks="any"))


def preempted(home: Path) -> Any:
    """SIGTERM comes to one rank only, in the middle of a step; both end after the same one."""

    def training(is_asked: bool) -> Work:
        def work() -> dict[str, Any]:
            loop = Together(own_draws=True)
            for step in loop.training.steps(STEPS, home / "ckpt", every=5):
                if is_asked and step == 4 and torch.distributed.get_rank() == 1:
                    os.kill(os.getpid(), signal.SIGTERM)
                loop.step()
                (home / f"reached-{torch.distributed.get_rank()}").write_text(str(step + 1))
            return {"digest": loop.digest()}

        return work

    ended = group_of(2, home, "asked", training(is_asked=True))
    reached = [(home / f"reached-{rank}").read_text() for rank in (0, 1)]
    saved = sorted(one.name for one in (home / "ckpt").iterdir())
    return {
        "ended": ended,
        "reached": reached,
        "saved": saved,
        "resumed": group_of(2, home, "resumed", training(is_asked=False)),
        "whole": group_of(2, home, "whole", whole(own_draws=True)),
    }


class Bucketed:
    """DistributedDataParallel with many buckets, which it cuts anew after the first step of a process.

    Args:
        is_warm: that first step is made before anything counts.
    """

    def __init__(self, is_warm: bool) -> None:
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(96, 96), nn.Tanh()) for _ in range(6)]
        self.model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.05)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.training = Training(model=self.model, optimizer=self.optimizer)
        if is_warm:
            before = copy.deepcopy(self.training.state_dict())
            self.step(0)
            self.training.load_state_dict(before)

    def step(self, step: int) -> None:
        generator = torch.Generator().manual_seed(1000 * step + torch.distributed.get_rank())
        self.model(torch.randn(16, 96, generator=generator)).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def run(self, folder: Path, until: int) -> str:
        for step in self.training.steps(until, folder, every=100):
            self.step(step)
        return digest_of(self.training.state_dict()["parts"])


def buckets(home: Path) -> Any:
    """Three ranks, resumed and not, with and without a step before that."""

    def run(name: str, is_warm: bool, *ends: int) -> Any:
        for number, until in enumerate(ends):
            answers = group_of(
                3, home, f"{name}-{number}", lambda until=until: Bucketed(is_warm).run(home / name, until)
            )
        return answers

    return {
        "whole": run("whole", False, 6),
        "resumed": run("resumed", False, 3, 6),
        "warm whole": run("warm-whole", True, 6),
        "warm resumed": run("warm-resumed", True, 3, 6),
    }


def group_is_asked(home: Path) -> Any:
    """SIGTERM comes to the whole process group, with the workers of the loader in it, as torchrun sends it."""

    def training(is_asked: bool, is_told: bool = True, more: int = 0) -> Work:
        def work() -> dict[str, Any]:
            os.setpgid(0, 0)
            loop = Together(workers=2)
            folder = home / f"ckpt-{more}-{is_told}"
            if not is_told:
                # What happens to workers that nobody told.
                Preemption._noted.only_notes = False  # type: ignore[attr-defined]
            for step in loop.training.steps(STEPS, folder, every=100):
                if is_asked and step == 2:
                    os.killpg(0, signal.SIGTERM)
                    time.sleep(0.2)
                    # More than lies ready.
                    try:
                        for _ in range(more):
                            loop.batch()
                    except WorkerDiedError:
                        (home / "died").touch()
                        raise
                loop.step()
            return {"digest": loop.digest()}

        return work

    return {
        "asked": group_of(1, home, "asked", training(is_asked=True)),
        "resumed": group_of(1, home, "resumed", training(is_asked=False)),
        "told": group_of(1, home, "told", training(is_asked=True, more=8)),
        "not told": group_of(1, home, "not-told", training(is_asked=True, is_told=False, more=8)),
        "died": (home / "died").exists(),
    }


def through_dcp(home: Path) -> Any:
    """Each rank's generators are its own also in what torch.distributed.checkpoint writes."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    def begun() -> None:
        dcp.save({"training": Together(own_draws=True).run(5).training}, checkpoint_id=home / "ckpt")

    def resumed() -> dict[str, Any]:
        loop = Together(own_draws=True)
        torch.manual_seed(1234)
        get_optimizer_state_dict(loop.model, loop.optimizer)
        dcp.load({"training": loop.training}, checkpoint_id=home / "ckpt")
        return {"digest": loop.run(STEPS - 5).digest()}

    group_of(2, home, "begun", begun)
    return group_of(2, home, "resumed", resumed)


SCENARIOS: dict[str, Callable[[Path], Any]] = {
    one.__name__: one
    for one in (
        *(other_numbers, same_number, waiting_gradients, damaged_file, full_disk, unfit_on_one, shares, preempted),
        *(buckets, group_is_asked, through_dcp),
    )
}

if __name__ == "__main__":
    main()
