"""A variable that libraries read when they are loaded is set after they were.

`OMP_NUM_THREADS` and its kin are read once, at import. Set later they change nothing, and sums go on being split among
as many threads as there are cores.

    import torch

    os.environ["OMP_NUM_THREADS"] = "1"

Above all imports, or from within torch:

    import torch

    torch.set_num_threads(1)
"""

import ast
from collections.abc import Iterator

from samebits.lint.environment import THREADS, variables_set
from samebits.lint.rule import Finding, Findings, Project, Rule, Source


@Rule("error", factors=("cpu-threads",), fix="safe", cure="late variable")
def find(project: Project, source: Source) -> Findings:
    """Statements at the top of a file that set a variable for threads below an import of torch or NumPy."""
    for name, _, node in variables_set(source):
        loaded = next(_imports(source, node), None)
        if name in THREADS and loaded is not None and isinstance(source.function_of(node), ast.Module):
            yield Finding.at(source, node, f"sets {name} after line {loaded.lineno}, where it is read")


def _imports(source: Source, node: ast.AST) -> Iterator[ast.stmt]:
    if any(name in source.words for name in ("Popen", "subprocess", "execv", "spawn", "Process", "Pool")):
        return
    for one in source.every(ast.Import, ast.ImportFrom):
        names = [alias.name for alias in one.names] if isinstance(one, ast.Import) else [one.module or ""]
        is_top = isinstance(source.parents[one], ast.Module)
        if is_top and one.lineno < node.lineno and any(name.split(".")[0] in ("torch", "numpy") for name in names):  # type: ignore[attr-defined]
            yield one
