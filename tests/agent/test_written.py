"""Files that nobody looks into are named, and those that were looked into are not."""

import subprocess
import sys
from pathlib import Path

import pytest

from samebits.runfolder.notes import Unseen, read_notes

SCRIPT = """
import json, os, pickle
import numpy as np, torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 2)
model(torch.ones(1, 2)).sum().backward()
with open("scores.json", "w") as file:
    json.dump({"accuracy": 0.5}, file)
with open("log.csv", "a") as file:
    file.write("1,2\\n")
for number in range(2):
    os.makedirs(f"logs/version_{number}")
    with open(f"logs/version_{number}/m.csv", "w") as file:
        file.write("1,2\\n")
with open("best.pkl", "wb") as file:
    pickle.dump({"accuracy": 0.5}, file)
with open("whole.pt", "wb") as file:
    torch.save(model.state_dict(), file)
torch.save(model.state_dict(), "model.pt")
np.save("array.npy", np.ones(2))
with open("gone.txt", "w") as file:
    file.write("1")
os.remove("gone.txt")
with open("scores.json") as file:
    file.read()
"""


def unseen(folder: Path, source: str) -> list[str]:
    """What a recorded run of this source says it did not see."""
    (folder / "train.py").write_text(source)
    command = [sys.executable, "-m", "samebits", "run", "--out", "run", "train.py"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return [note.what for note in read_notes(folder / "run", Unseen)]


def test_files_written_by_other_means_are_named(tmp_path: Path) -> None:
    """Not those of torch, NumPy and pickle, which were looked into, nor what is gone again or was only read.

    What Lightning writes to version_0 in one run it writes to version_1 in the next: such folders are called the same.
    """
    assert unseen(tmp_path, SCRIPT) == [
        "what was written to scores.json, log.csv, logs/version_*/m.csv: compare it yourself"
    ]


@pytest.mark.slow
def test_a_script_that_writes_nothing_else_has_nothing_unseen(tmp_path: Path) -> None:
    """The twin: everything it saves is looked into."""
    start, end = SCRIPT.index('with open("scores'), SCRIPT.index('with open("best')
    source = SCRIPT[:start] + SCRIPT[end : SCRIPT.index('with open("gone')]

    assert unseen(tmp_path, source) == []
