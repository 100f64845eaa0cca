"""A parameter is made of memory that nobody wrote.

`torch.empty` and `torch.Tensor(n)` hold what was there before: it differed between two plain runs, and is NaN in
deterministic mode.

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(8))

Filled:

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(8))
            nn.init.ones_(self.weight)
"""

import ast
from collections.abc import Iterator

from samebits.lint.findings import Finding
from samebits.lint.project import Project, argument, class_around
from samebits.lint.rule import Rule
from samebits.lint.source import Source, dotted, last_name

_EMPTY = ("torch.empty", "torch.Tensor", "torch.FloatTensor", "torch.empty_like")


def find(project: Project) -> Iterator[Finding]:
    """Where nothing else in the class, its bases or its heirs, initializes anything that could be it."""
    for source in project.sources:
        for node in source.every(ast.Assign):
            name, value, holder = dotted(node.targets[0]), node.value, class_around(source, node)
            if not (isinstance(value, ast.Call) and last_name(value.func) == "Parameter" and value.args and holder):
                continue
            made = value.args[0]
            is_empty = isinstance(made, ast.Call) and source.qualified(made.func) in _EMPTY and bool(made.args)
            if not is_empty or argument(value, "requires_grad") is not None or _is_filled(source, holder, name):
                continue
            # `torch.Tensor` of a list, or of what may be one, holds its numbers.
            if "empty" in ast.unparse(made) or not isinstance(made.args[0], ast.List | ast.Tuple | ast.Name):  # type: ignore[attr-defined]
                yield Finding.at(source, node, f"makes {name} of memory that nobody wrote")


def _is_filled(source: Source, holder: ast.ClassDef, name: str) -> bool:
    """Whether a method mentions it again, or something walks over all parameters."""
    if sum(dotted(one) == name for one in ast.walk(holder)) > 1:
        return True
    words = {last_name(one) for one in ast.walk(holder)} | source.words
    return any("init" in word or "reset" in word for word in words - {"__init__"}) or bool(
        words & {"parameters", "load_state_dict", "from_pretrained", "setattr", "apply"}
    )


RULE = Rule("error", words=("Parameter",), factors=("uninitialized-memory",))
