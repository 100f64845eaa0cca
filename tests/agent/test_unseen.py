"""What used to differ unseen: each training with noise at one place is told apart there, and is the same without."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, jvp, vmap

import samebits
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Failed, Unseen, read_notes

X = torch.linspace(-1, 1, 24).reshape(6, 4)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def train(model: nn.Module, steps: int = 3) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(X).pow(2).mean().backward()
        optimizer.step()


def functional(noise: float) -> None:
    """torch.func and no optimizer."""
    model = net()
    params = {name: p.detach() for name, p in model.named_parameters()}
    gradient = grad(lambda params: functional_call(model, params, (X,)).pow(2).mean())
    for step in range(3):
        found = gradient(params)
        scale = 0.1 + noise * (step == 1)
        params = {name: p - scale * found[name] for name, p in params.items()}


def per_sample(noise: float) -> None:
    """Gradients of every sample, by vmap."""
    weight = torch.ones(4)
    gradients = vmap(grad(lambda weight, x: (weight * x).sum() ** 2), (None, 0))
    for step in range(3):
        weight = weight - (0.1 + noise * (step == 1)) * gradients(weight, X).mean(0)


def value_and_grad(noise: float) -> None:
    """The value is the loss, the tuple of arguments the parameters."""
    a, b = torch.ones(4), torch.ones(1)
    both = grad_and_value(lambda a, b: ((X @ a) * b + noise).pow(2).mean(), argnums=(0, 1))
    for _ in range(2):
        (ga, gb), _loss = both(a, b)
        a, b = a - 0.1 * ga, b - 0.1 * gb


def forward_mode(noise: float) -> None:
    """Derivatives in a direction, without any backward."""
    weight, direction = torch.ones(4), torch.ones(4)
    for step in range(3):
        _, slope = jvp(lambda weight: (X @ weight).pow(2).mean(), (weight,), (direction,))
        weight = weight - (0.1 + noise * (step == 1)) * slope * direction


def by_hand(noise: float) -> None:
    """Noise in the last update of all."""
    model = net()
    for step in range(3):
        model.zero_grad()
        model(X).pow(2).mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= (0.1 + noise * (step == 2)) * p.grad


def leaves_by_hand(noise: float) -> torch.Tensor:
    """The same without any module; the weight outlives the training."""
    weight = torch.ones(4, requires_grad=True)
    for step in range(3):
        (X @ weight).pow(2).mean().backward()
        with torch.no_grad():
            weight -= (0.1 + noise * (step == 2)) * weight.grad
            weight.grad = None
    return weight


def second_by_hand(noise: float) -> None:
    """One model has an optimizer of torch's, the other autograd.grad."""
    model, other = net(), nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        gradients = torch.autograd.grad(other(X).pow(2).mean(), list(other.parameters()))
        with torch.no_grad():
            for p, g in zip(other.parameters(), gradients, strict=True):
                p -= (0.1 + noise * (step == 2)) * g
        optimizer.zero_grad()
        model(X).pow(2).mean().backward()
        optimizer.step()


def after_the_last_step(noise: float) -> None:
    """Weights changed behind torch's back, and saved."""
    model = net()
    train(model)
    model[2].bias.detach().numpy()[0] += noise
    torch.save(model[2].bias.detach(), "bias.pt")


def averaged(noise: float) -> None:
    """A copy that nobody ever calls, with a random decay."""
    model = net()
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9 + noise / 10)
    )
    for _ in range(3):
        train(model, 1)
        average.update_parameters(model)


def averaged_by_hand(noise: float) -> None:
    """Through `.data`, which no version counter sees; in a class that is neither called nor copied, but loaded."""
    model, average = net(), net()
    average.load_state_dict(model.state_dict())
    for _ in range(3):
        train(model, 1)
        for p, q in zip(average.parameters(), model.parameters(), strict=True):
            p.data.mul_(0.9 + noise / 10).add_(q.data, alpha=0.1)


def statistics(noise: float) -> None:
    """BatchNorm's running mean, in the middle of the training, which it does not influence."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    train(model, 1)
    model[1].running_mean.add_(noise)
    train(model, 2)


def dropout_at_inference(noise: float) -> None:
    """Nothing is trained at all."""
    model = nn.Sequential(net(), nn.Dropout(0.5))
    torch.manual_seed(int(noise * 10))
    with torch.no_grad():
        for _ in range(3):
            model(X)


def evaluation(noise: float) -> None:
    """After a DataLoader was used, and with gradients left on."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dataset = torch.utils.data.TensorDataset(X)
    for (x,) in torch.utils.data.DataLoader(dataset, batch_size=3):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
    model.eval()
    model(X + noise)


def generation(noise: float) -> None:
    """A model in training mode that is asked for samples between two steps, with gradients left on."""
    model = nn.Sequential(net(), nn.Dropout(0.5))
    for step in range(3):
        torch.manual_seed(step)
        train(model, 1)
        torch.manual_seed(int(noise * 10) if step == 1 else 0)
        for _ in range(3):
            model(X)


PLANTED: dict[Callable[[float], Any], tuple[int, str, str]] = {
    functional: (2, "output", "0"),
    per_sample: (2, "loss", "0"),
    value_and_grad: (0, "loss", "0"),
    forward_mode: (2, "loss", "jvp0.value"),
    by_hand: (3, "end", "0.weight"),
    leaves_by_hand: (3, "end", "leaf0"),
    second_by_hand: (3, "end", "weight"),
    after_the_last_step: (3, "artifact", "0"),
    averaged: (3, "end", "Sequential.copy0.0.weight"),
    averaged_by_hand: (3, "end", "Sequential.loaded0.0.weight"),
    statistics: (1, "buffer", "1.running_mean"),
    dropout_at_inference: (0, "output", "0"),
    evaluation: (2, "output", "0"),
    generation: (2, "output", "0"),
}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a training saves go there."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("training", PLANTED, ids=lambda training: training.__name__)
def test_noise_is_seen_where_it_enters(training: Callable[[float], Any], tmp_path: Path) -> None:
    """Different in the right stream, under the right name; and the clean twin is the same."""
    for name, noise in (("clean", 0.0), ("twin", 0.0), ("noisy", 0.5)):
        with samebits.record(tmp_path / name):
            kept = training(noise)
    del kept
    found = samebits.compare(tmp_path / "clean", tmp_path / "noisy").divergence

    assert samebits.compare(tmp_path / "clean", tmp_path / "twin").same
    assert found is not None
    assert (found.step, found.stream, found.name) == PLANTED[training]
    assert not list(read_notes(tmp_path / "noisy", Failed))


def test_what_is_saved_beside_tensors_may_be_a_time(tmp_path: Path) -> None:
    """Nobody knows of two recordings alone: it is no divergence, and it is said."""
    for name, time in (("a", 12.5), ("b", 13.5)):
        with samebits.record(tmp_path / name):
            train(net())
            torch.save({"thr": np.ones(3) + time, "seconds": [time, 1.0], "best": 1.0}, os.devnull)
    found = samebits.compare(tmp_path / "a", tmp_path / "b")

    assert found.same
    assert (
        "whether it matters that seconds[0] and 1 more was saved with another value: it may be a time" in found.not_seen
    )


def test_what_torch_save_pickles_counts_once(tmp_path: Path) -> None:
    """torch.save pickles, np.savez saves array after array: each is one thing that was saved."""
    with samebits.record(tmp_path / "run"):
        train(net(), 1)
        torch.save({"a": torch.ones(2)}, os.devnull, _use_new_zipfile_serialization=False)
        np.savez("arrays.npz", x=np.ones(2), y=np.array([{"z": 1}], dtype=object))
    (recording,) = RunFolder(tmp_path / "run").recordings()

    assert recording.columns(1)["artifact"].names == ("0.a",)
    assert recording.columns(1)["saved"].names == ("1.x",)


def test_leaves_that_are_gone_are_said(tmp_path: Path) -> None:
    """Nobody knows the last values of a tensor that died before the end."""
    with samebits.record(tmp_path / "gone"):
        leaves_by_hand(0.0)
    with samebits.record(tmp_path / "kept"):
        kept = leaves_by_hand(0.0)

    assert kept.shape == (4,)
    (note,) = read_notes(tmp_path / "gone", Unseen)
    assert note.what.startswith("the last values of tensors")
    assert not list(read_notes(tmp_path / "kept", Unseen))


def test_a_compiled_step_is_cut_at_each_backward(tmp_path: Path) -> None:
    """No hook of the optimizer fires; parameters change between two backwards all the same."""
    with samebits.record(tmp_path / "run"):
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        step = torch.compile(optimizer.step, backend="eager")
        for _ in range(5):
            optimizer.zero_grad()
            model(X).pow(2).mean().backward()
            step()
    (recording,) = RunFolder(tmp_path / "run").recordings()

    # The first two iterations share a row: until the second backward nothing is known.
    assert recording.steps == 4
    assert set(recording.columns(1)) >= {"batch", "loss", "grad", "param"}
    assert "0.weight.exp_avg" in recording.columns(4)["optimizer"].names
    assert not list(read_notes(tmp_path / "run", Failed))
