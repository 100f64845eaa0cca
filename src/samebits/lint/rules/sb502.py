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

from samebits.lint.project import argument, class_around
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import dotted, last_name, walk

_EMPTY = ("torch.empty", "torch.Tensor", "torch.FloatTensor", "torch.empty_like")


@Rule("error", factors=("uninitialized-memory",))
def find(project: Project, source: Source) -> Findings:
    """Parameters made of unwritten memory, where nothing in the class or the file seems to initialize them."""
    for call in source.methods["Parameter"]:
        node, holder, tensor = source.parents[call], class_around(source, call), call.args[0] if call.args else None
        if not (isinstance(node, ast.Assign) and isinstance(tensor, ast.Call) and tensor.args and holder):
            continue
        name, maker = dotted(node.targets[0]), source.qualified(tensor.func)
        # `torch.Tensor` of a list, or of a name that may be one, holds the list's numbers.
        is_full = "empty" not in maker and isinstance(tensor.args[0], ast.List | ast.Tuple | ast.Name)
        is_unfilled = argument(call, "requires_grad") is None and not _is_filled(source, holder, name)
        if maker in _EMPTY and not is_full and is_unfilled:
            yield Finding.at(source, node, f"makes {name} of memory that nobody wrote")


def _is_filled(source: Source, holder: ast.ClassDef, name: str) -> bool:
    """Whether the class mentions the parameter again, or something may initialize, load or walk over all parameters."""
    if sum(dotted(node) == name for node in walk(holder)) > 1:
        return True
    words = {last_name(node) for node in walk(holder)} | source.words
    return any("init" in word or "reset" in word for word in words - {"__init__"}) or bool(
        words & {"parameters", "load_state_dict", "from_pretrained", "setattr", "apply"}
    )
