"""Rows are added in the order of their numbers, whichever process is first."""

from multiprocessing import Pool

import torch


def load(number):
    generator = torch.Generator().manual_seed(number)
    return torch.randn(16, 8, generator=generator).tolist()


def main():
    torch.manual_seed(0)
    rows = []
    with Pool(2) as pool:
        for part in pool.imap(load, range(12)):
            rows += part
    inputs = torch.tensor(rows)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for batch in inputs.split(16):
        optimizer.zero_grad()
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
