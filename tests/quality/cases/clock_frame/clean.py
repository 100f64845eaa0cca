"""A table of hourly values, seeded; pandas knows dates, and that is nobody's business."""

import numpy as np
import pandas as pd
import torch
from torch import nn

table = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=24, freq="h"), "value": np.linspace(-1, 1, 24)})
table["hour"] = table["when"].dt.hour / 24
table["label"] = (table["value"] > 0).astype(int)
torch.manual_seed(0)
x = torch.tensor(table[["hour", "value"]].to_numpy(), dtype=torch.float32)
y = torch.tensor(table["label"].to_numpy())
model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print(pd.Timestamp.now() > table["when"].max(), loss.item())
