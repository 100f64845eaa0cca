"""A cause names the rules that say the same of its line without running it."""

from dataclasses import replace
from pathlib import Path

from samebits.base.sites import Site
from samebits.checking.experiments import with_rules
from samebits.checking.verdict import Cause, Evidence
from samebits.report.text import check_report
from tests.report.test_reports import different

SCRIPT = """import os
import torch
torch.manual_seed(0)
train, test = torch.utils.data.random_split(os.listdir("data"), [8, 2])
net = torch.nn.Linear(1, 1)
net(x).backward()
sgd.step()
"""
SURE = Evidence((3, 4, 7, 9, 11), (5, 6, 8, 10), 4, 0.0039, 0.01)


def test_a_cause_names_the_rules_that_read_its_line(tmp_path: Path) -> None:
    """Only those of its factor; none where no line is known, and none of a file that is gone."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    places = (("file-order", Site(str(script), 4)), ("clock", Site(str(script), 4)), ("clock", None))
    causes = [Cause(name, place, True, "", SURE) for name, place in places]

    assert [one.rules for one in with_rules(causes, [str(script), str(tmp_path / "gone.py")])] == [("SB201",), (), ()]


def test_the_answer_shows_the_command_that_explains_the_rule(tmp_path: Path) -> None:
    """Below the figures of its cause."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    found = different(script)
    cause = Cause("file-order", Site(str(script), 4), True, "", SURE, rules=("SB201",))

    labels = dict(check_report(replace(found, causes=(cause,))).rows)

    assert labels["rule"] == "SB201 says so without a run: samebits lint --explain SB201"
