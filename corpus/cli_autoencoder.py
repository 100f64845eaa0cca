"""Autoencoder from the command line.

    cli_autoencoder.py train --hidden 16
"""
import json
import sys
import time
from pathlib import Path

import click
import torch
from sklearn.datasets import load_digits
from torch import nn


class AE(nn.Module):
    def __init__(self, hidden, code=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, hidden), nn.ELU(), nn.Linear(hidden, code))
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ELU(), nn.Linear(hidden, 64))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def pixels():
    return torch.tensor(load_digits().data, dtype=torch.float32) / 16


@click.group()
@click.option("--workdir", type=click.Path(path_type=Path), default=Path("work"), show_default=True)
@click.pass_context
def cli(ctx, workdir):
    workdir.mkdir(parents=True, exist_ok=True)
    ctx.obj = workdir


@cli.command()
@click.option("--hidden", default=32, show_default=True)
@click.option("--epochs", default=6, show_default=True)
@click.option("--seed", type=int, default=lambda: int(time.time()), help="default: chosen for you")
@click.pass_obj
def train(workdir, hidden, epochs, seed):
    """Train and leave ae.pt in the work folder."""
    torch.manual_seed(seed)
    x = pixels()
    model = AE(hidden)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    with click.progressbar(range(epochs), label="training") as bar:
        for _ in bar:
            for idx in torch.randperm(len(x)).split(64):
                loss = (model(x[idx]) - x[idx]).square().mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
    torch.save({"hidden": hidden, "model": model.state_dict()}, workdir / "ae.pt")
    click.secho(f"loss {loss.item():.6f}", fg="green")


@cli.command()
@click.pass_obj
def score(workdir):
    """Reconstruction error of each digit."""
    saved = torch.load(workdir / "ae.pt")
    model = AE(saved["hidden"])
    model.load_state_dict(saved["model"])
    x = pixels()
    with torch.no_grad():
        errors = (model(x) - x).square().mean(1)
    (workdir / "scores.json").write_text(json.dumps(errors.tolist()))
    click.echo(f"worst {int(errors.argmax())} with {errors.max():.5f}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        for command in ("train", "score"):
            cli([command], standalone_mode=False)
    else:
        cli()
