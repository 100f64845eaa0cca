"""Runs what is to be looked at on a GPU, in slices of ten minutes: `python -m tests.gpu --slice 1`, then 2, 3, 4.

Slices 1 to 3 need torch and samebits alone, and write what they found to `benchmarks/results/gpu-slice-N.txt`; slice 4
runs the tests of this folder and needs pytest. `--dry` goes through the motions on a machine without a GPU.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--slice", type=int, choices=(1, 2, 3, 4), required=True)
    parser.add_argument("--dry", action="store_true", help="on the CPU, writing nothing down")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for what was found")
    options = parser.parse_args()
    if options.slice == 4:
        return subprocess.run([sys.executable, "-m", "pytest", "-m", "gpu", "tests/gpu"], check=False).returncode
    from tests.gpu import first_hour

    if first_hour.DEVICE == "cpu" and not options.dry:
        print("there is no CUDA device here; --dry runs on the CPU", file=sys.stderr)
        return 2
    lines, failed = [], 0
    for check in first_hour.SLICES[options.slice]:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                told = check(Path(folder))
            except Exception:
                failed += 1
                told = f"FAILED\n{traceback.format_exc()}"
        lines.append(f"{check.__name__:<10} {time.monotonic() - began:6.1f} s  {told}")
        print(lines[-1], flush=True)
    if not options.dry:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"gpu-slice-{options.slice}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
