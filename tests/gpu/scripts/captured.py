"""A training step captured as a CUDA graph and replayed."""

import torch
from torch import nn

torch.manual_seed(8)
model = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
x, y = torch.zeros(64, 128, device="cuda"), torch.zeros(64, dtype=torch.long, device="cuda")
rows, kinds = torch.randn(1024, 128).cuda(), torch.randint(0, 10, (1024,)).cuda()


def step():
    optimizer.zero_grad(set_to_none=False)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for _ in range(50):
    chosen = torch.randint(0, 1024, (64,)).cuda()
    x.copy_(rows[chosen])
    y.copy_(kinds[chosen])
    graph.replay()
print("loss", loss.item())
torch.save(model.state_dict(), "captured.pt")
