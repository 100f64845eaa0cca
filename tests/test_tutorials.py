"""Tutorials are run as they are printed: files are made of their listings, commands are typed, output is compared."""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
FENCE = re.compile(r"^```(\S*)(?: (\w+))?\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
SLOW = {"first-verdict.md", "find-and-fix.md", "data.md", "cost.md"}
NAMES = sorted(path.name for path in TUTORIALS.glob("*.md") if path.name != "index.md")


@dataclass(frozen=True)
class Listing:
    """A file that the reader is asked to make."""

    name: str
    text: str


@dataclass(frozen=True)
class Typed:
    """A command, and what the page shows of its output; `...` stands for anything."""

    command: str
    output: str


def steps_of(page: str) -> Iterator[Listing | Typed]:
    """What a reader of the page does, in order."""
    for kind, language, text in FENCE.findall(page):
        if kind == "{code-block}" and text.startswith(":caption: "):
            name, _, content = text.removeprefix(":caption: ").partition("\n\n")
            yield Listing(name, content)
        elif (language or kind) == "console":
            for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, flags=re.MULTILINE):
                yield Typed(command, output)


def follow(page: str, folder: Path) -> int:
    """Do what the page says; returns how many commands were typed. A difference in output is an AssertionError."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    status, typed = 0, 0
    for step in steps_of(page):
        if isinstance(step, Listing):
            path = folder / step.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.text)
            continue
        # `$?` is the status of the command before, as in the reader's shell.
        words = ["bash", "-c", f"(exit {status})\n{step.command}"]
        done = subprocess.run(
            words,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
            check=False,
        )
        status, typed = done.returncode, typed + 1
        # How far a check has come is no part of its answer.
        printed = "".join(line for line in done.stdout.splitlines(True) if not line.startswith("so far: "))
        agree = prices_agree if step.command.startswith("samebits cost") else outputs_agree
        assert agree(step.output, printed), f"$ {step.command}\n{done.stdout}\nbut the page shows\n{step.output}"
    return typed


def outputs_agree(shown: str, printed: str) -> bool:
    # Pages show answers as a terminal does, wrapped.
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(without_figures(shown), without_figures(printed), options)


def prices_agree(shown: str, printed: str) -> bool:
    """Which sets of pins were measured, and which of them repeat; what they cost is the machine's business."""
    found = [
        (text.partition(":")[0][:25], re.findall(r"^ {4}(.+?)  +(yes|no)\b", text, flags=re.MULTILINE))
        for text in (shown, printed)
    ]
    return found[0] == found[1] != ("", [])


# What another machine, another day or another roll of the dice may change, and no reader would mind.
FIGURES = (
    (r"\bloss \d\S*", "loss N"),
    (r"\btook \d+ runs, \d+ s", "took N runs, N s"),
    (r"\bruns \d+ and \d+", "runs N and N"),
    (r"\brun \d+", "run N"),
    (r"\b\d+/\d+ (identical|differ)", r"N/N \1"),
    # Which of them went to the end is a matter of lots, too.
    (r"\b\d+ runs identical,? (\d+ )?to the end", "N runs identical to the end"),
    (r"bound [\d.]+ %", "bound N %"),
    # Only told where it may be rounding.
    (r"\b\d+ of \d+ elements differ, by at most \d+ ULP, relative \S+ ?", ""),
)


def without_figures(text: str) -> str:
    text = " ".join(text.split())
    for pattern, word in FIGURES:
        text = re.sub(pattern, word, text)
    return text


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in NAMES])
def test_a_tutorial_is_true(name: str, tmp_path: Path) -> None:
    """Every command prints what the page says."""
    assert follow((TUTORIALS / name).read_text(), tmp_path) >= 3


def test_what_is_not_true_is_noticed(tmp_path: Path) -> None:
    page = "```{code-block} python\n:caption: a.py\n\nprint(6 * 7)\n```\n\n```console\n$ python a.py\n42\n```\n"

    assert follow(page, tmp_path) == 1
    with pytest.raises(AssertionError, match="but the page shows"):
        follow(page.replace("\n42", "\n43"), tmp_path)
    assert outputs_agree("4/4 identical", "5/5 identical")
    assert not outputs_agree("4/4 identical", "4/4 differ")
    assert not prices_agree("a\n    nothing  yes  1\n", "a\n    nothing  no   1\n")
    with pytest.raises(AssertionError, match="but the page shows"):
        follow("```console\n$ false\n$ echo $?\n0\n```\n", tmp_path)
