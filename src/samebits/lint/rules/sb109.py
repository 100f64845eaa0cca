"""A generator is seeded anew in every step, epoch or sample, with the same number.

It repeats, and more than it should: every epoch is shuffled alike, every batch drops the same units.

    for epoch in range(10):
        torch.manual_seed(0)
        order = torch.randperm(100)

Once, before the loop:

    torch.manual_seed(0)
    for epoch in range(10):
        order = torch.randperm(100)
"""

import ast
import re

from samebits.lint.project import loop_around, seeds_in
from samebits.lint.rule import Finding, Findings, Project, Rule, Source

_TRAINING = re.compile(r"epoch|step|batch|iteration", re.IGNORECASE)


@Rule("warning")
def find(project: Project, source: Source) -> Findings:
    """Calls that seed with a constant in a training loop, or where a sample is made or a step is computed."""
    for _, call in seeds_in(source):
        if call.args and isinstance(call.args[0], ast.Constant) and _is_repeated(source, call):
            yield Finding.at(source, call, f"seeds with {ast.unparse(call.args[0])} again and again")


def _is_repeated(source: Source, call: ast.Call) -> bool:
    loop, function = loop_around(source, call), source.function_of(call)
    if loop is None:
        return isinstance(function, ast.FunctionDef) and function.name in ("__getitem__", "training_step", "forward")
    return isinstance(loop, ast.For) and bool(_TRAINING.search(ast.unparse(loop.target)))
