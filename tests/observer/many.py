"""Many models in turn: averaged, evaluated, saved in every way, and gone at once."""

import gc
import os
import pickle

import numpy as np
import torch
from torch import nn

np.random.seed(0)


for fold in range(4):
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 2))
    model.parent = [model]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    average = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(3):
        x = torch.randn(6, 4) + np.random.rand()
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        average.update_parameters(model)
    model.eval()
    torch.save({"model": model.state_dict(), "fold": fold}, os.devnull)
    with open(os.devnull, "wb") as file:
        np.save(file, model(x).detach().numpy())
        pickle.dump({"fold": fold}, file)
    del model, optimizer, average
    if fold % 2:
        gc.collect()
