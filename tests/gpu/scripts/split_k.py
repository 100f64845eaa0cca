"""Products of long, thin matrices on two streams, with cuBLAS's own workspace for each."""

import torch
from torch import nn

torch.manual_seed(13)
left, right = nn.Linear(8192, 32).cuda(), nn.Linear(8192, 32).cuda()
optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], lr=1e-3)
streams = [torch.cuda.Stream(), torch.cuda.Stream()]
for _step in range(20):
    x = torch.randn(64, 8192).cuda()
    outs = []
    for stream, layer in zip(streams, (left, right), strict=False):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            outs.append(layer(x))
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    loss = (outs[0] * outs[1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
torch.save([left.state_dict(), right.state_dict()], "two.pt")
