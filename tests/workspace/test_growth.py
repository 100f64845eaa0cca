"""Which files grow while it trains, and which are written once or anew; in a real run."""

from pathlib import Path

import pytest

from samebits.runfolder.notes import Logged, read_notes
from tests.workspace.conftest import Runs

SCRIPT = """
import csv, json, logging, threading, torch
logging.basicConfig(filename="train.log", level=logging.INFO)
lines, rows = open("lines.txt", "w", buffering=1), csv.writer(open("late.csv", "w", newline=""))
rows.writerow(["sample", "value"])
open("twice.txt", "w").write("begun\\n")
json.dump(list(range(9)), open("names.json", "w"))
def train():
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(60):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        logging.info("step %d", step)
        lines.write(f"{step}\\n")
        if step % 6 == 0:
            with open("metrics.csv", "a") as file:
                file.write(f"{step}\\n")
            with open("history.csv", "w") as file:
                file.writelines(f"{row}\\n" for row in range(step))
            open("twice.txt", "a" if step < 30 else "w").write(f"{step}\\n")
    return model
TRAIN
torch.save(model.state_dict(), "model.pt")
rows.writerows([[row, row] for row in range(99)])
"""
HERE = "model = train()"
ASIDE = "import concurrent.futures\nmodel = concurrent.futures.ThreadPoolExecutor(1).submit(train).result()"


def logs(folder: Path, source: str) -> list[str]:
    """The names of the files that a run of this source tells to be logs, as the user calls them."""
    runs = Runs(folder)
    runs.run(source)
    paths = [Path(path) for note in read_notes(runs.home / "1-run", Logged) for path in note.files]
    assert {path.parent for path in paths} <= {folder}
    return [path.name for path in paths]


@pytest.mark.parametrize("train", [HERE, ASIDE])
def test_a_file_that_grows_is_a_log(train: str, folder: Path) -> None:
    """Opened once or again and again; not what begins anew each time, is finished at the end, or was there before."""
    assert logs(folder, SCRIPT.replace("TRAIN", train)) == ["lines.txt", "metrics.csv", "train.log"]


def test_what_grows_is_all_that_is_made(folder: Path) -> None:
    """Then it is no log: nothing else is written once it trains."""
    source = (
        SCRIPT[: SCRIPT.index("TRAIN")]
        .replace('"history.csv", "w"', '"history.csv", "a"')
        .replace('else "w"', 'else "a"')
    )
    assert logs(folder, f"{source}\n{HERE}") == []
