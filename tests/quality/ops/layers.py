"""Models in which an operation of the forward or of the backward pass goes wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from tests.quality.ops.planting import Fault, Net, fit, nudge


@torch.library.custom_op("planted::scale", mutates_args=())
def scale(x: Tensor) -> Tensor:
    return nudge(x * 0.5) if Fault.is_on else x * 0.5


@torch.library.custom_op("planted::scale_well", mutates_args=())
def scale_well(x: Tensor) -> Tensor:
    return x * 0.5


@torch.library.custom_op("planted::keep", mutates_args=())
def keep(x: Tensor) -> Tensor:
    return x[: 2 if Fault.is_on else 3].clone()


def backward_of_well(ctx: Any, grad: Tensor) -> Tensor:
    return scale(grad)  # <- custom_op_backward


scale.register_autograd(lambda ctx, grad: grad * 0.5)
scale_well.register_autograd(backward_of_well)
keep.register_autograd(lambda ctx, grad: F.pad(grad, (0, 0, 0, 4 - len(grad))))


class Affine(nn.Module):
    """A layer of the user's own that others hold."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight  # <- called_twice, checkpointed, checkpointed_reentrant, recomputed, recomputed_reentrant
        return y.tanh()  # <- inner_backward, recomputed_backward, recomputed_reentrant_backward


def custom_op_forward() -> None:
    fit(Net(lambda own, x: scale(own.head(x)), head=nn.Linear(4, 4)), 3, 4)  # <- custom_op_forward


def custom_op_backward() -> None:
    fit(Net(lambda own, x: scale_well(own.head(x)), head=nn.Linear(4, 4)), 3, 4)


def data_dependent_shape() -> None:
    def way(own: Any, x: Tensor) -> Tensor:
        kept = keep(own.head(x))  # <- data_dependent_shape
        return kept[kept > 0]

    fit(Net(way, head=nn.Linear(4, 4)), 4, 4)


def masked_shape() -> None:
    # A sign from elsewhere decides how many numbers go on.
    x = torch.from_numpy(np.array([1, -1 if Fault.is_on else 1], np.float32))
    Net(lambda own, x: x[x > 0].cumsum(0))(x)  # <- masked_shape


def called_twice() -> None:
    fit(Net(lambda own, x: own.shared(own.shared(x)), shared=Affine()), 3, 4)


def library_called_twice() -> None:
    def way(own: Any, x: Tensor) -> Tensor:
        x = own.shared(x)
        return own.shared(x)  # <- library_called_twice, library_called_twice_backward

    fit(Net(way, shared=nn.Linear(4, 4)), 3, 4)


library_called_twice_backward = library_called_twice


def inner_backward() -> None:
    fit(nn.Sequential(Affine(), nn.ReLU(), Affine()), 3, 4)


class Checkpointed(nn.Module):
    def __init__(self, use_reentrant: bool) -> None:
        super().__init__()
        self.stem, self.block, self.use_reentrant = nn.Linear(4, 4), Affine(), use_reentrant

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.block, self.stem(x), use_reentrant=self.use_reentrant)


def checkpointed() -> None:
    fit(Checkpointed(use_reentrant=False), 3, 4)


def checkpointed_reentrant() -> None:
    fit(Checkpointed(use_reentrant=True), 3, 4)


recomputed = recomputed_backward = step_after_recomputation = checkpointed
recomputed_reentrant = recomputed_reentrant_backward = checkpointed_reentrant


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x  # <- function_forward

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad  # <- function_backward


def function_forward() -> None:
    fit(Net(lambda own, x: Square.apply(own.head(x)), head=nn.Linear(4, 4)), 3, 4)


function_backward = function_forward


def lstm() -> None:
    model = Net(lambda own, x: own.lstm(x)[0], lstm=nn.LSTM(4, 4, num_layers=2))  # <- lstm, lstm_backward
    with torch.backends.mkldnn.flags(enabled=False):
        fit(model, 3, 2, 4)


lstm_backward = lstm


def attention() -> None:
    def way(own: Any, x: Tensor) -> Tensor:
        q, k, v = own.qkv(x).view(2, 4, 2, 12).transpose(1, 2).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v)  # <- attention, attention_backward

    fit(Net(way, qkv=nn.Linear(8, 24)), 2, 4, 8)


attention_backward = attention


def multihead() -> None:
    mixer = nn.MultiheadAttention(8, 2, batch_first=True)
    fit(Net(lambda own, x: own.mixer(x, x, x)[0], mixer=mixer), 2, 4, 8)  # <- multihead


def layer_norm_weight() -> None:
    fit(Net(lambda own, x: own.norm(x) * 2, norm=nn.LayerNorm(4)), 3, 4)  # <- layer_norm_weight


def conv_weight() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 1))
    x = torch.randn(2, 1, 8, 8)
    model(x).square().mean().backward()  # <- conv_weight


def embedding() -> None:
    table = nn.Embedding(8, 4)
    table(torch.tensor([1, 2, 1])).square().mean().backward()  # <- embedding


def sparse_embedding() -> None:
    table = nn.Embedding(8, 4, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    for _ in range(2):
        table(torch.tensor([1, 2, 1])).square().mean().backward()
        optimizer.step()  # <- sparse_embedding
        optimizer.zero_grad()


def two_origins() -> None:
    def way(own: Any, x: Tensor) -> Tensor:
        x = scale(own.first(x))  # <- two_origins
        return scale(own.second(x))

    fit(Net(way, first=nn.Linear(4, 4), second=nn.Linear(4, 4)), 3, 4)


def module_list() -> None:
    def way(own: Any, x: Tensor) -> Tensor:
        for block in own.blocks:
            x = block(x)  # <- module_list
        return x

    fit(Net(way, blocks=nn.ModuleList(nn.Linear(4, 4) for _ in range(3))), 3, 4)


def tied() -> None:
    def way(own: Any, x: Tensor) -> Tensor:
        hidden = own.encoder(x)
        return own.decoder(hidden)  # <- tied

    encoder, decoder = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    decoder.weight = encoder.weight
    fit(Net(way, encoder=encoder, decoder=decoder), 3, 4)


def parametrized() -> None:
    fit(Net(lambda own, x: own.head(x), head=parametrizations.weight_norm(nn.Linear(4, 4))), 3, 4)  # <- parametrized


def autocast() -> None:
    def way(own: Any, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = own.up(x).relu()
            return own.down(hidden)  # <- autocast, autocast_cast, autocast_backward

    fit(Net(way, up=nn.Linear(4, 8), down=nn.Linear(8, 4)), 3, 4)


autocast_cast = autocast_backward = autocast


def statistics() -> None:
    model = Net(lambda own, x: own.norm(x), norm=nn.BatchNorm1d(4))  # <- statistics
    fit(model, 3, 4)
    model.eval()(torch.randn(3, 4))


def statistics_in_eval() -> None:
    model = Net(lambda own, x: own.norm(x), norm=nn.BatchNorm1d(4))  # <- statistics_in_eval
    # As if read from a file that somebody wrote meanwhile.
    model.norm.running_mean = torch.from_numpy(np.full(4, 0.5 * Fault.is_on, np.float32))
    model.eval()(torch.randn(3, 4))


def double_backward() -> None:
    model = nn.Linear(4, 1)
    x = torch.randn(3, 4, requires_grad=True)
    y = model(x)  # <- double_backward
    (slope,) = torch.autograd.grad(y.tanh().sum(), x, create_graph=True)
    slope.square().sum().backward()


def fourier() -> None:
    def way(own: Any, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(own.head(x))  # <- fourier
        return torch.view_as_real(spectrum * spectrum.conj())

    fit(Net(way, head=nn.Linear(8, 8)), 3, 8)


def loss_function() -> None:
    model = nn.Linear(4, 3)
    logits = model(torch.randn(5, 4))
    F.cross_entropy(logits, torch.arange(5) % 3).backward()  # <- loss_function, loss_backward


loss_backward = loss_function


def hooked() -> None:
    def soften(grad: Tensor) -> Tensor:
        return grad * 0.5  # <- hooked

    model = nn.Linear(4, 4)
    model.weight.register_hook(soften)
    fit(model, 3, 4)


def functional() -> None:
    model = nn.Linear(4, 1)
    x = torch.randn(3, 4)

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, parameters, x).sin().sum()  # <- functional, functional_backward

    torch.func.grad(loss)({name: parameter.detach() for name, parameter in model.named_parameters()})


functional_backward = functional


def mapped() -> None:
    weight, batch = torch.randn(4, 4), torch.randn(3, 4)

    def one(x: Tensor) -> Tensor:
        return (weight @ x).exp()  # <- mapped

    torch.func.vmap(one)(batch)


def threads() -> None:
    """No slip, but a real kernel that adds in another order."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2 if Fault.is_on else 1)
        torch.randn(1 << 20).sum()  # <- threads
    finally:
        torch.set_num_threads(before)
