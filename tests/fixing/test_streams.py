"""What is patched runs still; draws that were apart stay apart: of folds, epochs, ranks, layers and workers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from samebits.fixing.edits import write_all
from samebits.fixing.findings import mend
from samebits.lint.linting import LintOptions, lint
from samebits.lint.rule import all_rules
from tests.fixing.test_findings import CURED
from tests.lint.snippets import REST, of_docs, snippets

TRAINS = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(4)).backward()
optimizer.step()
"""
HEAD = """
import os, random, sys, time
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split
"""
SEEDED = f"{HEAD}torch.manual_seed(0)\n"
DATASET = """
class Data(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return noisy(index)
"""


# name: a program that prints a row for each fold, epoch, rank, layer or worker, and whether it is mended at all. Rows
# that differ must differ still; where it is mended, they are the same in two runs.
PROGRAMS = {
    "once": (f"{SEEDED}print(np.random.rand(3))\n", True),
    "folds": (f"{HEAD}for fold in range(3):\n    torch.manual_seed(0)\n    print(np.random.rand(3))\n", False),
    "an evaluation": (
        f"{HEAD}def evaluate():\n    torch.manual_seed(0)\n    return torch.rand(1)\n"
        "for epoch in range(4):\n    print(np.random.permutation(99))\n    evaluate()\n",
        False,
    ),
    "a draw above the seed": (
        f"{HEAD}def draw():\n    return np.random.rand(3)\nprint(draw())\ntorch.manual_seed(0)\nprint(draw())\n",
        False,
    ),
    "epochs, sample by sample": (
        f"{SEEDED}def noisy(index):\n    return np.random.default_rng().normal(size=2)\n{DATASET}"
        "for epoch in range(3):\n    print([batch.tolist() for batch in DataLoader(Data())])\n",
        True,
    ),
    "workers": (
        f"{SEEDED}def noisy(index):\n    return random.Random().random()\n{DATASET}"
        "for epoch in range(2):\n    for batch in DataLoader(Data(), num_workers=2):\n        print(batch)\n",
        True,
    ),
    "layers": (
        f"{SEEDED}class Noise(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.rng = random.Random()\n"
        "for layer in nn.Sequential(Noise(), Noise()):\n    print(layer.rng.random())\n",
        True,
    ),
    "a map": (
        f"{SEEDED}def noisy(row):\n    return np.random.default_rng().normal()\n"
        "print(*map(noisy, range(4)), sep='\\n')\n",
        True,
    ),
    "two generators": (
        f"{SEEDED}print(np.random.default_rng().normal())\nprint(np.random.default_rng().normal())\n",
        True,
    ),
    "a pool": (
        f"{SEEDED}import multiprocessing\ndef noisy(row):\n    return np.random.default_rng().normal()\n"
        "if __name__ == '__main__':\n    with multiprocessing.Pool(2) as pool:\n"
        "        print(*pool.map(noisy, range(4), 1), sep='\\n')\n",
        False,
    ),
    "processes": (
        f"{HEAD}import torch.multiprocessing as mp\ndef worker(rank):\n"
        "    print(np.random.default_rng().normal(), flush=True)\n"
        "if __name__ == '__main__':\n    torch.manual_seed(0)\n    mp.spawn(worker, nprocs=2)\n",
        False,
    ),
    "ranks": (
        f"{HEAD}rank = int(sys.argv[1])\ntorch.manual_seed(int(time.time()) + rank)\nprint(torch.rand(1))\n",
        True,
    ),
    "ranks that only have their numbers": (
        f"{HEAD}rank = int(sys.argv[1])\nprint(rank, np.random.default_rng(os.getpid()).normal())\n",
        False,
    ),
    "repeated splits": (
        f"{SEEDED}from sklearn.model_selection import KFold\nfolds = KFold(2, shuffle=True)\n"
        "for time in range(3):\n    print([a.tolist() for a, b in folds.split(range(30))])\n",
        True,
    ),
    "splits in a loop": (
        f"{HEAD}for fold in range(3):\n    print(random_split(range(30), [10, 20])[0].indices)\n",
        False,
    ),
    "a function of another file": (
        f"{SEEDED}from tools import noisy\nfor row in range(3):\n    print(noisy())\n",
        True,
    ),
}
TOOLS = """
import numpy as np
def noisy():
    return np.random.default_rng().normal()
if __name__ == '__main__':
    noisy()
"""


def rows(folder: Path) -> list[str]:
    """What each of the ranks prints."""
    ranks = ("0", "1") if "argv" in (folder / "train.py").read_text() else ("0",)
    words = [[sys.executable, "train.py", rank] for rank in ranks]
    done = [subprocess.run(one, cwd=folder, capture_output=True, text=True, check=True) for one in words]
    return [row for one in done for row in one.stdout.splitlines()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_apart_stays_apart(name: str, tmp_path: Path) -> None:
    """Folds, epochs, samples, ranks, layers and workers draw on their own; what is mended repeats."""
    text, is_mended = PROGRAMS[name]
    (tmp_path / "train.py").write_text(text + TRAINS)
    (tmp_path / "tools.py").write_text(TOOLS)
    before = rows(tmp_path)

    draft, _ = mend(lint([tmp_path]).findings, True, map(str, tmp_path.glob("*.py")))
    assert bool(draft.mends) == is_mended
    assert len({*before}) == len(before)
    if is_mended:
        write_all(draft.changes)
        after = rows(tmp_path)
        assert len({*after}) == len(after)
        assert rows(tmp_path) == after


# What snippets leave out.
IMPORTS, ENTRY = REST[: REST.index("def fit")], REST[REST.index("def fit") :]
NAMES = f"""{IMPORTS}
import asyncio, json
args = argparse.Namespace(seed=3, local_rank=1, eval_every=2, rank=0)
data, rows, parts, taken, known = range(100), [{{"label": "a"}}, {{"label": "b"}}], ["a"], ["a"], ["b"]
count, number, rank, world_size, total, name, text, root, index = 1, 0, 0, 1, "", "a", "a b", "data", {{}}
paths = words = labels = names = text.split()
weight = scores = {{"a": 1.5, "b": 2.5}}
MyDataset, load, evaluate, train, held_out = list, str, print, print, range(10)
model, head, x = nn.Linear(2, 1), nn.Linear(2, 1), torch.ones(2)
init, params, optimizer = print, [*model.parameters()], torch.optim.SGD(model.parameters())
loss = model(x).sum()
loss.backward()
pool = ThreadPoolExecutor(2)
futures = [pool.submit(torch.ones, one) for one in range(3)]
"""
BAD = [one for one in snippets() if one.guilty] + [of_docs(rule.code)[0] for rule in all_rules()]


@pytest.fixture
def settings() -> Iterator[None]:
    """Snippets set variables and switches of torch, which are as before afterwards."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    with patch.dict(os.environ), torch.random.fork_rng(), torch.backends.cudnn.flags():
        yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)


def ends(text: str) -> str:
    """How a snippet ends: with nothing, or with an error."""
    names: dict[str, object] = {"__name__": "snippet"}
    exec(NAMES, names)
    try:
        exec(compile(text, "train.py", "exec"), names)
    except Exception as error:
        return repr(error)
    return ""


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("code", sorted(CURED))
def test_a_cured_snippet_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it ran before; of each rule there is one that does, and is mended."""
    run = 0
    for number, snippet in enumerate(one for one in BAD if one.code == code and len(one.files) == 1):
        folder, text = tmp_path / str(number), IMPORTS + snippet.files["train.py"].removesuffix(REST) + f"\n{ENTRY}"
        (folder / "data").mkdir(parents=True)
        for name in ("b", "a", "../train.py"):
            (folder / "data" / name).write_text(text)
        monkeypatch.chdir(folder)
        draft, _ = mend(lint([folder], LintOptions(select=(code,))).findings, also_unsafe=True)
        if draft.mends and not ends(text):
            run += 1
            assert not ends(draft.changes[0].after.decode()), snippet.title

    assert run
