"""Parts of torch in processes that tests start: nothing until one is asked for, and then the real ones."""

import subprocess
import sys

TRAINING = """
import sys
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(3, 2)).sum().backward()
optimizer.step()
late = [name for name in ("_dynamo", "distributions", "export", "quantization")
        if type(getattr(torch, name)).__name__.startswith("Late")]
print(len(late), torch.Generator().device, "torch._dynamo.eval_frame" in sys.modules)
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


def said(*parts: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", "".join(parts)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_they_are_real_where_they_are_used() -> None:
    """A training and its optimizer leave them unread."""
    unread = "4 cpu False"
    assert said(TRAINING, COMPILED, DRAWN) == [unread, "module torch._dynamo.decorators", "True"]
    assert said(TRAINING, EXPORTED, DRAWN) == [unread, "5", "True"]
    assert said(TRAINING, TRACED) == [unread, "3"]
