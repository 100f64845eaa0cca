"""cudnn-algorithms: whether cuDNN may use algorithms whose result depends on timing."""

from __future__ import annotations

from samebits.factors.switches import TorchFlag


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
    fix_unplaced = "set torch.backends.cudnn.deterministic = True"
    selects_algorithm = True
    needs = ("cuda",)
    priced = ("pinned",)
    kernel_variables = ("TORCH_CUDNN_V8_API_DISABLED",)
    flag = "backends.cudnn.deterministic"
    steady = True
    words = ("any", "deterministic")
