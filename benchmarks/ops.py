"""What deterministic formulas cost beside torch's own kernels, and beside its own deterministic way where it has one.

    python benchmarks/ops.py [--larger] [WORD ...]

On a GPU where there is one, as `torch-algorithms=replace` does, in milliseconds of the clock; beside the original and
what deterministic algorithms do without us, where they do not refuse. Without one on CPU tensors, with one thread: the
formulas are put in the place of the CPU's kernels, in milliseconds of processor time. A call is forward and backward;
the sides take turns. Shown are the quickest calls, and how much memory a call takes at most beyond what it begins with,
in MiB. The process keeps memory that was given back, as on a GPU: glibc returns blocks of some MiB to the system or
does not, by where they happen to lie, and then a side pays for their pages at each call or never. `--larger` takes
eight times the first dimension.
"""

import contextlib
import ctypes
import dataclasses
import functools
import os
import platform
import sys
import time

import torch
from torch.nn import functional
from torch.profiler import profile

import samebits
from samebits.ops import overrides
from samebits.ops.table import TABLE

ROUNDS, LEAST_SECONDS = 5, 0.05
# Parameters of `mallopt`, from glibc's <malloc.h>: above which size a heap is trimmed, and how many blocks lie outside.
TRIM_THRESHOLD, MMAP_MAX = -1, -4
decomposed = torch._decomp.decompositions


HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"


@functools.cache
def indices(count, most):
    return torch.randint(0, most, (count,), generator=torch.Generator().manual_seed(1)).to(DEVICE)


def resized(size, mode, **options):
    return lambda x: functional.interpolate(x, size=size, mode=mode, **options)


def linear(size):
    return lambda x: decomposed._upsample_linear_vec(x, list(size), False, None)


def nll(x):
    return functional.cross_entropy(x, indices(x[:, 0].numel(), x.shape[1]).view(x[:, 0].shape))


def pooled(x):
    return decomposed.max_pool3d_with_indices(x, [2] * 3, [2] * 3, [0] * 3, [1] * 3, False)[0]


def sampled(mode):
    def call(x, grid):
        return functional.grid_sample(x, grid, mode, align_corners=False)

    return call


def ctc(x):
    lengths, sizes = [x.shape[0]] * x.shape[1], [20] * x.shape[1]
    targets = indices(20 * x.shape[1], x.shape[2] - 1).view(-1, 20) + 1
    return torch.ctc_loss(x.log_softmax(2), targets, lengths, sizes)


def scattered(x, src):
    return x.scatter_reduce(0, indices(src.shape[0], x.shape[0]).unsqueeze(1).expand_as(src), src, "prod")


def reduced(how):
    return lambda x, src: x.index_reduce(0, indices(src.shape[0], x.shape[0]), src, how)


def plain(function):
    def call(x):
        with torch.no_grad():
            return function(x)

    return call


# Name, call, torch's own deterministic way or None, shapes.
CASES = (
    ("cross_entropy (8,19,128,128)", nll, None, (8, 19, 128, 128)),
    ("adaptive_avg_pool2d (8,64,56,56) to 7", lambda x: functional.adaptive_avg_pool2d(x, 7), None, (8, 64, 56, 56)),
    ("adaptive_avg_pool2d (8,64,50,50) to 7", lambda x: functional.adaptive_avg_pool2d(x, 7), None, (8, 64, 50, 50)),
    (
        "adaptive_avg_pool3d (2,32,16,28,28) to 4",
        lambda x: functional.adaptive_avg_pool3d(x, 4),
        None,
        (2, 32, 16, 28, 28),
    ),
    ("adaptive_max_pool2d (8,64,50,50) to 7", lambda x: functional.adaptive_max_pool2d(x, 7), None, (8, 64, 50, 50)),
    (
        "adaptive_max_pool3d (2,32,16,28,28) to 4",
        lambda x: functional.adaptive_max_pool3d(x, 4),
        None,
        (2, 32, 16, 28, 28),
    ),
    ("linear (8,64,500) to 1000", resized(1000, "linear"), linear([1000]), (8, 64, 500)),
    ("bilinear (4,64,32,32) to 64", resized(64, "bilinear"), linear([64, 64]), (4, 64, 32, 32)),
    ("bilinear (4,19,64,64) to 256", resized(256, "bilinear"), linear([256, 256]), (4, 19, 64, 64)),
    ("bilinear (8,256,20,20) to 40", resized(40, "bilinear"), linear([40, 40]), (8, 256, 20, 20)),
    ("bilinear (2,19,128,128) to 512", resized(512, "bilinear"), linear([512, 512]), (2, 19, 128, 128)),
    ("bicubic (2,19,64,64) to 256", resized(256, "bicubic"), None, (2, 19, 64, 64)),
    ("bilinear antialias (4,3,256,256) to 100", resized(100, "bilinear", antialias=True), None, (4, 3, 256, 256)),
    ("bicubic antialias (4,3,256,256) to 100", resized(100, "bicubic", antialias=True), None, (4, 3, 256, 256)),
    ("trilinear (1,32,16,16,16) to 32", resized(32, "trilinear"), linear([32, 32, 32]), (1, 32, 16, 16, 16)),
    ("scatter_reduce prod (1000,16) of 100000", scattered, None, (1000, 16), (100000, 16)),
    ("index_reduce amax (1000,16) of 100000", reduced("amax"), None, (1000, 16), (100000, 16)),
    ("index_reduce mean (1000,16) of 100000", reduced("mean"), None, (1000, 16), (100000, 16)),
    ("grid_sample bilinear (4,32,64,64)", sampled("bilinear"), None, (4, 32, 64, 64), (4, 64, 64, 2)),
    ("grid_sample bicubic (4,32,64,64)", sampled("bicubic"), None, (4, 32, 64, 64), (4, 64, 64, 2)),
    ("grid_sample 3d (1,16,16,32,32)", sampled("bilinear"), None, (1, 16, 16, 32, 32), (1, 16, 32, 32, 3)),
    ("avg_pool3d 2 (2,32,16,32,32)", lambda x: functional.avg_pool3d(x, 2), None, (2, 32, 16, 32, 32)),
    ("max_pool3d 2 (2,32,16,32,32)", lambda x: functional.max_pool3d(x, 2), pooled, (2, 32, 16, 32, 32)),
    ("ctc_loss (150,16,80)", ctc, None, (150, 16, 80)),
    ("reflection_pad1d (8,64,4000) by 200", lambda x: functional.pad(x, (200, 200), "reflect"), None, (8, 64, 4000)),
    (
        "replication_pad2d (4,64,64,64) by 3",
        lambda x: functional.pad(x, (3, 3, 3, 3), "replicate"),
        lambda x: decomposed._replication_pad(x, (3, 3, 3, 3)),
        (4, 64, 64, 64),
    ),
    ("take 1000000 of 100000", lambda x: x.take(indices(1000000, 100000)), None, (100000,)),
    ("bincount weights 1000000", plain(lambda x: torch.bincount(indices(len(x), 1000), x)), None, (1000000,)),
    ("histc 1000000", plain(lambda x: torch.histc(x, 100)), None, (1000000,)),
    ("median(1) (1000,1000)", lambda x: x.median(1).values, None, (1000, 1000)),
    ("cumprod 1000000", plain(lambda x: (x * 0.001 + 1).cumprod(0)), None, (1000000,)),
    ("logcumsumexp 1000000", plain(lambda x: x.logcumsumexp(0)), None, (1000000,)),
)


def called(call, given):
    found = call(*given)
    if found.requires_grad:
        found.backward(torch.ones_like(found))
        for one in given:
            one.grad = None


def seconds(call, given):
    clock = time.perf_counter if HAS_GPU else time.process_time
    start, count = clock(), 0
    while (took := clock() - start) < LEAST_SECONDS or not count:
        called(call, given)
        if HAS_GPU:
            torch.cuda.synchronize()
        count += 1
    return took / count


def peak(call, given):
    return peak_of_gpu(call, given) if HAS_GPU else peak_of_cpu(call, given)


def peak_of_gpu(call, given):
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    called(call, given)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def peak_of_cpu(call, given):
    with profile(profile_memory=True) as seen:
        called(call, given)
    totals, waiting = [], list(seen.profiler.kineto_results.experimental_event_tree())
    while waiting:
        event = waiting.pop()
        waiting += event.children
        if event.tag == torch._C._profiler._EventType.Allocation:
            totals.append((event.start_time_ns, event.extra_fields.total_allocated, event.extra_fields.alloc_size))
    totals.sort()
    return max(total for _, total, _ in totals) - (totals[0][1] - totals[0][2]) if totals else 0


@contextlib.contextmanager
def replaced():
    """On a GPU by the pin, which also keeps torch from computing by slow pieces what is replaced."""
    if HAS_GPU:
        with samebits.pinned(factors=[], values={"torch-algorithms": "replace"}, strict=True):
            yield
        return
    end = overrides.replace(lambda name: None)
    try:
        yield
    finally:
        end()


@contextlib.contextmanager
def refusing():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def measured(call, decomposed, given):
    """Of each side; on a GPU, torch's own deterministic way is what it does where it is asked for that."""
    sides = {"original": (call, contextlib.nullcontext), "ours": (call, replaced)}
    if HAS_GPU:
        sides["torchs"] = (call, refusing)
    elif decomposed:
        sides["torchs"] = (decomposed, contextlib.nullcontext)
    best = dict.fromkeys(sides, float("inf"))
    memory = {}
    for round_ in range(ROUNDS):
        for side, (each, treated) in sides.items():
            with treated():
                try:
                    best[side] = min(best[side], seconds(each, given))
                except RuntimeError as error:
                    if side != "torchs" or "deterministic" not in str(error):
                        raise
                    for one in given:
                        one.grad = None
                    continue
                if not round_:
                    memory[side] = peak(each, given)
    return best, memory


def main():
    if not HAS_GPU:
        libc = ctypes.CDLL(None)
        assert libc.mallopt(TRIM_THRESHOLD, 2**31 - 1), "glibc keeps no memory"
        assert libc.mallopt(MMAP_MAX, 0), "glibc keeps no memory"
        overrides.TABLE = tuple(dataclasses.replace(one, on_cpu=True) for one in TABLE)
    torch.use_deterministic_algorithms(not HAS_GPU)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.set_num_threads(1)
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    where = torch.cuda.get_device_name() if HAS_GPU else f"one of {os.cpu_count()} cores"
    print(f"{versions}, {platform.machine()}, {where}\n")
    print(f"{'forward and backward':<42}{'original':>10}{'ours':>10}{'times':>7}{'torch itself':>13}   MiB")
    words = [word for word in sys.argv[1:] if word != "--larger"]
    times = 8 if words != sys.argv[1:] else 1
    for name, call, other, *shapes in CASES:
        if not all(word in name for word in words):
            continue
        torch.manual_seed(0)
        given = [torch.randn(times * first, *more, device=DEVICE).requires_grad_() for (first, *more) in shapes]
        best, memory = measured(call, other, given)
        ratio = f"{best['ours'] / best['original']:.2f}"
        own = f"{best['torchs'] * 1000:.2f}" if best.get("torchs", float("inf")) < float("inf") else "-"
        used = " ".join(f"{one / 2**20:.1f}" for one in memory.values())
        print(
            f"{name:<42}{best['original'] * 1000:>10.2f}{best['ours'] * 1000:>10.2f}{ratio:>7}{own:>13}   {used}",
            flush=True,
        )


if __name__ == "__main__":
    main()
