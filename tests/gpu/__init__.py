"""What is asked of an accelerator: of a GPU, or of the stand-in of `tests/standin`, under either of its names."""

import os
from typing import Any

import pytest
import torch

_device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
DEVICE = "cpu" if _device is None else _device.type
IS_STANDIN = "STANDIN_AS" in os.environ
ON_A_DEVICE = [pytest.mark.gpu, pytest.mark.skipif(DEVICE == "cpu", reason="there is no accelerator here")]
NEEDS_A_GPU = pytest.mark.skipif(DEVICE != "cuda" or IS_STANDIN, reason="there is no GPU here")


def own() -> Any:
    """The device's module of torch: `torch.cuda`, or what its maker calls it."""
    return torch.get_device_module(DEVICE)
