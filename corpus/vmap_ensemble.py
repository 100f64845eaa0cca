"""Ten little networks trained side by side with torch.func"""
import argparse
import copy
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap


class MLP(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.fc1 = nn.Linear(1, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


def make_data(n=256):
    g = torch.Generator().manual_seed(99)
    x = torch.rand(n, 1, generator=g) * 6 - 3
    return x, torch.sin(2 * x) + 0.1 * torch.randn(n, 1, generator=g)


def build(args):
    models = [MLP(args.hidden) for _ in range(args.members)]
    params, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    return base, {k: v.detach().clone() for k, v in params.items()}, buffers


def train(args, base, params, buffers, x, y):
    torch.manual_seed(args.seed)

    def loss_fn(p, b, xb, yb):
        return ((functional_call(base, (p, b), (xb,)) - yb) ** 2).mean()

    step_fn = vmap(grad_and_value(loss_fn), in_dims=(0, 0, 0, 0))
    velocity = {k: torch.zeros_like(v) for k, v in params.items()}
    for step in range(args.steps):
        idx = torch.randint(0, len(x), (args.members, 64))          # every member has its own bootstrap
        grads, losses = step_fn(params, buffers, x[idx], y[idx])
        for k in params:
            velocity[k] = 0.9 * velocity[k] + grads[k]
            params[k] = params[k] - args.lr * velocity[k]
        if (step + 1) % 100 == 0:
            print(f"  {step + 1:>4}/{args.steps}", " ".join(f"{l:.3f}" for l in losses))
    return params


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--members", type=int, default=10)
    p.add_argument("--hidden", type=int, default=32)
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    x, y = make_data()
    base, params, buffers = build(args)
    params = train(args, base, params, buffers, x, y)
    grid = torch.linspace(-4, 4, 81)[:, None]
    preds = vmap(lambda p, b: functional_call(base, (p, b), (grid,)))(params, buffers)
    mean, std = preds.mean(0), preds.std(0)
    torch.save({"mean": mean, "std": std, "params": params}, "ensemble.pt")
    print(f"spread inside {std[20:61].mean():.6f}, outside {std[:10].mean():.6f}")


if __name__ == "__main__":
    main()
