"""On a device: the environment names it once it is used, with what drives it."""

import pytest
import torch

from samebits.agent.environment import environment_now
from tests.gpu import DEVICE, IS_STANDIN, ON_A_DEVICE, own

pytestmark = ON_A_DEVICE


def test_a_device_in_use_is_part_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name, CUDA, cuDNN and the driver; and variables that choose how it multiplies."""
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    held = torch.ones(4, device=DEVICE)
    found = environment_now()

    assert found.device == own().get_device_name(held.device)
    assert (found.cuda, found.cudnn) == (torch.version.cuda or "", str(torch.backends.cudnn.version() or ""))
    assert found.driver or (IS_STANDIN and DEVICE == "cuda")
    assert "NVIDIA_TF32_OVERRIDE=0" in found.instructions
