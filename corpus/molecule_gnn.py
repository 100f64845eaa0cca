"""Toy molecules -> toy energy. Atoms are objects, bonds are sets, message passing over them."""
import json
import random
import sys

import torch
import torch.nn as nn

ELEMENTS = ["C", "N", "O", "H", "S"]


class Atom:
    __slots__ = ("element", "charge", "bonds", "index")

    def __init__(self, element, charge):
        self.element, self.charge = element, charge
        self.bonds = set()
        self.index = None


def bond(a, b):
    a.bonds.add(b)
    b.bonds.add(a)


def make_molecule(rng):
    atoms = [Atom(rng.choice(ELEMENTS), rng.gauss(0, 1)) for _ in range(rng.randint(6, 14))]
    for i, a in enumerate(atoms[1:], 1):
        bond(a, atoms[rng.randrange(i)])
    for _ in range(rng.randint(0, 4)):
        a, b = rng.sample(atoms, 2)
        bond(a, b)
    energy = sum(a.charge * b.charge for a in atoms for b in sorted(a.bonds, key=atoms.index)) / len(atoms)
    return atoms, energy


def walk(root):
    """all atoms that hang together, breadth first"""
    seen, frontier, order = {root}, [root], []
    while frontier:
        atom = frontier.pop(0)
        atom.index = len(order)
        order.append(atom)
        for other in atom.bonds:
            if other not in seen:
                seen.add(other)
                frontier.append(other)
    return order


def featurize(atoms):
    order = walk(atoms[0])
    x = torch.zeros(len(order), len(ELEMENTS) + 1)
    adj = torch.zeros(len(order), len(order))
    for a in order:
        x[a.index, ELEMENTS.index(a.element)] = 1
        x[a.index, -1] = a.charge
        for b in a.bonds:
            adj[a.index, b.index] = 1
    return x, adj / adj.sum(1, keepdim=True).clamp(min=1)


class GNN(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.inp = nn.Linear(len(ELEMENTS) + 1, d)
        self.msg = nn.ModuleList(nn.Linear(2 * d, d) for _ in range(3))
        self.out = nn.Linear(d, 1)

    def forward(self, x, adj):
        h = torch.relu(self.inp(x))
        for m in self.msg:
            h = h + torch.relu(m(torch.cat([h, adj @ h], 1)))
        return self.out(h.sum(0)).squeeze()


def main(argv):
    n = int(argv[0]) if argv else 120
    rng = random.Random(11)
    torch.manual_seed(11)
    graphs = [make_molecule(rng) for _ in range(n)]
    data = [(*featurize(a), torch.tensor(e)) for a, e in graphs]
    model = GNN()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    curve = []
    for epoch in range(4):
        total = 0.0
        for k in range(0, n, 8):
            loss = sum((model(x, adj) - y) ** 2 for x, adj, y in data[k:k + 8]) / 8
            opt.zero_grad(); loss.backward(); opt.step()
            total += loss.item()
        curve.append(total)
        print(f"epoch={epoch} mse={total / (n / 8)}")
    json.dump(curve, open("curve.json", "w"))


main(sys.argv[1:])
