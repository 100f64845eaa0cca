"""Training styles, each taken by a forked child of its own, so that torch is imported once for all of them.

Run under `samebits run`; the n-th style is the n-th recording.
"""

import atexit
import os

import torch
import torch._dynamo  # what the first optimizer of every child would import
from torch import nn

STEPS = 3


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def data():
    return torch.linspace(-1, 1, 24).reshape(6, 4), torch.tensor([0, 1] * 3)


def loss_of(model):
    x, y = data()
    return nn.functional.cross_entropy(model(x), y)


def train(model, optimizer, steps=STEPS):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


def sgd():
    model = net()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


def foreach_adam():
    model = net()
    train(model, torch.optim.Adam(model.parameters(), foreach=True))


def fused_adamw():
    model = net()
    train(model, torch.optim.AdamW(model.parameters(), fused=True))


class Signs(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.01})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p -= group["lr"] * p.grad.sign()


def custom_optimizer():
    model = net()
    train(model, Signs(model.parameters()))


def gan():
    maker, judge = nn.Linear(2, 4), nn.Linear(4, 1)
    first = torch.optim.SGD(maker.parameters(), lr=0.1)
    second = torch.optim.SGD(judge.parameters(), lr=0.1)
    noise = torch.ones(3, 2)
    for _ in range(STEPS):
        judge(maker(noise).detach()).mean().backward()
        second.step()
        maker.zero_grad()
        (-judge(maker(noise))).mean().backward()
        first.step()
        judge.zero_grad()


def accumulation():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2 * STEPS):
        (loss_of(model) / 2).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()


def autocast():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def lbfgs():
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


def no_optimizer():
    model = net()
    for _ in range(STEPS):
        model.zero_grad()
        loss_of(model).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad


def no_module():
    w = torch.zeros(4, 2, requires_grad=True)
    x, y = data()
    for _ in range(STEPS):
        nn.functional.cross_entropy(x @ w, y).backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad = None


def forward_only():
    model = net().eval()
    x, _ = data()
    with torch.no_grad():
        for scale in range(STEPS):
            model(x * scale)


def loader():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dataset = torch.utils.data.TensorDataset(*data())
    for x, y in torch.utils.data.DataLoader(dataset, batch_size=2, num_workers=1):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def sparse():
    table = nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(list(table.parameters()))
    for _ in range(STEPS):
        optimizer.zero_grad()
        table(torch.tensor([1, 2, 2, 5])).pow(2).sum().backward()
        optimizer.step()


def lazy():
    model = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.ReLU(), nn.Linear(8, 2))
    model(data()[0])
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))


def saved():
    model = net()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    torch.save({"model": model.state_dict(), "when": "2026-07-31 12:00"}, os.devnull)


def checkpointed():
    from torch.utils.checkpoint import checkpoint

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = data()
    for _ in range(STEPS):
        optimizer.zero_grad()
        hidden = checkpoint(model[:2], x, use_reentrant=False)
        nn.functional.cross_entropy(model[2](hidden), y).backward()
        optimizer.step()


STYLES = [
    sgd,
    foreach_adam,
    fused_adamw,
    custom_optimizer,
    gan,
    accumulation,
    autocast,
    lbfgs,
    no_optimizer,
    no_module,
    forward_only,
    loader,
    sparse,
    lazy,
    saved,
    checkpointed,
]

if __name__ == "__main__":
    for style in STYLES:
        child = os.fork()
        if child == 0:
            torch.manual_seed(0)
            style()
            # What is run at the end, without the second that taking a copy of torch apart takes.
            atexit._run_exitfuncs()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert status == 0, f"{style.__name__} failed"
