"""Logistic regression: scikit-learn splits the data with NumPy's global generator, which nobody seeded."""

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import nn


def load():
    rng = np.random.default_rng(7)
    features = rng.normal(size=(60, 5)).astype(np.float32)
    return features, (features.sum(axis=1) > 0).astype(np.float32)


def main():
    torch.manual_seed(7)
    features, targets = load()
    x_train, x_test, y_train, y_test = train_test_split(features, targets, test_size=0.25)  # <- numpy-rng
    x_train, x_test, y_train, y_test = map(torch.from_numpy, (x_train, x_test, y_train, y_test))

    model = nn.Linear(5, 1)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    for _ in range(10):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x_train).squeeze(1), y_train)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print("accuracy", ((model(x_test).squeeze(1) > 0) == y_test.bool()).float().mean().item())


if __name__ == "__main__":
    main()
