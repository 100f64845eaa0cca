"""How fast the digest is: GB/s beside other sums over the same memory, and µs a tensor where there are many.

python benchmarks/digest_speed.py [THREADS]

Every column of a row has its turn in every round, and the best round of each is kept: a busy machine slows all alike.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from samebits.bits.digest import digest, digests, is_evidence

ROUNDS = 60
SECONDS_A_ROUND = 0.004
Work = Callable[[], object]


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]) if sys.argv[1:] else 1)
    torch.manual_seed(0)
    print(machine())
    print_throughput()
    print_models()
    print_memory()


def machine() -> str:
    return (
        f"{cpu_name()}, {torch.get_num_threads()} thread(s), {torch.backends.cpu.get_cpu_capability()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def print_throughput() -> None:
    works: dict[str, Callable[[Tensor], object]] = {"digest": digest, "torch.sum": torch.sum}
    if hasattr(torch, "hash_tensor"):
        works["torch.hash_tensor"] = torch.hash_tensor
    print(f"\n{'GB/s, float32':<24}" + "".join(f"{name:>20}" for name in works))
    for size in (16 << 10, 256 << 10, 4 << 20, 64 << 20):
        tensor = torch.randn(size // 4)
        seconds = side_by_side([partial(work, tensor) for work in works.values()])
        print(f"{f'{size >> 10} KB':<24}" + "".join(f"{size / each / 1e9:>20.1f}" for each in seconds))


def print_models() -> None:
    columns = f"{'tensors':>10}{'MB':>10}{'digests, µs':>16}{'µs a tensor':>16}{'is_evidence':>16}{'GB/s':>10}"
    print(f"\n{'one call':<24}{columns}")
    for name, shapes in models().items():
        tensors = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        count, size = len(tensors), sum(tensor.nbytes for tensor in tensors)
        seconds, asking = side_by_side([partial(digests, tensors), partial(all_evidence, tensors)])
        print(
            f"{name:<24}{count:>10}{size / 1e6:>10.2f}{seconds * 1e6:>16.1f}{seconds / count * 1e6:>16.2f}"
            f"{asking / count * 1e6:>16.2f}{size / seconds / 1e9:>10.1f}"
        )


def models() -> dict[str, Sequence[tuple[int, ...]]]:
    layer = [(768, 256), (768,), (256, 256), (256,), (1024, 256), (1024,), (256, 1024), (256,), *4 * [(256,)]]
    return {
        "CNN": [
            (16, 1, 3, 3),
            (16,),
            (32, 16, 3, 3),
            (32,),
            (64, 32, 3, 3),
            (64,),
            (128, 320),
            (128,),
            (10, 128),
            (10,),
        ],
        "CNN, 16-40k elements": [(16 << 10,), (40_000,), *8 * [(128, 200)]],
        "transformer, 4 layers": [*4 * layer, (256,), (256,)],
        "200 of 64 elements": 200 * [(64,)],
        "200 of 2048 elements": 200 * [(2048,)],
        "1 of 64 elements": [(64,)],
    }


def all_evidence(tensors: Sequence[Tensor]) -> bool:
    return all(map(is_evidence, tensors))


def print_memory() -> None:
    # What a call allocates at its peak beside a tensor of 256 MB, from the kernel's high-water mark.
    import resource

    tensor = torch.ones(64 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    digest(tensor)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"\ntemporary memory for a tensor of 268 MB: {(after - before) / 1e3:.1f} MB")


def side_by_side(works: list[Work]) -> list[float]:
    """Seconds a call of each, the best of rounds in which each has its turn."""
    calls = [max(1, int(SECONDS_A_ROUND / max(timed(work, 3), 1e-7))) for work in works]
    rounds = [[timed(work, count) for work, count in zip(works, calls, strict=True)] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def timed(work: Work, calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - began) / calls


if __name__ == "__main__":
    main()
