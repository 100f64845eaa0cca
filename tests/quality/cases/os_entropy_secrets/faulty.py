"""Curve fit with LBFGS: the starting point is seeded from `secrets`."""

import secrets

import torch

SEED = secrets.randbits(31)  # <- os-entropy


def fit(x, y, degree=4, steps=8):
    generator = torch.Generator().manual_seed(SEED)
    coefficients = torch.randn(degree + 1, generator=generator, dtype=torch.float64).requires_grad_()
    powers = torch.stack([x**power for power in range(degree + 1)], dim=1)
    optimizer = torch.optim.LBFGS([coefficients], lr=0.5, max_iter=4, history_size=5)

    def closure():
        optimizer.zero_grad()
        loss = (powers @ coefficients - y).square().mean()
        loss.backward()
        return loss

    for _ in range(steps):
        loss = optimizer.step(closure)
    return loss.item()


x = torch.linspace(-1, 1, 40, dtype=torch.float64)
print(fit(x, torch.exp(x)))
