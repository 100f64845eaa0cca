"""Scripts in which several processes train without ranks: a resume is not judged by the one that arrives first."""

from pathlib import Path

from tests import answers

SCRIPT = """
import multiprocessing, sys
import torch

def train(number):
    torch.manual_seed(number)
    net = torch.nn.Linear(4, 1)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(6):
        sgd.zero_grad()
        net(torch.ones(3, 4)).sum().backward()
        sgd.step()
        torch.save(net.state_dict(), f"{number}.pt")

processes = [multiprocessing.get_context("fork").Process(target=train, args=(number,)) for number in range(2)]
[process.start() for process in processes]
[process.join() for process in processes]
"""


def test_a_resume_of_several_processes_is_not_judged_by_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)

    done = answers.samebits(tmp_path, "resume", "train.py", timeout=100)

    assert done.returncode == 2, done.stdout
    assert "2 processes or threads of the script train" in done.stdout + done.stderr
    assert "so that each has a rank" in done.stdout + done.stderr
