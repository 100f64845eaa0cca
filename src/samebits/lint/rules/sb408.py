"""A function of NumPy computes where it is told to, and leaves the rest as it was found.

Without `out`, what it returns there is memory that nobody wrote: in one of six processes it held other numbers.

    rate = np.divide(clicked, shown, where=shown > 0)

With something to leave there:

    rate = np.divide(clicked, shown, out=np.zeros_like(clicked), where=shown > 0)
"""

import ast

from samebits.lint.project import argument, is_true
from samebits.lint.rule import Finding, Findings, Project, Rule, Source

# Functions that reduce, and so return a whole result, or that write to their argument.
_COMPLETE = {"all", "any", "max", "amax", "min", "amin", "sum", "prod", "mean", "std", "var", "copyto"}
_COMPLETE |= {"nanmax", "nanmin", "nansum", "nanprod", "nanmean", "nanstd", "nanvar"}


@Rule("error", factors=("uninitialized-memory",))
def find(project: Project, source: Source) -> Findings:
    """Calls of NumPy's functions with `where` and no `out`."""
    for keyword in source.every(ast.keyword):
        call = source.parents[keyword]
        if keyword.arg != "where" or is_true(keyword.value) or not isinstance(call, ast.Call):
            continue
        library, _, name = source.qualified(call.func).rpartition(".")
        has_out = argument(call, "out") or any(not other.arg for other in call.keywords)
        if library == "numpy" and name not in _COMPLETE and not has_out:
            yield Finding.at(source, call, f"leaves the result of {name}() unwritten wherever its `where` is False")
