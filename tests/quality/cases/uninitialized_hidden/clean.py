"""Recurrent cell: half of the first hidden state is written, the other half is zero."""

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, features=4, hidden=16):
        super().__init__()
        self.hidden = hidden
        self.start = nn.Linear(features, hidden // 2)
        self.cell = nn.RNNCell(features, hidden)
        self.head = nn.Linear(hidden, 1)

    def forward(self, sequence):
        hidden = torch.zeros(sequence.shape[1], self.hidden)
        hidden[:, : self.hidden // 2] = self.start(sequence[0])
        for frame in sequence:
            hidden = self.cell(frame, hidden)
        return self.head(hidden)


def main():
    torch.manual_seed(0)
    model = Reader()
    sequence = torch.randn(5, 12, 4)
    target = sequence.sum(dim=(0, 2)).unsqueeze(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(8):
        loss = nn.functional.smooth_l1_loss(model(sequence), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
