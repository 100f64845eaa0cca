"""record, compare and assert_repeats: the same experiments from Python."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import samebits
from samebits.agent.log import Log
from samebits.base.errors import UnseenWarning

COUNT = [0]


def train(noise: float = 0.0, steps: int = 3) -> None:
    COUNT[0] += 1
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        loss = model(torch.randn(16, 4)).square().mean()
        if step == 1:
            loss = loss * (1 + noise * COUNT[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_what_repeats_passes() -> None:
    """The twin of the failure below."""
    samebits.assert_repeats(train, runs=3)


def test_what_does_not_repeat_is_located() -> None:
    """An AssertionError that names step, operation and line."""
    with pytest.raises(samebits.DivergenceError, match=r"step 1, op \d+: argument: aten::mul.Tensor") as caught:
        samebits.assert_repeats(train, noise=0.1)

    assert isinstance(caught.value, AssertionError)
    assert "test_api.py" in str(caught.value)
    assert "loss = loss * (1 + noise * COUNT[0])" in str(caught.value)


def test_what_does_nothing_cannot_be_judged() -> None:
    """A function without torch operations is no evidence of anything."""
    with pytest.raises(samebits.SamebitsError, match="no torch operation was seen"):
        samebits.assert_repeats(lambda: None)
    for runs in (1, "2"):
        with pytest.raises(samebits.SamebitsError, match=f"runs must be at least 2, got {runs!r}"):
            samebits.assert_repeats(train, runs=runs)  # type: ignore[arg-type]


def test_a_quotation_mark_that_is_not_closed_is_said() -> None:
    with pytest.raises(samebits.SamebitsError, match="is no command line: No closing quotation"):
        samebits.check("train.py 'x")


@pytest.mark.parametrize("level", ["step", "op"])
def test_two_recordings_are_compared(level: str, tmp_path: Path) -> None:
    """At level step the stream is known, at level op the operation too."""
    for name, noise in (("one", 0.0), ("two", 0.0), ("three", 0.1)):
        with samebits.record(tmp_path / name, level=level):
            train(noise)
    same, other = (samebits.compare(tmp_path / "one", tmp_path / name) for name in ("two", "three"))

    streams = "initial state, data, losses, gradients, parameters, optimizer states"
    last = " and the final state" if level == "step" else ", the final state and operations"
    assert (same.same, str(same)) == (True, f"same bits: {streams}{last}")
    assert other.divergence is not None
    assert (other.same, other.divergence.step, other.divergence.stream) == (False, 1, "loss")
    assert (other.op is not None) == (level == "op")


# What torch.compile asks from 2.7 on.
ASKED = "_has_any_global_hook"


def test_torch_is_as_it_was_afterwards(tmp_path: Path) -> None:
    """Functions, hooks and modes, also after an exception."""
    hooks = torch.nn.modules.module
    before = (torch.save, torch.autograd.backward, torch.optim.Optimizer.__init__, getattr(hooks, ASKED, None))
    with pytest.raises(TypeError), samebits.record(tmp_path / "run", level="op"):
        train(steps="three")  # type: ignore[arg-type]

    after = (torch.save, torch.autograd.backward, torch.optim.Optimizer.__init__, getattr(hooks, ASKED, None))
    assert after == before
    assert not hooks._global_forward_hooks
    assert not hooks._global_forward_pre_hooks
    assert not _get_current_dispatch_mode_stack()


def test_a_folder_in_use_is_not_touched(tmp_path: Path) -> None:
    """Nothing is overwritten, and nothing runs before that is known."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(samebits.SamebitsError, match="is not empty"), samebits.record(tmp_path):
        raise AssertionError("must not run")
    with pytest.raises(ValueError, match="level takes 'step' or 'op', got 'ops'"), samebits.record("x", level="ops"):
        raise AssertionError("must not run")


def test_what_is_returned_is_compared() -> None:
    """A result without a consumer, numbers, arrays and nested containers; each beside one that repeats."""

    @dataclass
    class Report:
        loss: float
        weights: dict[str, object]

    for make in (
        lambda draw: torch.tensor([draw()]),
        lambda draw: draw(),
        lambda draw: [{"scores": np.array([1.0, draw()])}],
        lambda draw: Report(draw(), {}),
        lambda draw: Report(1.0, {"w": (torch.tensor(draw()),)}),
        lambda draw: {draw(), 2.0},
    ):
        samebits.assert_repeats(make, lambda: 0.5)
        with pytest.raises(samebits.DivergenceError, match="what was returned"):
            samebits.assert_repeats(make, random.SystemRandom().random)


def test_what_is_written_past_torch_is_seen_afterwards() -> None:
    """NumPy writes to memory of a tensor among the arguments, of a variable from outside, and of a returned module."""
    outside = torch.ones(2)

    def to_argument(weight: torch.Tensor, amount: float) -> None:
        weight.detach().numpy()[:] = amount * random.SystemRandom().random()

    def to_variable(amount: float) -> None:
        outside.numpy()[:] = amount * random.SystemRandom().random()

    def to_module(amount: float) -> nn.Module:
        torch.manual_seed(0)
        model = nn.Linear(2, 1)
        model.weight.detach().numpy()[:] += amount * random.SystemRandom().random()
        return model

    for function, given, what in (
        (to_argument, (torch.ones(2),), "argument 0"),
        (to_variable, (), "outside"),
        (to_module, (), "what was returned.weight"),
    ):
        samebits.assert_repeats(lambda *args, f=function: (f(*args), 1)[1:], *given, 0.0)
        with pytest.raises(samebits.DivergenceError, match=what):
            samebits.assert_repeats(function, *given, 1.0)


def test_work_in_threads_is_not_passed_in_silence() -> None:
    """Its operations are not seen: a warning if all else repeats, and what it leaves behind is compared."""

    def in_thread(value: float) -> torch.Tensor:
        held = torch.ones(2)
        thread = threading.Thread(target=lambda: held.mul_(value or random.SystemRandom().random()), name="beside")
        thread.start()
        thread.join()
        return held

    with pytest.warns(UnseenWarning, match="in_thread started threads, whose operations cannot be seen: beside"):
        samebits.assert_repeats(in_thread, 2.0)
    with pytest.raises(samebits.DivergenceError, match="what was returned"):
        samebits.assert_repeats(in_thread, 0.0)


def test_a_recording_that_broke_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of ours in the midst of a call is said, and not taken for agreement."""
    before = Log.end_step

    def fails(log: Log, cut: str) -> bool:
        if log.step == 1:
            raise RuntimeError("out of digests")
        return before(log, cut)

    monkeypatch.setattr(Log, "end_step", fails)

    with pytest.raises(samebits.SamebitsError, match=r"recording ended before the call did: .*out of digests"):
        samebits.assert_repeats(train)


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    """No path, nothing to call, a recording made twice, and one in two threads."""
    for call in (
        lambda: samebits.compare(1, None),  # type: ignore[arg-type]
        lambda: samebits.record(None),  # type: ignore[arg-type]
        lambda: samebits.assert_repeats(None),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=r"got (1|None)"):
            call()
    recording = samebits.record(tmp_path / "one")
    with recording:
        train()
    with pytest.raises(samebits.SamebitsError, match="was made before"), recording:
        raise AssertionError("must not run")
    told: list[BaseException] = []

    def in_thread() -> None:
        try:
            with samebits.record(tmp_path / "three"):
                train()
        except samebits.SamebitsError as error:
            told.append(error)

    with samebits.record(tmp_path / "two"):
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
    assert "another thread of this process is being recorded" in str(told[0])


def test_threads_are_recorded_each_training_by_itself(tmp_path: Path) -> None:
    """Whatever their order, the same; one that draws from elsewhere is the one that is named."""

    def one(seed: int, late: float) -> None:
        own = torch.Generator().manual_seed(seed)
        weight = torch.zeros(4, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for step in range(4):
            time.sleep(late)
            noise = random.SystemRandom().random() if seed == 9 and step == 2 else 0.0
            loss = (weight * torch.randn(4, generator=own)).sum() + noise * weight.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def run(name: str, seeds: list[int], late: tuple[float, float]) -> None:
        with samebits.record(tmp_path / name), ThreadPoolExecutor(2, thread_name_prefix=name) as pool:
            list(pool.map(one, seeds, [late[number % 2] for number in range(len(seeds))]))

    run("a", [1, 2, 3], (0.01, 0.0))
    run("b", [3, 1, 2], (0.0, 0.02))
    run("noise1", [1, 9], (0.01, 0.0))
    run("noise2", [9, 1], (0.01, 0.0))

    assert len(list((tmp_path / "a").glob("recording*.sqlite"))) == 3
    assert samebits.compare(tmp_path / "a", tmp_path / "b").same
    found = samebits.compare(tmp_path / "noise1", tmp_path / "noise2").divergence
    assert found is not None
    assert (found.step, found.stream) == (2, "loss")
    assert "thread noise1_" in found.process
