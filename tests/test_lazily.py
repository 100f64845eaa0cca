"""The compiler of torch in processes that tests start: nothing until it is asked for, and then the real one."""

import subprocess
import sys

PROBE = """
import sys
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(3, 2)).sum().backward()
optimizer.step()
before = "torch._dynamo.eval_frame" in sys.modules
step = torch.compile(lambda x: model(x).sum(), backend="eager")
step(torch.ones(3, 2)).backward()
optimizer.step()
optimizer.zero_grad()
print(before, "torch._dynamo.eval_frame" in sys.modules, type(torch._dynamo).__name__, torch._dynamo.disable.__module__)
"""


def test_it_is_real_where_it_is_used() -> None:
    """An optimizer alone leaves it unread."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "True", "module", "torch._dynamo.decorators"]
