"""Which files are read, what is taken back, and what becomes of files that cannot be read."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.base.errors import UsageError
from samebits.lint import linting
from samebits.lint.findings import Findings
from samebits.lint.linting import Linted, LintOptions, lint
from samebits.lint.rule import all_rules
from tests.cli.typed import typed
from tests.schemas import assert_valid

GUILTY = "import torch\nrng = torch.Generator()\nrng.seed()\n"


def found(folder: Path, options: LintOptions | None = None, **files: str) -> Linted:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return lint([folder], options)


def codes(linted: Linted) -> list[str]:
    return [one.rule for one in linted.findings]


def test_a_comment_with_a_reason_takes_a_finding_back(tmp_path: Path) -> None:
    """At the line, or alone on the one above; without a reason, or for another rule, it does not."""
    comment = "# samebits: ignore[SB106]"
    line = "rng.seed()"
    there = GUILTY.replace(line, f"{line}  {comment} demo")
    above = GUILTY.replace(line, f"{comment} demo\n{line}")

    assert (codes(found(tmp_path, a=there)), codes(found(tmp_path, a=above))) == ([], [])
    assert found(tmp_path, a=above).ignored == 1
    for text in (f"{line}  {comment}", f"{line}  # samebits: ignore[SB101] demo", f"{line}  # ignore"):
        assert codes(found(tmp_path, a=GUILTY.replace(line, text))) == ["SB106"]


def test_a_rule_that_fails_costs_its_findings_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other ones are found, and the failure is said with the file and the rule, as ours."""

    def fails(*_: object) -> Findings:
        raise IndexError("list index out of range")

    rules = [replace(rule, find=fails) if rule.code == "SB107" else rule for rule in all_rules()]
    monkeypatch.setattr(linting, "all_rules", lambda: rules)
    linted = found(tmp_path, a=GUILTY)

    assert codes(linted) == ["SB106"]
    assert [(Path(one.path).name, one.why) for one in linted.unread] == [
        ("a.py", "SB107 cannot read it, which is samebits' mistake (IndexError: list index out of range)")
    ]


SPLIT = """import torch
from sklearn.model_selection import train_test_split
from torch.utils.data import random_split
train, test = random_split(data, [8, 2])
more, rest = train_test_split(train)
net = torch.nn.Linear(1, 1)
net(x).backward()
sgd.step()
"""


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        ("import torch", [(4, "SB111"), (5, "SB111"), (6, "SB101")]),
        ("import random, torch; random.seed(0)", [(4, "SB111"), (5, "SB111"), (6, "SB104")]),
        ("import torch; torch.manual_seed(0)", [(5, "SB111")]),
    ],
)
def test_a_line_is_named_by_one_rule(seed: str, expected: list[tuple[int, str]], tmp_path: Path) -> None:
    """A split that nothing seeds is told as that, and not as one of many draws, too."""
    linted = found(tmp_path, train=SPLIT.replace("import torch", seed, 1))

    assert [(line, one.rule) for one in linted.findings for line in one.lines] == expected


def test_rules_are_chosen_by_how_their_codes_begin(tmp_path: Path) -> None:
    """What is off by default is on where it is selected; an unknown code is an error that names the known ones."""
    assert codes(found(tmp_path, LintOptions(select=("SB1",)), a=GUILTY)) == ["SB106"]
    assert codes(found(tmp_path, LintOptions(select=("SB2",)), a=GUILTY)) == []
    assert codes(found(tmp_path, LintOptions(ignore=("SB106",)), a=GUILTY)) == []
    with pytest.raises(UsageError, match="no rule has the code 'SB999'") as error:
        lint([tmp_path], LintOptions(select=("SB999",)))
    assert "SB106" in error.value.hint


def test_tests_documentation_and_environments_are_passed_by(tmp_path: Path) -> None:
    """Below a folder that is given; a file that is given is read whatever it is called."""
    for name in (
        "tests/a.py",
        "docs/b.py",
        ".hidden/c.py",
        "env/lib/d.py",
        "setup.py",
        "test_e.py",
        "old/f.py",
        "g.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(GUILTY)
    (tmp_path / "env" / "pyvenv.cfg").write_text("")

    assert [Path(one.path).name for one in lint([tmp_path], LintOptions(exclude=("old",))).findings] == ["g.py"]
    assert codes(lint([tmp_path / "tests" / "a.py"])) == ["SB106"]


BROKEN = {
    "no Python": (b"def f(:\n    seed", 1, "it is no Python"),
    "another encoding": (b"# a\n# b\n# caf\xe9\nseed = 1\n", 0, "it is not utf-8: byte 13 is 0xe9"),
    "an encoding that is none": (b"# coding: none\nseed = 1\n", 0, "it is not UTF-8, and names no encoding"),
    "null bytes": (b"seed = 1\x00\n", 0, "it is no Python"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_is_said_and_hides_nothing(name: str, tmp_path: Path) -> None:
    """Findings in other files are told all the same; alone, it is not passed off as clean."""
    content, line, why = BROKEN[name]
    (tmp_path / "broken.py").write_bytes(content)

    alone = lint([tmp_path])
    both = found(tmp_path, a=GUILTY)

    assert [(Path(one.path).name, one.line) for one in alone.unread] == [("broken.py", line)]
    assert alone.unread[0].why.startswith(why)
    assert (alone.exit_code, both.exit_code, codes(both)) == (2, 1, ["SB106"])


@pytest.mark.parametrize("head", ["# Generated by protoc. DO NOT EDIT.\n", "# @generated\n"])
def test_generated_code_is_passed_by(head: str, tmp_path: Path) -> None:
    """Nobody would change it by hand."""
    assert codes(found(tmp_path, a=head + GUILTY)) == []


def test_a_file_that_was_not_given_may_seed(tmp_path: Path) -> None:
    """A script is told that nothing seeds only where all that it imports of its own was read."""
    script = (
        "import torch\nfrom tools import start\nstart()\nnet = torch.nn.Linear(1, 1)\nnet(x).backward()\nsgd.step()\n"
    )
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "tools.py").write_text("import torch\ndef start():\n    torch.set_num_threads(1)\n")

    assert codes(lint([tmp_path / "train.py"])) == []
    assert codes(lint([tmp_path])) == ["SB101"]


def notebook(*cells: str) -> str:
    kinds = [{"cell_type": "code", "source": [text]} for text in cells]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": "# seed"}, *kinds]})


def test_a_notebook_is_read_cell_by_cell(tmp_path: Path) -> None:
    """Lines count within a cell; what only IPython understands is no mistake."""
    magic = "%matplotlib inline\n!pip install x \\\n    y\nimport torch\nlen?"
    (tmp_path / "a.ipynb").write_text(notebook(magic, "%%bash\nls", "%%time\nrng = torch.Generator()\nrng.seed()"))
    (tmp_path / "b.ipynb").write_text("{}")

    linted = lint([tmp_path])

    assert [(one.cell, one.line, one.rule) for one in linted.findings] == [(4, 3, "SB106")]
    assert [(Path(one.path).name, one.why) for one in linted.unread] == [("b.ipynb", "it is no notebook: 'cells'")]


PYTHON = {
    "a comment that asks": ("torch.manual_seed(0)  # does this help?", ["SB101"]),
    "a remainder": ("torch.manual_seed(\n    7\n    % 5\n)", ["SB101"]),
    "a command, and what it is assigned to": (
        "files = !ls\nhome = %env HOME\n!ls 'it\ntorch.manual_seed(0)",
        ["SB101"],
    ),
    "help": ("torch.manual_seed?", []),
    "help beforehand": ("?torch.manual_seed", []),
}


@pytest.mark.parametrize("name", PYTHON)
def test_only_what_is_no_python_is_left_out_of_a_cell(name: str, tmp_path: Path) -> None:
    """What seeds is read, whatever its line ends or begins with."""
    cell, missing = PYTHON[name]
    rest = "model = torch.nn.Linear(2, 1)\nmodel(x).backward()\noptimizer.step()"
    (tmp_path / "a.ipynb").write_text(notebook("import torch", cell, rest))

    linted = lint([tmp_path])

    assert not linted.unread
    assert set(codes(linted)) ^ set(missing) == {"SB101"}


def test_the_command_tells_findings_and_their_lines(tmp_path: Path) -> None:
    """With the exit status, in words and as documents."""
    (tmp_path / "train.py").write_text(GUILTY)

    text, document = typed("lint", ".", cwd=tmp_path), typed("lint", "--format", "json", ".", cwd=tmp_path)
    sarif, github = (
        typed("lint", "--format", "sarif", ".", cwd=tmp_path),
        typed("lint", "--format", "github", ".", cwd=tmp_path),
    )

    assert (text.status, text.err) == (1, "")
    assert text.out.splitlines()[:3] == [
        "1 error in 1 file",
        "  error     train.py:3  SB106: seeds with entropy of the operating system, which is new in every run",
        "                rng.seed()",
    ]
    answer = json.loads(document.out)
    assert_valid(answer)
    assert [(one["rule"], one["line"]) for one in answer["findings"]] == [("SB106", 3)]
    (result,) = json.loads(sarif.out)["runs"][0]["results"]
    assert result["ruleId"] == "SB106"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 3
    assert github.out.startswith("::error file=train.py,line=3,title=samebits lint%3A SB106::seeds with")


def test_the_command_is_configured_and_explains(tmp_path: Path) -> None:
    """In a table of its own, whose keys are checked."""
    (tmp_path / "train.py").write_text(GUILTY)
    (tmp_path / "pyproject.toml").write_text('[tool.samebits.lint]\nignore = ["SB106"]\n')
    quiet = typed("lint", cwd=tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.samebits.lint]\nselct = ["SB106"]\n')
    misspelt = typed("lint", cwd=tmp_path)
    (tmp_path / "pyproject.toml").unlink()
    absent, page = typed("lint", "nothing.py", cwd=tmp_path), typed("lint", "--explain", "SB106", cwd=tmp_path)

    assert (quiet.status, quiet.out) == (0, "nothing found in 1 file\n")
    assert (misspelt.status, "hint: did you mean select?" in misspelt.err) == (2, True)
    assert (absent.status, absent.err.splitlines()[0]) == (2, "error: there is no file or folder nothing.py")
    assert (page.status, page.out.splitlines()[0]) == (0, "SB106 (error)")


def test_neither_torch_nor_what_is_read_is_imported(tmp_path: Path) -> None:
    """The file would say so."""
    (tmp_path / "train.py").write_text(f"{GUILTY}raise SystemExit('imported')\n")
    script = "import sys; from samebits.lint.linting import lint; print(lint(['.']).exit_code, 'torch' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout == "1 False\n"


def test_a_file_that_may_not_be_opened_is_said(tmp_path: Path) -> None:
    """A link that leads nowhere is a file, too."""
    os.symlink("nowhere.py", tmp_path / "train.py")

    assert [(Path(one.path).name, one.why) for one in lint([tmp_path]).unread] == [
        ("train.py", "No such file or directory")
    ]


@pytest.mark.parametrize(("more", "words"), [(1, "(so does line 3)"), (2, "(so do lines 3, 4)")])
def test_further_lines_are_counted(more: int, words: str, tmp_path: Path) -> None:
    """One line does, two do."""
    draws = "net = torch.nn.Linear(1, 1)\n" * (1 + more)
    (tmp_path / "train.py").write_text(f"import torch\n{draws}net(x).backward()\nsgd.step()\n")

    assert words in typed("lint", "train.py", cwd=tmp_path).out
