"""Sets of parameters that are asked for membership, counted, and joined: their order reaches nothing."""

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32))
head = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
frozen = set(net[0].parameters()) | set(head[0].parameters())
seen: set[int] = set()
trained = []
for parameter in [*net.parameters(), *head.parameters()]:
    if parameter not in frozen and id(parameter) not in seen:
        trained.append(parameter)
        seen.add(id(parameter))
assert len(trained) + len(frozen) == 8
optimizer = torch.optim.SGD(trained, lr=0.3)
inputs, wanted = torch.randn(64, 24), torch.randn(64, 4)

for _ in range(6):
    loss = torch.nn.functional.mse_loss(head(net(inputs)), wanted)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(trained, 0.01)
    optimizer.step()
