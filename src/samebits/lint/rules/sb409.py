"""A copy from a GPU to the host that nobody waits for is read before it is there.

With `non_blocking=True` the call returns at once, and the tensor holds what stood in that memory before, until the GPU
has come so far. In a short test it mostly has.

    losses.append(loss.detach().to("cpu", non_blocking=True))

With a wait before it is read:

    losses.append(loss.detach().to("cpu", non_blocking=True))
    torch.cuda.synchronize()
"""

import ast

from samebits.lint.project import argument, is_true
from samebits.lint.rule import Finding, Findings, Project, Rule, Source

_WAITS = {"synchronize", "query", "wait"}


@Rule("warning", factors=("stream-order",))
def find(project: Project, source: Source) -> Findings:
    """Copies to the CPU with `non_blocking=True` in a file in which nothing waits."""
    for call in source.methods.get("to", []):
        target = argument(call, "device", 0)
        if isinstance(target, ast.Call) and source.qualified(target.func) == "torch.device":
            target = argument(target, "device", 0)
        is_copied = isinstance(target, ast.Constant) and target.value == "cpu"
        if is_copied and is_true(argument(call, "non_blocking")) and not source.words & _WAITS:
            yield Finding.at(source, call, "copies to the host, and nothing here waits for it")
