"""A training resumes at an epoch, and without its optimizer's state.

Moments and step counts begin anew, so the resumed run goes elsewhere than the one that was not interrupted.

    optimizer = torch.optim.Adam(model.parameters())
    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    start_epoch = state["epoch"]

With it:

    optimizer = torch.optim.Adam(model.parameters())
    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start_epoch = state["epoch"]
"""

import ast
import re

from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import dotted, last_name

_STATEFUL = {"Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta"}
_COUNTER = re.compile(r"(.*_)?(epoch|step|iteration|iter_num)s?")


@Rule("warning")
def find(project: Project, source: Source) -> Findings:
    """Where a checkpoint gives a model its state and a loop its first epoch, and no optimizer anything."""
    for call in source.methods["load_state_dict"]:
        given = dotted(call.args[0].value) if call.args and isinstance(call.args[0], ast.Subscript) else ""
        if not given or not _counts_on(source, given, call):
            continue
        together = project.together(source)
        owners = (
            {last_name(getattr(one.func, "value", one)) for each in together for one in each.methods["load_state_dict"]}
            if all("load_state_dict" in one.methods for one in together)
            else set()
        )
        words = {word for one in together for word in one.words}
        if words & _STATEFUL and owners and not any("opt" in owner.lower() for owner in owners):
            yield Finding.at(source, call, "resumes the model, and no script here its optimizer")


def _counts_on(source: Source, checkpoint: str, call: ast.Call) -> bool:
    """Whether `start = checkpoint["epoch"]` stands in the same function."""
    return any(
        isinstance(node.value, ast.expr)
        and any(
            isinstance(part, ast.Subscript)
            and dotted(part.value) == checkpoint
            and isinstance(part.slice, ast.Constant)
            and _COUNTER.fullmatch(str(part.slice.value))
            for part in ast.walk(node.value)
        )
        for node in source.every(ast.Assign)
        if source.function_of(node) is source.function_of(call)
    )
