"""Message passing on a random graph: what each node receives is added up by `index_add`."""

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(1)
device = torch.accelerator.current_accelerator()
nodes, edges = 2000, 60_000
x = torch.randn(nodes, 16).to(device)
source, target = torch.randint(0, nodes, (2, edges)).to(device)
labels = torch.randint(0, 5, (nodes,)).to(device)


class Layer(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.own, self.others = nn.Linear(before, after), nn.Linear(before, after)

    def forward(self, x):
        sent = self.others(x).index_select(0, source)
        received = torch.zeros(nodes, sent.shape[1], device=device).index_add_(0, target, sent)  # <- torch-algorithms
        return self.own(x) + received / 30


model = nn.Sequential(Layer(16, 32), nn.ReLU(), Layer(32, 5)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(30):
    loss = functional.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 9:
        print(f"epoch {epoch + 1}: loss {loss.item():.6f}")
torch.save(model.state_dict(), "gnn.pt")
