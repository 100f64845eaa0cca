"""What a program holds is kept as it was, compared, and given back; and keeping it is no save of the program's."""

import pickle
import random
from collections import deque, namedtuple
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import samebits
from samebits.agent import kept_state
from samebits.agent.kept_state import StateRestorer, as_plain, read, write
from samebits.agent.slots import MOST_DATA_BYTES, Slot, slots_of
from samebits.rng.handles import handle_of

Move = namedtuple("Move", "state reward")


class Touches:
    """Runs when it is unpickled."""

    def __reduce__(self) -> object:
        return Path.touch, (Path("canary"),)


def through_a_file(folder: Path, slots: list[Slot]) -> dict[str, Any]:
    """Path → what comes back."""
    tensors: dict[str, torch.Tensor] = {}
    write(folder / "kept.json", {"save": as_plain(slots, tensors)}, tensors)
    moments, back = read(folder / "kept.json")
    holder = SimpleNamespace(tensors=back)
    return {path: StateRestorer._value(holder, kept) for path, kept in moments["save"].items()}  # type: ignore[arg-type]


def test_states_come_back_bit_for_bit(tmp_path: Path) -> None:
    """Tensors of any dtype, also empty and of no dimension, within containers; named tuples stay what they are."""
    state = {
        "step": torch.tensor(3.0),
        "half": torch.tensor([1.5, -0.0, float("nan")], dtype=torch.bfloat16),
        "empty": torch.zeros(0, 2),
        "betas": (0.9, 0.1 + 0.2, float("inf")),
        "nested": [{"flags": torch.tensor([[True], [False]])}, None],
    }
    moves = deque([Move(np.arange(2.0), 1.0)], maxlen=3)
    back = through_a_file(tmp_path, [Slot("a", "optimizer", state, None), Slot("b", "replay", moves, None)])

    assert (back["a"]["step"], back["a"]["betas"], back["a"]["nested"][1]) == (3.0, state["betas"], None)
    assert torch.equal(back["a"]["half"].view(torch.int16), state["half"].view(torch.int16))  # type: ignore[attr-defined]
    assert back["a"]["empty"].shape == (0, 2)
    assert (type(back["b"][0]), back["b"][0].state.tolist()) == (Move, [0.0, 1.0])


def test_generators_go_on_where_they_were_kept(tmp_path: Path) -> None:
    """Python's, NumPy's and torch's: the next draws are the same again, the half of a Gaussian pair included."""
    handles = {"python": handle_of(random), "numpy": handle_of(np.random), "torch": handle_of(torch.default_generator)}

    def draws() -> list[float]:
        return [random.random(), random.gauss(0, 1), np.random.standard_normal(), float(torch.randn(()))]

    draws()
    back = through_a_file(tmp_path, [Slot(name, "generators", one.state(), None) for name, one in handles.items()])
    first = draws()
    for name, handle in handles.items():
        handle.restore(back[name])

    assert draws() == first


def test_nothing_that_was_kept_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file lies where others can write; a pickle there is no state, and an object of the program's is not kept."""
    monkeypatch.chdir(tmp_path)
    assert through_a_file(tmp_path, [Slot("a", "counter", Touches(), None)]) == {}
    (tmp_path / "kept.json").write_bytes(pickle.dumps(Touches()))

    with pytest.raises(ValueError, match=r"decode|Expecting"):
        read(tmp_path / "kept.json")
    assert not (tmp_path / "canary").exists()


def test_what_a_program_holds_is_found_and_put(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name that leads to it, with what it is part of; nothing of the program's is called on the way."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.BatchNorm1d(1))
    average = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(net.parameters())
    held = SimpleNamespace(
        tensors=list(net.parameters()), has_stepped=True, state=optimizer.state, groups=optimizer.param_groups
    )
    recorder: Any = SimpleNamespace(lane=SimpleNamespace(optimizers=SimpleNamespace(all=lambda: [held])))

    class Trainer:
        def __init__(self) -> None:
            self.best, self.memory, self.hidden = 0.5, deque([1, 2]), torch.zeros(2)

        def __getattr__(self, name: str) -> object:
            raise AssertionError(name)

    class Labels(torch.utils.data.Dataset[int]):
        def __init__(self) -> None:
            self.targets, self.pictures = torch.zeros(2), torch.zeros(MOST_DATA_BYTES)

    def counting() -> Callable[[], int]:
        calls = 0

        def tick() -> int:
            nonlocal calls
            calls += 1
            return calls

        return tick

    trainer, tick = Trainer(), counting()
    shadow = {name: one.detach().clone() for name, one in net.named_parameters()}
    parts = {
        "net": net, "average": average, "optimizer": optimizer, "trainer": trainer, "shadow": shadow,
        "schedule": torch.optim.lr_scheduler.StepLR(optimizer, 3),
        "tick": tick, "data": Labels(), "g": torch.Generator(), "scaler": torch.amp.GradScaler("cpu"),
        "also": average,
    }  # fmt: skip
    main = SimpleNamespace(**parts)
    monkeypatch.setitem(kept_state.sys.modules, "__main__", main)
    slots = slots_of(recorder, None)
    states = {path: slot.state for path, slot in slots.items()}

    assert states["net.0.weight"] == "parameters"
    assert states["net.1.running_mean"] == "buffers"
    assert states["net.0.weight.grad"] == "accumulation"
    assert states["net.0.weight.requires_grad"] == states["net.1.training"] == "mode"
    assert states["average.weight"] == states["shadow"] == "averaged"
    assert states["optimizer.state[0]"] == "optimizer"
    assert states["schedule.last_epoch"] == "scheduler"
    assert states["scaler._init_growth_tracker"] == "scaler"
    assert (states["trainer.best"], states["trainer.hidden"], states["g"]) == ("counter", "carried", "generators")
    assert (states["tick.calls"], states["data.targets"]) == ("counter", "carried")
    assert "data.pictures" not in states
    assert [path for path in states if path.startswith(("also", "net.1.training"))] == ["net.1.training"]
    for path, new in (
        ("tick.calls", 4),
        ("trainer.best", 2.0),
        ("trainer.memory", deque([7])),
        ("trainer.hidden", torch.ones(2)),
    ):
        put = slots[path].put
        assert put is not None
        put(new)
    assert (trainer.best, list(trainer.memory), trainer.hidden.tolist()) == (2.0, [7], [1.0, 1.0])
    assert tick() == 5


class Slotted:
    """Holds what Python code put into a slot."""

    __slots__ = ("level",)


def test_only_what_a_program_put_there_is_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot of a class is; members of objects in C, and the inside of samebits' own objects, are not."""
    slotted = Slotted()
    slotted.level = 3  # type: ignore[attr-defined]
    loader = samebits.data.DataLoader([1, 2, 3], seed=0)
    recorder: Any = SimpleNamespace(lane=SimpleNamespace(optimizers=SimpleNamespace(all=list)))
    main = SimpleNamespace(
        slotted=slotted, called=partial(print, 3), loader=loader, held=SimpleNamespace(loader=loader)
    )
    monkeypatch.setitem(kept_state.sys.modules, "__main__", main)
    slots = slots_of(recorder, None)

    assert [path for path in slots if path.startswith(("slotted", "called", "loader", "held"))] == ["slotted.level"]


def test_every_network_that_is_trained_has_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the second one of a GAN, whose optimizer is another one."""
    networks = {name: torch.nn.Linear(2, 1) for name in ("generator", "critic", "average")}
    held = [
        SimpleNamespace(tensors=list(networks[name].parameters()), has_stepped=True, state={}, groups=[])
        for name in ("generator", "critic")
    ]
    recorder: Any = SimpleNamespace(lane=SimpleNamespace(optimizers=SimpleNamespace(all=lambda: held)))
    monkeypatch.setitem(kept_state.sys.modules, "__main__", SimpleNamespace(**networks))
    slots = slots_of(recorder, None)

    found = [slots[f"{name}.weight"].state for name in networks]
    assert found == ["parameters", "parameters", "averaged"]
