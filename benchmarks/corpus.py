"""What a check says of the strange scripts of corpus/, and whether what cures them does.

python benchmarks/corpus.py                     # every script, checked: about two hours on two cores
python benchmarks/corpus.py b07 gan_rings       # those whose name begins so
python benchmarks/corpus.py --cured             # checks of the scripts after their diffs, which have to say "same"
python benchmarks/corpus.py --plain             # no checks: five plain runs of each; with --cured after its diff
python benchmarks/corpus.py --answers DIR       # keeps each answer as JSON there
python benchmarks/corpus.py --patched DIR       # no checks: five plain runs of each after the patch of its answer there

A row: script, verdict, causes with their lines, runs, seconds. With `--plain`: how many of the five runs left the same
files and printed the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

CORPUS = Path(__file__).parent.parent / "corpus"
PLAIN_RUNS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[""])
    parser.add_argument("--cured", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--patched", type=Path)
    options = parser.parse_args()
    scripts = [path for path in sorted(CORPUS.glob("*.py")) if path.name.startswith(tuple(options.names))]
    for script in scripts:
        if options.patched:
            diff = patch_of(options.patched / f"{script.stem}.json")
            print(f"{script.stem:24} {plain(script, diff) if diff else 'no patch'}", flush=True)
        elif options.plain:
            print(f"{script.stem:24} {plain(script, cure_of(script) if options.cured else '')}", flush=True)
        else:
            print(checked(script, cured=options.cured, answers=options.answers), flush=True)


def checked(script: Path, *, cured: bool, answers: Path | None) -> str:
    """The row of one script."""
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as home:
        placed(script, Path(place), cure_of(script) if cured else "")
        start = time.monotonic()
        command = [sys.executable, "-m", "samebits", "check", "--format", "json", script.name]
        done = subprocess.run(command, cwd=place, env={**os.environ, "HOME": home}, capture_output=True, text=True)
        seconds = time.monotonic() - start
    name = f"{script.stem}{'.cured' * cured}"
    if answers:
        answers.mkdir(parents=True, exist_ok=True)
        (answers / f"{name}.json").write_text(done.stdout)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return f"{name:24} exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
    causes = "; ".join(map(cause_text, answer["causes"])) or "unknown" * (answer["verdict"] == "different")
    return f"{name:24} {answer['verdict']:10} {causes:80} {len(answer['runs']):3} runs {seconds:4.0f} s"


def cure_of(script: Path) -> str:
    """The diff that cures it."""
    return script.with_suffix(".diff").read_text()


def patch_of(answer: Path) -> str:
    """The patch that a check offered; empty where it offered none."""
    patch = json.loads(answer.read_text())["patch"] if answer.exists() else None
    return patch["diff"] if patch else ""


def placed(script: Path, place: Path, diff: str) -> None:
    """Puts a script into a folder of its own, as it is or after a diff."""
    (place / script.name).write_bytes(script.read_bytes())
    if diff:
        subprocess.run(["patch", "--quiet", "-p1"], cwd=place, input=diff, text=True, check=True)


def cause_text(cause: dict[str, object]) -> str:
    """`clock train.py:31 confirmed`."""
    site = cause["location"]
    assert site is None or isinstance(site, dict)
    place = "-" if site is None else f"{Path(site['path']).name}:{site['line']}"
    return f"{cause['factor']} {place} {'confirmed' if cause['confirmed'] else 'suspected'}"


def plain(script: Path, diff: str) -> str:
    """How many of five plain runs, which share a home folder, ended alike, by files and by what was printed."""
    left: Counter[str] = Counter()
    printed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as home:
        for _ in range(PLAIN_RUNS):
            with tempfile.TemporaryDirectory() as place:
                placed(script, Path(place), diff)
                command, environ = [sys.executable, script.name], {**os.environ, "HOME": home}
                done = subprocess.run(command, cwd=place, env=environ, capture_output=True, stdin=subprocess.DEVNULL)
                files = hashlib.sha256()
                for path in sorted(path for path in Path(place).rglob("*") if path.is_file()):
                    files.update(str(path.relative_to(place)).encode() + path.read_bytes())
            left[files.hexdigest()] += 1
            printed[f"{done.returncode} {hashlib.sha256(done.stdout).hexdigest()}"] += 1
    return f"files {max(left.values())}/{PLAIN_RUNS} printed {max(printed.values())}/{PLAIN_RUNS} alike"


if __name__ == "__main__":
    main()
