"""What is to be looked at on a GPU: `python -m tests.gpu PART ...`, each of which needs torch, samebits and pytest.

    tests      the tests of this folder
    looks      what to look at first, in the order in which one finding would explain the next
    verdicts   whole checks of the scripts of `scripts/`, beside plain runs of each
    ops        what replaces operations that torch refuses: the same bits in every call, and as right as torch's
    prices     what recording and digests cost; alone on the machine

What each found goes to a file of its name in `--out`. `--names` chooses among looks, prices and verdicts.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.gpu import first_hour, verdicts

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
JOBS = max(1, (os.cpu_count() or 1) // 2)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("tests", "looks", "verdicts", "ops", "prices"))
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=JOBS, help="tests and checks at a time")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for what was found")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.part == "verdicts":
        lines = verdicts.rows(options.out / "answers", options.jobs, options.names)
    elif options.part in ("tests", "ops"):
        lines = list(told_by(options.part, options.jobs))
    else:
        checks = first_hour.LOOKS if options.part == "looks" else first_hour.PRICES
        lines = list(looked(checks, options.names))
    (options.out / f"gpu-{options.part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if any("FAILED" in line or "FALSE" in line for line in lines) else 0


def told_by(part: str, jobs: int) -> Iterator[str]:
    """By other programs of this repository."""
    tests = ["-m", "pytest", "-m", "gpu and not slow", "-n", str(jobs), "--durations=8", "-v", "tests/gpu"]
    for words in [tests] if part == "tests" else [["-m", "tests.ops.probes", one] for one in ("agrees", "errors")]:
        start = time.monotonic()
        status = subprocess.run([sys.executable, *words], check=False).returncode
        yield f"{' '.join(words)}: {f'FAILED, exit {status}' if status else 'passed'}, {time.monotonic() - start:.1f} s"


def looked(checks: Sequence[Callable[[Path], str]], names: Sequence[str]) -> Iterator[str]:
    """What each found, as soon as it did."""
    for check in checks:
        if names and check.__name__ not in names:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                told = check(Path(folder))
            except Exception:
                told = f"FAILED\n{traceback.format_exc()}"
        line = f"{check.__name__:<10} {time.monotonic() - began:6.1f} s  {told}"
        print(line, flush=True)
        yield line


if __name__ == "__main__":
    raise SystemExit(main())
