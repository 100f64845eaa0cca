"""Parts of torch in processes that tests start: nothing until one is asked for, and then the real ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRAINING = """
import sys
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(3, 2)).sum().backward()
optimizer.step()
names = ["_dynamo", "distributions", "export", "quantization"]
names += ["_meta_registrations"] * hasattr(torch._C, "_set_generator_metaclass")
early = [name for name in names if not type(sys.modules[f"torch.{name}"]).__name__.startswith("Late")]
print(early, torch.Generator().device, "torch._dynamo.eval_frame" in sys.modules)
"""
COMPILED = """
step = torch.compile(lambda x: model(x).sum(), backend="eager")
step(torch.ones(3, 2)).backward()
optimizer.step()
optimizer.zero_grad()
print(type(torch._dynamo).__name__, torch._dynamo.disable.__module__)
"""
DRAWN = """
print(torch.distributions.Categorical(torch.ones(3)).sample().shape == ())
"""
EXPORTED = """
from torch.export import export
print(len(export(model, (torch.ones(3, 2),)).graph.nodes))
"""
TRACED = """
from torch.fx.experimental.proxy_tensor import make_fx
print(len(make_fx(torch.nn.functional.gelu, tracing_mode="fake")(torch.ones(3)).graph.nodes))
"""
# There is no other kernel for its shapes, whether of a tensor on a device or of a fake one.
CONVOLVED = """
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    print(*torch.nn.functional.conv2d(torch.ones(1, 2, 5, 5), torch.ones(3, 2, 3, 3)).shape)
"""


def said(*parts: str) -> list[str]:
    # The slow tests leave torch whole.
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent / "lazily")}
    done = subprocess.run([sys.executable, "-c", "".join(parts)], env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("parts", "printed"),
    [
        ((COMPILED, DRAWN), ["module torch._dynamo.decorators", "True"]),
        pytest.param((EXPORTED, DRAWN), ["5", "True"], marks=pytest.mark.slow),
        pytest.param((TRACED,), ["3"], marks=pytest.mark.slow),
        pytest.param((CONVOLVED,), ["1 3 3 3"], marks=pytest.mark.slow),
    ],
    ids=["compiled", "exported", "traced", "convolved"],
)
def test_they_are_real_where_they_are_used(parts: tuple[str, ...], printed: list[str]) -> None:
    """A training and its optimizer leave them unread."""
    assert said(TRAINING, *parts) == ["[] cpu False", *printed]
