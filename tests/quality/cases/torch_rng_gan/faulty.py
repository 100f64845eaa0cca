"""GAN on a ring of points: both networks are born before the seed is set, the noise after it."""

import torch
from torch import nn


def main():
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))  # <- torch-rng
    critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))  # <- with torch-rng
    torch.manual_seed(0)

    angle = torch.rand(32) * 2 * torch.pi
    real = torch.stack([angle.cos(), angle.sin()], dim=1)
    ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
    criterion = nn.BCEWithLogitsLoss()
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)

    for round_ in range(5):
        fake = generator(torch.randn(32, 4))
        critic_loss = criterion(critic(real), ones) + criterion(critic(fake.detach()), zeros)
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()

        generator_loss = criterion(critic(fake), ones)
        generator_optimizer.zero_grad()
        generator_loss.backward()
        generator_optimizer.step()
        print(round_, critic_loss.item(), generator_loss.item())


if __name__ == "__main__":
    main()
