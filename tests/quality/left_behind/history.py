"""Lets losses of earlier runs, and how many there were, set the rate."""

import csv
import os

from common import make, train

number = 1
while os.path.exists(f"runs/{number}"):  # <- files-left-behind
    number += 1
os.makedirs(f"runs/{number}")
model, optimizer = make()
optimizer.param_groups[0]["lr"] = 0.01 / number
with open("history.csv", "a+", newline="", encoding="utf-8") as file:  # <- files-left-behind
    file.seek(0)
    losses = [float(row[0]) for row in csv.reader(file)]
    loss = train(model, optimizer, 1 + sum(losses))
    csv.writer(file).writerow([loss])
