# REINFORCE on a tiny pole, N actors in threads feeding one learner
import json
import queue
import threading
import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributions import Categorical


@dataclass
class Config:
    actors: int = 4
    updates: int = 60
    episodes_per_update: int = 4
    horizon: int = 30
    gamma: float = 0.98
    lr: float = 5e-3
    seed: int = 3


class Pole:
    """A pole without a cart: angle, velocity, push left or right."""

    def __init__(self, g):
        self.g = g

    def reset(self):
        self.s = torch.empty(2).uniform_(-0.1, 0.1, generator=self.g)
        return self.s.clone()

    def step(self, a):
        push = 0.6 if a else -0.6
        self.s[1] += 0.05 * (9.8 * torch.sin(self.s[0]) * 0.6 + push * 4)
        self.s[0] += 0.05 * self.s[1]
        return self.s.clone(), 1.0, abs(self.s[0].item()) > 0.6


def rollout(env, policy, g, cfg):
    obs, states, actions, rewards = env.reset(), [], [], []
    for _ in range(cfg.horizon):
        with torch.no_grad():
            p = policy(obs).softmax(-1)
        a = int(torch.multinomial(p, 1, generator=g))
        states.append(obs); actions.append(a)
        obs, r, done = env.step(a)
        rewards.append(r)
        if done:
            break
    return torch.stack(states), torch.tensor(actions), rewards


def actor(rank, policy, jobs, results, cfg):
    g = torch.Generator().manual_seed(cfg.seed * 1000 + rank)
    env = Pole(g)
    while True:
        job = jobs.get()
        if job is None:
            return
        results.put(rollout(env, policy, g, cfg))


def returns(rewards, gamma):
    out, acc = [], 0.0
    for r in reversed(rewards):
        acc = r + gamma * acc
        out.append(acc)
    return torch.tensor(out[::-1])


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(policy.parameters(), cfg.lr)
    jobs, results = queue.Queue(), queue.Queue()
    threads = [threading.Thread(target=actor, args=(k, policy, jobs, results, cfg), daemon=True) for k in range(cfg.actors)]
    for t in threads:
        t.start()
    history, start = [], time.time()
    for update in range(cfg.updates):
        for _ in range(cfg.episodes_per_update):
            jobs.put(update)
        batch = [results.get() for _ in range(cfg.episodes_per_update)]
        s = torch.cat([b[0] for b in batch])
        a = torch.cat([b[1] for b in batch])
        G = torch.cat([returns(b[2], cfg.gamma) for b in batch])
        G = (G - G.mean()) / (G.std() + 1e-6)
        loss = -(Categorical(logits=policy(s)).log_prob(a) * G).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(sum(len(b[2]) for b in batch) / len(batch))
        if update % 10 == 9:
            print("update %3d   mean length %5.2f   (%.1fs)" % (update + 1, history[-1], time.time() - start))
    for _ in threads:
        jobs.put(None)
    for t in threads:
        t.join()
    with open("lengths.json", "w") as f:
        json.dump(history, f)
    print("final", sum(history[-10:]) / 10)


if __name__ == "__main__":
    main()
