"""What is asked of the stand-in, from inside a process that has it: `python -m tests.standin.probes NAME ...`."""

import copy
import io
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

TIMES = 20
Probe = Callable[[str], None]
PROBES: dict[str, Probe] = {}


def probe(function: Probe) -> Probe:
    PROBES[function.__name__] = function
    return function


def bits(x: Tensor) -> bytes:
    return bytes(x.detach().cpu().reshape(-1).view(torch.uint8).numpy())


def same(a: Tensor, b: Tensor) -> bool:
    """Bit by bit."""
    return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)


def distinct(make: Callable[[], Tensor]) -> int:
    """How many different results there are in so many calls."""
    return len({bits(make()) for _ in range(TIMES)})


def module(device: str) -> Any:
    return torch.get_device_module(device)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


INDEX = torch.arange(60) * 7 % 5
# Of a square matrix, a tensor of four dimensions, and the device of both.
COMPUTED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "add": lambda x, y: x + 2 * x.T - x[0],
    "add_": lambda x, y: x.clone().add_(1).mul_(x),
    "scalars": lambda x, y: torch.tensor(0.1, device=x.device) * 0.3 + x.sum() * 3,
    "int and float": lambda x, y: (x > 0) * x.long() / 3,
    "matmul": lambda x, y: (x @ x, x.T @ x, torch.addmm(x, x, x), torch.bmm(y[0], y[0].mT)),
    "views": lambda x, y: (x.view(-1)[3:9].clone(), x.unfold(0, 3, 2) + 0, y.permute(0, 3, 1, 2).reshape(2, -1)),
    "reductions": lambda x, y: (x.sum(), x.mean(0), x.var(1), x.max(dim=0).values, x.argmin(1), x.norm(), x.prod(0)),
    "sorting": lambda x, y: (x.sort(dim=1).values, x.topk(3).indices, x.kthvalue(2).values, x.median()),
    "sizes by bits": lambda x, y: (x[x > 0], x.nonzero(), torch.unique(x.long()), torch.bincount(x[0].long().abs())),
    "factories": lambda x, y: (
        torch.arange(7, device=x.device),
        torch.eye(3, device=x.device),
        torch.linspace(0, 1, 9, device=x.device),
        torch.full((2, 3), 5, device=x.device),
        torch.tril_indices(3, 3, device=x.device),
    ),
    "indices": lambda x, y: (
        x[INDEX[:5].to(x.device)],
        x[INDEX[:5]],
        x.gather(0, INDEX.view(6, 10)[:, :8].to(x.device)),
    ),
    "writing": lambda x, y: (
        x.clone().index_add_(0, INDEX[:8].to(x.device), x),
        torch.zeros(5, 8, device=x.device).scatter_add(0, INDEX[:56].view(7, 8).to(x.device), x[:7]),
        x.clone().index_put_((INDEX[:8].to(x.device),), x, accumulate=True),
        x.clone().masked_fill_(x > 0, 1),
    ),
    "joining": lambda x, y: (
        torch.cat([x, x.double()]),
        torch.stack([x, x], 1),
        *x.split(3),
        torch.where(x > 0, x, 0.5),
    ),
    "dtypes": lambda x, y: (x.half() * 3, x.bfloat16().sum(), x.double().exp(), x.to(torch.int8), x.bool()),
    "complex": lambda x, y: (torch.view_as_real(torch.fft.fft(x)), torch.view_as_real(_conjugated(x))),
    "linear algebra": lambda x, y: (torch.linalg.inv(x), torch.linalg.svdvals(x), torch.linalg.solve(x, x[0])),
    "cumulative": lambda x, y: (x.cumsum(0), x.cumprod(1), x.logcumsumexp(0)),
    "convolution": lambda x, y: functional.conv2d(y, y[:, :, :2, :2], x[0, :2]),
    "pooling": lambda x, y: (
        functional.max_pool2d(y, 2),
        functional.adaptive_avg_pool2d(y, 3),
        functional.interpolate(y, scale_factor=2),
    ),
    "norms": lambda x, y: (
        functional.layer_norm(x, (8,)),
        functional.batch_norm(y, None, None, training=True),
        functional.batch_norm(y, x[0, :2].clone(), x[1, :2].exp(), training=False),
        functional.group_norm(y, 1),
    ),
    "losses": lambda x, y: (
        functional.cross_entropy(x, INDEX[:8].to(x.device)),
        functional.huber_loss(x, x.T),
        functional.mse_loss(x, x.T),
        functional.smooth_l1_loss(x, x.T, reduction="sum"),
        x.log_softmax(0),
    ),
    "attention": lambda x, y: _attention(y),
    "out": lambda x, y: (torch.add(x, x, out=torch.empty_like(x)), torch.mm(x, x, out=torch.empty(0, device=x.device))),
    "foreach": lambda x, y: torch._foreach_mul([x, y], 3),
    "to the host": lambda x, y: (
        torch.tensor(x.sum().item()),
        torch.tensor(x.tolist()),
        torch.tensor(bool((x == x).all())),
    ),
}


def _conjugated(x: Tensor) -> Tensor:
    return (torch.complex(x, x).conj() @ torch.complex(x, -x)).resolve_conj()


def _attention(x: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return functional.scaled_dot_product_attention(x, x, x, is_causal=True)


@probe
def computes(device: str) -> None:
    """What the CPU computes, bit by bit."""
    torch.set_num_threads(1)
    x, y = normal(8, 8), normal(2, 2, 8, 8, seed=1)
    for name, make in COMPUTED.items():
        expected, found = make(x, y), make(x.to(device), y.to(device))
        expected, found = [one if isinstance(one, (tuple, list)) else [one] for one in (expected, found)]
        assert len(expected) == len(found), name
        for position, (a, b) in enumerate(zip(expected, found, strict=True)):
            assert same(a, b), (name, position, a, b)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 16),
        nn.LayerNorm(16),
        nn.GELU(),
        nn.Unflatten(1, (2, 8)),
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


def trained(device: str, optimizer: Callable[..., Any]) -> list[Tensor]:
    """The parameters of a network, its losses and the table of an embedding after some steps."""
    net, table = network().to(device), nn.Embedding.from_pretrained(normal(5, 3, seed=2), freeze=False).to(device)
    each = optimizer([*net.parameters(), *table.parameters()])
    schedule = torch.optim.lr_scheduler.StepLR(each, 2)
    losses = []
    for step in range(5):
        each.zero_grad()
        x = normal(6, 2, 8, 8, seed=step).to(device)
        with sdpa_kernel(SDPBackend.MATH):
            loss = functional.cross_entropy(net(x) * table(INDEX[:6].to(device)), INDEX[:6].to(device) % 3)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        each.step()
        schedule.step()
        losses.append(loss.detach())
    return [*net.state_dict().values(), table.weight, *losses]


@probe
def trains(device: str) -> None:
    """Forward, backward in the device's own thread, and optimizers."""
    torch.set_num_threads(1)
    for optimizer in (
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=False),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.01, fused=True),
    ):
        expected, found = trained("cpu", optimizer), trained(device, optimizer)
        assert [same(a, b) for a, b in zip(expected, found, strict=True)] == [True] * len(expected)


@probe
def draws(device: str) -> None:
    """Seeds wait until the device is used; states come back; each device and each generator has its own."""
    own = module(device)
    assert not own.is_initialized()
    torch.manual_seed(3)
    first = torch.randn(4, device=device)
    assert own.is_initialized()
    own.manual_seed_all(3)
    assert same(torch.randn(4, device=device), first)
    host = torch.get_rng_state()
    before = own.get_rng_state()
    dropped = functional.dropout(torch.ones(64, device=device), 0.5)
    assert {0.0, 2.0} == set(dropped.tolist())
    assert before.numel() == 16
    assert not torch.equal(before, own.get_rng_state())
    assert torch.equal(host, torch.get_rng_state())
    own.set_rng_state(before)
    assert same(functional.dropout(torch.ones(64, device=device), 0.5), dropped)
    other = own.get_rng_state(1)
    torch.rand(3, device=f"{device}:1")
    assert not torch.equal(other, own.get_rng_state(1))
    assert [own.initial_seed(), len(own.get_rng_state_all())] == [3, 2]
    given = torch.Generator(device).manual_seed(5)
    drawn = torch.randperm(30, device=device, generator=given)
    assert same(drawn, torch.randperm(30, device=device, generator=given.manual_seed(5)))
    with torch.random.fork_rng([0], device_type=device):
        torch.rand(3, device=device)


@probe
def holds(device: str) -> None:
    """Devices, storages, pinned memory, copies and files."""
    own = module(device)
    x = torch.arange(6.0, device=f"{device}:1")
    assert [own.device_count(), x.device.index, own.get_device_name(0)] == [2, 1, "Stand-in"]
    assert same(x.to(f"{device}:0"), x)
    with own.device(1):
        assert torch.empty(1, device=device).device.index == own.current_device() == 1
    assert own.current_device() == 0
    with pytest.raises(RuntimeError, match="same device"):
        x + torch.ones(6, device=f"{device}:0")
    before = own.memory_allocated(0)
    y = torch.zeros(1 << 20, device=device)
    assert own.memory_allocated(0) - before == 4 << 20 <= own.max_memory_allocated(0) <= own.memory_reserved(0)
    assert same(copy.deepcopy(x), x)
    storage = y.untyped_storage()
    storage.resize_(0)
    assert [storage.nbytes(), own.memory_allocated(0)] == [0, before]
    storage.resize_(4 << 20)
    y.fill_(1)
    assert y.sum().item() == 1 << 20
    assert not x.is_pinned()
    assert (pinned := torch.ones(5).pin_memory()).is_pinned()
    assert same(pinned.to(device, non_blocking=True) * 2, torch.full((5,), 2.0))
    file = io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    assert same(torch.load(file, map_location=f"{device}:0")["x"], x)
    file.seek(0)
    assert torch.load(file)["x"].device == x.device


@probe
def mixes_precision(device: str) -> None:
    """Autocast multiplies in half the width, and sums in the whole; the scaler scales, skips and steps."""
    layer, x = nn.Linear(4, 4, device=device), torch.ones(2, 4, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
        assert layer(x).softmax(1).dtype == torch.float32
    assert layer(x).dtype == torch.float32
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=4.0)
    for factor, moves in ((1.0, True), (float("inf"), False)):
        before = layer.weight.detach().clone()
        optimizer.zero_grad()
        scaler.scale(layer(x).sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        assert same(before, layer.weight) != moves
    assert scaler.get_scale() == 2.0


RACES: dict[str, Callable[[str], Tensor]] = {
    "index_add": lambda d: torch.zeros(5, 3, device=d).index_add(0, INDEX.to(d), normal(60, 3).to(d)),
    "index_add_": lambda d: torch.zeros(5, 3, device=d).index_add_(0, INDEX.to(d), normal(60, 3).to(d)),
    "scatter_add": lambda d: torch.zeros(5, device=d).scatter_add(0, INDEX.to(d), normal(60).to(d)),
    **{
        f"scatter_reduce {how}": lambda d, how=how: torch.ones(5, device=d).scatter_reduce(
            0, INDEX.to(d), normal(60).to(d), how
        )
        for how in ("sum", "mean")
    },
    "index_put": lambda d: torch.zeros(5, 3, device=d).index_put_((INDEX.to(d),), normal(60, 3).to(d), accumulate=True),
    "embedding": lambda d: _gradient(lambda table: functional.embedding(INDEX.to(d), table), normal(5, 3).to(d)),
    "indexing": lambda d: _gradient(lambda x: x[INDEX.to(d)], normal(5, 3).to(d)),
    "cumsum": lambda d: normal(200).to(d).cumsum(0),
    "convolution": lambda d: _gradient(
        lambda w: functional.conv2d(normal(4, 3, 9, 9).to(d), w), normal(2, 3, 3, 3).to(d)
    ),
}
REFUSING: dict[str, Callable[[str], Tensor]] = {
    "bincount": lambda d: torch.bincount(INDEX.to(d), normal(60).to(d)),
    "pooling": lambda d: _gradient(lambda x: functional.adaptive_avg_pool2d(x, (3, 4)), normal(1, 3, 17, 17).to(d)),
}


def _gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    x.requires_grad_()
    y = function(x)
    (gradient,) = torch.autograd.grad(y, x, normal(*y.shape, seed=9).to(x.device))
    return gradient


@probe
def races(device: str) -> None:
    """Every sum by atomics differs among calls, and none under deterministic algorithms; the others are refused."""
    for name, make in (RACES | REFUSING).items():
        assert distinct(lambda make=make: make(device)) > 1, name
        assert torch.equal(make(device).cpu().mul(16).round(), make("cpu").mul(16).round()), name
    torch.use_deterministic_algorithms(True)
    for name, make in RACES.items():
        assert distinct(lambda make=make: make(device)) == 1, name
    refuses(device)


@probe
def refuses(device: str) -> None:
    """What has no deterministic kernel, also where nothing races; a warning is enough where that is asked for."""
    torch.use_deterministic_algorithms(True)
    for make in REFUSING.values():
        with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
            make(device)
    torch.use_deterministic_algorithms(True, warn_only=True)
    for make in REFUSING.values():
        make(device)


def products(device: str) -> list[Tensor]:
    """Of matrices of many shapes."""
    return [normal(size, 40).to(device) @ normal(40, size).to(device) for size in range(9, 9 + TIMES)]


@probe
def benchmarks(device: str) -> None:
    """One of two algorithms for every shape, the same one for the whole process; none without cudnn.benchmark."""
    usual = products(device)
    assert all(map(same, usual, products("cpu")))
    torch.backends.cudnn.benchmark = True
    first, again = products(device), products(device)
    assert all(map(same, first, again))
    assert not any(map(same, first, usual))
    torch.backends.cudnn.benchmark = False
    assert all(map(same, products(device), usual))
    print(" ".join(str(one.sum(dtype=torch.float64).item()) for one in first))


@probe
def multiplies_alike(device: str) -> None:
    assert all(distinct(lambda: normal(9, 40).to(device) @ normal(40, 9).to(device)) == 1 for _ in range(3))


@probe
def multiplies_otherwise(device: str) -> None:
    assert distinct(lambda: normal(9, 40).to(device) @ normal(40, 9).to(device)) > 1


@probe
def leaves_rubbish(device: str) -> None:
    """Fresh memory is not zero, and used memory holds what it held; deterministic algorithms fill both."""
    for size in range(1, TIMES + 1):
        assert torch.empty(size * 1000, dtype=torch.int64, device=device).count_nonzero().item() > 0
    for number in range(TIMES):
        torch.full((77777,), number, device=device)
        assert torch.empty(77777, dtype=torch.int64, device=device).unique().tolist() == [number]
    torch.use_deterministic_algorithms(True)
    assert all(torch.empty(size, device=device).isnan().all().item() for size in range(1, TIMES + 1))
    torch.use_deterministic_algorithms(False)


@probe
def is_clean(device: str) -> None:
    """Without the fault, fresh memory is zero."""
    assert not torch.empty(100_000, device=device).count_nonzero().item()


@probe
def is_late(device: str) -> None:
    """Another stream, and a pinned tensor, see what was there before, unless they wait."""
    own = module(device)
    x, target = torch.zeros(10, device=device), torch.zeros(10).pin_memory()
    own.synchronize()

    def fill(number: int) -> None:
        for _ in range(8):
            x.mul_(1)
        x.fill_(number)

    for number in range(1, 6):
        side = own.Stream()
        fill(number)
        with own.stream(side):
            early = x.clone()
        side.synchronize()
        assert early.tolist() == [number - 1] * 10
        own.synchronize()
        fill(-number)
        side.wait_stream(own.current_stream())
        with own.stream(side):
            y = x.clone()
        own.current_stream().wait_event(side.record_event())
        assert y.tolist() == [-number] * 10
        fill(number)
        target.copy_(x, non_blocking=True)
        before = target.tolist()
        own.synchronize()
        assert [before, target.tolist()] == [[number - 1] * 10, [number] * 10]
    start, end = (own.Event(enable_timing=True) for _ in range(2))
    start.record()
    x.add_(1)
    end.record()
    assert not end.query()
    end.synchronize()
    assert start.elapsed_time(end) > 0


@probe
def breaks(device: str) -> None:
    """An index out of range is told later, and again and again."""
    table, index = torch.ones(3, device=device), torch.tensor([7], device=device)
    table.index_select(0, index)
    for act in (module(device).synchronize, lambda: table.sum().item(), lambda: table + 1):
        with pytest.raises(RuntimeError, match="device-side assert triggered"):
            act()


@probe
def runs_out(device: str) -> None:
    """Of memory, and goes on when there is some again."""
    x = torch.ones(60_000, device=device)
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        torch.ones(60_000, device=device)
    del x
    module(device).empty_cache()
    assert torch.ones(90_000, device=device).sum().item() == 90_000


def main(probes: Mapping[str, Callable[[str], None]]) -> None:
    """Run the probes that are named on the command line, on the device that is there."""
    accelerator = torch.accelerator.current_accelerator()
    assert accelerator is not None
    for name in sys.argv[1:]:
        probes[name](accelerator.type)


if __name__ == "__main__":
    main(PROBES)
