"""What cannot be judged is not called the same: products that nobody can explain, and recordings that failed."""

from pathlib import Path
from typing import Any

import pytest

from tests.answers import answered

pytestmark = pytest.mark.slow

TRAINING = """
import json, os, resource, time
import torch
{before}
data = torch.arange(8.0).reshape(2, 4) / 8
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(data).pow(2).mean().backward()
    optimizer.step()
{after}
"""


def check(folder: Path, before: str = "torch.manual_seed(0)", after: str = "") -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(TRAINING.format(before=before, after=after))
    return answered(folder, "check", "train.py")


def test_what_nobody_can_explain_is_undecided(tmp_path: Path) -> None:
    """Noise of the machine, in the only thing that is made: it is named, and nothing is accused."""
    noise = "json.dump({'noise': os.stat('/proc/self').st_ctime_ns}, open('out.json', 'w'))"
    found = check(tmp_path, after=noise)

    assert found["verdict"] == "undecided"
    assert found["headline"].startswith("undecided: out.json (train.py:11): noise differs")
    assert not any(cause["confirmed"] for cause in found["causes"])


CACHED = """
torch.manual_seed(0)
cache = os.path.expanduser("~/.cache/tool")
known = os.path.exists(cache)
if not known:
    os.makedirs(cache)
    json.dump(["a", "b"], open(cache + "/fonts.json", "w"))
"""


@pytest.mark.parametrize(("is_said", "verdict"), [(True, "undecided"), (False, "same")])
def test_what_the_first_run_leaves_outside_is_no_time(
    is_said: bool, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a date that is one: what later runs make of it counts, and that only the first has written it does not."""
    monkeypatch.setenv("HOME", str(tmp_path))
    said = "known" if is_said else "True"
    after = f"json.dump({{'known': {said}, 'date': time.strftime('%Y')}}, open('out.json', 'w'))"
    found = check(tmp_path / "own", before=CACHED, after=after)

    assert found["verdict"] == verdict
    assert found["headline"].startswith("undecided: out.json (train.py:18): known differs") == is_said
    assert any("one value follows the clock" in note for note in found["notes"])


LIMITED = """
for _ in range(60):
    net(data).pow(2).mean().backward()
    optimizer.step()
    if time.time() - start > 60:
        break
json.dump({"seconds": round(time.time() - start, 2)}, open("out.json", "w"))
"""


def test_a_limit_of_time_that_nobody_reaches_hides_no_time(tmp_path: Path) -> None:
    """How long it took is left out, though a clock that runs quickly would end the training."""
    found = check(tmp_path, before="torch.manual_seed(0); start = time.time()", after=LIMITED)

    assert found["verdict"] == "same"
    assert any("one value follows the clock" in note for note in found["notes"])


def test_a_recording_that_failed_is_no_evidence(tmp_path: Path) -> None:
    """In runs with everything pinned only: it is said first, as ours, and nothing is compared."""
    breaking = """
torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
if 0 < time.time() - 1.79e9 < 1e4:
    from samebits.agent.log import Log
    Log.add = lambda *_, **__: 1 / 0
"""
    found = check(tmp_path, before=breaking)

    assert found["verdict"] == "undecided"
    assert found["causes"] == []
    assert "samebits' mistake" in found["error"]["message"]
    assert "please report this, and send" in found["error"]["hint"]


def test_a_name_made_of_random_bytes_is_no_content(tmp_path: Path) -> None:
    """What quotes them names the run; what is computed from them is told, with the line."""
    name = "import uuid; run = uuid.uuid4(); os.makedirs(f'runs/{run.hex[:8]}', exist_ok=True)"
    same = check(tmp_path / "name", after=name + "; json.dump(str(run), open(f'runs/{run.hex[:8]}/id.json', 'w'))")
    told = check(tmp_path / "seed", after=name + "; json.dump(run.int % 97, open('seed.json', 'w'))")

    assert same["verdict"] == "same"
    assert "left out of runs/*, runs/*/id.json: 2 ids are drawn anew by each run" in same["notes"]
    assert [(cause["factor"], cause["confirmed"]) for cause in told["causes"]] == [("os-entropy", True)]


def test_what_other_runs_have_added_to_a_file_is_not_compared(tmp_path: Path) -> None:
    """A log outside of every copy, which each run goes on with; what is written anew there is."""
    log = tmp_path / "runs.log"
    same = check(tmp_path / "log", after=f"print('one more', file=open({str(log)!r}, 'a'))")
    anew = f"print(len(open({str(log)!r}).readlines()), file=open({str(tmp_path / 'out')!r}, 'w'))"
    told = check(tmp_path / "anew", after=f"print('one more', file=open({str(log)!r}, 'a')); {anew}")

    assert same["verdict"] == "same"
    assert told["verdict"] != "same"
