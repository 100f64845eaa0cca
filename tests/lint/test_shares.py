"""Files that have nothing to do with one another are read by several processes, and nothing else changes."""

from pathlib import Path

import pytest

from samebits.lint.linting import lint
from samebits.lint.parallel import balanced_shares, import_groups

SCRIPT = "import torch\n{imports}\nnet = torch.nn.Linear(2, 2)\nnet(torch.randn(2, 2)).sum().backward()\nsgd.step()\n"
# A draw is cured by a seed in a file that is imported, however that is written.
SEEDING = "import torch\ntorch.manual_seed(0)\n"
IMPORTS = {
    "plain": "import {}",
    "from": "from {} import *",
    "inside": "if True: import os, {} as seeds",
    "in brackets": "from . import (  # our own (see there)\n    os,\n    {},\n)",
    "over lines": "from os import path; from \\\n    {} \\\n    import net as other",
    "of a package": "from tools.{}.deep import a",
}


@pytest.mark.parametrize("imports", IMPORTS.values(), ids=IMPORTS)
def test_what_imports_another_file_is_read_with_it(imports: str) -> None:
    """Each pair together, and the shares of about the same length."""
    texts = {}
    for number in range(6):
        name = f"part{number}/seeds{number}.py" if number % 2 else f"part{number}/seeds{number}/__init__.py"
        texts[f"part{number}/train.py"] = SCRIPT.format(imports=imports.format(f"seeds{number}")), ()
        texts[name] = SEEDING, ()

    groups = [*import_groups(texts)]

    assert sorted(name for group in groups for name in group) == sorted(texts)
    assert [len(group) for group in groups] == [2] * 6
    assert all(len({Path(name).parts[0] for name in group}) == 1 for group in groups)
    assert [len(share) for share in balanced_shares(groups, 3)] == [2, 2, 2]


def test_fewer_groups_than_processes_are_as_many_shares() -> None:
    texts = {f"{name}.py": ("import b\n" if name < "c" else "", ()) for name in "abc"}

    assert sorted(map(str, balanced_shares(import_groups(texts), 8))) == sorted(
        str([{name: texts[name] for name in names}]) for names in (("a.py", "b.py"), ("c.py",))
    )


def test_what_nobody_imports_tells_others_nothing(tmp_path: Path) -> None:
    """A class of the same name, and a sampler that is told the epoch, in files that the script does not import."""
    script = (
        "import torch\nfrom thirdparty import Base, DistributedSampler\nclass Net(Base): pass\nnet = Net()\n"
        "sampler = DistributedSampler(data)\nnet(x).backward()\nsgd.step()\n"
    )
    (tmp_path / "train.py").write_text(script)
    before = [(one.rule, one.line) for one in lint([tmp_path]).findings]
    (tmp_path / "layers.py").write_text("from torch import nn\nclass Base(nn.Module):\n    pass\n")
    (tmp_path / "other.py").write_text("def epoch(sampler, n):\n    sampler.set_epoch(n)\n")

    assert before == [("SB701", 5)]
    assert [(one.rule, one.line) for one in lint([tmp_path]).findings] == before


def test_several_processes_find_what_one_does(tmp_path: Path) -> None:
    """Findings in their order, what a comment took back, files that cannot be read, cells of notebooks."""
    for number in range(60):
        folder = tmp_path / f"part{number:02}"
        folder.mkdir()
        (folder / "train.py").write_text(SCRIPT.format(imports=f"from seeds{number} import *" if number % 3 else ""))
        (folder / f"seeds{number}.py").write_text(SEEDING)
        (folder / "taken.py").write_text("import torch\ntorch.Generator().seed()  # samebits: ignore[SB106] demo\n")
    (tmp_path / "broken.py").write_text("import torch\nnet = (\n")
    (tmp_path / "latin.py").write_bytes(b"# \xe9\n")
    cells = '{"cells": [{"cell_type": "code", "source": ["import torch\\n", "torch.Generator().seed()"]}]}'
    (tmp_path / "look.ipynb").write_text(cells)

    alone, together = lint([tmp_path], jobs=1), lint([tmp_path], jobs=2)

    assert together == alone
    assert (len(alone.findings), alone.ignored, len(alone.unread), alone.files) == (21, 60, 2, 183)
