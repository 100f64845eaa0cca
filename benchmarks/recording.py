"""What recording costs: step time, start-up, size on disk, and the speed of the digest, side by side in one run.

    python benchmarks/recording.py [cnn] [transformer] [step] [op] [DebugMode]

A plain process and a recorded one take turns, block by block, on the same machine; the ratio is taken pair by pair, of
the time on the clock and of the processor's own, which hears less of what else the machine does. Two processes of the
same program may differ by a tenth for as long as they live, so several pairs of processes are started: a median for
each, of which the median is told, and the least and the greatest. Naming models or levels measures those alone.
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

from samebits.runfolder.folder import RunFolder

HERE = Path(__file__).parent
PROCESSES = 8
PAIRS = 5
BLOCKS = {"cnn": 10, "transformer": 1}
STARTS = 7
WARM_UP = {"cnn": 20, "transformer": 3}
SAMEBITS = [sys.executable, "-m", "samebits", "run", "--no-pin"]


class Worker:
    """A workload in a process of its own."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def take(self, steps: int) -> tuple[float, float]:
        """Seconds for so many steps, on the clock and of the processor."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        wall, cpu = map(float, self.process.stdout.readline().split())
        return wall, cpu

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def step_ratios(kind: str, levels: list[str]) -> tuple[float, dict[str, tuple[float, float, float]]]:
    """Milliseconds of a plain step; of each level both ratios (clock and processor) and bytes per step."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        script = [str(HERE / "workload.py"), kind]
        commands = {
            "plain": [sys.executable, *script],
            "step": [*SAMEBITS, "--out", str(out / "step"), *script],
            "op": [*SAMEBITS, "--level", "op", "--out", str(out / "op"), *script],
            "DebugMode": [sys.executable, *script, "debug"],
        }
        workers = {name: Worker(command) for name, command in commands.items() if name in ("plain", *levels)}
        for worker in workers.values():
            worker.take(WARM_UP[kind])
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in workers}
        for turn in range(PAIRS):
            # Whoever goes later meets a warmer machine, so they take turns at that as well.
            names = list(workers)[turn % len(workers) :] + list(workers)[: turn % len(workers)]
            for name in names:
                seconds[name].append(workers[name].take(BLOCKS[kind]))
        for worker in workers.values():
            worker.close()
        found = {}
        for name in list(workers)[1:]:
            pairs = list(zip(seconds[name], seconds["plain"], strict=True))
            wall, cpu = (statistics.median(own[clock] / plain[clock] for own, plain in pairs) for clock in (0, 1))
            found[name] = wall, cpu, bytes_per_step(out / name) if (out / name).exists() else 0.0
        return statistics.median(wall for wall, _ in seconds["plain"]) / BLOCKS[kind] * 1000, found


def bytes_per_step(folder: Path) -> float:
    return (folder / "recording.sqlite").stat().st_size / RunFolder(folder).recordings()[0].steps


def start_up() -> list[float]:
    """Seconds that samebits adds to a script that imports torch and ends."""
    added = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(STARTS):
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


def told(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main() -> None:
    kinds = [kind for kind in BLOCKS if kind in sys.argv] or list(BLOCKS)
    levels = [level for level in ("step", "op", "DebugMode") if level in sys.argv] or ["step", "op", "DebugMode"]
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} threads")
    print(f"over plain: the median of {PROCESSES} pairs of processes, the least and the greatest\n")
    head = f"{'':<14} {'plain ms':>8}   {'level':<12} {'bytes/step':>10}"
    print(f"{head}   {'clock over plain':<26}{'processor over plain'}")
    for kind in kinds:
        runs = [step_ratios(kind, levels) for _ in range(PROCESSES)]
        milliseconds = statistics.median(plain for plain, _ in runs)
        for name in runs[0][1]:
            wall, cpu, size = zip(*(found[name] for _, found in runs), strict=True)
            row = f"{kind:<14} {milliseconds:>8.1f}   {name:<12} {size[0]:>10.0f}"
            print(f"{row}   {told(wall):<26}{told(cpu)}", flush=True)
    if sys.argv[1:]:
        return
    print(f"\nstart-up added, s    {spread(start_up())}")
    torch.set_num_threads(1)
    print_throughput()


if __name__ == "__main__":
    main()
