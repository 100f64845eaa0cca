"""What recording costs: step time, start-up, size on disk, and the speed of the digest, side by side in one run.

    python benchmarks/recording.py

A plain process and a recorded one take turns, block by block, on the same machine; the ratio is taken pair by pair.
"""

import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from digest_speed import print_throughput  # the sibling script

from samebits.record.folder import RunFolder

HERE = Path(__file__).parent
PAIRS = 15
BLOCKS = {"cnn": 20, "transformer": 2}
WARM_UP = {"cnn": 20, "transformer": 3}
SAMEBITS = [sys.executable, "-m", "samebits", "run", "--no-pin"]


class Worker:
    """A workload in a process of its own."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def take(self, steps: int) -> float:
        """Seconds for so many steps."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def step_ratio(kind: str) -> tuple[list[float], float, float]:
    """Recorded over plain, pair by pair; milliseconds of a plain step; bytes of recording per step."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        script = [str(HERE / "workload.py"), kind]
        plain = Worker([sys.executable, *script])
        recorded = Worker([*SAMEBITS, "--out", str(out), *script])
        for worker in (plain, recorded):
            worker.take(WARM_UP[kind])
        ratios, seconds = [], []
        for pair in range(PAIRS):
            # Whoever goes second meets a warmer machine, so they take turns at that as well.
            first, second = (plain, recorded) if pair % 2 else (recorded, plain)
            times = {first: first.take(BLOCKS[kind]), second: second.take(BLOCKS[kind])}
            ratios.append(times[recorded] / times[plain])
            seconds.append(times[plain] / BLOCKS[kind])
        for worker in (plain, recorded):
            worker.close()
        steps = RunFolder(out).recordings()[0].steps
        size = (out / "recording.sqlite").stat().st_size / steps
    return ratios, statistics.median(seconds) * 1000, size


def start_up() -> list[float]:
    """Seconds that samebits adds to a script that imports torch and ends."""
    added = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(PAIRS // 2):
            command = [sys.executable, "-c", "import torch"]
            seconds = []
            for prefix in ([], [*SAMEBITS, "--out", str(Path(folder) / str(pair))]):
                start = time.perf_counter()
                subprocess.run([*prefix, *command], check=True)
                seconds.append(time.perf_counter() - start)
            added.append(seconds[1] - seconds[0])
    return added


def spread(values: list[float]) -> str:
    low, *_, high = statistics.quantiles(values, n=10)
    return f"{statistics.median(values):.3f}   ({low:.3f} to {high:.3f}, the middle 80 % of {len(values)})"


def main() -> None:
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} threads\n")
    print("step level           plain ms   bytes/step   recorded / plain")
    for kind in BLOCKS:
        ratios, milliseconds, size = step_ratio(kind)
        print(f"  {kind:<18} {milliseconds:>8.1f}   {size:>10.0f}   {spread(ratios)}")
    print(f"\nstart-up added, s    {spread(start_up())}")
    torch.set_num_threads(1)
    print_throughput()


if __name__ == "__main__":
    main()
