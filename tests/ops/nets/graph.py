"""A graph network: messages go along weighted edges, and each node is told its community, each graph its density."""

import argparse
import hashlib

import torch
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--batch", type=int, default=8)
NODES, EDGES, KINDS = 200, 1600, 4


def graphs(count, generator):
    """A batch of graphs as one: features, community and graph of each node, ends and weights of edges, densities."""
    size = count * NODES
    kinds = torch.randint(KINDS, (size,), generator=generator)
    owner = torch.arange(count).repeat_interleave(NODES)
    source, target = torch.randint(NODES, (2, count, 4 * EDGES), generator=generator)
    # Within a community edges are kept, and one in ten of the others.
    shift = torch.arange(count)[:, None] * NODES
    source, target = (source + shift).flatten(), (target + shift).flatten()
    is_kept = (kinds[source] == kinds[target]) | (torch.rand(len(source), generator=generator) < 0.1)
    edges = torch.stack([source, target])[:, is_kept]
    weights = torch.rand(edges.shape[1], generator=generator)
    features = functional.one_hot(kinds, KINDS) + torch.randn(size, KINDS, generator=generator) * 1.5
    density = torch.bincount(owner[edges[0]], minlength=count) / EDGES
    return features, kinds, owner, edges, weights, density


class Layer(nn.Module):
    """What neighbours say: added by weight, their mean, their largest, and what one attends to."""

    def __init__(self, before, after):
        super().__init__()
        self.own, self.said = nn.Linear(before, after), nn.Linear(4 * after, after)
        self.message, self.attended = nn.Linear(before, after), nn.Linear(2 * after, 1)

    def forward(self, x, edges, weights, degree):
        source, target = edges
        h = self.message(x)
        said, zeros = h[source], torch.zeros_like(h)
        added = zeros.index_add(0, target, said * (weights / degree[target])[:, None])
        places = target[:, None].expand_as(said)
        mean = zeros.scatter_reduce(0, places, said, "mean", include_self=False)
        largest = zeros.scatter_reduce(0, places, said, "amax", include_self=False)
        # A softmax over the edges that come in.
        score = functional.leaky_relu(self.attended(torch.cat([said, h[target]], 1)), 0.2).squeeze(1)
        top = torch.full_like(h[:, 0], -torch.inf).scatter_reduce(0, target, score, "amax")
        share = (score - top[target]).exp()
        whole = torch.zeros_like(h[:, 0]).scatter_add(0, target, share)
        attended = zeros.index_add(0, target, said * (share / whole[target])[:, None])
        return (self.own(x) + self.said(torch.cat([added, mean, largest, attended], 1))).relu()


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.ModuleList([Layer(KINDS, width), Layer(width, width)])
        self.kind, self.density = nn.Linear(width, KINDS), nn.Linear(2 * width, 1)

    def forward(self, x, owner, edges, weights):
        degree = torch.bincount(edges[1], weights, minlength=len(x)) + 1
        for layer in self.layers:
            x = layer(x, edges, weights, degree)
        count = int(owner[-1]) + 1
        pools = [
            x.new_zeros(count, x.shape[1]).index_reduce(0, owner, x, how, include_self=False)
            for how in ("mean", "amax")
        ]
        return self.kind(x), self.density(torch.cat(pools, 1)).squeeze(1)


def train(steps, batch, device):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    batches = [[one.to(device) for one in graphs(batch, generator)] for _ in range(4)]
    net = Net().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(steps):
        x, kinds, owner, edges, weights, density = batches[step % 4]
        logits, guess = net(x, owner, edges, weights)
        loss = functional.cross_entropy(logits, kinds) + functional.mse_loss(guess, density)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net, loss.item()


if __name__ == "__main__":
    options = parser.parse_args()
    net, loss = train(options.steps, options.batch, torch.accelerator.current_accelerator() or "cpu")
    state = torch.cat([one.detach().cpu().flatten() for one in net.parameters()])
    print(f"{loss:.6f}", hashlib.sha256(state.numpy().tobytes()).hexdigest())
