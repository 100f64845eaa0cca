"""What `samebits check` says of the scripts of `scripts/` on the accelerator here, beside five plain runs of each.

    python -m tests.gpu.verdicts [--jobs N] [--answers DIR] [NAME ...]

A line that keeps a script from repeating, where it does, carries the comment `# <- FACTOR`. Whether a script repeats is
for the device to say: kernels, libraries and sizes decide it.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
PLAIN_RUNS = 5
TIMEOUT_SECONDS = 270
TORCHRUN = ["torchrun", "--standalone", "--nproc-per-node", "1"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="checks at a time")
    parser.add_argument("--answers", type=Path, default=Path("answers"), help="folder for each answer, as JSON")
    options = parser.parse_args()
    options.answers.mkdir(parents=True, exist_ok=True)
    scripts = [SCRIPTS / f"{name}.py" for name in options.names] or sorted(SCRIPTS.glob("*.py"))
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda one: row(one, options.answers), scripts))
    return 1 if any(re.search("FAILED|FALSE|WRONG|MISSED|NO REMEDY", one) for one in rows) else 0


def row(script: Path, answers: Path) -> str:
    """Script, plain runs, verdict, causes with their lines, remedy, runs, seconds; told as soon as it is known."""
    start = time.monotonic()
    try:
        plainly = plain(script)
        told = f"{plainly} of {PLAIN_RUNS} alike  {judged(script, plainly, checked(script, answers))}"
    except Exception as error:
        told = f"FAILED {error!r}"
    found = f"{script.stem:18} {told} {time.monotonic() - start:4.0f} s"
    print(found, flush=True)
    return found


def plain(script: Path) -> int:
    """How many of five plain runs, side by side, left the same files and printed the same."""

    def end() -> str:
        with tempfile.TemporaryDirectory() as place:
            done = start(script, Path(place), [])
            left = [(one.name, one.read_bytes()) for one in sorted(Path(place).glob("*.pt"))]
            assert done.returncode == 0, done.stderr[-600:]
            return hashlib.sha256(repr((done.stdout, left)).encode()).hexdigest()

    with ThreadPoolExecutor(PLAIN_RUNS) as pool:
        return Counter(pool.map(lambda _: end(), range(PLAIN_RUNS))).most_common(1)[0][1]


def checked(script: Path, answers: Path) -> dict[str, object]:
    """The answer of the command."""
    command = "resume" if script.stem == "resumed" else "check"
    with tempfile.TemporaryDirectory() as place:
        done = start(script, Path(place), ["-m", "samebits", command, "--format", "json"])
    (answers / f"{script.stem}.json").write_text(done.stdout, encoding="utf-8")
    (answers / f"{script.stem}.err").write_text(done.stderr, encoding="utf-8")
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def start(script: Path, place: Path, words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Of a script in a folder of its own."""
    (place / script.name).write_bytes(script.read_bytes())
    if script.stem == "ranks":
        command = [*([sys.executable, *words, "--"] if words else []), *TORCHRUN, script.name]
    else:
        command = [sys.executable, *words, script.name]
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    return subprocess.run(
        command, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )


def judged(script: Path, plainly: int, answer: dict[str, object]) -> str:
    """A verdict beside what plain runs showed and the lines that are marked; what is in capitals is wrong."""
    marks = {
        (line.rpartition("# <- ")[2], number)
        for number, line in enumerate(script.read_text(encoding="utf-8").splitlines(), 1)
        if "# <- " in line
    }
    if "causes" not in answer:
        first = answer["first"]
        assert isinstance(first, dict)
        missing = [(one["state"], one["confirmed"]) for one in first["missing"]]
        return f"{answer['verdict']}: {missing}{' WRONG' * (missing != [('generators', True)])}"
    causes, runs, remedy = answer["causes"], answer["runs"], answer["remedy"]
    assert isinstance(causes, list)
    assert isinstance(runs, list)
    assert remedy is None or isinstance(remedy, dict)
    found = {(one["factor"], one["location"]["line"] if one["location"] else None) for one in causes}
    told = "; ".join(f"{one['factor']}{'' if one['confirmed'] else ' suspected'}" for one in causes) or "-"
    wrong = " FALSE SAME" * (plainly < PLAIN_RUNS and answer["verdict"] == "same")
    wrong += f" WRONG {sorted(found - marks, key=str)}" * bool(found - marks)
    wrong += f" MISSED {sorted(marks - found)}" * (answer["verdict"] == "different" and bool(marks - found))
    wrong += " NO REMEDY" * (bool(causes) and not (remedy and remedy["verified"]))
    return f"{answer['verdict']}: {told}{wrong}, {len(runs)} runs,"


if __name__ == "__main__":
    raise SystemExit(main())
