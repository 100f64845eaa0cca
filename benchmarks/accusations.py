"""How often a check calls an innocent factor guilty: real checks of planted coins, and simulated checks of any script.

python benchmarks/accusations.py real 20       # each planted cause that no factor knows, so many times
python benchmarks/accusations.py simulated 100000
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
UNKNOWN = HERE.parent / "tests" / "quality" / "unknown"
BIASES = ("0.5", "0.3", "0.1")
# Two controls and one varied run, as by default: what follows is the search that must not accuse.
JOBS = os.cpu_count() or 1


def main() -> None:
    kind, number = sys.argv[1], int(sys.argv[2])
    if kind == "simulated":
        simulated(number)
    else:
        real(number)


def real(number: int) -> None:
    total: Counter[str] = Counter()
    for name in sorted(path.name for path in UNKNOWN.iterdir()):
        for bias in BIASES if name == "coin" else ("",):
            found: Counter[str] = Counter()
            start = time.monotonic()
            for _ in range(number):
                found += checked(name, bias)
            total += found
            told = ", ".join(f"{count} {what}" for what, count in sorted(found.items()))
            print(f"{name:<14} {bias:<4} {told}; {time.monotonic() - start:.0f} s", flush=True)
    print(f"all: {dict(total)}")


def checked(name: str, bias: str) -> Counter[str]:
    """One real check: its verdict, what it accuses, and its runs."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "samebits", "check", "--format", "json", "--jobs", str(JOBS), "--out", home]
        done = subprocess.run(
            [*command, "faulty.py"],
            cwd=UNKNOWN / name,
            env={**os.environ, "BIAS": bias, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    document = json.loads(done.stdout)
    found = Counter([document["verdict"]], runs=len(document["runs"]))
    for cause in document["causes"]:
        found[f"{'confirmed' if cause['confirmed'] else 'suspected'} {cause['factor']}"] += 1
    return found


def simulated(number: int) -> None:
    sys.path.insert(0, str(HERE.parent))
    from tests.checking.test_search import judged

    total: Counter[str] = Counter()
    start = time.monotonic()
    for seed in range(number):
        total += judged(seed)
    print(f"{dict(total)}; {time.monotonic() - start:.0f} s")
    print(f"false confirmed: {total['false'] / total['checks']:.3%} of all checks, ", end="")
    print(f"{total['false'] / total['chancy and different']:.3%} of those that differ by chance")
    print(f"missed causes: {total['missed'] / total['clean guilty']:.2%} of {total['clean guilty']}")


if __name__ == "__main__":
    main()
