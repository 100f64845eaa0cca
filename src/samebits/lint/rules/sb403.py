"""Deterministic algorithms are asked for, and then only as a warning, or not any more.

With `warn_only=True` an operation that cannot repeat runs all the same; after `False` all of them do.

    torch.use_deterministic_algorithms(True, warn_only=True)

All or an error:

    torch.use_deterministic_algorithms(True)
"""

import ast

from samebits.lint.project import argument, is_true
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import Function

_NAME = "torch.use_deterministic_algorithms"


@Rule("warning", factors=("torch-algorithms",), fix="unsafe")
def find(project: Project, source: Source) -> Findings:
    """Calls with `warn_only=True`, and calls with False below a call with True."""
    for call in source.calls[_NAME]:
        mode = argument(call, "mode", 0)
        if isinstance(source.function_of(call), Function) and any(
            isinstance(outer, ast.If) for outer in source.ancestors(call)
        ):
            continue  # an option or a caller chooses it
        if is_true(argument(call, "warn_only")):
            yield Finding.at(source, call, "lets operations that cannot repeat run with a warning")
        elif getattr(mode, "value", None) is False and _is_on_before(source, call.lineno):
            yield Finding.at(source, call, "takes deterministic algorithms back")


def _is_on_before(source: Source, line: int) -> bool:
    calls = source.calls[_NAME]
    return any(is_true(argument(call, "mode", 0)) and call.lineno < line for call in calls)
