"""torchvision.transforms.v2, also where only its wheel for CUDA is to be had.

The wheel's compiled part does not load beside the CPU build of torch, and torchvision then fails on the operators that
it would have declared. The transforms need none of them, so they are declared here, without any kernel.
"""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import torch

_declared: list[Any] = []


def transforms_v2() -> Any:
    """The module; skips the test where torchvision is not installed."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        pytest.skip("torchvision is not installed")
    try:
        import torchvision
    except RuntimeError:
        source = (Path(found.origin).parent / "_meta_registrations.py").read_text()
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in re.findall(r'"torchvision::(\w+)"', source):
            if not hasattr(torch.ops.torchvision, name):
                library.define(f"{name}(Tensor x) -> Tensor")
        _declared.append(library)
        import torchvision
    from torchvision.transforms import v2

    assert torchvision.__version__
    return v2
