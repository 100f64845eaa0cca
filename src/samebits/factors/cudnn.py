"""cudnn-autotune and cudnn-algorithms: how cuDNN chooses among its algorithms."""

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
    left_alone = True
    needs = ("cuda",)
    priced = ("pinned", "varied")
    flag = "backends.cudnn.benchmark"
    steady = False
    words = ("off", "on")


class CudnnAlgorithms(TorchFlag):
    """`torch.backends.cudnn.deterministic=True` keeps cuDNN to convolutions that repeat.

    Some of cuDNN's backward convolutions add with atomics. `use_deterministic_algorithms(True)` makes convolutions
    ask for deterministic algorithms as well, but leaves this setting as it is for code that reads it. Pinned,
    it stays on although a line of the program switches it off; that line is named.
    """

    name = "cudnn-algorithms"
    summary = "some cuDNN convolutions add gradients in whatever order their threads arrive"
    explanation = "a convolution whose result depends on timing"
    fix = "set torch.backends.cudnn.deterministic = True at {place}"
    left_alone = True
    needs = ("cuda",)
    priced = ("pinned",)
    kernel_variables = ("TORCH_CUDNN_V8_API_DISABLED",)
    flag = "backends.cudnn.deterministic"
    steady = True
    words = ("any", "deterministic")
