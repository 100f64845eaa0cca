"""On a CUDA device: the environment names it once it is used, with what drives it."""

import pytest
import torch

from samebits.agent.environment import environment_now

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")]


def test_a_device_in_use_is_part_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name, CUDA, cuDNN and the driver; and variables that choose how it multiplies."""
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    held = torch.ones(4, device="cuda")
    found = environment_now()

    assert found.device == torch.cuda.get_device_name(held.device)
    assert (found.cuda, found.cudnn) == (torch.version.cuda, str(torch.backends.cudnn.version()))
    assert found.driver
    assert "NVIDIA_TF32_OVERRIDE=0" in found.instructions
