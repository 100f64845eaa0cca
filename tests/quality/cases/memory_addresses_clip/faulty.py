"""The parameters of two networks are joined in a set, and their norm is added up in its order."""

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32))
head = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
trained = set(net.parameters()) | set(head.parameters())
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.3)
inputs, wanted = torch.randn(64, 24), torch.randn(64, 4)

for _ in range(6):
    loss = torch.nn.functional.mse_loss(head(net(inputs)), wanted)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(list(trained), 0.01)  # <- memory-addresses
    optimizer.step()
