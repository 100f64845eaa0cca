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

from samebits.recording.folder import RunFolder

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


def step_ratios(kind: str) -> tuple[float, dict[str, tuple[list[float], float]]]:
    """Milliseconds of a plain step; for every way to observe it the ratios, round by round, and bytes per step."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        script = [str(HERE / "workload.py"), kind]
        commands = {
            "plain": [sys.executable, *script],
            "step": [*SAMEBITS, "--out", str(out / "step"), *script],
            "op": [*SAMEBITS, "--level", "op", "--out", str(out / "op"), *script],
            "DebugMode": [sys.executable, *script, "debug"],
        }
        workers = {name: Worker(command) for name, command in commands.items()}
        for worker in workers.values():
            worker.take(WARM_UP[kind])
        seconds: dict[str, list[float]] = {name: [] for name in workers}
        for turn in range(PAIRS):
            # Whoever goes later meets a warmer machine, so they take turns at that as well.
            names = list(workers)[turn % len(workers) :] + list(workers)[: turn % len(workers)]
            for name in names:
                seconds[name].append(workers[name].take(BLOCKS[kind]))
        for worker in workers.values():
            worker.close()
        found = {}
        for name in list(workers)[1:]:
            ratios = [own / plain for own, plain in zip(seconds[name], seconds["plain"], strict=True)]
            found[name] = ratios, bytes_per_step(out / name) if (out / name).exists() else 0.0
        return statistics.median(seconds["plain"]) / BLOCKS[kind] * 1000, found


def bytes_per_step(folder: Path) -> float:
    return (folder / "recording.sqlite").stat().st_size / RunFolder(folder).recordings()[0].steps


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
    print("               plain ms   level          bytes/step   over plain")
    for kind in BLOCKS:
        milliseconds, found = step_ratios(kind)
        for name, (ratios, size) in found.items():
            print(f"{kind:<14} {milliseconds:>8.1f}   {name:<12} {size:>12.0f}   {spread(ratios)}")
    print(f"\nstart-up added, s    {spread(start_up())}")
    torch.set_num_threads(1)
    print_throughput()


if __name__ == "__main__":
    main()
