"""How right `samebits lint` is, how much it finds, and how long it takes; on checkouts, what it and others say.

python benchmarks/lint.py                   # snippets, planted cases, strange scripts, time
python benchmarks/lint.py CHECKOUT...       # what each rule says of public code, to be read
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from samebits.lint.linting import lint
from samebits.lint.rule import all_rules
from tests.lint.agreement import planted, strange
from tests.lint.snippets import scores, snippets

FILES = 500
# Others that say something about reproducibility, as they are called.
OTHERS = {
    "ruff": [
        "ruff",
        "check",
        "--select",
        "S311,NPY002,PLC0208,PTH207,PTH208",
        "--output-format",
        "concise",
        "--exit-zero",
    ],
    "torchfix": ["torchfix", "--select", "ALL"],
    "torchdetscan": ["torchdetscan"],
    "reprolint": ["reprolint"],
    "dslinter": ["pylint", "--load-plugins=dslinter", "--disable=all", "--enable=randomness-control-pytorch"],
}


def main() -> None:
    if sys.argv[1:]:
        for path in sys.argv[1:]:
            checkout(path)
    else:
        table()
        agreement()
        timing()


def table() -> None:
    """Each rule on its snippets."""
    print(f"{len(snippets())} snippets\n\nrule   level    lines  false  missed  precision  recall")
    for code, score in scores().items():
        rule = next(one for one in all_rules() if one.code == code)
        counts = f"{score.right:5}  {score.false:5}  {score.missed:6}"
        ratios = f"{score.precision:9.2f}  {score.recall:6.2f}"
        print(f"{code}  {rule.level:<7}  {counts}  {ratios}")


def agreement() -> None:
    """What reading says of what experiments confirm."""
    lines, scripts = planted(), strange()
    named, cured = [one for one in lines if one.rules], [one for one in scripts if one.rules]
    print(f"\nplanted lines of factors that rules cover: {len(lines)}, named: {len(named)}")
    for one in lines:
        print(f"  {one.where}:{one.line}  {one.factor}  {', '.join(one.rules) or '-'}")
    print(f"\nstrange scripts: {len(scripts)}, a line that the cure takes away is named in {len(cured)}")
    for one in cured:
        print(f"  {one.where}  {', '.join(one.rules)}")


def timing() -> None:
    """The strange scripts again and again, until there are enough files."""
    sources = sorted((Path(__file__).parents[1] / "corpus").glob("*.py"))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(FILES):
            own = sources[number % len(sources)]
            home = Path(folder, f"part{number // len(sources)}")
            home.mkdir(exist_ok=True)
            shutil.copy(own, home)
        lines = sum(len(path.read_text().splitlines()) for path in Path(folder).rglob("*.py"))
        start = time.monotonic()
        subprocess.run([sys.executable, "-m", "samebits", "lint", folder], stdout=subprocess.DEVNULL, check=False)
        wall, used = time.monotonic() - start, os.times()
    print(f"\n{FILES} files, {lines} lines: {wall:.2f} s, {used.children_user:.2f} s of processor time, start and all")


class Label(NamedTuple):
    """A line of `public_lines.txt`: when it shows, where it is, the rule that could say so, and what it is."""

    when: str
    path: str
    line: int
    rule: str
    what: str


def labels(name: str) -> set[Label]:
    """What was marked in a checkout of that name; nothing in others."""
    found, repository = set[Label](), ""
    for line in (Path(__file__).parent / "public_lines.txt").read_text().splitlines():
        match = re.fullmatch(r"(?P<path>\S+):(?P<line>\d+)  (?P<when>\w+)  \w+  (?P<rule>\S+)  (?P<what>.*)", line)
        if line.startswith("== "):
            repository = line.split()[1].rpartition("/")[2]
        elif match and name.endswith(repository):
            found.add(Label(match["when"], match["path"], int(match["line"]), match["rule"], match["what"]))
    return found


def checkout(path: str) -> None:
    """What is said of public code, line by line, how much of what is marked there, and how much others say of it."""
    start = time.monotonic()
    found = lint([path])
    counts = Counter(one.rule for one in found.findings)
    told = ", ".join(f"{rule} {count}" for rule, count in sorted(counts.items()))
    seconds = time.monotonic() - start
    print(f"{Path(path).name}: {found.files} files, {len(found.unread)} not read, {seconds:.1f} s: {told}")
    for one in found.findings:
        print(f"  {os.path.relpath(one.path, path)}:{one.line}  {one.rule}: {one.reason}")
    marked = labels(Path(path).name)
    if marked:
        told = {(os.path.relpath(one.path, path), one.rule) for one in found.findings}
        named = {label for label in marked if (label.path, label.rule) in told}
        print(f"  (of {len(marked)} lines that a reader marked, {len(named)} are named)")
        for when, own in itertools.groupby(sorted(marked), lambda label: label.when):
            each = [*own]
            print(f"    {when:9}{len(named.intersection(each)):3} of {len(each)}")
        for label in sorted(marked - named):
            print(f"    missed {label.path}:{label.line}  {label.rule}  {label.what}")
    for name, words in OTHERS.items():
        if shutil.which(words[0]) is None:
            print(f"  ({name} is not installed)")
            continue
        done = subprocess.run([*words, path], capture_output=True, text=True, check=False)
        print(f"  ({name}: {len(done.stdout.splitlines())} lines, status {done.returncode})")


if __name__ == "__main__":
    main()
