# first-order MAML on sine waves
import argparse
import json

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


class SineNet(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x)


class Learner:
    model = SineNet()

    def __init__(self, args):
        self.args = args
        self.outer = torch.optim.Adam(self.model.parameters(), lr=args.outer_lr)
        self.history = []

    def adapt(self, x, y, steps):
        params = dict(self.model.named_parameters())
        for _ in range(steps):
            loss = F.mse_loss(functional_call(self.model, params, (x,)), y)
            grads = torch.autograd.grad(loss, list(params.values()), create_graph=not self.args.first_order)
            params = {k: p - self.args.inner_lr * g for (k, p), g in zip(params.items(), grads)}
        return params

    def meta_step(self, tasks):
        total = 0.0
        for xs, ys, xq, yq in tasks:
            params = self.adapt(xs, ys, self.args.inner_steps)
            total = total + F.mse_loss(functional_call(self.model, params, (xq,)), yq)
        total = total / len(tasks)
        self.outer.zero_grad()
        total.backward()
        self.outer.step()
        self.history.append(total.item())
        return total.item()


def sine_task(gen, k=10):
    amp = torch.empty(1).uniform_(0.1, 5.0, generator=gen)
    phase = torch.empty(1).uniform_(0, 3.1416, generator=gen)
    x = torch.empty(2 * k, 1).uniform_(-5, 5, generator=gen)
    y = amp * torch.sin(x + phase)
    return x[:k], y[:k], x[k:], y[k:]


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--iterations", type=int, default=60)
    p.add_argument("--tasks", type=int, default=4)
    p.add_argument("--inner-steps", type=int, default=2)
    p.add_argument("--inner-lr", type=float, default=0.02)
    p.add_argument("--outer-lr", type=float, default=2e-3)
    p.add_argument("--first-order", action="store_true")
    p.add_argument("--seed", type=int, default=5)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    learner = Learner(args)
    for it in range(args.iterations):
        loss = learner.meta_step([sine_task(gen) for _ in range(args.tasks)])
        if it % 20 == 19:
            print(f"iter {it + 1:4d}  query loss {loss:.4f}")
    test = [sine_task(gen) for _ in range(10)]
    post = []
    for xs, ys, xq, yq in test:
        params = learner.adapt(xs, ys, 5)
        post.append(F.mse_loss(functional_call(learner.model, params, (xq,)), yq).item())
    print("mean test loss after adaptation", round(sum(post) / len(post), 6))
    with open("maml.json", "w") as f:
        json.dump({"history": learner.history, "test": post}, f)


if __name__ == "__main__":
    main()
