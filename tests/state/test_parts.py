"""Every part comes back bit for bit, and what does not fit is refused by name and changes nothing."""

import copy
import io
import random
from collections import Counter as Counts
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import samebits
from samebits.base.errors import SamebitsError, StateError, StateWarning, UsageError
from samebits.rng.packing import PackingError, pack, unpack
from samebits.state import Training
from tests.state.trainings import ACCUMULATED, Loop, Noisy, digest_of


def through_a_file(state: Any) -> Any:
    """What is read back of a state by the strictest reader there is."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def load(saved: Training, live: Training) -> Any:
    """Restore what one training is in another one, through a file; the state."""
    state = through_a_file(saved.state_dict())
    live.load_state_dict(state)
    return state


def assert_refused(live: Training, state: Any, words: str) -> StateError:
    """It is said what does not fit, and not a bit moves."""
    before = digest_of(live.state_dict())
    with pytest.raises(StateError, match=words) as caught:
        live.load_state_dict(state)
    assert digest_of(live.state_dict()) == before
    return caught.value


def same(one: Any, other: Any) -> bool:
    return digest_of(pack(one)) == digest_of(pack(other))


# ---- round trips


def test_a_training_goes_on_with_the_same_bits() -> None:
    """Saved in mid-epoch and restored into one that was made with another seed, it ends as the uninterrupted one."""
    whole = Loop().run(9)
    state = through_a_file(Loop().run(4).training.state_dict())
    resumed = Loop(seed=99)
    resumed.training.load_state_dict(state)
    resumed.run(5)

    assert resumed.losses == whole.losses[4 * ACCUMULATED :]
    assert resumed.digest() == whole.digest()
    assert Loop(seed=99).run(9).digest() != whole.digest()


def test_half_of_an_accumulation_is_kept() -> None:
    """Gradients that wait for their step are part of the state, and only where they are there."""
    whole = Loop().run(3)
    broken = Loop().run(2)
    broken.micro_step()
    state = through_a_file(broken.training.state_dict())
    resumed = Loop(seed=99)
    resumed.training.load_state_dict(state)
    resumed.micro_step()
    resumed.finish_step()

    assert resumed.digest() == whole.digest()
    assert state["ranks"]["0"]["gradients"]["state"].keys() == {
        f"model.{name}" for name, _ in broken.model.named_parameters()
    }
    assert broken.training.state_dict(gradients=False)["ranks"]["0"]["gradients"]["state"] == {}


def test_gradients_that_were_not_there_are_taken_away() -> None:
    """A state without gradients leaves none, whatever was computed in between."""
    loop = Loop()
    state = through_a_file(loop.training.state_dict())
    loop.micro_step()
    loop.training.load_state_dict(state)

    assert [one.grad for one in loop.model.parameters()] == [None] * 6


def draw(one: Any) -> Any:
    if isinstance(one, torch.Generator):
        return torch.rand(3, generator=one)
    if isinstance(one, random.Random):
        return [one.gauss(0, 1) for _ in range(3)]
    if isinstance(one, np.random.Generator):
        return [one.random(dtype=np.float32), one.normal()]
    return [one.normal(), one.rand(), one.normal()]


GENERATORS: dict[str, Callable[[], Any]] = {
    "python": lambda: random.Random(1),
    "torch": lambda: torch.Generator().manual_seed(1),
    "PCG64": lambda: np.random.Generator(np.random.PCG64(1)),
    "PCG64DXSM": lambda: np.random.Generator(np.random.PCG64DXSM(1)),
    "Philox": lambda: np.random.Generator(np.random.Philox(1)),
    "SFC64": lambda: np.random.Generator(np.random.SFC64(1)),
    "MT19937": lambda: np.random.Generator(np.random.MT19937(1)),
    "RandomState": lambda: np.random.RandomState(1),
}


@pytest.mark.parametrize("kind", GENERATORS)
def test_every_kind_of_generator_comes_back(kind: str) -> None:
    """With what it keeps for the next call; one given by itself, in a list, in a dict, and held by a dataset."""
    make = GENERATORS[kind]

    def made() -> Training:
        dataset = Noisy()
        dataset.rng = make()
        return Training(own=make(), several=[make()], named={"a": make()}, dataset=dataset)

    def drawn(training: Training) -> list[Any]:
        return [draw(one.rng if isinstance(one, Noisy) else one) for one in training.objects.values()]

    saved, live = made(), made()
    drawn(saved)
    state = load(saved, live)

    assert same(drawn(live), drawn(saved))
    assert {"own", "several[0]", "named.a", "dataset.rng"} <= state["ranks"]["0"]["generators"]["state"].keys()


def test_the_generators_of_the_process_come_back() -> None:
    """Python's with its second Gaussian, NumPy's with its, and torch's."""

    def drawn() -> list[Any]:
        return [random.gauss(0, 1), np.random.normal(), np.random.rand(), torch.randn(3)]

    training = Training()
    drawn()
    state = through_a_file(training.state_dict())
    expected = drawn()
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(3)
    training.load_state_dict(state)

    assert same(drawn(), expected)


def schedulers(optimizer: Any) -> list[Any]:
    module = torch.optim.lr_scheduler
    return [
        module.StepLR(optimizer, 2),
        module.MultiStepLR(optimizer, [2, 4]),
        module.LambdaLR(optimizer, lambda step: 0.9**step),
        module.CosineAnnealingWarmRestarts(optimizer, 3),
        module.CyclicLR(optimizer, 0.01, 0.1, 2, cycle_momentum=False),
        module.ReduceLROnPlateau(optimizer, patience=1),
        module.SequentialLR(optimizer, [module.ConstantLR(optimizer), module.ExponentialLR(optimizer, 0.9)], [2]),
        torch.optim.swa_utils.SWALR(optimizer, 0.01, anneal_epochs=3),
    ]


@pytest.mark.parametrize("number", range(8))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_schedulers_of_torch_come_back(number: int) -> None:
    """Also those whose states hold counters, schedulers and functions."""

    def make() -> tuple[Any, Any, Training]:
        optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)
        scheduler = schedulers(optimizer)[number]
        return optimizer, scheduler, Training(optimizer=optimizer, scheduler=scheduler)

    def steps(optimizer: Any, scheduler: Any) -> list[float]:
        rates = []
        for _ in range(3):
            optimizer.step()
            scheduler.step(*([1.0] if number == 5 else []))
            rates.append(optimizer.param_groups[0]["lr"])
        return rates

    optimizer, scheduler, saved = make()
    steps(optimizer, scheduler)
    again, resumed, live = make()
    load(saved, live)

    assert steps(again, resumed) == steps(optimizer, scheduler)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, amsgrad=True),
    "groups": lambda parameters: torch.optim.Adam([{"params": parameters[:1]}, {"params": parameters[1:], "lr": 1.0}]),
    "LBFGS": lambda parameters: torch.optim.LBFGS(parameters, history_size=3, max_iter=3),
    "Rprop": lambda parameters: torch.optim.Rprop(parameters),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers_come_back(kind: str) -> None:
    """Whatever they keep, and in as many groups."""

    def make() -> tuple[Any, Any, Training]:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = OPTIMIZERS[kind](list(model.parameters()))
        return model, optimizer, Training(model=model, optimizer=optimizer)

    def step(model: Any, optimizer: Any) -> None:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = model(torch.ones(4, 3)).square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)

    model, optimizer, saved = make()
    for _ in range(3):
        step(model, optimizer)
    again, resumed, live = make()
    load(saved, live)
    step(model, optimizer)
    step(again, resumed)

    assert digest_of(live.state_dict()) == digest_of(saved.state_dict())


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 2, 0], [1, 0, 3, 2]])
def test_moments_go_to_their_parameters_in_any_order(order: list[int]) -> None:
    """An optimizer that was made of a set has its parameters in another order in every process."""

    def begun(order: list[int], seed: int = 0) -> tuple[Any, Any, Training]:
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False), nn.Linear(3, 3))
        parameters = list(model.named_parameters())
        groups = [{"params": [parameters[place] for place in some]} for some in (order[:2], order[2:])]
        optimizer = torch.optim.Adam(groups, lr=0.1)
        for _ in range(2):
            model(torch.ones(2, 3)).square().sum().backward()
            optimizer.step()
        return model, optimizer, Training(model=model, optimizer=optimizer)

    first, later = order[:2], order[2:]
    model, optimizer, saved = begun([*first, *later])
    resumed, other, live = begun([*first[::-1], *later[::-1]], seed=1)
    load(saved, live)

    for name, parameter in model.named_parameters():
        assert same(other.state[resumed.get_parameter(name)], optimizer.state[parameter])
    assert [group["param_names"] for group in other.param_groups] == [
        group["param_names"][::-1] for group in optimizer.param_groups
    ]
    elsewhere = begun([*later, *first])[2]
    with pytest.raises(StateError, match=r"optimizer does not fit its state: the state has model\.\S+ in group \d"):
        elsewhere.load_state_dict(saved.state_dict())


def test_moments_of_several_parameters_keep_their_order() -> None:
    """LBFGS has them in one tensor for all parameters, which another order would tear apart."""

    def begun(*order: int) -> Training:
        model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
        parameters = list(model.parameters())
        optimizer = torch.optim.LBFGS([parameters[place] for place in order])
        model(torch.ones(2, 3)).square().sum().backward()
        optimizer.step(lambda: model(torch.ones(2, 3)).square().sum().item())
        return Training(model=model, optimizer=optimizer)

    state = begun(0, 1).state_dict()
    begun(0, 1).load_state_dict(state)
    with pytest.raises(StateError, match=r"its parameters had another order, and its state may be one of several"):
        begun(1, 0).load_state_dict(state)


def as_first_version(state: Any) -> Any:
    """A state as it was written first: without the names of parameters, modules in eval mode, and samplers."""
    rank = state["ranks"]["0"]
    for part, key in ((state["parts"]["optimizer"], "names"), (rank["parts"]["loader"], "sampler")):
        del part["state"][key]
        part["contents"] = [way for way in part["contents"] if way.partition(".")[0] != key]
    modes = rank["modes"]["state"]
    modes |= {name: modes[name]["training"] for name in modes}
    return {**state, "version": 1}


def test_states_of_the_first_version_are_read() -> None:
    """They go on with the same bits; what they do not tell is taken to be as it is here."""
    whole = Loop().run(9)
    saved = Loop().run(4)
    saved.model[4].eval()
    state = as_first_version(through_a_file(saved.training.state_dict()))
    resumed = Loop(seed=99)
    resumed.training.load_state_dict(state)
    assert not resumed.model[4].training
    resumed.model.train()
    resumed.run(5)

    assert resumed.digest() == whole.digest()
    resumed.optimizer.param_groups[0]["params"].reverse()
    with pytest.raises(StateError, match=r"parameter 0 was float32 of shape \(8, 6\), is float32 of shape \(3,\)"):
        resumed.training.load_state_dict(state)


class Counter:
    """Anything with the two methods."""

    def __init__(self, value: Any = 0) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if set(state) != {"value"}:
            raise KeyError("value")
        self.value = state["value"]


Pair = namedtuple("Pair", "left right")
VALUES = [
    *(None, True, -3, 1 << 63, 1 << 200, 0.1, float("inf"), -0.0, "text", b"bytes\x00", 2 + 3j),
    *((1, (2, [3])), {1: "a", 2: "b"}),
    *({"a": {(1, 2): 3.0}}, {3, 1}, torch.arange(3, dtype=torch.int16), np.float32(0.1), np.arange(6.0).reshape(2, 3)),
    *(torch.float16, torch.device("cpu"), torch.Size([1, 2]), np.zeros((0, 3)), {"<odd>": 1}, {}, []),
    {"a": [], "b": {}},
    *({1, 2}, frozenset({1, 2}), {frozenset({1, 2}): 3}, bytearray(b"ab"), Counts("aab"), deque([1], 3), Pair(1, [2])),
    *(OrderedDict([("b", 1), ("a", 2)]), OrderedDict({1: 2}), defaultdict(int, {"a": 1}), defaultdict(None, {1: [2]})),
]


class Level(IntEnum):
    """A number, and more than that."""

    LOW = 1


LOST = [
    *(Level.LOW, defaultdict(lambda: 0), {len}, {(len, 1): 2}, namedtuple("Local", "a")(1)),
    *(np.zeros(1, dtype=[("a", int)]), np.ma.masked_array([1.0], [True]), type("Words", (dict,), {})()),
]


@pytest.mark.parametrize("value", LOST, ids=lambda value: type(value).__name__)
def test_what_would_come_back_as_something_else_is_refused(value: Any) -> None:
    """When it is saved, with the path to it: a checkpoint that cannot be read is none."""
    with pytest.raises(StateError, match=r"state of counter holds .* value\.inner\.0: "):
        Training(counter=Counter({"inner": [value]})).state_dict()


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_whatever_a_state_holds_comes_back(value: Any) -> None:
    """With its type; through a reader that builds nothing but tensors, numbers, strings, lists and dicts."""
    live = Counter()
    load(Training(counter=Counter(value)), Training(counter=live))

    assert type(live.value) is type(value)
    assert same(live.value, value)


def test_what_is_no_state_is_refused() -> None:
    """An object within a state is named, with the part that has it; a number in its place is kept."""
    with pytest.raises(StateError, match=r"state of counter holds .* value\.inner: a builtins\.object"):
        Training(counter=Counter({"inner": object()})).state_dict()
    with pytest.raises(PackingError):
        unpack({"<unheard of>": 1})
    assert Training(counter=Counter({"inner": 1})).state_dict()


def test_averages_kept_by_hand_come_back() -> None:
    """Tensors in a dict or a list are filled where they are."""
    averaged = {"weight": torch.zeros(2), "list": [torch.zeros(3, dtype=torch.float64)]}
    state = through_a_file(
        Training(averaged={"weight": torch.ones(2), "list": [torch.ones(3, dtype=torch.float64)]}).state_dict()
    )
    weight = averaged["weight"]
    Training(averaged=averaged).load_state_dict(state)
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    both = Training(model=model, other=other).state_dict()
    both["parts"].pop("other")
    Training(model=model.eval()).load_state_dict(both)
    assert model.training

    assert torch.equal(weight, torch.ones(2))  # type: ignore[arg-type]
    assert torch.equal(averaged["list"][0], torch.ones(3, dtype=torch.float64))


def test_averages_that_are_replaced_are_saved_as_they_are() -> None:
    """A dict that gets new tensors in every step is looked into when it is saved, and when it is restored."""
    averaged, resumed = {"w": torch.zeros(2)}, {"w": torch.zeros(2)}
    saved, live = Training(averaged=averaged), Training(averaged=resumed)
    for _ in range(3):
        averaged["w"] = 0.5 * averaged["w"] + 1
    resumed["w"] = resumed["w"] + 5
    live.load_state_dict(through_a_file(saved.state_dict()))

    assert torch.equal(resumed["w"], averaged["w"])
    averaged["v"] = torch.zeros(1)
    with pytest.raises(StateError, match=r"the state has averaged\.v, which is not here"):
        live.load_state_dict(saved.state_dict())


def test_two_objects_under_one_name_are_refused() -> None:
    """Both are named, when the training is made and when it is saved; under other names they are taken."""
    words = r"ema\['x\.y'\] and ema\['x'\]\['y'\] are both named ema\.x\.y"
    with pytest.raises(UsageError, match=words):
        Training(ema={"x.y": torch.ones(1), "x": {"y": torch.zeros(1)}})
    ema: dict[str, Any] = {"x.y": torch.ones(1), "x": {"z": torch.zeros(1)}}
    training = Training(ema=ema)
    assert training.parts.keys() == {"ema.x.y", "ema.x.z"}
    ema["x"]["y"] = torch.zeros(1)
    with pytest.raises(UsageError, match=words):
        training.state_dict()


def test_functions_come_back_where_they_were() -> None:
    """Two of one name are not exchanged; another one in the place of one is refused."""

    def made(factor: int) -> Callable[[int], int]:
        return lambda step: factor * step

    live = Counter([made(2), {"inner": (made(3),)}])
    state = load(Training(counter=Counter([made(2), {"inner": (made(3),)}])), Training(counter=live))

    assert [live.value[0](1), live.value[1]["inner"][0](1)] == [2, 3]
    for value in ([len, live.value[1]], [live.value[0], {"inner": ()}]):
        with pytest.raises(StateError, match=r"saved with the function .*<lambda>, which is not in use here"):
            Training(counter=Counter(value)).load_state_dict(state)


def test_modes_come_back() -> None:
    """Module by module: a part that is frozen in eval mode stays so."""
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.BatchNorm1d(2), nn.Dropout()))
    model[1].eval()
    state = through_a_file(Training(model=model).state_dict())
    model.eval()
    model[1][0].train()
    Training(model=model).load_state_dict(state)

    assert [one.training for one in model.modules()] == [True, True, False, False, False]
    for other, words in (
        (nn.Sequential(*model, nn.Dropout()), r"the state lacks model\.2, which is here"),
        (nn.Sequential(nn.Dropout(), nn.Sequential(model[1][0])), r"the state has model\.1\.1, which is not here"),
    ):
        with pytest.raises(StateError, match=rf"modes do not fit: {words}"):
            Training(model=other).load_state_dict(state)


class Tied(nn.Module):
    """Two layers, of one weight or of two."""

    def __init__(self, is_tied: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        if is_tied:
            self.b.weight = self.a.weight


@pytest.mark.parametrize("is_tied", [True, False])
def test_weights_are_tied_as_they_were(is_tied: bool) -> None:
    """Weights that were one do not become two, nor two different ones one."""
    saved, live = Tied(is_tied), Tied(is_tied)
    state = load(Training(model=saved), Training(model=live))

    assert same(live.state_dict(), saved.state_dict())
    with pytest.raises(StateError, match=r"b\.weight (was tied to a\.weight, is not|is tied to a\.weight, was not)"):
        Training(model=Tied(not is_tied)).load_state_dict(state)
    if not is_tied:
        state["parts"]["model"]["state"]["b.weight"] = state["parts"]["model"]["state"]["a.weight"].clone()
        Training(model=Tied(True)).load_state_dict(state)


def test_wrapped_models_have_the_same_state() -> None:
    """torch.compile and DataParallel are looked through."""
    model = nn.Linear(2, 2)
    plain = digest_of(Training(model=model).state_dict())

    assert digest_of(Training(model=torch.nn.DataParallel(model)).state_dict()) == plain
    assert digest_of(Training(model=torch.compile(model, backend="eager")).state_dict()) == plain


def test_a_loader_of_torch_resumes_with_an_epoch() -> None:
    """Its generators are kept, and it is said that its position is not."""

    def make(seed: int) -> tuple[Any, Training]:
        generator = torch.Generator().manual_seed(seed)
        loader = torch.utils.data.DataLoader(list(range(20)), batch_size=4, shuffle=True, generator=generator)
        with pytest.warns(StateWarning, match=r"loader is torch's and does not know how far"):
            return loader, Training(loader=loader)

    loader, saved = make(0)
    resumed, live = make(1)
    torch.cat(list(loader))
    load(saved, live)

    assert torch.equal(torch.cat(list(resumed)), torch.cat(list(loader)))


# ---- what does not fit


def make(**other: Any) -> Training:
    """A training of the usual parts, some of them other ones."""
    torch.manual_seed(1)
    model = other.pop("model", None) or layers()
    optimizer = other.pop("optimizer", None) or torch.optim.AdamW(model.parameters(), lr=other.pop("lr", 0.1))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    if other.pop("steps", True):
        optimizer.step()
    optimizer.zero_grad()
    parts: dict[str, Any] = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3),
        "loader": ours(10),
        "averaged": {"w": torch.ones(2)},
        "rng": np.random.default_rng(0),
        "counter": Counter(3),
    }
    return Training(**{**parts, **other})


class Extra:
    def __init__(self) -> None:
        self.more = random.Random(0)

    def state_dict(self) -> dict[str, Any]:
        return {"value": 3}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def layers(inputs: int = 4, norm: Callable[[int], nn.Module] = nn.BatchNorm1d) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 3), norm(3))


def ours(length: int, seed: int = 0) -> samebits.data.DataLoader:
    return samebits.data.DataLoader(list(range(length)), batch_size=2, seed=seed)


MODEL = layers()
WEIGHTS = list(MODEL.parameters())
# What is given instead of the usual part, or beside it, and what is said of that.
UNFIT: list[tuple[str, Any, str]] = [
    ("scaler", torch.amp.GradScaler("cpu"), r"parts do not fit .* lacks scaler, which is here"),
    ("counter", None, r"parts do not fit the state: the state has counter, which is not here"),
    (
        "model",
        layers(norm=nn.LayerNorm),
        r"model does not fit .* has 1\.num_batches_tracked, 1\.running_mean, 1\.running_var, which is not here",
    ),
    ("model", layers(5), r"0\.weight was float32 of shape \(3, 4\), is float32 of shape \(3, 5\)"),
    ("model", layers().double(), r"0\.weight was float32 of shape \(3, 4\), is float64"),
    ("optimizer", torch.optim.SGD(WEIGHTS, lr=0.1), r"does not fit its state: it was saved as AdamW, here is SGD"),
    ("optimizer", torch.optim.AdamW(WEIGHTS[:2]), r"its groups had \[4\] parameters, here they have \[2\]"),
    (
        "optimizer",
        torch.optim.AdamW([*WEIGHTS[:3], nn.Parameter(torch.ones(3))]),
        r"optimizer .* has model\.1\.bias in group 0, which is not here; .* lacks another parameter in group 0",
    ),
    (
        "scheduler",
        torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD(WEIGHTS)),
        r"scheduler does not fit its state: the state has .*gamma",
    ),
    ("loader", ours(11), r"loader does not take its state: .* to a dataset of 10 samples, this one has 11 samples"),
    ("loader", ours(10, seed=1), r"loader does not take its state: the state was saved with seed=0"),
    ("averaged", {"w": torch.ones(3)}, r"averaged\.w was float32 of shape \(2,\), is"),
    ("averaged", {"v": torch.ones(2)}, r"has averaged\.w, .* lacks averaged\.v"),
    ("rng", np.random.RandomState(0), r"generator rng does not fit .* PCG64 generator, here is a numpy MT"),
    ("rng", None, r"generators do not fit their states: the state has rng, which is not here"),
    ("counter", Extra(), r"the state lacks counter\.more, which is here"),
    ("counter", Loop().scaler, r"counter does not fit"),
]


@pytest.mark.parametrize(("name", "part", "words"), UNFIT)
def test_what_does_not_fit_is_refused_by_name_and_nothing_is_changed(name: str, part: Any, words: str) -> None:
    """Missing, surplus, of another shape, dtype or class: said, and not a bit moves."""
    state = through_a_file(make().state_dict())
    live = make(**{name: part}, **({"model": MODEL} if name == "optimizer" else {}))
    random.random()

    assert assert_refused(live, state, words).hint
    assert {SamebitsError, ValueError} < {*StateError.__mro__}


@pytest.mark.parametrize(
    "other", [{}, {"lr": 0.5}, {"steps": False}, {"counter": Counter(7)}], ids=["the same", "lr", "steps", "counter"]
)
def test_what_fits_is_taken(other: dict[str, Any]) -> None:
    """The nearest legal ones: another rate, an optimizer that has not begun, another count."""
    live = make(**other)
    state = load(make(), live)

    assert digest_of(live.state_dict()) == digest_of(state)


# What is changed in a state, and what is said of that.
MISFORMED: list[tuple[Callable[[Any], object], str]] = [
    (lambda state: state["parts"]["model"]["state"].pop("0.bias"), r"model was not loaded whole: .* 0\.bias"),
    (
        lambda state: state["parts"]["optimizer"]["state"]["state"]["<int keys>"]["0"].pop("exp_avg"),
        r"optimizer was not loaded whole: the state has state\.<int keys>\.0\.exp_avg, which was not loaded",
    ),
    (lambda state: generators_of(state)["state"].pop("numpy"), r"generators was not loaded whole: .* has numpy"),
    (lambda state: state["parts"].pop("optimizer"), r"lacks optimizer, which is here"),
    (lambda state: state["ranks"].update({"1": state["ranks"].pop("0")}), r"is of rank 1, this is rank 0"),
    (lambda state: state.update(world_size=2), r"the state was saved with world_size=2, here it is 1"),
    (lambda state: state.update(version=3), r"has version 3, this samebits reads up to 2"),
    (lambda state: state.clear(), r"this is not a training state: 'version' is None"),
    (
        lambda state: [
            generators_of(state)["state"].update({"torch cuda:7": {"kind": "torch", "state": torch.zeros(16)}}),
            generators_of(state)["contents"].append("torch cuda:7"),
        ],
        r"the state has torch cuda:7, which is not here",
    ),
    (
        lambda state: generators_of(state)["state"]["torch"].update(state=torch.zeros(5, dtype=torch.uint8)),
        r"the generator torch does not fit its state: the state has \[5\] bytes",
    ),
]


def generators_of(state: Any) -> Any:
    return state["ranks"]["0"]["generators"]


@pytest.mark.parametrize(("change", "words"), MISFORMED)
def test_a_state_that_lost_something_is_refused(change: Callable[[Any], object], words: str) -> None:
    """Whatever a reader or a script dropped is named, and nothing is changed."""
    state = copy.deepcopy(make().state_dict())
    change(state)

    assert_refused(make(), state, words)


def test_a_part_that_fails_while_it_is_restored_takes_nothing_with_it() -> None:
    """What was restored before it is brought back."""

    class Failing(Counter):
        def load_state_dict(self, state: dict[str, Any]) -> None:
            if state["value"] == 8:
                self.value = -1
                raise RuntimeError("it is full")
            super().load_state_dict(state)

    state = copy.deepcopy(make(counter=Counter(4), other=Counter(8)).state_dict())
    live = make(counter=Counter(5), other=Failing(5))

    assert_refused(live, state, r"other does not fit its state: RuntimeError: it is full")


def test_a_part_of_torch_that_fails_takes_nothing_with_it() -> None:
    """An optimizer that fails when others are loaded: their moments are brought back, and weights not reached yet."""

    class Failing(torch.optim.Adam):
        def load_state_dict(self, state: Any) -> None:
            super().load_state_dict(state)
            raise ValueError("it is full")

    def begun(seed: int) -> Training:
        torch.manual_seed(seed)
        model, second = nn.Linear(2, 2), nn.Linear(2, 2)
        optimizer = [torch.optim.Adam(model.parameters()), Failing(second.parameters())]
        second(model(torch.ones(1, 2))).sum().backward()
        for one in optimizer:
            one.step()
        return Training(model=model, optimizer=optimizer, averaged=[torch.rand(2)], second=second)

    state = begun(0).state_dict()

    assert_refused(begun(1), state, r"optimizer\[1\] does not fit its state: ValueError: it is full")


def test_a_part_that_is_to_begin_anew_is_taken_out_by_name() -> None:
    """With its mode, moments, gradients and generators; what is left fits a training that lacks it, and no other."""
    loop = Loop().run(2)
    loop.micro_step()
    state = through_a_file(loop.training.state_dict())
    parts = {name: getattr(loop, name) for name in ("model", "optimizer", "scheduler", "scaler")}
    expected = digest_of({**Training(**parts).state_dict(), "steps_done": 2})
    left = samebits.state.without(state, "averaged", "loader")
    parts["scaler"].load_state_dict({**parts["scaler"].state_dict(), "scale": 1.0})
    random.random()
    live = Training(**parts)
    live.load_state_dict(left)

    assert digest_of(live.state_dict()) == expected
    assert "averaged" in state["parts"]
    with pytest.raises(StateError, match=r"lacks averaged"):
        loop.training.load_state_dict(left)
    with pytest.raises(UsageError, match=r"the state has no part 'avg'"):
        samebits.state.without(state, "avg")


def test_what_has_no_state_is_refused() -> None:
    """At once, by name and type; what has generators only is taken."""
    with pytest.raises(UsageError, match=r"loader\[1\] is a builtins\.list_iterator, which has no state_dict"):
        Training(loader=[Counter(), iter([])])
    assert Training(loader=[Counter(), Noisy()]).parts.keys() == {"loader[0]"}


# ---- what looking does not do


def test_a_state_can_be_loaded_twice() -> None:
    """Training on does not write into the state that was loaded."""
    state = through_a_file(Loop().run(2).training.state_dict())
    before = digest_of(state)
    loop = Loop(seed=3)
    loop.training.load_state_dict(state)
    first = loop.run(2).digest()
    loop.batches = None
    loop.training.load_state_dict(state)

    assert digest_of(state) == before
    assert loop.run(2).digest() == first


def test_a_generator_that_appears_late_is_kept() -> None:
    """Whatever the parts hold when the state is taken counts, not what they held when the training was made."""
    dataset, model = Noisy(), nn.Linear(2, 2)
    dataset.files = [f"{number}.jpg" for number in range(2000)]  # type: ignore[attr-defined]
    training = Training(dataset=dataset, model=model)
    training.state_dict()
    dataset.files[1000] = random.Random(2)  # type: ignore[attr-defined]
    dataset.rng = np.random.default_rng(8)
    dataset.late = random.Random(1)  # type: ignore[attr-defined]
    model.noise = torch.Generator().manual_seed(4)
    state = training.state_dict()["ranks"]["0"]["generators"]["state"]
    expected = pack(dataset.rng.bit_generator.state)

    assert {"dataset.late", "dataset.files[1000]", "model.noise", "dataset.rng"} <= state.keys()
    assert digest_of(state["dataset.rng"]["state"]) == digest_of(expected)


def test_what_a_loader_of_ours_keys_may_come_late() -> None:
    """A dataset makes its generator with the first sample; it starts from each sample's key, so no state is missed."""

    class Late(Noisy):
        def __getitem__(self, index: int) -> Any:
            if not hasattr(self, "made"):
                self.made = np.random.default_rng(0)
            return self.made.random()

    def make() -> tuple[Any, Training]:
        loader = samebits.data.DataLoader(Late(), batch_size=5, seed=0)
        return loader, Training(loader=loader)

    loader, saved = make()
    iterator = iter(loader)
    next(iterator)
    resumed, live = make()
    state = load(saved, live)

    assert "loader.dataset.made" in state["ranks"]["0"]["generators"]["state"]
    assert same(list(resumed), list(iterator))
