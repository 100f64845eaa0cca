"""Bad and good code for each rule, as people write it, and what a rule says of it.

A file of `snippets/` belongs to a rule. A line of `====` begins a snippet; `==== name.py` begins a further file of the
same one. A line that the rule must name carries `# <- CODE`; `# <- missed` is one that it should name and does not,
`# <- false` one that it names and should not: both count in the table of precision and recall.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from samebits.lint.linting import LintOptions, lint
from samebits.lint.rule import all_rules, find_rule

FOLDER = Path(__file__).parent / "snippets"
# What most snippets leave out: it stands below them, so that their lines keep their numbers.
REST = """
import argparse, datetime, glob, hashlib, logging, os, random, secrets, sys, time, uuid
from pathlib import Path
from typing import NamedTuple
from concurrent.futures import ThreadPoolExecutor, as_completed
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, random_split
def fit(loss, optimizer):
    loss.backward()
    optimizer.step()
if __name__ == "__main__":
    fit()
"""


@dataclass(frozen=True)
class Snippet:
    """Files by name, and the lines in them that carry a mark."""

    code: str
    title: str
    files: dict[str, str]

    def marked(self, word: str) -> set[tuple[str, int]]:
        return {
            (name, number)
            for name, text in self.files.items()
            for number, line in enumerate(text.splitlines(), 1)
            if re.search(rf"# <- {word}\b", line)
        }

    @property
    def guilty(self) -> set[tuple[str, int]]:
        """Lines that are wrong, whether the rule sees it or not."""
        return self.marked(self.code) | self.marked("missed")

    def found(self, folder: Path) -> set[tuple[str, int]]:
        """The lines that the rule names."""
        for name, text in self.files.items():
            (folder / name).write_text(text)
        names = [folder / name for name in self.files]
        findings = lint(names, LintOptions(select=(self.code,))).findings
        return {(Path(one.path).name, line) for one in findings for line in one.lines}


def snippets() -> list[Snippet]:
    """All of them, by rule."""
    return [one for path in sorted(FOLDER.glob("*.txt")) for one in _read(path)]


class Score(NamedTuple):
    """Lines of a rule's snippets: those that it names rightly, wrongly, and those that it should name, too."""

    right: int
    false: int
    missed: int

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.false)

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed)


def scores() -> dict[str, Score]:
    """By the marks in the snippets, which a test holds the rules to."""
    return {
        rule.code: Score(
            *(
                sum(len(one.marked(word)) for one in snippets() if one.code == rule.code)
                for word in (rule.code, "false", "missed")
            )
        )
        for rule in all_rules()
    }


def _read(path: Path) -> list[Snippet]:
    found = list[Snippet]()
    for part in re.split(r"^==== ?", path.read_text(), flags=re.M)[1:]:
        head, _, text = part.partition("\n")
        if head.endswith(".py"):
            found[-1].files[head] = text
        else:
            found.append(Snippet(path.stem, head, {"train.py": text + REST}))
    return found


def of_docs(code: str) -> tuple[Snippet, Snippet]:
    """Bad and good code of a rule's page."""
    doc = find_rule(code).doc + "\n"
    bad, good = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", doc, flags=re.M)[:2]
    return tuple(
        Snippet(code, f"{kind} in the docs", {"train.py": re.sub("^ {4}", "", text.strip("\n"), flags=re.M) + REST})
        for kind, text in (("bad", bad), ("good", good))
    )  # type: ignore[return-value]
