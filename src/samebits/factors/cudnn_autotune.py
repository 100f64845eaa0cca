"""cudnn-autotune: whether cuDNN times several algorithms and keeps the quickest."""

from __future__ import annotations

from samebits.factors.switches import TorchFlag


class CudnnAutotune(TorchFlag):
    """`torch.backends.cudnn.benchmark=True` searches for the quickest convolution for every new input shape.

    The winner of a race between algorithms may be another one in the next run, with other bits. For fixed shapes it
    is often quicker, for varying shapes it searches again and again. `use_deterministic_algorithms` leaves this
    setting alone. How many algorithms are tried, `torch.backends.cudnn.benchmark_limit` says; with the search off it
    means nothing. Pinned, it stays off although a line of the program switches it on; that line is named.
    """

    name = "cudnn-autotune"
    summary = "cuDNN's autotuner keeps the algorithm that was quickest this time, which may not be next time's"
    explanation = "the autotuner chose another algorithm"
    fix = "set torch.backends.cudnn.benchmark = False at {place}"
    fix_unplaced = "set torch.backends.cudnn.benchmark = False"
    selects_algorithm = True
    needs = ("cuda",)
    priced = ("pinned", "varied")
    flag = "backends.cudnn.benchmark"
    steady = False
    words = ("off", "on")
