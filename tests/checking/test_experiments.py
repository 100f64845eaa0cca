"""Checks of real scripts that the planted cases do not cover: races, the unknown, bounds, lengths, outcomes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.schemas import assert_valid

TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(scale=1.0):
    optimizer.zero_grad()
    (model(torch.ones(3, 4)) * scale).sum().backward()
    optimizer.step()
"""


def check(folder: Path, source: str, *options: str) -> dict[str, Any]:
    """The JSON answer for a script of this source."""
    (folder / "train.py").write_text(source)
    command = [sys.executable, "-m", "samebits", "check", "--format", "json", *options, "train.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    assert_valid(document)
    assert done.returncode == {"same": 0, "different": 1, "undecided": 2}[document["verdict"]]
    return document


@pytest.mark.slow
def test_a_race_is_traced_to_the_algorithms(tmp_path: Path) -> None:
    """The backward of W[idx] adds from several threads: no factor of the data is guilty, torch-algorithms is."""
    source = """
import torch
torch.set_num_threads(8)
torch.manual_seed(0)
W = torch.randn(64, 16, requires_grad=True)
index = torch.randint(0, 64, (65536,))
weight = torch.randn(65536, 16)
optimizer = torch.optim.SGD([W], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (W[index] * weight).sum().backward()
    optimizer.step()
"""
    verdict = check(tmp_path, source)

    assert verdict["verdict"] == "different"
    assert [cause["factor"] for cause in verdict["causes"]] == ["torch-algorithms"]
    assert verdict["divergent"]["divergence"]["stream"] == "grad"
    (origin,) = verdict["origins"]
    kind = origin["first"]["place"]["row"]["kind"]
    assert (kind["op"], kind["pass_"], kind["backward_of"]) == ("aten::index_put", "backward", "index")
    assert kind["source"] == "(W[index] * weight).sum().backward()"
    assert (origin["replay"]["is_confirmed"], origin["replay"]["is_racy"]) == (True, True)
    remedy = verdict["remedy"]
    assert (remedy["pins"], remedy["verified"], remedy["diverged"]) == (["torch-algorithms"], True, None)
    assert ["remedy", "samebits run --pin torch-algorithms train.py"] in verdict["rows"]


@pytest.mark.slow
def test_what_is_outside_the_catalogue_is_called_unknown(tmp_path: Path) -> None:
    """What the kernel says, in a seed: nobody is accused, the line that seeds and the first draw are named."""
    chance = "int(open('/proc/sys/kernel/random/uuid').read()[:8], 16)"
    late = f"    if n == 2: torch.manual_seed({chance})\n"
    source = TRAIN + f"for n in range(4):\n{late}    step(torch.rand(()).item())\n"
    verdict = check(tmp_path, source)

    assert verdict["verdict"] == "different"
    assert verdict["causes"] == []
    assert verdict["divergent"]["divergence"]["step"] == 2
    assert verdict["remedy"] is None
    place = verdict["origins"][0]["first"]["place"]
    assert (place["step"], place["finding"]) == (2, "generator")
    (seeded,) = verdict["unknown"]["seeds"]
    assert (seeded["what"], seeded["location"]["line"]) == ("torch.manual_seed", 11)
    assert seeded["a"] != seeded["b"]
    assert any(label == "next" and "train.py:11" in text for label, text in verdict["rows"])


@pytest.mark.slow
def test_of_an_unknown_cause_what_reading_finds_is_told(tmp_path: Path) -> None:
    """A line that lint names; not one at which a factor was seen to enter, which was held."""
    kernels = "int(open('/proc/sys/kernel/random/uuid').read()[:8], 16)"
    lines = f"import numpy as np\nhalf = np.divide(2.0, 4.0, where={kernels} % 2 == 0)\nnp.random.rand()\n"
    verdict = check(tmp_path, TRAIN + lines + f"for n in range(4):\n    step({kernels} / 2**32)\n")

    assert (verdict["verdict"], verdict["causes"]) == ("different", [])
    assert verdict["unknown"]["read"] == [
        "train.py:11, which leaves the result of divide() unwritten wherever its `where` is False (SB408)"
    ]


@pytest.mark.slow
def test_runs_of_unequal_length_part_where_one_goes_on(tmp_path: Path) -> None:
    """Equal as far as both go; the clock decides how far that is."""
    source = (
        "import time\n" + TRAIN + "for _ in range(3 + int(time.time_ns() // 86_400_000_000_000 % 500)):\n    step()\n"
    )
    verdict = check(tmp_path, source)

    assert verdict["divergent"]["divergence"]["stream"] == "length"
    assert [(c["factor"], c["location"]["line"]) for c in verdict["causes"]] == [("clock", 11)]
    assert verdict["remedy"]["verified"]


@pytest.mark.slow
def test_a_failure_in_one_run_only_is_a_divergence(tmp_path: Path) -> None:
    """The outcome belongs to what has to repeat."""
    source = TRAIN + (
        "step()\nfrom pathlib import Path\nimport sys\n"
        "if Path('ran').exists(): sys.exit('no second time')\n"
        "Path('ran').touch()\nstep()\n"
    )
    verdict = check(tmp_path, source)

    assert verdict["verdict"] == "different"
    assert verdict["divergent"]["divergence"]["stream"] == "outcome"
    assert "exit status 1" in verdict["divergent"]["divergence"]["ending"]


def test_bounds_end_the_search_and_are_listed(tmp_path: Path) -> None:
    """What was not tried is said; a step limit cuts every run."""
    source = TRAIN.replace("torch.manual_seed(0)", "") + "for _ in range(50):\n    step()\n"
    verdict = check(tmp_path, source, "--runs", "2", "--max-runs", "3", "--max-steps", "5", "--jobs", "2")

    assert verdict["verdict"] == "different"
    assert verdict["causes"] == []
    assert any("stopped after 3 runs" in text for text in verdict["untested"])
    assert len(verdict["runs"]) <= 3
    assert max(run["steps"] for run in verdict["runs"]) == 5


@pytest.mark.slow
@pytest.mark.parametrize("pin", [[], ["--pin", "torch-rng"]])
def test_pins_of_the_user_hold_in_every_run(tmp_path: Path, pin: list[str]) -> None:
    """An unseeded model repeats with --pin torch-rng, and does not without."""
    source = TRAIN.replace("torch.manual_seed(0)", "") + "step()\n"
    verdict = check(tmp_path, source, "--runs", "2", "--max-runs", "2", *pin)

    assert verdict["verdict"] == ("same" if pin else "different")


@pytest.mark.slow
def test_cures_are_given_once_with_file_and_line(tmp_path: Path) -> None:
    """Two lines of a helper draw before any seed: one call at the start of the script cures both."""
    (tmp_path / "model.py").write_text(
        "import torch\ndef make():\n    first = torch.nn.Linear(4, 2)\n    return first, torch.nn.Linear(4, 2)\n"
    )
    source = TRAIN.replace("torch.manual_seed(0)\nmodel", "from model import make\nmodel").replace(
        "torch.nn.Linear(4, 2)", "make()[0]"
    )
    verdict = check(tmp_path, source + "step()\n")

    assert {cause["factor"] for cause in verdict["causes"]} == {"torch-rng"}
    assert verdict["remedy"]["code"] == [
        "call torch.manual_seed(0) once, at the start of train.py, before model.py:3 draws"
    ]


@pytest.mark.slow
def test_a_treatment_that_the_script_does_not_survive_is_left_out(tmp_path: Path) -> None:
    """A licence that ends tomorrow: the varied clock ends it, which is our doing and is said."""
    source = (
        "import os, time\nif time.time() > os.path.getmtime(__file__) + 3600: raise SystemExit('expired')\n"
        + TRAIN
        + "step()\nstep()\n"
    )
    verdict = check(tmp_path, source)

    assert (verdict["verdict"], verdict["causes"]) == ("same", [])
    assert [(one["factor"], one["mode"]) for one in verdict["left_out"]] == [("clock", "varied")]
    assert verdict["rests_on"]["runs"] == 3


def test_folds_that_seed_themselves_are_the_same(tmp_path: Path) -> None:
    """Six trainings in turn, each with a model and an optimizer of its own, whose addresses are used again."""
    source = """
import torch
from torch import nn
for fold in range(6):
    torch.manual_seed(fold)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
"""
    verdict = check(tmp_path, source, "--runs", "2")

    assert (verdict["verdict"], verdict["causes"]) == ("same", [])
    assert {"loss", "grad", "param", "end"} <= set(verdict["streams"])


@pytest.mark.slow
def test_a_quick_check_looks_at_the_beginning_alone(tmp_path: Path) -> None:
    """What differs late is not looked at, and that is said; what differs at once is explained there."""
    slow = "import time, random\nfor number in range(600):\n    time.sleep(0.01)\n"
    slow += "    if number == 500:\n        scale()\n    step()\n"
    late = TRAIN + "def scale():\n    with torch.no_grad():\n        model.weight.mul_(random.random())\n" + slow
    same = check(tmp_path, late, "--quick")
    early = check(tmp_path, late.replace("torch.manual_seed(0)", ""), "--quick")

    assert (same["verdict"], same["is_complete"]) == ("same", False)
    assert 20 <= same["steps_checked"] < 500
    assert same["headline"].startswith(f"same bits for the first {same['steps_checked']} steps")
    assert [cause["factor"] for cause in early["causes"]] == ["torch-rng"]
    assert max(run["steps"] for run in early["runs"]) < 500


@pytest.mark.slow
def test_a_hash_seed_that_the_script_sets_itself_is_not_varied(tmp_path: Path) -> None:
    """It begins again with one: what it does then is the same, and the answer does not say that it was tried."""
    again = "os.environ['PYTHONHASHSEED'] = '7'; os.execv(sys.executable, [sys.executable, *sys.argv])"
    begin = f"import os, sys\nif os.environ.get('PYTHONHASHSEED') != '7':\n    {again}\n"
    verdict = check(tmp_path, begin + TRAIN + "step(float(list({'a', 'b', 'c'}).index('a')))\n")

    assert (verdict["verdict"], verdict["causes"]) == ("same", [])
    assert "hash-seed" not in verdict["varied"]
    assert ["note", "not varied, because the script sets it itself: hash-seed"] in verdict["rows"]


def test_what_is_ignored_is_not_compared(tmp_path: Path) -> None:
    """A file of noise that nobody could explain; what else the script makes is compared."""
    noise = "\n".join([*["step()"] * 3, "print(open('/proc/self/stat').read(), file=open('noise.txt', 'w'))"])
    told = check(tmp_path, f"{TRAIN}{noise}\nprint(len(str(model.weight)))\n", "--ignore", "*.txt", "--ignore", "logs/")

    assert told["verdict"] == "same"
    assert "not compared, as asked: *.txt" in told["notes"]
    assert "--ignore logs/: no run wrote such a file" in told["notes"]
    assert len(told["runs"]) == 3
