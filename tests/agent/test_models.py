"""Many models in one program: names follow the order of use, whatever addresses are used again, and nothing is held."""

import copy
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import samebits
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.steps import COMPARED, Recording

Training = Callable[[], Any]


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 2) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).pow(2).mean().backward()
        optimizer.step()


def recorded(folder: Path, training: Training) -> Recording:
    """The recording of one training."""
    with samebits.record(folder):
        training()
    (recording,) = RunFolder(folder).recordings()
    return recording


def names_in(recording: Recording) -> dict[str, list[str]]:
    """Every name of every compared stream, in the order in which they come."""
    rows = [recording.columns(row) for row in range(len(recording))]
    return {stream: [name for row in rows if stream in row for name in row[stream].names] for stream in COMPARED}


def folds(junk: int) -> None:
    """Twelve folds; `junk` changes which addresses are free for the models of the next one."""
    kept = []
    for fold in range(12):
        torch.manual_seed(fold)
        model = net()
        train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        kept += [(torch.empty(5), nn.Identity(), object()) for _ in range(fold * junk)]
        if fold % 3 == 0:
            kept.clear()


def sweep(junk: int) -> None:
    kept: list[Any] = []
    for lr in (0.1, 0.01, 0.001):
        for width in (3, 5):
            torch.manual_seed(width)
            model = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.Linear(width, 1))
            kept += [net() for _ in range(junk)]
            train(model, torch.optim.Adam(model.parameters(), lr=lr))
            model.eval()(torch.ones(2, 4))


def ensemble(junk: int) -> None:
    torch.manual_seed(0)
    models = [net() for _ in range(3)]
    kept = [object() for _ in range(junk * 1000)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    for _ in range(3):
        for model, optimizer in zip(models, optimizers, strict=True):
            train(model, optimizer, 1)
    assert len(kept) == junk * 1000


def tied(junk: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    kept = [torch.empty(4, 4) for _ in range(junk)]
    model[1].weight = nn.Parameter(model[0].weight.detach().clone())
    del kept
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))


def groups_added(junk: int) -> None:
    torch.manual_seed(0)
    body, head = net(), nn.Linear(2, 1)
    optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
    train(body, optimizer)
    kept = [nn.Parameter(torch.empty(2)) for _ in range(junk)]
    optimizer.add_param_group({"params": head.parameters()})
    train(nn.Sequential(body, head), optimizer)
    del kept


def optimizer_made_anew(junk: int) -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.ones(4, 2))
    for lr in (0.1, 0.01, 0.001):
        optimizer = torch.optim.Adam([weight], lr=lr)
        kept = [torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1) for _ in range(junk)]
        optimizer.zero_grad()
        (torch.ones(3, 4) @ weight).pow(2).mean().backward()
        optimizer.step()
        del optimizer, kept


class Equal(nn.Linear):
    """A module that says it equals any other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


def strange_modules(junk: int) -> None:
    torch.manual_seed(0)
    for _ in range(3):
        first, second = Equal(4, 4), Equal(4, 2)
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            second(first(torch.ones(3, 4))).sum().backward()
            optimizer.step()
        first = second = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "training",
    [folds, sweep, ensemble, tied, groups_added, optimizer_made_anew, strange_modules],
    ids=lambda t: t.__name__,
)
def test_names_do_not_depend_on_addresses(training: Callable[[int], None], tmp_path: Path) -> None:
    """The same training with other addresses free, and the collector off, on and eager, is the same recording."""
    recordings = [recorded(tmp_path / "0", lambda: training(0)), recorded(tmp_path / "7", lambda: training(7))]
    gc.disable()
    try:
        recordings.append(recorded(tmp_path / "off", lambda: training(1)))
    finally:
        gc.enable()
    threshold = gc.get_threshold()
    gc.set_threshold(20)
    try:
        recordings.append(recorded(tmp_path / "eager", lambda: training(3)))
    finally:
        gc.set_threshold(*threshold)

    for other in ("7", "off", "eager"):
        found = samebits.compare(tmp_path / "0", tmp_path / other)
        assert found.same, f"{other}: {found}"
    assert len({str(names_in(recording)) for recording in recordings}) == 1


def test_a_fold_with_another_seed_is_seen(tmp_path: Path) -> None:
    """A check that cannot fail is no check: the last of twelve folds begins elsewhere."""

    def other() -> None:
        seed = torch.manual_seed
        torch.manual_seed = lambda number: seed(99 if number == 11 else number)  # type: ignore[assignment]
        try:
            folds(0)
        finally:
            torch.manual_seed = seed

    recorded(tmp_path / "a", lambda: folds(0))
    recorded(tmp_path / "b", other)
    found = samebits.compare(tmp_path / "a", tmp_path / "b").divergence

    assert found is not None
    assert (found.step, found.stream, found.differing, found.total) == (22, "init", 4, 4)


class Watching(nn.Module):
    """Keeps statistics of its input, and does not use them yet."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.statistics, self.shift = nn.Linear(3, 1), nn.BatchNorm1d(3), 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.statistics(x + self.shift)
        return self.linear(x)


def test_statistics_of_batch_norm_are_seen_at_the_step_that_writes_them(tmp_path: Path) -> None:
    """Torch does not count that writing; a validation that forgets `eval()` changes them, and nothing else yet."""

    def training(forgets: bool) -> None:
        torch.manual_seed(0)
        model = Watching()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 3)).sum().backward()
            optimizer.step()
            if step == 2:
                model.shift = 1.0 if forgets else 0.0
                model(torch.ones(8, 3))
                model.shift = 0.0

    recorded(tmp_path / "a", lambda: training(False))
    recorded(tmp_path / "b", lambda: training(True))
    recorded(tmp_path / "c", lambda: training(False))
    found = samebits.compare(tmp_path / "a", tmp_path / "b").divergence

    assert samebits.compare(tmp_path / "a", tmp_path / "c").divergence is None
    assert found is not None
    assert (found.step, found.stream, found.differing, found.total) == (3, "buffer", 1, 3)


def test_models_in_turn_have_names_of_their_own(tmp_path: Path) -> None:
    """The first is called as its module calls itself, others with their class and number."""
    names = names_in(recorded(tmp_path / "run", lambda: folds(0)))["init"]

    assert names[:5] == ["0.weight", "0.bias", "2.weight", "2.bias", "Sequential1.0.weight"]
    assert len(names) == len(set(names)) == 48


def test_nothing_is_held_alive(tmp_path: Path) -> None:
    """After a fold its module, weights, optimizer, activations and losses are gone, without a collection."""
    dead: list[Any] = []

    def fold() -> None:
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            hidden = model(torch.ones(3, 4))
            loss = hidden.pow(2).mean()
            loss.backward()
            optimizer.step()
        average = torch.optim.swa_utils.AveragedModel(model)
        average.update_parameters(model)
        best = copy.deepcopy(model)
        result = model.eval()(torch.ones(2, 4))
        (grad,) = torch.autograd.grad(model(torch.ones(2, 4)).sum(), [model[0].weight])
        things = [*model.modules(), *model.parameters(), *model.buffers(), *average.parameters(), *best.parameters()]
        state = [value for one in optimizer.state.values() for value in one.values()]
        dead.extend(weakref.ref(one) for one in [*things, *state, optimizer, hidden, loss, result, grad])

    for number, level in enumerate(("step", "op")):
        with samebits.record(tmp_path / str(number), level=level):
            for _ in range(3):
                fold()
            gc.collect()
            torch.ones(1).requires_grad_().sum().backward()
            alive = [one() for one in dead if one() is not None]
            assert not alive
    assert len(dead) > 100


def test_a_module_that_dies_has_its_last_state_seen(tmp_path: Path) -> None:
    """What a function changes after the last step, in a model that is gone when the process ends."""

    def training(change: float) -> None:
        def inner() -> None:
            torch.manual_seed(0)
            model = net()
            train(model, torch.optim.SGD(model.parameters(), lr=0.1))
            with torch.no_grad():
                model[2].bias[1] += change

        inner()
        inner()

    for name, change in (("a", 0.0), ("twin", 0.0), ("b", 1.0)):
        recorded(tmp_path / name, lambda change=change: training(change))
    found = samebits.compare(tmp_path / "a", tmp_path / "b").divergence

    assert samebits.compare(tmp_path / "a", tmp_path / "twin").same
    assert found is not None
    # The step after is the first that the second model takes, and knows nothing of the first one's bias.
    assert (found.stream, found.name, found.differing, found.total) == ("end", "2.bias", 2, 8)


def test_what_is_only_made_makes_no_difference(tmp_path: Path) -> None:
    """Modules that nobody calls, loads or changes begin with whatever they begin with, clones inside them too."""

    def training(seed: int) -> None:
        torch.manual_seed(seed)
        waste = [nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2), net(), copy.deepcopy(net())]
        torch.optim.Adam(waste[1].parameters())
        torch.manual_seed(0)
        model = net()
        train(model, torch.optim.SGD(model.parameters(), lr=0.1))

    recorded(tmp_path / "a", lambda: training(1))
    recorded(tmp_path / "b", lambda: training(2))

    assert samebits.compare(tmp_path / "a", tmp_path / "b").same


def test_an_end_in_a_cycle_does_not_depend_on_the_collector(tmp_path: Path) -> None:
    """A model that refers to itself dies when the collector comes; its last state is the same row."""

    def training(collect: bool) -> None:
        for seed in range(3):
            torch.manual_seed(seed)
            model = net()
            model.parent = [model]  # type: ignore[assignment]
            optimizer = torch.optim.Adam(model.parameters())
            torch.optim.lr_scheduler.StepLR(optimizer, 1)
            train(model, optimizer)
            del model, optimizer
            if collect:
                gc.collect()

    gc.disable()
    try:
        recorded(tmp_path / "a", lambda: training(False))
        recorded(tmp_path / "b", lambda: training(True))
    finally:
        gc.enable()

    found = samebits.compare(tmp_path / "a", tmp_path / "b")
    assert found.same, found


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_step_with_a_closure_is_recorded_as_the_model_made_it(is_loaded: bool, tmp_path: Path) -> None:
    """Lightning steps that way: names are those of the model that is called, and gradients are those of the step."""

    def training(has_closure: bool) -> None:
        torch.manual_seed(0)
        holder = nn.ModuleDict({"net": net()})
        if is_loaded:
            holder.load_state_dict(holder.state_dict())
        model = holder["net"]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = model(torch.ones(3, 4)).pow(2).mean()
            loss.backward()
            return loss

        for _ in range(2):
            if has_closure:
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()

    closed, plain = (recorded(tmp_path / str(number), lambda n=number: training(n == 0)) for number in range(2))

    assert names_in(closed) == names_in(plain)
    for step in range(2):
        for stream in ("grad", "param"):
            assert closed.columns(step)[stream].as_dict() == plain.columns(step)[stream].as_dict()
