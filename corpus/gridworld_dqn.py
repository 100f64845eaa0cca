"""DQN on a little windy grid, with a replay buffer that turns prioritised once it has something to prioritise."""
import argparse
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class WindyGrid:
    SIZE = 6
    MOVES = [(0, 1), (0, -1), (1, 0), (-1, 0)]

    def __init__(self, seed):
        self.np_random = np.random.RandomState(seed)

    def reset(self):
        self.pos, self.t = [0, 0], 0
        return self.obs()

    def obs(self):
        x = np.zeros(2 * self.SIZE, dtype=np.float32)
        x[self.pos[0]] = x[self.SIZE + self.pos[1]] = 1
        return x

    def step(self, action):
        dx, dy = self.MOVES[action]
        if self.np_random.rand() < 0.15:
            dy -= 1
        self.pos = [int(np.clip(p + d, 0, self.SIZE - 1)) for p, d in zip(self.pos, (dx, dy))]
        self.t += 1
        done = self.pos == [self.SIZE - 1, self.SIZE - 1]
        return self.obs(), (1.0 if done else -0.02), done, self.t >= 40


class ReplayBuffer:
    def __init__(self, capacity, prioritise_after):
        self.data, self.prio = deque(maxlen=capacity), deque(maxlen=capacity)
        self.prioritise_after = prioritise_after
        self.rng = np.random.default_rng()
        self.draws = 0

    def push(self, *transition):
        self.data.append(transition)
        self.prio.append(1.0)

    def sample(self, n):
        self.draws += 1
        if self.draws <= self.prioritise_after:
            idx = random.sample(range(len(self.data)), n)
        else:
            p = np.array(self.prio) ** 0.6
            idx = self.rng.choice(len(self.data), n, p=p / p.sum())
        s, a, r, s2, d = zip(*[self.data[i] for i in idx])
        f = lambda x: torch.as_tensor(np.array(x), dtype=torch.float32)
        return idx, f(s), torch.tensor(a), f(r), f(s2), f(d)

    def update(self, idx, td):
        for i, e in zip(idx, td):
            self.prio[i] = float(abs(e)) + 1e-3


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=200)
    ap.add_argument("--seed", type=int, default=7)
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    env = WindyGrid(args.seed)
    buf = ReplayBuffer(5000, prioritise_after=60)
    q = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 4))
    target = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 4))
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=2e-3)

    obs, returns, ret, updates, eps = env.reset(), [], 0.0, 0, 1.0
    while updates < args.updates:
        a = random.randrange(4) if random.random() < eps else int(q(torch.from_numpy(obs)).argmax())
        nxt, r, done, cut = env.step(a)
        buf.push(obs, a, r, nxt, done)
        ret, obs = ret + r, nxt
        if done or cut:
            returns.append(ret)
            obs, ret = env.reset(), 0.0
        if len(buf.data) < 100:
            continue
        idx, s, act, rew, s2, d = buf.sample(32)
        with torch.no_grad():
            y = rew + 0.97 * (1 - d) * target(s2).max(1).values
        pred = q(s).gather(1, act[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(pred, y)
        opt.zero_grad(); loss.backward(); opt.step()
        buf.update(idx, (pred - y).detach().numpy())
        updates += 1
        eps = max(0.05, eps * 0.99)
        if updates % 40 == 0:
            target.load_state_dict(q.state_dict())
            print(f"[{updates:4d}] eps={eps:.2f} loss={loss.item():.5f} return(10)={np.mean(returns[-10:] or [0]):+.3f}")
    torch.save(q.state_dict(), "dqn.pt")


if __name__ == "__main__":
    main()
