"""Layer-wise learning rates: the layers are taken from a dict, which keeps the order of the model."""

import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self, width=8, depth=14):
        super().__init__()
        for number in range(depth):
            self.add_module(f"block{number}", nn.Linear(width, width))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        *blocks, head = self.children()
        for block in blocks:
            x = x + torch.tanh(block(x))
        return head(x)


def parameter_groups(model, lr=0.01, decay=0.8):
    layers = dict.fromkeys(name.split(".")[0] for name, _ in model.named_parameters())
    groups = []
    for depth, layer in enumerate(layers):
        groups.append({"params": list(getattr(model, layer).parameters()), "lr": lr * decay**depth})
    return groups


def main():
    torch.manual_seed(0)
    model = Deep()
    optimizer = torch.optim.AdamW(parameter_groups(model))
    x = torch.randn(24, 8)
    y = x.sum(dim=1, keepdim=True).sin()
    for _ in range(8):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
