"""What reading finds is mended where a rule has a cure, and read again it is found no more."""

import ast
from pathlib import Path

import pytest

from samebits.fixing.edits import write_all
from samebits.fixing.findings import mend
from samebits.fixing.patch import WAYS
from samebits.lint.linting import LintOptions, lint
from samebits.lint.rule import all_rules
from tests.cli.typed import typed
from tests.lint.snippets import Snippet, snippets

CURED = {rule.code: rule for rule in all_rules() if rule.cure}
SNIPPETS = [one for one in snippets() if one.code in CURED and one.guilty]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda one: f"{one.code} {one.title}")
def test_what_is_mended_is_found_no_more(snippet: Snippet, tmp_path: Path) -> None:
    """The files are Python still, and hold everything else that they held."""
    snippet.found(tmp_path)
    paths = [tmp_path / name for name in snippet.files]
    options = LintOptions(select=(snippet.code,))
    before = lint(paths, options).findings

    draft, mended = mend(before, also_unsafe=True)
    write_all(draft.changes)
    after = {(one.path, one.source) for one in lint(paths, options).findings}

    for path in paths:
        ast.parse(path.read_text())
    assert len(draft.mends) + len(draft.cannot) == len(before)
    assert not {(one.path, one.source) for one in mended} & after


def test_every_cure_has_a_way() -> None:
    """What a rule calls its cure is known, and is called safe or unsafe; others have none."""
    assert {rule.cure for rule in CURED.values()} <= WAYS.keys()
    assert {rule.code for rule in all_rules() if rule.fix != "none"} == CURED.keys()


SCRIPT = """import os
from torch.utils.data import Dataset

class Images(Dataset):
    def __init__(self, root):
        self.paths = os.listdir(root)
    def __getitem__(self, index):
        return self.paths[index], hash(str(index)) % 5
"""


def test_the_command_shows_a_patch_and_writes_it(tmp_path: Path) -> None:
    """What changes more than an order or a seed only where it is asked for."""
    script = tmp_path / "images.py"
    script.write_text(SCRIPT)

    shown, untouched = typed("lint", "--diff", ".", cwd=tmp_path), script.read_text()
    fixed, halfway = typed("lint", "--fix", ".", cwd=tmp_path), script.read_text()
    again = typed("lint", "--fix", "--unsafe-fixes", ".", cwd=tmp_path)

    assert "-        self.paths = os.listdir(root)\n+        self.paths = sorted(os.listdir(root))\n" in shown.out
    assert (shown.status, untouched) == (1, SCRIPT)
    assert fixed.out.startswith("1 finding fixed, 1 error in 1 file\n")
    assert halfway == SCRIPT.replace("os.listdir(root)", "sorted(os.listdir(root))")
    assert (again.status, "hash(" in script.read_text()) == (0, False)


def test_the_ranks_of_another_script_are_its_own(tmp_path: Path) -> None:
    """Beside a script that has ranks, the other one is mended as if it were alone; together with it, it is not."""
    draws = (
        "import torch\nimport numpy as np\ntorch.manual_seed(0)\nx = np.random.rand(3)\nnet(x).backward()\nsgd.step()\n"
    )
    (tmp_path / "alone.py").write_text(draws)
    (tmp_path / "ranked.py").write_text(f"{draws}print(rank)\n")

    draft, mended = mend(lint([tmp_path]).findings)

    assert [Path(one.path).name for one in mended] == ["alone.py"]
    assert "processes" in draft.cannot[0].why
